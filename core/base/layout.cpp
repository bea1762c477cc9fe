// Layout arithmetic of the view ops: view, expand, permute, slice, diagonal, unfold. No function
// touches elements.
#include "tern/core/base/layout.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tern {

Strides contiguous_strides(const Shape& shape) {
  numel(shape);  // bounds every product below
  Strides strides = Dims::filled(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

Layout Layout::contiguous(const Shape& shape) { return {shape, contiguous_strides(shape), 0}; }

bool Layout::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (int i = ndim() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Groups old axes that are contiguous with each other (stride[i] = shape[i+1]*stride[i+1]). A new
// axis must not span two groups.
std::optional<Layout> try_view(const Layout& layout, const Shape& shape) {
  if (layout.numel() == 0 || layout.is_contiguous())
    return Layout{shape, contiguous_strides(shape), layout.offset};
  Layout out{shape, Dims::filled(shape.size(), 0), layout.offset};
  int next = shape.size() - 1;
  int64_t group = 1;                     // elements in the current group of old axes
  int64_t step = layout.strides.back();  // stride of its innermost axis
  int64_t taken = 1;                     // elements covered by new axes of this group
  for (int i = layout.ndim() - 1; i >= 0; --i) {
    group *= layout.shape[i];
    bool ends = i == 0 || (layout.shape[i - 1] != 1 && layout.strides[i - 1] != group * step);
    if (!ends) continue;
    while (next >= 0 && (taken < group || shape[next] == 1)) {
      out.strides[next] = taken * step;
      taken *= shape[next--];
    }
    if (taken != group) return std::nullopt;
    if (i > 0) {
      step = layout.strides[i - 1];
      group = taken = 1;
    }
  }
  return next == -1 ? std::optional(out) : std::nullopt;
}

Layout expand(const char* op, const Layout& layout, const Shape& shape) {
  int added = shape.size() - layout.ndim();
  check(added >= 0, "{}: cannot expand {} to {}: fewer axes", op, layout.shape, shape);
  Layout out{shape, Dims::filled(shape.size(), 0), layout.offset};
  for (int i = 0; i < layout.ndim(); ++i) {
    int64_t from = layout.shape[i], to = shape[i + added];
    check(from == to || from == 1, "{}: cannot expand {} to {}: axis {} has size {}", op,
          layout.shape, shape, i, from);
    out.strides[i + added] = from == to ? layout.strides[i] : 0;
  }
  return out;
}

Layout permute(const Layout& layout, const Dims& axes) {
  Layout out = layout;
  for (int i = 0; i < axes.size(); ++i) {
    out.shape[i] = layout.shape[static_cast<int>(axes[i])];
    out.strides[i] = layout.strides[static_cast<int>(axes[i])];
  }
  return out;
}

Layout slice(const Layout& layout, int axis, int64_t start, int64_t length, int64_t step) {
  Layout out = layout;
  out.shape[axis] = length;
  if (length == 0 || layout.numel() == 0) return out;  // as in unfold
  out.offset += start * layout.strides[axis];
  out.strides[axis] *= step;
  return out;
}

Layout insert_axis(const Layout& layout, int axis, int64_t size, int64_t stride) {
  Layout out = layout;
  out.shape.insert(axis, size);
  out.strides.insert(axis, stride);
  return out;
}

Layout erase_axis(const Layout& layout, int axis) {
  Layout out = layout;
  out.shape.erase(axis);
  out.strides.erase(axis);
  return out;
}

Layout diagonal(const Layout& layout, int a, int b, int64_t shift) {
  int64_t rows = layout.shape[a] + std::min<int64_t>(shift, 0);
  int64_t columns = layout.shape[b] - std::max<int64_t>(shift, 0);
  int64_t length = std::max<int64_t>(std::min(rows, columns), 0);
  Layout out = erase_axis(erase_axis(layout, std::max(a, b)), std::min(a, b));
  if (length > 0) out.offset += shift < 0 ? -shift * layout.strides[a] : shift * layout.strides[b];
  // A single element needs no stride, and the sum of two unused strides might overflow.
  int64_t stride = length > 1 ? layout.strides[a] + layout.strides[b] : 1;
  return insert_axis(out, out.ndim(), length, stride);
}

Layout unfold(const Layout& layout, int axis, int64_t size, int64_t step) {
  Layout out = insert_axis(layout, layout.ndim(), size, layout.strides[axis]);
  out.shape[axis] = (layout.shape[axis] - size) / step + 1;
  // Unused strides stay as they are: their product might overflow.
  if (out.shape[axis] > 1 && layout.numel() > 0) out.strides[axis] *= step;
  return out;
}

detail::Extent detail::extent(const Layout& layout) {
  if (layout.numel() == 0) return {layout.offset, layout.offset - 1};
  Extent e{layout.offset, layout.offset};
  for (int i = 0; i < layout.ndim(); ++i) {
    int64_t reach = (layout.shape[i] - 1) * layout.strides[i];
    (reach < 0 ? e.first : e.last) += reach;
  }
  return e;
}

// Without overlap, each axis steps over all that the axes with smaller strides reach.
bool detail::may_overlap(const Layout& layout) {
  if (layout.numel() == 0) return false;
  std::array<bool, kMaxDims> passed = {};
  int64_t reach = 0;
  for (;;) {
    int next = -1;
    int64_t stride = 0;
    for (int i = 0; i < layout.ndim(); ++i) {
      const int64_t other = std::abs(layout.strides[i]);
      if (!passed[i] && layout.shape[i] > 1 && (next < 0 || other < stride))
        next = i, stride = other;
    }
    if (next < 0) return false;
    if (stride <= reach) return true;
    reach += (layout.shape[next] - 1) * stride;
    passed[next] = true;
  }
}

}  // namespace tern
