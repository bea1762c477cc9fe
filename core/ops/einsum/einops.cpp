// rearrange, reduce and repeat. A pattern splits the axes of x into pieces. x is viewed with one
// axis per piece; then pieces are reduced, reordered, repeated and joined.
#include <algorithm>
#include <map>
#include <optional>

#include "tern/core/ops/einsum/einops_pattern.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::contains;
using detail::Names;
using detail::Pattern;
using detail::PatternAxis;

/// The size of every piece: given by the caller, a number in the pattern, or inferred from an axis.
class PatternSizes {
 public:
  PatternSizes(const Pattern& pattern, const Shape& shape, const AxisSizes& given)
      : pattern_(pattern) {
    Names all = pattern.left.pieces();
    for (const std::string& name : pattern.right.pieces()) all.push_back(name);
    for (const auto& [name, size] : given) {
      if (!contains(all, name)) pattern.error("has no axis '{}', but its size is given", name);
      if (size < 0) pattern.error("needs sizes that are not negative, got {} for '{}'", size, name);
      sizes_[name] = size;
    }
    for (const std::string& name : all)
      if (int64_t n = detail::fixed_size(name)) sizes_[name] = n;
    for (size_t i = 0; i < pattern.left.axes.size(); ++i)
      infer(pattern.left.axes[i], shape, static_cast<int>(i));
  }

  int64_t operator[](const std::string& name) const {
    auto at = sizes_.find(name);
    if (at == sizes_.end())
      pattern_.error("does not say how large '{}' is; give its size: {{{{\"{}\", 2}}}}", name,
                     name);
    return at->second;
  }

 private:
  void infer(const PatternAxis& axis, const Shape& shape, int i) {
    int64_t known = 1;
    std::optional<std::string> open;
    for (const std::string& name : axis.pieces) {
      if (auto at = sizes_.find(name); at != sizes_.end()) {
        if (__builtin_mul_overflow(known, at->second, &known))
          pattern_.error("gives axis {} more elements than fit 63 bits", i);
      } else if (open) {
        pattern_.error("leaves the sizes of both '{}' and '{}' open; give one of them", *open,
                       name);
      } else {
        open = name;
      }
    }
    if (!open) {
      if (known != shape[i])
        pattern_.error("needs {} elements on axis {}, but the shape is {}", known, i, shape);
      return;
    }
    if (known == 0 || shape[i] % known != 0)
      pattern_.error("cannot split axis {} of {}: '{}' would have {} / {} elements", i, shape,
                     *open, shape[i], known);
    sizes_[*open] = shape[i] / known;
  }

  const Pattern& pattern_;
  std::map<std::string, int64_t> sizes_;
};

Tensor reduce_axes(const Tensor& x, const Dims& axes, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return sum(x, axes);
    case ReduceOp::mean:
      return mean(x, axes);
    case ReduceOp::max:
      return amax(x, axes);
    case ReduceOp::min:
      return amin(x, axes);
    case ReduceOp::prod:
      return prod(x, axes);
  }
  fail_unhandled("ReduceOp", op);
}

/// The changes that a pattern may make besides reordering.
struct Rules {
  std::optional<ReduceOp> reduces = std::nullopt;
  bool repeats = false;
};

void check_rules(const Pattern& pattern, const Rules& rules) {
  const Names left = pattern.left.pieces(), right = pattern.right.pieces();
  auto shown = [](const std::string& name) { return name.substr(0, name.find('@')); };
  for (const std::string& name : left)
    if (!rules.reduces && !contains(right, name))
      pattern.error("has '{}' on the left only; reduce() drops axes", shown(name));
  for (const std::string& name : right)
    if (!rules.repeats && !contains(left, name))
      pattern.error("has '{}' on the right only; repeat() makes new axes", shown(name));
}

Tensor apply(const char* op, const Tensor& x, std::string_view text, const AxisSizes& given,
             const Rules& rules) {
  Pattern pattern(op, text);
  check_rules(pattern, rules);  // also checks a '...' without axes
  pattern.expand_ellipsis(x.ndim());
  const PatternSizes sizes(pattern, x.shape(), given);

  Names names = pattern.left.pieces();
  const Names right = pattern.right.pieces();
  Shape pieces;
  for (const std::string& name : names) pieces.push_back(sizes[name]);
  Tensor t = pieces == x.shape() ? x : reshape(x, pieces);

  Dims dropped;
  for (size_t i = 0; i < names.size(); ++i)
    if (!contains(right, names[i])) dropped.push_back(static_cast<int64_t>(i));
  if (!dropped.empty()) {
    t = reduce_axes(t, dropped, *rules.reduces);
    std::erase_if(names, [&](const std::string& name) { return !contains(right, name); });
  }

  Dims order;
  Shape with_new, expanded, result;
  for (const std::string& name : right) {
    auto at = std::find(names.begin(), names.end(), name);
    const bool is_new = at == names.end();
    if (!is_new) order.push_back(at - names.begin());
    with_new.push_back(is_new ? 1 : sizes[name]);
    expanded.push_back(sizes[name]);
  }
  for (const PatternAxis& axis : pattern.right.axes) {
    int64_t size = 1;
    for (const std::string& name : axis.pieces) size = checked_product(op, size, sizes[name]);
    result.push_back(size);
  }
  if (!std::is_sorted(order.begin(), order.end())) t = permute(t, order);
  if (with_new != t.shape()) t = view(t, with_new);
  if (expanded != with_new) t = expand(t, expanded);
  return result == t.shape() ? t : reshape(t, result);
}

}  // namespace

Tensor rearrange(const Tensor& x, std::string_view pattern, const AxisSizes& sizes) {
  check_defined("rearrange", x);
  return apply("rearrange", x, pattern, sizes, {});
}

Tensor reduce(const Tensor& x, std::string_view pattern, ReduceOp op, const AxisSizes& sizes) {
  check_defined("reduce", x);
  return apply("reduce", x, pattern, sizes, {.reduces = op});
}

Tensor repeat(const Tensor& x, std::string_view pattern, const AxisSizes& sizes) {
  check_defined("repeat", x);
  return apply("repeat", x, pattern, sizes, {.repeats = true});
}

}  // namespace tern
