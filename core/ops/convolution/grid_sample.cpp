// grid_sample and affine_grid, made of other ops. A position reads up to four elements along each
// axis; an output is the sum over all combinations of them.
#include "tern/core/ops/convolution/grid_sample.h"

#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

constexpr const char* kGridSample = "grid_sample";

struct SampledAxis {
  int64_t size;
  const GridSampleOptions& options;
  double last() const { return static_cast<double>(size - 1); }
};

/// From -1 ... 1 to the numbers of elements.
Tensor in_elements(const Tensor& x, const SampledAxis& a) {
  const auto n = static_cast<double>(a.size);
  return a.options.align_corners ? (x + 1) / 2 * (n - 1) : ((x + 1) * n - 1) / 2;
}

/// The nearest position between the first and the last element; 0 for NaN. Its gradient is 0 where
/// the position was moved, and at the two ends.
Tensor clipped(const Tensor& p, const SampledAxis& a) {
  const Tensor end = where(p >= a.last(), full_like(p, a.last()), zeros_like(p));
  return where((p > 0) & (p < a.last()), p, end);
}

/// Mirrored at both ends, as often as needed.
Tensor reflected(const Tensor& p, const SampledAxis& a) {
  const double low = a.options.align_corners ? 0 : -0.5, span = a.last() - 2 * low;
  if (span == 0) return 0 * p;
  const Tensor distance = abs(p - low), rest = remainder(distance, span);
  const Tensor odd = remainder(floor(distance.detach() / span), 2) > 0;
  return where(odd, span - rest, rest) + low;
}

/// An element that each position reads, as (B, 1, positions): its number, whether it exists, and
/// its weight.
struct Tap {
  Tensor index, inside, weight;
};

Tap tap(const Tensor& number, const Tensor& weight, const SampledAxis& a) {
  const Tensor inside = (number >= 0) & (number <= a.last());
  return {where(inside, number, 0).to(DType::i64), inside, where(inside, weight, 0)};
}

/// Keys' kernel with a = -0.75 for a distance below 1, and for one from 1 to 2.
Tensor cubic_near(const Tensor& d) { return (1.25 * d - 2.25) * d * d + 1; }
Tensor cubic_far(const Tensor& d) { return ((-0.75 * d + 3.75) * d - 6) * d + 3; }

std::vector<Tap> taps_of(Tensor p, const SampledAxis& a) {
  const GridSampleOptions& o = a.options;
  const auto moved = [&](const Tensor& at) {
    if (o.padding == PaddingMode::zeros) return at;
    return clipped(o.padding == PaddingMode::reflect ? reflected(at, a) : at, a);
  };
  if (o.mode != Interpolation::bicubic) p = moved(p);
  if (o.mode == Interpolation::nearest)  // the grid gets a gradient: 0
    return {tap(round(p.detach()), 1 + 0 * (p - p.detach()), a)};
  const Tensor low = floor(p.detach()), t = p - low;
  if (o.mode != Interpolation::bicubic) return {tap(low, 1 - t, a), tap(low + 1, t, a)};
  return {tap(moved(low - 1), cubic_far(t + 1), a), tap(moved(low), cubic_near(t), a),
          tap(moved(low + 1), cubic_near(1 - t), a), tap(moved(low + 2), cubic_far(2 - t), a)};
}

void check_call(const Tensor& x, const Tensor& grid, const GridSampleOptions& o) {
  const char* name = kGridSample;
  check_defined(name, x, grid);
  check(x.ndim() == 4 || x.ndim() == 5,
        "{}: x is (B, C, H, W) or (B, C, D, H, W), got the shape {}", name, x.shape());
  const int axes = x.ndim() - 2;
  check(grid.ndim() == x.ndim() && grid.size(-1) == axes && grid.size(0) == x.size(0),
        "{}: for x {} the grid is ({}, {}, {}), got {}", name, x.shape(), x.size(0),
        axes == 2 ? "H', W'" : "D', H', W'", axes, grid.shape());
  check(is_float(x.dtype()) && grid.dtype() == x.dtype(),
        "{}: x and the grid are both f32 or both f64, got {} and {}", name, x.dtype(),
        grid.dtype());
  check(o.mode == Interpolation::nearest || o.mode == Interpolation::bilinear ||
            o.mode == Interpolation::bicubic,
        "{}: the modes are nearest, bilinear and bicubic", name);
  check(o.padding != PaddingMode::circular, "{}: pads by zeros, replicate or reflect", name);
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  check_call(x, grid, options);
  const int axes = x.ndim() - 2;
  const int64_t batch = x.size(0), channels = x.size(1);
  int64_t elements = 1, positions = 1;
  for (int a = 0; a < axes; ++a) elements *= x.size(a + 2), positions *= grid.size(a + 1);
  const Shape shape{batch, channels, positions};
  check(elements > 0 || numel(shape) == 0, "{}: x {} has no element to read", kGridSample,
        x.shape());
  std::vector<Tap> all;
  for (int i = 0; i < axes; ++i) {
    const SampledAxis axis{x.size(i + 2), options};
    const Tensor p = reshape(select(grid, -1, axes - 1 - i), {batch, 1, positions});
    const std::vector<Tap> taps = taps_of(in_elements(p, axis), axis);
    std::vector<Tap> before = std::exchange(all, i == 0 ? taps : std::vector<Tap>());
    for (const Tap& outer : before)
      for (const Tap& t : taps)
        all.push_back(
            {outer.index * axis.size + t.index, outer.inside & t.inside, outer.weight * t.weight});
  }
  const Tensor flat = reshape(x, {batch, channels, elements});
  Tensor y;
  for (const Tap& t : all) {
    const Tensor values = gather(flat, 2, expand(t.index, shape));
    const Tensor part = where(t.inside, values * t.weight, 0);
    y = y.defined() ? y + part : part;
  }
  Shape out{batch, channels};
  for (int a = 0; a < axes; ++a) out.push_back(grid.size(a + 1));
  return reshape(y, out);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners) {
  const char* name = "affine_grid";
  check_defined(name, theta);
  const int axes = size.size() - 2;
  check(axes == 2 || axes == 3, "{}: the size is {{B, C, H, W}} or {{B, C, D, H, W}}, got {}", name,
        size);
  check(theta.ndim() == 3 && is_float(theta.dtype()) && theta.size(0) == size[0] &&
            theta.size(1) == axes && theta.size(2) == axes + 1,
        "{}: for the size {} theta is a floating tensor ({}, {}, {}), got {} {}", name, size,
        size[0], axes, axes + 1, theta.dtype(), theta.shape());
  const Shape space(size.begin() + 2, size.end());
  std::vector<Tensor> coordinates;
  for (int i = axes - 1; i >= 0; --i) {
    const int64_t n = space[i];
    const double edge = align_corners ? (n > 1 ? 1 : 0) : 1 - 1 / static_cast<double>(n);
    Shape along = Shape::filled(axes, 1);
    along[i] = n;
    coordinates.push_back(expand(view(linspace(-edge, edge, n, theta.dtype()), along), space));
  }
  coordinates.push_back(ones(space, theta.dtype()));
  const Tensor points = reshape(stack(coordinates, -1), {1, numel(space), axes + 1});
  Shape out = space;
  out.insert(0, size[0]);
  out.push_back(axes);
  return reshape(matmul(points, transpose(theta, 1, 2)), out);
}

}  // namespace tern
