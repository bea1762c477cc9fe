// Broadcasts layouts with stride 0, without copies, and plans the loops over them.
#include "tern/core/ops/kernel_inputs.h"

#include <array>

namespace tern::detail {

kernels::Input input_of(const Tensor& x) {
  const char* data = static_cast<const char*>(x.ref()->storage->data());
  return {data + x.layout().offset * item_size(x.dtype()), x.dtype()};
}

void* address_of(const Fresh& out) {
  char* data = static_cast<char*>(out.ref()->storage->data());
  return data + out.layout().offset * item_size(out.dtype());
}

kernels::Loops plan(const char* op, const Layout& out, std::span<const Tensor> in) {
  std::array<Layout, kernels::kMaxOperands> l;
  size_t n = 0;
  l[n++] = out;
  for (const Tensor& t : in)
    l[n++] = t.shape() == out.shape ? t.layout() : expand(op, t.layout(), out.shape);
  switch (n) {
    case 2:
      return kernels::plan_loops(out.shape, {&l[0], &l[1]});
    case 3:
      return kernels::plan_loops(out.shape, {&l[0], &l[1], &l[2]});
    case 4:
      return kernels::plan_loops(out.shape, {&l[0], &l[1], &l[2], &l[3]});
    case 5:
      return kernels::plan_loops(out.shape, {&l[0], &l[1], &l[2], &l[3], &l[4]});
  }
  fail(fmt::format("{}: a loop takes 2 to 5 operands, got {}", op, n));
}

kernels::ManyInput many_input(const char* op, const Shape& shape, const Tensor& x) {
  const Layout& l = x.layout();
  return {input_of(x), l.shape == shape ? l : expand(op, l, shape)};
}

}  // namespace tern::detail
