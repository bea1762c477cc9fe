// grid_sample, affine_grid and the short-time Fourier transform against naive loops.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/convolution/grid_sample.h"
#include "tern/core/ops/fft/fft.h"
#include "tern/core/ops/fft/stft.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"

namespace tern::ops_grid_sample {
namespace {

using test::op, test::Array, test::Arrays, test::for_each_index;
using Tensors = std::vector<Tensor>;

/// Where position p lies among n elements: mirrored at both ends.
double mirrored(double p, double low, double span) {
  const double q = std::fmod(std::abs(p - low), 2 * span);
  return (q > span ? 2 * span - q : q) + low;
}

/// Keys' kernel with a = -0.75.
double cubic(double d) {
  d = std::abs(d);
  if (d < 1) return (1.25 * d - 2.25) * d * d + 1;
  return d < 2 ? -0.75 * (((d - 5) * d + 8) * d - 4) : 0;
}

/// Sums over all elements of a picture, each with its weight: the product of those of its axes.
Array naive_sample(const Array& x, const Array& grid, const GridSampleOptions& o) {
  const int axes = x.shape.size() - 2;
  Shape shape{x.shape[0], x.shape[1]};
  for (int a = 0; a < axes; ++a) shape.push_back(grid.shape[a + 1]);
  Array y(shape);
  for_each_index(shape, [&](const Dims& at) {
    Dims point{at[0]}, sizes;
    for (int a = 0; a < axes; ++a) point.push_back(at[a + 2]), sizes.push_back(x.shape[a + 2]);
    for (int a = 0; a < axes; ++a) sizes[a] += 12;  // elements -6 ... n + 5
    for_each_index(sizes, [&](const Dims& from) {
      double weight = 1;
      Dims element{at[0], at[1]};
      for (int a = 0; a < axes; ++a) {
        Dims coordinate = point;
        coordinate.push_back(axes - 1 - a);
        const double g = grid.at(coordinate);
        const auto n = static_cast<double>(x.shape[a + 2]);
        const bool align = o.align_corners;
        const double low = align ? 0 : -0.5, span = align ? n - 1 : n;
        const bool reflect = o.padding == PaddingMode::reflect;
        double p = align ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
        double i = static_cast<double>(from[a] - 6);
        if (o.mode != Interpolation::bicubic && o.padding != PaddingMode::zeros)
          p = std::clamp(reflect ? mirrored(p, low, span) : p, 0.0, n - 1);
        const double d = std::abs(p - i);
        weight *= o.mode == Interpolation::bicubic ? cubic(d) : std::max(0.0, 1 - d);
        if (o.padding != PaddingMode::zeros)
          i = std::clamp(reflect ? mirrored(i, low, span) : i, 0.0, n - 1);
        if (i < 0 || i > n - 1) weight = 0;
        element.push_back(static_cast<int64_t>(std::clamp(i, 0.0, n - 1)));
      }
      if (weight != 0) y.at(at) += weight * x.at(element);
    });
  });
  return y;
}

TEST_CASE("op table: grid_sample, affine_grid") {
  auto check = [](const std::string& name, const Shape& x, const Shape& grid,
                  const GridSampleOptions& o) {
    op("grid_sample, " + name, {x, grid},
       [o](const Tensors& in) { return grid_sample(in[0], in[1], o); })
        .between(-1.27, 1.31)
        .equals([o](const Arrays& in) { return naive_sample(in[0], in[1], o); });
  };
  check("zeros", {2, 3, 3, 4}, {2, 2, 3, 2}, {});
  check("replicate, corners", {2, 1, 3, 4}, {2, 2, 3, 2},
        {.padding = PaddingMode::replicate, .align_corners = true});
  check("reflect", {2, 2, 3, 2}, {2, 3, 1, 2}, {.padding = PaddingMode::reflect});
  check("bicubic", {2, 2, 4, 3}, {2, 2, 2, 2}, {.mode = Interpolation::bicubic});
  check("bicubic, reflect", {1, 2, 3, 5}, {1, 2, 3, 2},
        {.mode = Interpolation::bicubic, .padding = PaddingMode::reflect, .align_corners = true});
  check("volume", {2, 2, 2, 3, 2}, {2, 2, 1, 2, 3}, {});
  op("affine_grid", {{2, 2, 3}}, [](const Tensors& x) {
    return affine_grid(x[0], {x[0].size(0), 1, 2, 3});
  }).equals([](const Arrays& x) {
    Array y(Shape{x[0].shape[0], 2, 3, 2});
    for_each_index(y.shape, [&](const Dims& at) {
      const double row[] = {-0.5, 0.5}, column[] = {-2.0 / 3, 0, 2.0 / 3};
      y.at(at) = x[0].at({at[0], at[3], 0}) * column[at[2]] +
                 x[0].at({at[0], at[3], 1}) * row[at[1]] + x[0].at({at[0], at[3], 2});
    });
    return y;
  });
}

TEST_CASE("grid_sample: nearest, positions that are no numbers, what is outside") {
  const Tensor x = tensor({1, 2, 3, 4}, {1, 1, 2, 2}).to(DType::f64);
  auto sampled = [&](double px, double py, const GridSampleOptions& o) {
    const Tensor grid = tensor(std::vector<double>{px, py}, {1, 1, 1, 2}).set_requires_grad();
    const Tensor y = grid_sample(x, grid, o);
    y.backward();
    for (double d : grid.grad().to_vector<double>()) CHECK(std::isfinite(d));
    return y.item();
  };
  const GridSampleOptions nearest{.mode = Interpolation::nearest}, linear,
      kept{.padding = PaddingMode::replicate};
  CHECK(sampled(0.4, -0.6, nearest) == 2);
  CHECK(sampled(-1.6, 0, nearest) == 0);
  CHECK(sampled(0, 0, linear) == 2.5);
  CHECK(sampled(test::kNan, 0, linear) == 0);
  CHECK(sampled(test::kNan, 0.5, kept) == 3);
  CHECK(sampled(test::kInf, 1, linear) == 0);
  CHECK(sampled(1e300, 1, kept) == 4);
  // An element that no position reads does not spread its NaN.
  Tensor holes = full({1, 1, 1, 3}, test::kNan);
  fill_(select(holes, 3, 2), 5);
  const Tensor end = tensor({1, 0, 9, 0}, {1, 1, 2, 2});
  CHECK(grid_sample(holes, end, {.align_corners = true}).to_vector<float>() ==
        std::vector<float>{5, 0});
}

TEST_CASE("grid_sample, affine_grid: the identity, empty tensors, errors") {
  Rng rng(3);
  for (const bool align : {false, true}) {
    const Tensor x = randn({2, 3, 5, 4}, rng, DType::f64);
    const Tensor same = expand(tensor({1, 0, 0, 0, 1, 0}, {1, 2, 3}).to(DType::f64), {2, 2, 3});
    const Tensor y = grid_sample(x, affine_grid(same, x.shape(), align), {.align_corners = align});
    CHECK(all_close(y, x, 1e-12, 1e-12));
  }
  CHECK(grid_sample(zeros({0, 3, 4, 5}), zeros({0, 2, 2, 2})).shape() == Shape{0, 3, 2, 2});
  CHECK(grid_sample(zeros({1, 3, 4, 5}), zeros({1, 0, 2, 2})).shape() == Shape{1, 3, 0, 2});
  CHECK(affine_grid(zeros({2, 2, 3}), {2, 1, 0, 3}).shape() == Shape{2, 0, 3, 2});
  auto throws = [](const Tensor& x, const Tensor& grid, const GridSampleOptions& o,
                   const char* text) {
    CHECK_THROWS_WITH_AS(grid_sample(x, grid, o), doctest::Contains(text), Error);
  };
  throws(zeros({1, 3, 0, 5}), zeros({1, 2, 2, 2}), {}, "has no element to read");
  throws(zeros({3, 4, 5}), zeros({1, 2, 2, 2}), {}, "x is (B, C, H, W)");
  throws(zeros({2, 3, 4, 5}), zeros({1, 2, 2, 2}), {}, "the grid is (2, H', W', 2)");
  throws(zeros({1, 3, 4, 5}), zeros({1, 2, 2, 2}, DType::f64), {}, "both f32 or both f64");
  throws(zeros({1, 3, 2, 4, 5}), zeros({1, 2, 2, 2, 3}), {.mode = Interpolation::trilinear},
         "the modes are");
  throws(zeros({1, 3, 4, 5}), zeros({1, 2, 2, 2}), {.padding = PaddingMode::circular}, "pads by");
  CHECK_THROWS_WITH_AS(affine_grid(zeros({2, 2, 3}), {1, 1, 4, 4}),
                       doctest::Contains("theta is a floating tensor (1, 2, 3)"), Error);
  CHECK_THROWS_WITH_AS(affine_grid(zeros({2, 2, 3}), {2, 4}), doctest::Contains("the size is"),
                       Error);
}

// ---- Short-time Fourier transforms -------------------------------------------------------------

/// (B, T) -> (B, n / 2 + 1, frames, 2), with frames around every third sample of a signal that is
/// mirrored at its ends.
Array naive_stft(const Array& x, const Array& window, int64_t n) {
  const int64_t samples = x.shape[1], width = window.shape[0];
  Array y(Shape{x.shape[0], n / 2 + 1, (samples + n / 2 * 2 - n) / 3 + 1, 2});
  for_each_index(y.shape, [&](const Dims& at) {
    for (int64_t j = 0; j < width; ++j) {
      const int64_t place = j + (n - width) / 2;
      const double from = static_cast<double>(at[2] * 3 + place - n / 2);
      const auto sample = static_cast<int64_t>(
          samples == 1 ? 0 : mirrored(from, 0, static_cast<double>(samples - 1)));
      const double angle = 2 * M_PI * static_cast<double>(place * at[1]) / static_cast<double>(n);
      y.at(at) += window[j] * x.at({at[0], sample}) * (at[3] ? -std::sin(angle) : std::cos(angle));
    }
  });
  return y;
}

TEST_CASE("istft in a ShapeOnlyScope") {
  const ShapeOnlyScope no_memory;
  CHECK(fft::istft(fft::stft(empty({2, 40}), 8), 8).shape() == Shape{2, 40});
}

TEST_CASE("op table: stft, istft") {
  for (const int64_t n : {8, 7})
    op(fmt::format("stft, {} samples", n), {{2, 10}, {5}}, [n](const Tensors& x) {
      return fft::stft(x[0], n, {.hop = 3, .window = x[1]});
    }).equals([n](const Arrays& x) { return naive_stft(x[0], x[1], n); });
  // Frames of 4 samples, 2 apart, from spectra whose imaginary parts at both ends are ignored.
  op("istft", {{2, 3, 3, 2}, {4}},
     [](const Tensors& x) {
       return fft::istft(x[0], 4, {.hop = 2, .window = x[1], .center = false});
     })
      .between(0.5, 2)
      .equals([](const Arrays& x) {
        Array sum(Shape{x[0].shape[0], 8}), weight(Shape{8});
        for_each_index({x[0].shape[0], 3, 4}, [&](const Dims& at) {
          const auto part = [&](int64_t k, int64_t c) { return x[0].at({at[0], k, at[1], c}); };
          const double a = M_PI / 2 * static_cast<double>(at[2]);
          const double frame = (part(0, 0) + 2 * part(1, 0) * std::cos(a) -
                                2 * part(1, 1) * std::sin(a) + part(2, 0) * std::cos(2 * a)) /
                               4;
          sum.at({at[0], at[1] * 2 + at[2]}) += frame * x[1][at[2]];
          if (at[0] == 0) weight[at[1] * 2 + at[2]] += x[1][at[2]] * x[1][at[2]];
        });
        for_each_index(sum.shape, [&](const Dims& at) { sum.at(at) /= weight[at[1]]; });
        return sum;
      });
}

TEST_CASE("stft: its inverse gives the signal; windows; errors") {
  Rng rng(4);
  for (const int64_t n : {16, 15})
    for (const bool normalized : {false, true}) {
      const Tensor x = randn({2, 3, 70}, rng, DType::f64);
      const fft::StftOptions o{
          .hop = 5, .window = fft::hann_window(12, true, DType::f64), .normalized = normalized};
      const Tensor y = fft::stft(x, n, o);
      CHECK(y.shape() == Shape{2, 3, n / 2 + 1, n == 16 ? 15 : 14, 2});
      CHECK(all_close(fft::istft(y, n, o, 70), x, 1e-12, 1e-12));
      const Tensor plain = fft::istft(fft::stft(x, n, {.hop = 5}), n, {.hop = 5}, 80);
      CHECK(all_close(narrow(plain, -1, 0, 70), x, 1e-12, 1e-12));
      CHECK(all(narrow(plain, -1, 78, 2) == 0).item<bool>());
    }
  CHECK(fft::stft(ones({8}), 4).shape() == Shape{3, 9, 2});
  CHECK(fft::stft(ones({0, 8}), 4).shape() == Shape{0, 3, 9, 2});
  CHECK(test::close(fft::hann_window(4), tensor({0, 0.5, 1, 0.5})));
  CHECK(test::close(fft::hann_window(3, false), tensor({0, 1, 0}).to(DType::f32)));
  CHECK(test::close(fft::hamming_window(2), tensor({0.08, 1})));
  CHECK(fft::hann_window(1).item() == 1);
  auto throws = [](const char* text, const auto& call) {
    CHECK_THROWS_WITH_AS(static_cast<void>(call()), doctest::Contains(text), Error);
  };
  throws("reflect pads 4 samples", [] { return fft::stft(ones({4}), 8); });
  throws("shorter than a frame of 8", [] { return fft::stft(ones({4}), 8, {.center = false}); });
  throws("the window has one axis of 1 to 4",
         [] { return fft::stft(ones({9}), 4, {.window = ones({5})}); });
  throws("both must be at least 1", [] { return fft::stft(ones({9}), 3); });
  throws("frames of 4 samples, -2 apart", [] { return fft::stft(ones({9}), 4, {.hop = -2}); });
  throws("the length is -1", [] { return fft::istft(ones({3, 4, 2}), 4, {}, -1); });
  throws("fft::hann_window: a window of 0", [] { return fft::hann_window(0); });
  throws("have spectra (..., 3, frames, 2)", [] { return fft::istft(ones({4, 2, 2}), 4); });
  throws("leave out samples", [] {
    return fft::istft(ones({3, 4, 2}), 4,
                      {.hop = 4, .window = fft::hann_window(4), .center = false});
  });
}

}  // namespace
}  // namespace tern::ops_grid_sample
