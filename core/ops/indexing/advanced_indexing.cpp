// nonzero, masked_select, meshgrid, and x[i, j, ...] by index tensors. These become one index of
// the rows of a matrix (indexed axes, other axes).
#include "tern/core/kernels/indexing/indexing.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/indexing/positions.h"
#include "tern/core/ops/memory.h"

namespace tern {
namespace {

Tensor positions_of(const Tensor& x) {
  Tensor c = x.contiguous();
  return tensor(kernels::nonzero(c.dtype(), bytes(c), c.numel()));
}

Tensor shaped(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : reshape(x, shape);
}

/// A plan to read x[indices] from a matrix (positions, elements of the other axes). The axes of a
/// mask count as one.
class Plan {
 public:
  Plan(const char* op, const Tensor& x, const std::vector<Tensor>& given) {
    Dims axes, rest;  // indexed axes, other axes
    const std::vector<Tensor> lists = per_axis(op, x, given);
    for (int axis = 0; axis < shape_.size(); ++axis) {
      const auto a = static_cast<size_t>(axis);
      const bool indexed = a < lists.size() && lists[a].defined();
      (indexed ? axes : rest).push_back(axis);
      if (indexed) index_shape_ = broadcast_shapes(op, index_shape_, lists[a].shape());
    }
    check(!axes.empty(), "{}: needs at least one index", op);
    const bool neighbours = axes.back() - axes[0] == axes.size() - 1;
    at_ = neighbours ? static_cast<int>(axes[0]) : 0;
    for (int64_t axis : axes) {
      const Tensor& list = lists[static_cast<size_t>(axis)];
      const int64_t size = shape_[static_cast<int>(axis)];
      linear_ = linear_.defined() ? linear_ * size + list : list;
      order_.push_back(axis);
      rows_ *= size;
    }
    for (int64_t axis : rest) {
      order_.push_back(axis);
      rest_shape_.push_back(shape_[static_cast<int>(axis)]);
    }
    linear_ = reshape(expand(linear_, index_shape_), {numel(index_shape_)});
  }

  const Tensor& linear() const { return linear_; }
  int64_t rest() const { return numel(rest_shape_); }
  /// x as (positions, rest).
  Tensor matrix(const Tensor& x) const {
    return reshape(permute(shaped(x, shape_), order_), {rows_, rest()});
  }
  Tensor from_matrix(const Tensor& m, const Shape& shape) const {
    Shape permuted;
    Dims inverse = Dims::filled(order_.size(), 0);
    for (int i = 0; i < order_.size(); ++i) {
      permuted.push_back(shape_[static_cast<int>(order_[i])]);
      inverse[static_cast<int>(order_[i])] = i;
    }
    return shaped(permute(reshape(m, permuted), inverse), shape);
  }
  /// The shape of x[indices]: the index's shape inserted into the other axes.
  Shape result() const {
    Shape shape = rest_shape_;
    for (int i = 0; i < index_shape_.size(); ++i) shape.insert(at_ + i, index_shape_[i]);
    return shape;
  }
  /// Converts (indices, rest) to x[indices], and back.
  Tensor to_result(const Tensor& m) const {
    Shape shape = index_shape_;
    for (int64_t n : rest_shape_) shape.push_back(n);
    Dims axes;
    for (int i = 0; i < rest_shape_.size(); ++i) axes.push_back(index_shape_.size() + i);
    for (int i = 0; i < index_shape_.size(); ++i) axes.insert(at_ + i, i);
    return permute(reshape(m, shape), axes);
  }
  Tensor from_result(const Tensor& r) const {
    Dims axes;
    for (int i = 0; i < index_shape_.size(); ++i) axes.push_back(at_ + i);
    for (int i = 0; i < r.ndim(); ++i)
      if (i < at_ || i >= at_ + index_shape_.size()) axes.push_back(i);
    return reshape(permute(r, axes), {linear_.numel(), rest()});
  }

 private:
  // One list of positions for each axis of shape_, which it sets.
  std::vector<Tensor> per_axis(const char* op, const Tensor& x, const std::vector<Tensor>& given) {
    std::vector<Tensor> lists;
    int axis = 0;  // of x
    for (const Tensor& t : given) {
      const bool mask = t.defined() && t.dtype() != DType::i64;
      const int used = mask ? check_mask(op, t, x, axis) : 1;
      check(axis + used <= x.ndim(), "{}: got {} indices, more than the axes of shape {}", op,
            given.size(), x.shape());
      int64_t size = 1;
      for (int end = axis + used; axis < end; ++axis) size *= x.shape()[axis];
      shape_.push_back(size);
      if (mask)
        lists.push_back(nonzero_as_tuple(reshape(t, {size}))[0]);
      else
        lists.push_back(t.defined() ? wrapped(op, t, size) : t);
    }
    for (; axis < x.ndim(); ++axis) shape_.push_back(x.shape()[axis]);
    return lists;
  }

  // Returns the number of axes of a mask that begins at this axis.
  static int check_mask(const char* op, const Tensor& t, const Tensor& x, int axis) {
    check(t.dtype() == DType::u8, "{}: an index must be i64, or a mask of u8, got {}", op,
          t.dtype());
    check(t.ndim() > 0,
          "{}: a u8 tensor of shape () is neither a mask nor a number; convert it with "
          ".to(DType::i64) to take the element of that number",
          op);
    const int most = t.numel() > 0 ? max(t).item<int>() : 0;
    check(most <= 1,
          "{}: a u8 index is a mask of 0 and 1, and one element is {}; convert indices with "
          ".to(DType::i64), and other masks with ne(mask, 0)",
          op, most);
    for (int i = 0; i < t.ndim(); ++i)
      check(axis + i < x.ndim() && x.shape()[axis + i] == t.shape()[i],
            "{}: the mask {} does not fit shape {} from axis {}", op, t.shape(), x.shape(), axis);
    return t.ndim();
  }

  static Tensor wrapped(const char* op, const Tensor& index, int64_t size) {
    return detail::checked_index(op, where(lt(index, 0), index + size, index), size);
  }

  Tensor linear_;
  Dims order_;
  Shape shape_, index_shape_, rest_shape_;
  int at_ = 0;
  int64_t rows_ = 1;
};

}  // namespace

Tensor nonzero(const Tensor& x) {
  Op op("nonzero");
  check_defined("nonzero", x);
  Tensor linear = positions_of(x);
  Fresh y({linear.numel(), x.ndim()}, DType::i64);
  const int64_t* from = linear.data<int64_t>();
  int64_t* to = y.data<int64_t>();
  const int n = x.ndim();
  int64_t row_end = 0;  // of the row of x, along the last axis, that the last position is in
  for (int64_t k = 0; k < linear.numel(); ++k, to += n) {
    if (n > 0 && from[k] < row_end) {  // divides once a row
      std::copy(to - n, to - 1, to);
      to[n - 1] = from[k] - (row_end - x.shape()[n - 1]);
      continue;
    }
    int64_t left = from[k];
    for (int axis = n - 1; axis >= 0; --axis) {
      to[axis] = left % x.shape()[axis];
      left /= x.shape()[axis];
    }
    if (n > 0) row_end = from[k] - to[n - 1] + x.shape()[n - 1];
  }
  return op.not_differentiable(y);
}

std::vector<Tensor> nonzero_as_tuple(const Tensor& x) {
  check_defined("nonzero_as_tuple", x);
  Tensor all = nonzero(x.ndim() == 0 ? reshape(x, {1}) : x);
  std::vector<Tensor> lists;
  for (int axis = 0; axis < all.size(1); ++axis) lists.push_back(select(all, 1, axis).contiguous());
  return lists;
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_defined("masked_select", x, mask);
  check(mask.dtype() == DType::u8,
        "masked_select: the mask must be u8, got {}; compare it, as in ne(mask, 0)", mask.dtype());
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  return index_select(reshape(expand(x, shape), {numel(shape)}), 0,
                      positions_of(expand(mask, shape)));
}

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  check_defined("index", x);
  const Plan plan("index", x, indices);
  return plan.to_result(index_select(plan.matrix(x), 0, plan.linear()));
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate) {
  check_defined("index_put", x, values);
  check(x.dtype() == values.dtype(), "index_put: writes {} to {}; convert one with .to()",
        values.dtype(), x.dtype());
  const Plan plan("index_put", x, indices);
  check(broadcasts_to(values.shape(), plan.result()),
        "index_put: values {} do not broadcast to {}, the shape of x[indices]", values.shape(),
        plan.result());
  Tensor rows = plan.from_result(expand(values, plan.result())), matrix = plan.matrix(x);
  const Tensor at = expand(unsqueeze(plan.linear(), 1), rows.shape());
  Tensor y = accumulate ? scatter_add(matrix, 0, at, rows) : scatter(matrix, 0, at, rows);
  return plan.from_matrix(y, x.shape());
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, Indexing indexing) {
  check_all_defined("meshgrid", vectors);
  check(!vectors.empty(), "meshgrid: needs at least one vector");
  const int n = static_cast<int>(vectors.size());
  auto place = [&](int i) {  // the axis of vector i
    return indexing == Indexing::xy && n > 1 && i < 2 ? 1 - i : i;
  };
  Shape shape = Dims::filled(n, 1);
  for (int i = 0; i < n; ++i) {
    const Tensor& v = vectors[static_cast<size_t>(i)];
    check(v.ndim() <= 1, "meshgrid: needs vectors, operand {} is {}", i + 1, v.shape());
    shape[place(i)] = v.numel();
  }
  std::vector<Tensor> grids;
  for (int i = 0; i < n; ++i) {
    Shape line = Dims::filled(n, 1);
    line[place(i)] = shape[place(i)];
    grids.push_back(expand(reshape(vectors[static_cast<size_t>(i)], line), shape));
  }
  return grids;
}

}  // namespace tern
