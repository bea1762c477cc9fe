// A program outside of tern.
#include <tern/tern.h>

int main() { return tern::numel({2, 3}) == 6 ? 0 : 1; }
