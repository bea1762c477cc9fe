// Views of all elements: reshaped, reordered, repeated. Parts of a tensor are in slicing.cpp.
#include <optional>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/core/ops/reduction/reduction.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::wrap_axis;

// `wanted` with -1 replaced by the size that gives `count` elements.
Shape infer(const char* op, const Shape& wanted, int64_t count) {
  Shape shape = wanted;
  int unknown = -1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) continue;
    check(unknown < 0, "{}: shape {} has more than one -1", op, wanted);
    unknown = i;
    shape[i] = 1;
  }
  int64_t known = numel(shape);
  if (unknown >= 0) {
    check(known != 0 || count == 0, "{}: {} elements do not fill shape {}", op, count, wanted);
    check(known != 0, "{}: -1 in {} could be any size; give every size", op, wanted);
    shape[unknown] = count / known;
    known *= shape[unknown];
  }
  check(known == count, "{}: {} elements do not fill shape {}", op, count, wanted);
  return shape;
}

// The elements of x in the same order with another layout. `axis`: the only one that it concerns.
Tensor reshaped(const char* name, const Tensor& x, const Layout& layout,
                std::optional<int> axis = {}) {
  Op op(name, x);
  if (axis) op.note("axis", *axis);
  return op.record(Fresh::view(x, layout),
                   [shape = x.shape()](const Tensor& dy) { return reshape(dy, shape); });
}

}  // namespace

Tensor view(const Tensor& x, const Shape& shape) {
  check_defined("view", x);
  Shape sizes = infer("view", shape, x.numel());
  std::optional<Layout> layout = try_view(x.layout(), sizes);
  check(layout.has_value(),
        "view: shape {} with strides {} cannot be seen as {} without a copy; use reshape",
        x.shape(), x.strides(), sizes);
  return reshaped("view", x, *layout);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  check_defined("reshape", x);
  Shape sizes = infer("reshape", shape, x.numel());
  if (std::optional<Layout> layout = try_view(x.layout(), sizes))
    return reshaped("reshape", x, *layout);
  return view(x.contiguous(), sizes);
}

Tensor permute(const Tensor& x, const Dims& axes) {
  Op op("permute", x);
  check_defined("permute", x);
  check(axes.size() == x.ndim(), "permute: {} axes for a tensor of shape {}", axes, x.shape());
  Dims order, inverse = Dims::filled(axes.size(), 0);
  for (int64_t axis : axes) {
    int a = normalize_axis("permute", axis, x.ndim());
    check(!order.contains(a), "permute: axis {} appears twice in {}", axis, axes);
    inverse[a] = order.size();
    order.push_back(a);
  }
  op.note("axes", order);
  return op.record(Fresh::view(x, permute(x.layout(), order)),
                   [inverse](const Tensor& dy) { return permute(dy, inverse); });
}

Tensor transpose(const Tensor& x, int64_t a, int64_t b) {
  Op op("transpose", x);
  check_defined("transpose", x);
  int i = wrap_axis("transpose", a, x), j = wrap_axis("transpose", b, x);
  op.note("axes", Dims{i, j});
  Layout layout = x.layout();
  std::swap(layout.shape[i], layout.shape[j]);
  std::swap(layout.strides[i], layout.strides[j]);
  return op.record(Fresh::view(x, layout),
                   [i, j](const Tensor& dy) { return transpose(dy, i, j); });
}

// The engine sums the gradient to the shape of x.
Tensor expand(const Tensor& x, const Shape& shape) {
  Op op("expand", x);
  check_defined("expand", x);
  Shape sizes = shape;
  int added = shape.size() - x.ndim();
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) continue;
    check(i >= added, "expand: -1 in {} has no size to keep: axis {} is new to shape {}", shape, i,
          x.shape());
    sizes[i] = x.shape()[i - added];
  }
  numel(sizes);  // refuses negative sizes
  return op.record(Fresh::view(x, expand("expand", x.layout(), sizes)),
                   [](const Tensor& dy) { return dy; });
}

Tensor squeeze(const Tensor& x) {
  check_defined("squeeze", x);
  Layout layout = x.layout();
  for (int i = x.ndim() - 1; i >= 0; --i)
    if (layout.shape[i] == 1) layout = erase_axis(layout, i);
  return reshaped("squeeze", x, layout);
}

Tensor squeeze(const Tensor& x, int64_t axis) {
  check_defined("squeeze", x);
  int a = wrap_axis("squeeze", axis, x);
  bool one = x.ndim() > 0 && x.shape()[a] == 1;
  return reshaped("squeeze", x, one ? erase_axis(x.layout(), a) : x.layout(), a);
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  check_defined("unsqueeze", x);
  int a = normalize_axis("unsqueeze", axis, x.ndim() + 1);
  int64_t stride = 1;  // any stride is valid; this one lets adjacent axes merge
  if (a < x.ndim() && __builtin_mul_overflow(x.shape()[a], x.strides()[a], &stride)) stride = 1;
  return reshaped("unsqueeze", x, insert_axis(x.layout(), a, 1, stride));
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  check_defined("flatten", x);
  int a = wrap_axis("flatten", first, x), b = wrap_axis("flatten", last, x);
  check(a <= b, "flatten: first axis {} comes after last axis {} in shape {}", first, last,
        x.shape());
  if (x.ndim() == 0) return reshape(x, {1});
  Shape shape(x.shape().begin(), x.shape().begin() + a);
  shape.push_back(numel(Shape(x.shape().begin() + a, x.shape().begin() + b + 1)));
  for (int i = b + 1; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes) {
  check_defined("unflatten", x);
  int a = normalize_axis("unflatten", axis, x.ndim());
  check(!sizes.empty(), "unflatten: needs at least one size for axis {}", axis);
  Shape inner = infer("unflatten", sizes, x.shape()[a]);
  Shape shape = x.shape();
  shape.erase(a);
  for (int i = 0; i < inner.size(); ++i) shape.insert(a + i, inner[i]);
  return view(x, shape);
}

Tensor flip(const Tensor& x, const Dims& axes) {
  Op op("flip", x);
  check_defined("flip", x);
  Dims flipped = normalize_axes("flip", axes, x.ndim());
  op.note("axes", flipped);
  Layout layout = x.layout();
  for (int64_t axis : flipped) {
    int a = static_cast<int>(axis);
    layout = slice(layout, a, layout.shape[a] - 1, layout.shape[a], -1);
  }
  return op.record(Fresh::view(x, layout),
                   [flipped](const Tensor& dy) { return flip(dy, flipped); });
}

}  // namespace tern
