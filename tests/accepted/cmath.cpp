// Compiles: tern.h brings <cmath>.
#include "tern/tern.h"

int main() { return std::isnan(std::exp(tern::ones({1}).item())) ? 1 : 0; }
