// Does not compile: max of a list of axes could mean amax, or values and indices along one axis.
#include "tern/core/ops/ops.h"

int main() { return tern::max(tern::ones({2, 3}), {1}).values.ndim(); }
