// Where the elements of a tensor lie in its storage: shape, strides and offset, in elements.
// Pure arithmetic on numbers; every view op is one of these functions.
#pragma once

#include <optional>

#include "tern/core/base/shape.h"

namespace tern {

/// Element (i0, i1, ...) lies at offset + i0*strides[0] + i1*strides[1] + ...; strides may be
/// zero (expanded axes) or negative (flipped ones).
struct Layout {
  Shape shape;
  Strides strides;
  int64_t offset = 0;

  /// Row-major layout of `shape` without gaps.
  static Layout contiguous(const Shape& shape);
  int ndim() const { return shape.size(); }
  int64_t numel() const { return tern::numel(shape); }
  /// Whether the elements lie in row-major order without gaps. Axes of size 1 do not count;
  /// empty tensors are contiguous.
  bool is_contiguous() const;
};

/// Row-major strides of `shape`; an error where numel() is one.
Strides contiguous_strides(const Shape& shape);

/// The layout seen with `shape` if that is possible without moving elements; `shape` must have
/// the same number of elements.
std::optional<Layout> try_view(const Layout& layout, const Shape& shape);

/// Stretches axes of size 1, and adds axes at the left, with stride 0.
Layout expand(const char* op, const Layout& layout, const Shape& shape);

Layout permute(const Layout& layout, const Dims& axes);

/// Elements start, start+step, ... along an axis, `length` of them. step may be negative.
Layout slice(const Layout& layout, int axis, int64_t start, int64_t length, int64_t step);

/// The layout with a new axis of the given size and stride (in elements) put in at `axis`.
Layout insert_axis(const Layout& layout, int axis, int64_t size, int64_t stride);

Layout erase_axis(const Layout& layout, int axis);

/// The diagonal of axes a and b as the last axis: elements (i, i + shift), or (i - shift, i) where
/// shift < 0.
Layout diagonal(const Layout& layout, int a, int b, int64_t shift);

/// Windows of `size` elements that start every `step` elements of an axis: the axis counts the
/// windows, a new last axis the elements in them. REQUIRES: 0 <= size <= shape[axis], step > 0.
Layout unfold(const Layout& layout, int axis, int64_t size, int64_t step);

namespace detail {
/// Lowest and highest element position that the layout reaches (empty layouts: offset, offset-1).
struct Extent {
  int64_t first, last;
};
Extent extent(const Layout& layout);
}  // namespace detail

}  // namespace tern
