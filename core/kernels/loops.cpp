// Plans strided loops by merging axes, and finds the offsets of a linear index.
#include "tern/core/kernels/loops.h"

namespace tern::kernels {

Loops plan_loops(const Shape& shape, std::initializer_list<const Layout*> operands) {
  Loops loops;
  loops.numel = numel(shape);
  for (const Layout* layout : operands) {
    check(layout->shape == shape, "plan_loops: operand of shape {} in a loop over {}",
          layout->shape, shape);
    loops.strides[static_cast<size_t>(loops.operands++)] = {};
  }
  auto mergeable = [&](int axis) {  // with the previously added axis
    int k = 0, last = loops.sizes.size() - 1;
    for (const Layout* layout : operands)
      if (loops.strides[static_cast<size_t>(k++)][last] != shape[axis] * layout->strides[axis])
        return false;
    return true;
  };
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    bool merge = !loops.sizes.empty() && mergeable(axis);
    int last = loops.sizes.size() - 1, k = 0;
    if (merge)
      loops.sizes[last] *= shape[axis];
    else
      loops.sizes.push_back(shape[axis]);
    for (const Layout* layout : operands) {
      Strides& s = loops.strides[static_cast<size_t>(k++)];
      if (merge)
        s[last] = layout->strides[axis];
      else
        s.push_back(layout->strides[axis]);
    }
  }
  if (loops.sizes.empty()) {
    loops.sizes.push_back(1);
    for (int k = 0; k < loops.operands; ++k) loops.strides[static_cast<size_t>(k)].push_back(1);
  }
  return loops;
}

Offsets seek(const Loops& loops, int64_t at, Dims& index) {
  Offsets offsets{};
  index.resize(loops.sizes.size());
  for (int axis = loops.sizes.size() - 1; axis >= 0; --axis) {
    index[axis] = at % loops.sizes[axis];
    at /= loops.sizes[axis];
    for (int k = 0; k < loops.operands; ++k)
      offsets[static_cast<size_t>(k)] += index[axis] * loops.strides[static_cast<size_t>(k)][axis];
  }
  return offsets;
}

}  // namespace tern::kernels
