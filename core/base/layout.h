// The places of a tensor's elements in its storage: shape, strides and offset, in elements. Pure
// integer arithmetic; each view op is one of these functions.
#pragma once

#include <optional>

#include "tern/core/base/shape.h"

namespace tern {

/// Element (i0, i1, ...) is at offset + i0*strides[0] + i1*strides[1] + ... Strides may be zero
/// (expanded axes) or negative (flipped axes).
struct Layout {
  Shape shape;
  Strides strides;
  int64_t offset = 0;

  /// The row-major layout of `shape` without gaps.
  static Layout contiguous(const Shape& shape);
  int ndim() const { return shape.size(); }
  int64_t numel() const { return tern::numel(shape); }
  /// Whether the elements are in row-major order without gaps. Axes of size 1 do not matter. Empty
  /// tensors are contiguous.
  bool is_contiguous() const;
};

/// Row-major strides of `shape`. The same errors as numel().
Strides contiguous_strides(const Shape& shape);

/// The layout with another `shape`, if no element has to move. `shape` must have the same number of
/// elements.
std::optional<Layout> try_view(const Layout& layout, const Shape& shape);

/// Expands axes of size 1 to `shape`, and adds axes on the left, all with stride 0.
Layout expand(const char* op, const Layout& layout, const Shape& shape);

Layout permute(const Layout& layout, const Dims& axes);

/// Elements start, start+step, ... along an axis, `length` of them. step may be negative.
Layout slice(const Layout& layout, int axis, int64_t start, int64_t length, int64_t step);

/// Inserts an axis of this size and stride (in elements) at `axis`.
Layout insert_axis(const Layout& layout, int axis, int64_t size, int64_t stride);

Layout erase_axis(const Layout& layout, int axis);

/// Replaces axes a and b by their diagonal as the last axis: elements (i, i + shift), or (i -
/// shift, i) if shift < 0.
Layout diagonal(const Layout& layout, int a, int b, int64_t shift);

/// Windows of `size` elements, one every `step` elements of an axis. The axis then counts windows;
/// a new last axis has their elements. REQUIRES: 0 <= size <= shape[axis], step > 0.
Layout unfold(const Layout& layout, int axis, int64_t size, int64_t step);

namespace detail {
/// Lowest and highest element position in the layout (if empty: offset, offset-1).
struct Extent {
  int64_t first, last;
};
Extent extent(const Layout& layout);

/// Whether two indices may lead to the same element. Exact for layouts that views make of separate
/// elements, and for expanded axes and windows; true for some others without need.
bool may_overlap(const Layout& layout);
}  // namespace detail

}  // namespace tern
