// Does not compile as C++17, and says why.
#include "tern/tern.h"

int main() { return 0; }
