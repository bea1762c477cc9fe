// Checks of index tensors, with the bad index and its position in the error; views of indices and
// sources; and the call of the scatter kernel.
#include "tern/core/ops/indexing/positions.h"

#include "tern/core/ops/memory.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

void check_index_type(const char* op, const Tensor& index) {
  check(index.dtype() == DType::i64,
        "{}: the index must be i64, got {}; convert with .to(DType::i64){}", op, index.dtype(),
        index.dtype() == DType::u8 ? ", or read by a mask with index(x, {mask})" : "");
}

Tensor checked_index(const char* op, const Tensor& index, int64_t size, const Tensor& shown) {
  check_index_type(op, index);
  if (index.numel() == 0) return index;
  auto first_bad = [&](const Layout& layout) {
    return kernels::first_out_of_range(kernels::plan_loops(layout.shape, {&layout}),
                                       index.data<int64_t>(), size);
  };
  Layout once = index.layout();  // an expanded index repeats its numbers
  for (int i = 0; i < index.ndim(); ++i)
    if (once.strides[i] == 0) once.shape[i] = 1;
  if (first_bad(once) < 0) return index;
  const int64_t bad = first_bad(index.layout());
  const Tensor& told = shown.defined() ? shown : index;
  int64_t value = reshape(told, {told.numel()})[bad].item<int64_t>();
  fail(fmt::format("{}: index {} at position {} is out of range for size {}", op, value,
                   position_of(bad, index.shape()), size));
}

void check_covers(const char* op, const Tensor& x, const Tensor& index, int axis) {
  check(x.ndim() == index.ndim(), "{}: shape {} and index {} have different numbers of axes", op,
        x.shape(), index.shape());
  for (int i = 0; i < x.ndim(); ++i)
    check(i == axis || index.shape()[i] <= x.shape()[i],
          "{}: index {} is longer than shape {} at axis {}", op, index.shape(), x.shape(), i);
}

Tensor spread(const Tensor& index, int axis, const Shape& shape) {
  Layout layout{shape, Dims::filled(shape.size(), 0), index.layout().offset};
  layout.strides[axis] = index.strides()[0];
  return not_differentiable(Fresh::view(index, layout));
}

Tensor covered(const Tensor& source, const Tensor& index) {
  Tensor used = source;
  for (int i = 0; i < index.ndim(); ++i)
    if (index.shape()[i] < used.shape()[i]) used = narrow(used, i, 0, index.shape()[i]);
  return used;
}

void scatter_into(const char* op, kernels::Combine how, const Tensor& to_tensor, int a,
                  const Tensor& index, const Tensor& source, int64_t skip) {
  if (source.numel() == 0) return;
  Layout to = to_tensor.layout(), at = index.layout(), from = source.layout();
  kernels::ScatterAxis axis{from.shape[a], to.strides[a], at.strides[a], from.strides[a]};
  to.shape = from.shape;  // nothing is written outside the index
  Layout lines[] = {erase_axis(to, a), erase_axis(at, a), erase_axis(from, a)};
  kernels::Loops loops = kernels::plan_loops(lines[0].shape, {&lines[0], &lines[1], &lines[2]});
  to_tensor.begin_write(op);
  kernels::scatter(to_tensor.dtype(), how, loops, axis, bytes(to_tensor), index.data<int64_t>(),
                   bytes(source), skip);
}

}  // namespace tern::detail
