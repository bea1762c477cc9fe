// Views of a part of a tensor: slice, narrow, select, split, chunk, diagonal, unfold.
//
// Each view is a struct that turns the layout of the whole into that of the part:
//   y = x[part]      dx = 0; dx[part] += dy      ddy = ddx[part]
// so one pair of ops serves all views, to any order. If x already has a gradient (from other pieces
// of a split), dy is added to its part instead of to new zeros.
#include <fmt/format.h>

#include "tern/core/ops/memory.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

/// Python's start:end:step as a program gave it: what it means for other sizes of the axis.
struct Given {
  int64_t start, end, step;
};

struct Range {
  static constexpr const char* kName = "slice";
  int axis;
  int64_t start, length, step;
  std::optional<Given> given = {};
  Layout operator()(const Layout& whole) const { return slice(whole, axis, start, length, step); }
  void note(Op& op, bool drops = false) const {
    op.note("axis", axis, "start", start, "length", length, "step", step, "drops", drops);
    if (given) op.note("from", given->start, "to", given->end, "by", given->step);
  }
};

struct Item {
  static constexpr const char* kName = "select";
  int axis;
  int64_t index;
  Layout operator()(const Layout& whole) const {
    return erase_axis(slice(whole, axis, index, 1, 1), axis);
  }
  void note(Op& op) const { Range{axis, index, 1, 1}.note(op, true); }
};

/// Ranges and indices of several axes at once.
struct Block {
  static constexpr const char* kName = "slice";
  std::vector<Range> ranges;  ///< one per sliced axis, in ascending order of axes
  std::vector<bool> dropped;  ///< whether the axis of a range is removed
  Layout operator()(const Layout& whole) const {
    Layout part = whole;
    for (size_t i = ranges.size(); i-- > 0;) {
      part = ranges[i](part);
      if (dropped[i]) part = erase_axis(part, ranges[i].axis);
    }
    return part;
  }
  void note(Op& op) const {
    for (size_t i = 0; i < ranges.size(); ++i) ranges[i].note(op, dropped[i]);
  }
};

struct Diagonal {
  static constexpr const char* kName = "diagonal";
  int a, b;
  int64_t shift;
  Layout operator()(const Layout& whole) const { return diagonal(whole, a, b, shift); }
};

struct Windows {
  static constexpr const char* kName = "unfold";
  int axis;
  int64_t size, step;
  Layout operator()(const Layout& whole) const { return unfold(whole, axis, size, step); }
  void note(Op& op) const { op.note("axis", axis, "size", size, "step", step); }
};

template <class Part>
Tensor unrecorded(const Tensor& x, const Part& part) {
  return not_differentiable(Fresh::view(x, part(x.layout())));
}

template <class Part>
void add_part(const Tensor& whole, const Part& part, const Tensor& dy) {
  add_(unrecorded(whole, part), dy);
}

// Adds the j-th elements of all windows at once: windows overlap, but these elements do not.
void add_part(const Tensor& whole, const Windows& part, const Tensor& dy) {
  Tensor windows = unrecorded(whole, part);
  for (int64_t j = 0; j < part.size; ++j) add_(select(windows, -1, j), select(dy, -1, j));
}

template <class Part>
Tensor take(const Tensor& x, const Part& part);

// Zeros of the given shape with dy added to a part.
template <class Part>
Tensor place(const Tensor& dy, const Shape& shape, const Part& part) {
  Op op(Part::kName, dy);
  Fresh dx =
      filled(zeros(shape, dy.dtype()), [&](const Tensor& whole) { add_part(whole, part, dy); });
  return op.record(dx, [part](const Tensor& ddx) { return take(ddx, part); });
}

template <class Part>
Tensor take(const Tensor& x, const Part& part) {
  Op op(Part::kName, x);
  if constexpr (requires { part.note(op); }) part.note(op);
  return op.record(Fresh::view(x, part(x.layout())),
                   [shape = x.shape(), part](const Tensor& dy, const Wants& wants) -> Tensor {
                     Tensor sum = wants.accumulator(0);
                     if (!sum.defined()) return place(dy, shape, part);
                     add_part(sum, part, dy);
                     return {};
                   });
}

// Converts a negative position, which counts from the end.
int64_t from_end(int64_t i, int64_t size) { return i < 0 ? i + size : i; }

/// Python's start:end:step of an axis with n elements.
Range range_of(int axis, int64_t n, std::optional<int64_t> start, std::optional<int64_t> end,
               int64_t step) {
  check(step != 0, "slice: step must not be 0");
  int64_t low = step > 0 ? 0 : -1, high = low + n;  // the valid ends
  int64_t first = std::clamp(from_end(start.value_or(step > 0 ? 0 : n - 1), n), low, high);
  int64_t last = end ? std::clamp(from_end(*end, n), low, high) : (step > 0 ? high : low);
  int64_t span = step > 0 ? last - first : first - last;
  // Beyond every axis stands for an open side.
  const Given given{start.value_or(step > 0 ? 0 : INT64_MAX),
                    end.value_or(step > 0 ? INT64_MAX : INT64_MIN), step};
  if (span <= 0) return {axis, 0, 0, 1, given};
  // Unsigned, because the magnitude of the lowest int64_t overflows int64_t.
  uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  int64_t length = static_cast<int64_t>(static_cast<uint64_t>(span - 1) / stride) + 1;
  return {axis, first, length, length > 1 ? step : 1, given};
}

/// An index of an axis, counted from 0. Error if it is out of range.
int64_t position(const char* op, const Tensor& x, int axis, int64_t index) {
  int64_t n = x.shape()[axis];
  check(index >= -n && index < n, "{}: index {} is out of range for axis {} of shape {}", op, index,
        axis, x.shape());
  return from_end(index, n);
}

// Splits an axis into pieces of these sizes.
std::vector<Tensor> pieces(const Tensor& x, int axis, const std::vector<int64_t>& sizes) {
  std::vector<Tensor> out;
  out.reserve(sizes.size());
  int64_t start = 0;
  for (int64_t size : sizes) {
    out.push_back(take(x, Range{axis, start, size, 1}));
    start += size;
  }
  return out;
}

}  // namespace

Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step) {
  check_defined("slice", x);
  int a = normalize_axis("slice", axis, x.ndim());
  return take(x, range_of(a, x.shape()[a], start, end, step));
}

Tensor slice(const Tensor& x, const std::vector<AxisSlice>& axes) {
  check_defined("slice", x);
  check(std::ssize(axes) <= x.ndim(), "slice: {} entries for the {} axes of shape {}", axes.size(),
        x.ndim(), x.shape());
  Block block;
  for (size_t i = 0; i < axes.size(); ++i) {
    const AxisSlice& of = axes[i];
    const int axis = static_cast<int>(i);
    const int64_t at = of.is_index ? position("slice", x, axis, *of.start.at) : 0;
    block.ranges.push_back(of.is_index
                               ? Range{axis, at, 1, 1, Given{at, at + 1, 1}}
                               : range_of(axis, x.shape()[axis], of.start.at, of.end.at, of.step));
    block.dropped.push_back(of.is_index);
  }
  return take(x, block);
}

Tensor narrow(const Tensor& x, int64_t axis, int64_t start, int64_t length) {
  check_defined("narrow", x);
  int a = normalize_axis("narrow", axis, x.ndim());
  int64_t n = x.shape()[a], first = from_end(start, n);
  check(first >= 0 && first <= n && length >= 0 && length <= n - first,
        "narrow: {} elements from index {} do not fit axis {} of shape {}", length, start, axis,
        x.shape());
  return take(x, Range{a, first, length, 1});
}

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  check_defined("select", x);
  int a = normalize_axis("select", axis, x.ndim());
  return take(x, Item{a, position("select", x, a, index)});
}

Tensor Tensor::operator[](int64_t i) const { return select(*this, 0, i); }

Tensor diagonal(const Tensor& x, int64_t offset, int64_t a, int64_t b) {
  check_defined("diagonal", x);
  int i = normalize_axis("diagonal", a, x.ndim()), j = normalize_axis("diagonal", b, x.ndim());
  check(i != j, "diagonal: needs two different axes, got {} twice", i);
  int64_t limit = std::max(x.shape()[i], x.shape()[j]);
  return take(x, Diagonal{i, j, std::clamp(offset, -limit, limit)});
}

Tensor unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step) {
  check_defined("unfold", x);
  // A scalar counts as one element, but the result has only the window's axis.
  if (x.ndim() == 0) {
    Tensor windows = unfold(reshape(x, {1}), axis, size, step);
    return select(windows, 0, 0);
  }
  int a = normalize_axis("unfold", axis, x.ndim());
  check(step > 0, "unfold: step must be positive, got {}", step);
  check(size >= 0 && size <= x.shape()[a],
        "unfold: a window of {} does not fit axis {} of shape {}", size, axis, x.shape());
  return take(x, Windows{a, size, step});
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis) {
  check_defined("split", x);
  int a = normalize_axis("split", axis, x.ndim());
  int64_t n = x.shape()[a];
  check(size > 0 || (size == 0 && n == 0), "split: cannot split axis {} of size {} by {}", axis, n,
        size);
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < n; at += sizes.back()) sizes.push_back(std::min(size, n - at));
  if (n == 0) sizes.push_back(0);
  return pieces(x, a, sizes);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  check_defined("split", x);
  int a = normalize_axis("split", axis, x.ndim());
  int64_t left = x.shape()[a];
  for (int64_t size : sizes) {
    check(size >= 0 && size <= left, "split: sizes {} do not add up to axis {} of shape {}",
          fmt::join(sizes, ", "), axis, x.shape());
    left -= size;
  }
  check(left == 0, "split: sizes {} leave {} elements of axis {} of shape {}",
        fmt::join(sizes, ", "), left, axis, x.shape());
  return pieces(x, a, sizes);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t axis) {
  check_defined("chunk", x);
  int a = normalize_axis("chunk", axis, x.ndim());
  check(chunks > 0, "chunk: needs at least one chunk, got {}", chunks);
  int64_t n = x.shape()[a];
  if (n == 0) return pieces(x, a, std::vector<int64_t>(static_cast<size_t>(chunks), 0));
  return split(x, (n - 1) / chunks + 1, a);
}

}  // namespace tern
