// Does not compile without run-time type information, and says why.
#include "tern/tern.h"

int main() { return 0; }
