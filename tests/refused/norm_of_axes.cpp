// Does not compile: the second argument of norm is the order, not the axes as in sum(x, {1}).
#include "tern/core/ops/ops.h"

int main() { return tern::norm(tern::ones({2, 3}), {1}).ndim(); }
