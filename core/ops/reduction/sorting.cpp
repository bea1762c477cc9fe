// Sorting along an axis: sort, topk, argsort, argmax, argmin, max, min.
#include "tern/core/kernels/reduction/sort.h"
#include "tern/core/ops/memory.h"
#include "tern/core/ops/reduction/reduction.h"

namespace tern {

// values = gather(x, axis, indices); the gradient is gather's.
ValuesIndices detail::sorted_part(const char* name, const Tensor& x, kernels::SortedPart part,
                                  int64_t axis, bool descending) {
  Op op(name, x);
  int a = normalize_axis(name, axis, x.ndim());
  const int64_t size = x.shape()[a], count = part.last - part.first;
  op.note("axis", a, "first", part.first, "last", part.last, "descending", descending);
  Shape shape = x.shape();
  shape[a] = count;
  Fresh values(shape, x.dtype()), places(shape, DType::i64);
  if (values.numel() > 0) {
    Layout in = erase_axis(x.layout(), a), out = erase_axis(values.layout(), a);
    int64_t stride = values.layout().strides[a];
    kernels::sort(x.dtype(), kernels::plan_loops(in.shape, {&in, &out, &out}),
                  {size, x.strides()[a], stride, stride}, part, descending, bytes(x),
                  values.ref()->storage->data(), places.data<int64_t>());
  }
  Tensor indices = not_differentiable(places);
  Tensor sorted =
      op.record(values, [a, shape = x.shape(), index = save(indices)](const Tensor& dy) {
        return scatter_add(zeros(shape, dy.dtype()), a, index.get(), dy);
      });
  op.note("result", indices);
  return {sorted, indices};
}

namespace {

Tensor arg_extreme(const char* name, const Tensor& x, int64_t axis, bool keepdim, bool greatest) {
  if (x.ndim() == 0) return reshape(arg_extreme(name, reshape(x, {1}), axis, true, greatest), {});
  Op op(name, x);
  int a = normalize_axis(name, axis, x.ndim());
  int64_t size = x.shape()[a];
  check(size > 0, "{}: axis {} of shape {} has no elements", name, axis, x.shape());
  op.note("axis", a);
  Layout lines = erase_axis(x.layout(), a);
  Fresh y(lines.shape, DType::i64);
  if (y.numel() > 0)
    kernels::arg_extreme(x.dtype(), kernels::plan_loops(lines.shape, {&lines, &y.layout()}), size,
                         x.strides()[a], greatest, bytes(x), y.data<int64_t>());
  Tensor found = op.not_differentiable(y);
  return keepdim ? unsqueeze(found, a) : found;
}

Tensor arg_extreme_or_all(const char* name, const Tensor& x, std::optional<int64_t> axis,
                          bool keepdim, bool greatest) {
  if (axis) return arg_extreme(name, x, *axis, keepdim, greatest);
  Tensor at = arg_extreme(name, reshape(x.detach(), {x.numel()}), 0, false, greatest);
  return keepdim ? reshape(at, Dims::filled(x.ndim(), 1)) : at;
}

ValuesIndices extreme(const char* name, const Tensor& x, int64_t axis, bool keepdim,
                      bool greatest) {
  const int a = detail::wrap_axis(name, axis, x);
  const Tensor at = arg_extreme(name, x.detach(), a, true, greatest), values = gather(x, a, at);
  if (keepdim || x.ndim() == 0) return {values, at};
  return {squeeze(values, a), squeeze(at, a)};
}

}  // namespace

ValuesIndices topk(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  check_defined("topk", x);
  if (x.ndim() > 0) {
    const int64_t size = x.shape()[normalize_axis("topk", axis, x.ndim())];
    check(k >= 0 && k <= size, "topk: cannot take {} elements from axis {} of shape {}", k, axis,
          x.shape());
    return detail::sorted_part("topk", x, {0, k}, axis, largest);
  }
  ValuesIndices line = topk(reshape(x, {1}), k, axis, largest);
  if (k == 0) return line;
  return {reshape(line.values, {}), reshape(line.indices, {})};
}

ValuesIndices sort(const Tensor& x, int64_t axis, bool descending) {
  check_defined("sort", x);
  if (x.ndim() > 0) {
    int64_t size = x.shape()[normalize_axis("sort", axis, x.ndim())];
    return detail::sorted_part("sort", x, {0, size}, axis, descending);
  }
  ValuesIndices line = sort(reshape(x, {1}), axis, descending);
  return {reshape(line.values, {}), reshape(line.indices, {})};
}

Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  check_defined("argsort", x);
  return sort(x.detach(), axis, descending).indices;
}

Tensor argmax(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  check_defined("argmax", x);
  return arg_extreme_or_all("argmax", x, axis, keepdim, true);
}

Tensor argmin(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  check_defined("argmin", x);
  return arg_extreme_or_all("argmin", x, axis, keepdim, false);
}

ValuesIndices max(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("max", x);
  return extreme("max", x, axis, keepdim, true);
}

ValuesIndices min(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("min", x);
  return extreme("min", x, axis, keepdim, false);
}

}  // namespace tern
