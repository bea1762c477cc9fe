// Reading and adding at indices: gather, scatter_add, index_select, take_along_axis, embedding.
//
//   y[..., k, ...] = x[..., index[..., k, ...], ...]      dx = 0; dx[..., index, ...] += dy
//
// index_select and embedding are gathers whose index is expanded (stride 0) over the other axes.
#include "tern/core/ops/indexing/indexing.h"

#include "tern/core/ops/indexing/positions.h"
#include "tern/core/ops/memory.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::check_covers;
using detail::checked_index;
using detail::spread;
using detail::with_axes;
using kernels::kNoSkip;

struct Access {
  const char* name;
  int axis;                     ///< the axis that is indexed
  int64_t frozen = kNoSkip;     ///< nothing is added at this index
  int64_t read_zero = kNoSkip;  ///< this index reads zeros
};

// sum[..., index, ...] += source.
void add_into(const Access& access, const Tensor& sum, const Tensor& index, const Tensor& source) {
  detail::scatter_into(access.name, kernels::Combine::add, sum, access.axis, index, source,
                       access.frozen);
}

Tensor add_at(const Access& access, const Shape& shape, const Tensor& index, const Tensor& source);

// x[..., index, ...]. Backward adds to the accumulated gradient of x in place, if allowed.
Tensor read_at(const Access& access, const Tensor& x, const Tensor& index) {
  Op op(access.name, x);
  op.note("axis", access.axis, "index", index);
  Fresh y(index.shape(), x.dtype());
  Layout from = x.layout();
  int64_t stride = from.strides[access.axis];
  from.shape = index.shape();
  from.strides[access.axis] = 0;
  if (y.numel() > 0)
    kernels::gather(kernels::plan_loops(y.shape(), {&y.layout(), &index.layout(), &from}),
                    item_size(x.dtype()), y.ref()->storage->data(), index.data<int64_t>(), bytes(x),
                    stride, access.read_zero);
  return op.record(y,
                   [access, shape = x.shape(), index = save(index)](const Tensor& dy,
                                                                    const Wants& wants) -> Tensor {
                     Tensor sum = wants.accumulator(0);
                     if (!sum.defined()) return add_at(access, shape, index.get(), dy);
                     add_into(access, sum, index.get(), dy);
                     return {};
                   });
}

// Zeros of the given shape with the source added at the index.
Tensor add_at(const Access& access, const Shape& shape, const Tensor& index, const Tensor& source) {
  Op op(access.name, source);
  Fresh sum = filled(zeros(shape, source.dtype()),
                     [&](const Tensor& out) { add_into(access, out, index, source); });
  Access back = access;
  back.read_zero = access.frozen;
  return op.record(sum, [back, index = save(index)](const Tensor& dsum) {
    return read_at(back, dsum, index.get());
  });
}

}  // namespace

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  check_defined("gather", x, index);
  if (x.ndim() == 0 || index.ndim() == 0)
    return reshape(gather(with_axes(x), axis, with_axes(index)), index.shape());
  int a = normalize_axis("gather", axis, x.ndim());
  check_covers("gather", x, index, a);
  return read_at({"gather", a}, x, checked_index("gather", index, x.shape()[a]));
}

Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis) {
  check_defined("take_along_axis", x, index);
  check(x.ndim() == index.ndim(),
        "take_along_axis: shape {} and index {} have different numbers of axes", x.shape(),
        index.shape());
  int a = normalize_axis("take_along_axis", axis, x.ndim());
  Shape rest = x.shape(), index_rest = index.shape();
  rest[a] = index_rest[a] = 1;
  Shape from = broadcast_shapes("take_along_axis", rest, index_rest), shape = from;
  from[a] = x.shape()[a];
  shape[a] = index.shape()[a];
  detail::check_index_type("take_along_axis", index);
  const int64_t size = x.shape()[a];  // as in NumPy, negative indices count from the end
  const Tensor at =
      checked_index("take_along_axis", where(lt(index, 0), index + size, index), size, index);
  return gather(expand(x, from), a, expand(at, shape));
}

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  check_defined("index_select", x, index);
  if (x.ndim() == 0) {
    check(index.numel() == 1, "index_select: a tensor without axes takes one index, got {}",
          index.shape());
    return reshape(index_select(reshape(x, {1}), axis, index), {});
  }
  int a = normalize_axis("index_select", axis, x.ndim());
  check(index.ndim() <= 1, "index_select: the index has shape {}, but must be one list; use gather",
        index.shape());
  Op op("index_select", x);
  Tensor list = with_axes(checked_index("index_select", index, x.shape()[a]));
  Shape shape = x.shape();
  shape[a] = index.numel();
  Tensor y = read_at({"index_select", a}, x, spread(list, a, shape));
  op.note("axis", a, "index", list, "result", y);
  return y;
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& given, const Tensor& source) {
  Op op("scatter_add", x, source);
  check_defined("scatter_add", x, given, source);
  if (x.ndim() == 0)
    return reshape(scatter_add(with_axes(x), axis, with_axes(given), with_axes(source)), {});
  int a = normalize_axis("scatter_add", axis, x.ndim());
  check(x.dtype() == source.dtype(), "scatter_add: adds {} to {}; convert one with .to()",
        source.dtype(), x.dtype());
  check_covers("scatter_add", x, given, a);
  check_covers("scatter_add", source, given, -1);
  const Tensor index = checked_index("scatter_add", given, x.shape()[a]);
  const Tensor used = detail::covered(source, index);
  op.note("axis", a, "index", index, "source", used);
  Access access{"scatter_add", a};
  Fresh y =
      filled(x.detach().clone(), [&](const Tensor& out) { add_into(access, out, index, used); });
  return op.record(y, {x, used},
                   [access, index = save(index)](const Tensor& dy, const Wants& wants) {
                     return Gradients{dy, wants[1] ? read_at(access, dy, index.get()) : Tensor()};
                   });
}

std::optional<int64_t> EmbeddingOptions::padding_row(int64_t rows) const {
  if (!padding_idx) return {};
  check(*padding_idx >= -rows && *padding_idx < rows,
        "embedding: padding_idx {} is not one of the {} rows; leave it out for none", *padding_idx,
        rows);
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

Tensor embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options) {
  Op op("embedding", weight);
  check_defined("embedding", index, weight);
  check(weight.ndim() == 2, "embedding: the weight must be (entries, size), got {}",
        weight.shape());
  int64_t entries = weight.shape()[0], size = weight.shape()[1];
  const int64_t padding = options.padding_row(entries).value_or(-1);
  Tensor list = reshape(checked_index("embedding", index, entries), {index.numel()});
  Access access{"embedding", 0, padding};
  Shape shape = index.shape();
  shape.push_back(size);
  Tensor y = reshape(read_at(access, weight, spread(list, 0, {index.numel(), size})), shape);
  op.note("axis", 0, "index", index, "result", y);
  return y;
}

}  // namespace tern
