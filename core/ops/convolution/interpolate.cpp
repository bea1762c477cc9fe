// Interpolation is separable: one linear map per axis, shrinking axes first.
#include "tern/core/ops/convolution/interpolate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/core/ops/convolution/axis_map.h"
#include "tern/core/ops/convolution/conv_call.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using kernels::AxisMap;
constexpr const char* kInterpolate = "interpolate";
constexpr const char* kInterpolateModes[] = {"nearest", "nearest_exact", "linear", "bilinear",
                                             "bicubic", "trilinear",     "area"};

/// One axis: its sizes, and where output elements lie between input elements.
struct Axis {
  int64_t in, out;
  double scale_factor;  ///< 0: the sizes give the positions
  bool align_corners;

  /// Input elements per output element.
  double step() const {
    if (align_corners)
      return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
    return scale_factor > 0 ? 1 / scale_factor : static_cast<double>(in) / static_cast<double>(out);
  }
  double position(int64_t i) const {
    const auto at = static_cast<double>(i);
    return align_corners ? step() * at : step() * (at + 0.5) - 0.5;
  }
};

// Computes in f32, as PyTorch does for every type: rounding decides between two neighbours.
void nearest_map(const Axis& axis, bool exact, AxisMap& map) {
  const float step = axis.scale_factor > 0
                         ? static_cast<float>(1 / axis.scale_factor)
                         : static_cast<float>(axis.in) / static_cast<float>(axis.out);
  for (int64_t i = 0; i < axis.out; ++i) {
    const float at = static_cast<float>(i);
    const float from = exact ? std::floor((at + 0.5F) * step) : std::floor(at * step);
    map.add(std::min(static_cast<int64_t>(from), axis.in - 1), 1);
    map.next();
  }
}

void linear_map(const Axis& axis, AxisMap& map) {
  for (int64_t i = 0; i < axis.out; ++i) {
    const double at = std::max(axis.position(i), 0.0);
    const int64_t low = std::min(static_cast<int64_t>(at), axis.in - 1);
    const double rest = low < axis.in - 1 ? std::min(at - static_cast<double>(low), 1.0) : 0;
    map.add(low, 1 - rest);
    if (rest > 0) map.add(low + 1, rest);
    map.next();
  }
}

/// Keys' kernel for a distance |d|.
double cubic(double d, double a) {
  d = std::abs(d);
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

/// Adds one output's terms. Those outside of the input fall on the edge element and are summed.
void add_clamped(const Axis& axis, int64_t first, const std::vector<double>& weights,
                 AxisMap& map) {
  double sum = 0;
  for (size_t k = 0; k < weights.size(); ++k) {
    const int64_t at = first + static_cast<int64_t>(k);
    sum += weights[k];
    const bool more = k + 1 < weights.size();
    if (more && (at < 0 || at >= axis.in - 1)) continue;  // the next one is the same element
    map.add(std::clamp<int64_t>(at, 0, axis.in - 1), sum);
    sum = 0;
  }
  map.next();
}

void cubic_map(const Axis& axis, AxisMap& map) {
  for (int64_t i = 0; i < axis.out; ++i) {
    const double at = axis.position(i), low = std::floor(at), t = at - low;
    const std::vector<double> weights = {cubic(t + 1, -0.75), cubic(t, -0.75), cubic(1 - t, -0.75),
                                         cubic(2 - t, -0.75)};
    add_clamped(axis, static_cast<int64_t>(low) - 1, weights, map);
  }
}

double triangle(double d) { return std::max(0.0, 1 - std::abs(d)); }
double keys(double d) { return cubic(d, -0.5); }

/// The filter is as wide as the part that an output covers. Its weights sum to 1 at the edges too.
void antialias_map(const Axis& axis, bool bicubic, AxisMap& map) {
  const double step = axis.step(), width = std::max(step, 1.0);
  const double support = (bicubic ? 2 : 1) * width;
  for (int64_t i = 0; i < axis.out; ++i) {
    const double centre = step * (static_cast<double>(i) + 0.5);
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), axis.in);
    std::vector<double> weights;
    for (int64_t j = first; j < last; ++j) {
      const double d = (static_cast<double>(j) - centre + 0.5) / width;
      weights.push_back(bicubic ? keys(d) : triangle(d));
    }
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (int64_t j = first; j < last; ++j)
      map.add(j, weights[static_cast<size_t>(j - first)] / (total != 0 ? total : 1));
    map.next();
  }
}

AxisMap map_of(const Axis& axis, const InterpolateOptions& o) {
  if (o.mode == Interpolation::area) return detail::adaptive_mean(axis.in, axis.out);
  AxisMap map;
  map.in = axis.in;
  if (o.mode == Interpolation::nearest || o.mode == Interpolation::nearest_exact)
    nearest_map(axis, o.mode == Interpolation::nearest_exact, map);
  else if (o.antialias)
    antialias_map(axis, o.mode == Interpolation::bicubic, map);
  else if (o.mode == Interpolation::bicubic)
    cubic_map(axis, map);
  else
    linear_map(axis, map);
  return map;
}

/// Number of spatial axes that a mode needs; 0: any.
int axes_of(Interpolation mode) {
  if (mode == Interpolation::linear) return 1;
  if (mode == Interpolation::trilinear) return 3;
  return mode == Interpolation::bilinear || mode == Interpolation::bicubic ? 2 : 0;
}

void check_options(const Tensor& x, const InterpolateOptions& o) {
  const int axes = x.ndim() - 2;
  const char* mode = kInterpolateModes[static_cast<int>(o.mode)];
  check(axes >= 1 && axes <= 3,
        "interpolate: the input must be (batch, channels, one to three spatial axes), got {}",
        x.shape());
  detail::check_space(kInterpolate, x, axes);
  check(axes_of(o.mode) == 0 || axes_of(o.mode) == axes,
        "interpolate: {} is for {} spatial axes, the input {} has {}", mode, axes_of(o.mode),
        x.shape(), axes);
  check(!o.align_corners || axes_of(o.mode) != 0,
        "interpolate: align_corners is for linear, bilinear, bicubic and trilinear, not {}", mode);
  check(!o.antialias || axes_of(o.mode) == 2,
        "interpolate: antialias is for bilinear and bicubic, not {}", mode);
  const bool sized = !o.size.empty(), scaled = !o.scale_factor.each().empty();
  check(sized != scaled, "interpolate: needs either size or scale_factor");
  check(!(sized && o.recompute_scale_factor),
        "interpolate: recompute_scale_factor needs scale_factor, not size");
  const int given = sized ? o.size.size() : static_cast<int>(o.scale_factor.each().size());
  check(given == 1 || given == axes,
        "interpolate: got {} sizes or factors for {} spatial axes; give one, or one per axis",
        given, axes);
  for (int a = 2; a < x.ndim(); ++a)
    check(x.size(a) > 0, "interpolate: the planes of {} have no elements", x.shape());
}

Axis axis_of(const Tensor& x, int a, const InterpolateOptions& o) {
  Axis axis{x.size(a + 2), 0, 0, o.align_corners.value_or(false)};
  if (!o.size.empty()) {
    axis.out = o.size[o.size.size() == 1 ? 0 : a];
    check(axis.out > 0, "interpolate: size {} must be positive", o.size);
    return axis;
  }
  const std::vector<double>& factors = o.scale_factor.each();
  const double factor = factors[factors.size() == 1 ? 0 : static_cast<size_t>(a)];
  const double size = std::floor(static_cast<double>(axis.in) * factor);
  check(factor > 0 && size >= 1 && size < 0x1p62,
        "interpolate: scale_factor {} gives {} elements for an axis of {}", factor, size, axis.in);
  axis.out = static_cast<int64_t>(size);
  if (!o.recompute_scale_factor) axis.scale_factor = factor;
  return axis;
}

/// Whether an axis can be skipped. As in PyTorch, a factor that keeps the size still shifts the
/// positions of bicubic and nearest_exact, and those of nearest unless there are two axes.
bool stays(const Axis& axis, int axes, const InterpolateOptions& o) {
  if (axis.in != axis.out) return false;
  if (o.mode == Interpolation::bicubic) return o.antialias;
  if (o.mode == Interpolation::nearest_exact) return axis.step() == 1;
  return o.mode != Interpolation::nearest || axes == 2;
}

// Checks for both directions of (..., C, r, r, H, W) <-> (..., C, H, r, W, r).
void check_shuffle(const char* op, const Tensor& x, int64_t r) {
  check_defined(op, x);
  check(x.ndim() >= 3, "{}: needs (..., channels, height, width), got {}", op, x.shape());
  check(r > 0, "{}: the factor must be positive, got {}", op, r);
  checked_product(op, r, r);
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  check_defined(kInterpolate, x);
  Op op(kInterpolate, x);
  check_options(x, o);
  std::vector<Axis> axes;
  Shape shape = x.shape();
  for (int a = 0; a < x.ndim() - 2; ++a) {
    axes.push_back(axis_of(x, a, o));
    shape[a + 2] = axes.back().out;
  }
  if (o.mode == Interpolation::area)  // (i + 1) * in must fit
    for (const Axis& axis : axes)
      checked_product(kInterpolate, axis.in, checked_sum(kInterpolate, axis.out, 1));
  numel(shape);
  std::vector<int> order(axes.size());
  std::iota(order.begin(), order.end(), 0);
  auto growth = [&](int a) {
    const Axis& axis = axes[static_cast<size_t>(a)];
    return static_cast<double>(axis.out) / static_cast<double>(axis.in);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return growth(a) < growth(b); });
  Tensor y = x;
  for (int a : order) {
    const Axis& axis = axes[static_cast<size_t>(a)];
    if (stays(axis, x.ndim() - 2, o)) continue;
    y = detail::map_axis(kInterpolate, y, a + 2, axis.out, [&] { return map_of(axis, o); });
  }
  return y.ref() == x.ref() ? x * 1 : y;
}

Tensor pixel_shuffle(const Tensor& x, int64_t r) {
  check_shuffle("pixel_shuffle", x, r);
  Op op("pixel_shuffle", x);
  const int c = x.ndim() - 3;
  check(x.size(c) % (r * r) == 0, "pixel_shuffle: {} channels are not divisible by {} * {}",
        x.size(c), r, r);
  Tensor y = unflatten(x, c, {x.size(c) / (r * r), r, r});
  Dims axes;  // (C, r, r, H, W) -> (C, H, r, W, r)
  for (int i = 0; i <= c; ++i) axes.push_back(i);
  for (int i : {3, 1, 4, 2}) axes.push_back(c + i);
  return flatten(flatten(permute(y, axes), c + 3, c + 4), c + 1, c + 2);
}

Tensor pixel_unshuffle(const Tensor& x, int64_t r) {
  check_shuffle("pixel_unshuffle", x, r);
  Op op("pixel_unshuffle", x);
  const int c = x.ndim() - 3;
  check(x.size(c + 1) % r == 0 && x.size(c + 2) % r == 0,
        "pixel_unshuffle: the planes of {} are not divisible by {}", x.shape(), r);
  Tensor y = unflatten(unflatten(x, c + 2, {x.size(c + 2) / r, r}), c + 1, {x.size(c + 1) / r, r});
  Dims axes;  // (C, H, r, W, r) -> (C, r, r, H, W)
  for (int a = 0; a <= c; ++a) axes.push_back(a);
  for (int a : {2, 4, 1, 3}) axes.push_back(c + a);
  return flatten(permute(y, axes), c, c + 2);
}

}  // namespace tern
