// Reading and adding at indices: gather, scatter_add, index_select, take_along_axis, embedding.
//
//   y[..., k, ...] = x[..., index[..., k, ...], ...]      dx = 0; dx[..., index, ...] += dy
//
// index_select and embedding are gathers whose index is expanded (stride 0) over the other axes.
#include "tern/core/kernels/indexing.h"

#include "tern/core/ops/memory.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using kernels::kNoSkip;

struct Access {
  const char* name;
  int axis;                     ///< the axis that is indexed
  int64_t frozen = kNoSkip;     ///< nothing is added at this index
  int64_t read_zero = kNoSkip;  ///< this index reads zeros
};

std::string position_of(int64_t linear, const Shape& shape) {
  Dims at = Dims::filled(shape.size(), 0);
  for (int i = shape.size() - 1; i >= 0; --i) {
    at[i] = linear % shape[i];
    linear /= shape[i];
  }
  return to_string(at);
}

void check_index(const char* op, const Tensor& index, int64_t size) {
  check(index.dtype() == DType::i64, "{}: the index must be i64, got {}; convert with .to()", op,
        index.dtype());
  if (index.numel() == 0) return;
  int64_t bad = kernels::first_out_of_range(plan_loops(index.shape(), {&index.layout()}),
                                            index.data<int64_t>(), size);
  if (bad < 0) return;
  int64_t value = reshape(index, {index.numel()})[bad].item<int64_t>();
  fail(fmt::format("{}: index {} at position {} is out of range for size {}", op, value,
                   position_of(bad, index.shape()), size));
}

// The axes other than the indexed one must be as long in x as in the index, or longer.
void check_covers(const char* op, const Tensor& x, const Tensor& index, int axis) {
  check(x.ndim() == index.ndim(), "{}: shape {} and index {} have different numbers of axes", op,
        x.shape(), index.shape());
  for (int i = 0; i < x.ndim(); ++i)
    check(i == axis || index.shape()[i] <= x.shape()[i],
          "{}: index {} is longer than shape {} at axis {}", op, index.shape(), x.shape(), i);
}

// sum[..., index, ...] += source, where index and source have one shape.
void add_into(const Access& access, const Tensor& sum, const Tensor& index, const Tensor& source) {
  if (source.numel() == 0) return;
  int a = access.axis;
  Layout to = sum.layout(), at = index.layout(), from = source.layout();
  kernels::ScatterAxis axis{from.shape[a], to.strides[a], at.strides[a], from.strides[a]};
  to.shape = from.shape;  // nothing is added beyond the index
  Layout lines[] = {erase_axis(to, a), erase_axis(at, a), erase_axis(from, a)};
  Loops loops = plan_loops(lines[0].shape, {&lines[0], &lines[1], &lines[2]});
  sum.begin_write(access.name);
  kernels::scatter_add(sum.dtype(), loops, axis, bytes(sum), index.data<int64_t>(), bytes(source),
                       access.frozen);
}

Tensor add_at(const Access& access, const Shape& shape, const Tensor& index, const Tensor& source);

// The gradient goes into what x has gathered already, where that is allowed.
Tensor read_at(const Access& access, const Tensor& x, const Tensor& index) {
  Op op(access.name, x);
  Fresh y(index.shape(), x.dtype());
  Layout from = x.layout();
  int64_t stride = from.strides[access.axis];
  from.shape = index.shape();
  from.strides[access.axis] = 0;
  if (y.numel() > 0)
    kernels::gather(plan_loops(y.shape(), {&y.layout(), &index.layout(), &from}),
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

// index (K,) seen in `shape`, whose axis has size K: stride 0 along the other axes.
Tensor spread(const Tensor& index, int axis, const Shape& shape) {
  Layout layout{shape, Dims::filled(shape.size(), 0), index.layout().offset};
  layout.strides[axis] = index.strides()[0];
  return not_differentiable(Fresh::view(index, layout));
}

Tensor with_axes(const Tensor& x) { return x.ndim() == 0 ? reshape(x, {1}) : x; }

}  // namespace

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  check_defined("gather", x, index);
  if (x.ndim() == 0 || index.ndim() == 0)
    return reshape(gather(with_axes(x), axis, with_axes(index)), index.shape());
  int a = normalize_axis("gather", axis, x.ndim());
  check_covers("gather", x, index, a);
  check_index("gather", index, x.shape()[a]);
  return read_at({"gather", a}, x, index);
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
  return gather(expand(x, from), a, expand(index, shape));
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
  check_index("index_select", index, x.shape()[a]);
  Shape shape = x.shape();
  shape[a] = index.numel();
  return read_at({"index_select", a}, x, spread(with_axes(index), a, shape));
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  Op op("scatter_add", x, source);
  check_defined("scatter_add", x, index, source);
  if (x.ndim() == 0)
    return reshape(scatter_add(with_axes(x), axis, with_axes(index), with_axes(source)), {});
  int a = normalize_axis("scatter_add", axis, x.ndim());
  check(x.dtype() == source.dtype(), "scatter_add: adds {} to {}; convert one with .to()",
        source.dtype(), x.dtype());
  check_covers("scatter_add", x, index, a);
  check_covers("scatter_add", source, index, -1);
  check_index("scatter_add", index, x.shape()[a]);
  Tensor used = source;
  for (int i = 0; i < index.ndim(); ++i)
    if (index.shape()[i] < used.shape()[i]) used = narrow(used, i, 0, index.shape()[i]);
  Access access{"scatter_add", a};
  Fresh y =
      filled(x.detach().clone(), [&](const Tensor& out) { add_into(access, out, index, used); });
  return op.record(y, {x, used},
                   [access, index = save(index)](const Tensor& dy, const Wants& wants) {
                     return Gradients{dy, wants[1] ? read_at(access, dy, index.get()) : Tensor()};
                   });
}

Tensor embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options) {
  Op op("embedding", weight);
  check_defined("embedding", index, weight);
  check(weight.ndim() == 2, "embedding: the weight must be (entries, size), got {}",
        weight.shape());
  int64_t entries = weight.shape()[0], size = weight.shape()[1];
  check(options.padding_idx >= -1 && options.padding_idx < entries,
        "embedding: padding_idx {} is not one of {} entries", options.padding_idx, entries);
  check_index("embedding", index, entries);
  Tensor list = reshape(index, {index.numel()});
  Access access{"embedding", 0, options.padding_idx};
  Shape shape = index.shape();
  shape.push_back(size);
  return reshape(read_at(access, weight, spread(list, 0, {index.numel(), size})), shape);
}

}  // namespace tern
