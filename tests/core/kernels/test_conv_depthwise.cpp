// Depthwise convolutions against loops over every tap: geometries drawn at random, elements that
// are not finite, and the same bits on any number of threads.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/kernels/convolution/conv.h"
#include "tern/tests/support/threads.h"

namespace tern::test_conv_depthwise {
namespace {

using kernels::Conv;

/// Sets c.out_size and c.groups of a depthwise convolution; false if the kernel exceeds the input.
bool set_output(Conv& c) {
  for (size_t i = 0; i < 3; ++i) {
    const int64_t room = c.size[i] + 2 * c.padding[i] - c.dilation[i] * (c.kernel[i] - 1) - 1;
    if (room < 0) return false;
    c.out_size[i] = room / c.stride[i] + 1;
  }
  c.groups = c.in;
  return true;
}

template <class T>
struct Arrays {
  std::vector<T> x, w, bias, dy, y, dx, dw;

  explicit Arrays(const Conv& c)
      : x(static_cast<size_t>(c.batch * c.in * c.plane())),
        w(static_cast<size_t>(c.out * c.taps())),
        bias(static_cast<size_t>(c.out)),
        dy(static_cast<size_t>(c.batch * c.out * c.out_plane())),
        y(dy.size()),
        dx(x.size()),
        dw(w.size()) {}

  void draw(Rng& rng) {
    for (std::vector<T>* v : {&x, &w, &bias, &dy})
      for (T& e : *v)
        e = static_cast<T>(static_cast<int64_t>(rng.next_u64() % 2001) - 1000) / T(700);
  }
  void run(const Conv& c) {
    kernels::conv(c, x.data(), w.data(), bias.data(), y.data());
    kernels::conv_input_grad(c, dy.data(), w.data(), dx.data());
    kernels::conv_weight_grad(c, x.data(), dy.data(), dw.data());
  }
};

/// Calls fn(index in y, index in x, index in w) for every tap that lies on the input.
template <class Fn>
void each_tap(const Conv& c, Fn fn) {
  const int64_t area = c.out_size[1] * c.out_size[2], taps = c.kernel[1] * c.kernel[2];
  for (int64_t plane = 0; plane < c.batch * c.out; ++plane)
    for (int64_t q = 0; q < c.out_plane(); ++q)
      for (int64_t k = 0; k < c.taps(); ++k) {
        const int64_t at[] = {q / area, q % area / c.out_size[2], q % c.out_size[2]};
        const int64_t tap[] = {k / taps, k % taps / c.kernel[2], k % c.kernel[2]};
        int64_t from = plane / c.out * c.in + plane % c.out / c.out_group();
        bool inside = true;
        for (size_t i = 0; i < 3; ++i) {
          const int64_t e = at[i] * c.stride[i] - c.padding[i] + tap[i] * c.dilation[i];
          inside &= e >= 0 && e < c.size[i];
          from = from * c.size[i] + e;
        }
        if (inside)
          fn(static_cast<size_t>(plane * c.out_plane() + q), static_cast<size_t>(from),
             static_cast<size_t>(plane % c.out * c.taps() + k));
      }
}

/// y, dx and dw of the operands in `given`, by plain loops in double.
template <class T>
Arrays<double> naive(const Conv& c, const Arrays<T>& given) {
  Arrays<double> want(c);
  for (size_t i = 0; i < want.y.size(); ++i)
    want.y[i] = given.bias[i / static_cast<size_t>(c.out_plane()) % given.bias.size()];
  each_tap(c, [&](size_t y, size_t x, size_t w) {
    const double xv = given.x[x], wv = given.w[w], dv = given.dy[y];
    want.y[y] += xv * wv;
    want.dx[x] += dv * wv;
    want.dw[w] += xv * dv;
  });
  return want;
}

/// The largest error relative to 1 + |want|. It is NaN where only one of the two is NaN.
template <class T>
double error(const std::vector<T>& got, const std::vector<double>& want) {
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = static_cast<double>(got[i]);
    if (g == want[i] || (std::isnan(g) && std::isnan(want[i]))) continue;
    const double e = std::abs(g - want[i]) / (1 + std::abs(want[i]));
    if (!(e <= worst)) worst = e;
  }
  return worst;
}

std::string describe(const Conv& c) {
  return fmt::format("{} x {}, {} outputs, size {}, kernel {}, stride {}, padding {}, dilation {}",
                     c.batch, c.in, c.out, fmt::join(c.size, ","), fmt::join(c.kernel, ","),
                     fmt::join(c.stride, ","), fmt::join(c.padding, ","),
                     fmt::join(c.dilation, ","));
}

template <class T>
void check_geometry(const Conv& c, Rng& rng) {
  Arrays<T> a(c);
  a.draw(rng);
  a.run(c);
  const Arrays<double> want = naive(c, a);
  const double eps = std::numeric_limits<T>::epsilon();
  const double taps = static_cast<double>(c.taps() * c.out_group());
  const double outputs = static_cast<double>(c.batch * c.out_plane());
  CAPTURE(describe(c));
  CHECK(error(a.y, want.y) < 30 * eps * std::sqrt(taps + 1));
  CHECK(error(a.dx, want.dx) < 30 * eps * std::sqrt(taps));
  CHECK(error(a.dw, want.dw) < 30 * eps * std::sqrt(outputs));
}

/// A random convolution over 1 to 3 axes; some are too large for one task.
Conv random_geometry(Rng& rng) {
  auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng.next_u64() % static_cast<uint64_t>(high - low + 1));
  };
  for (;;) {
    Conv c;
    const int64_t axes = draw(1, 3);
    c.batch = draw(1, 20);
    c.in = draw(1, 3);
    c.out = c.in * draw(1, 3);
    const int64_t longest[] = {6000, draw(0, 9) ? 20 : 90, 8};
    for (size_t i = static_cast<size_t>(3 - axes); i < 3; ++i) {
      c.size[i] = draw(1, longest[axes - 1]);
      c.kernel[i] = draw(1, draw(0, 4) ? 5 : 11);
      c.stride[i] = draw(0, 1) ? 1 : draw(1, 4);
      c.dilation[i] = draw(0, 1) ? 1 : draw(1, 4);
      c.padding[i] = draw(0, draw(0, 9) ? 6 : 40);
    }
    if (set_output(c) && c.work() < 1000000) return c;
  }
}

Conv geometry(int64_t batch, int64_t in, Conv::Sizes size, int64_t kernel, int64_t stride,
              int64_t padding) {
  Conv c;
  c.batch = batch;
  c.in = c.out = in;
  c.size = size;
  for (size_t i = 0; i < 3; ++i)
    if (size[i] > 1 || i > 0) {
      c.kernel[i] = kernel;
      c.stride[i] = stride;
      c.padding[i] = padding;
    }
  set_output(c);
  return c;
}

}  // namespace

TEST_CASE("depthwise convolutions: any geometry") {
  Rng rng(3);
  for (int i = 0; i < 150; ++i) {
    const Conv c = random_geometry(rng);
    check_geometry<float>(c, rng);
    check_geometry<double>(c, rng);
  }
}

// A dilation far larger than the planes must not need memory for the gaps between taps.
TEST_CASE("depthwise convolutions: taps that see only padding") {
  Rng rng(4);
  Conv c;
  c.batch = c.in = c.out = 2;
  c.size = {1, 3, 4};
  c.kernel = {1, 3, 3};
  c.padding = c.dilation = {1, int64_t{1} << 40, int64_t{1} << 40};
  c.padding[0] = 0;
  REQUIRE(set_output(c));
  check_geometry<float>(c, rng);
  c.padding = {0, 9, 9};
  c.stride = {1, 100, 100};
  c.dilation = {1, 2, 2};
  REQUIRE(set_output(c));
  check_geometry<float>(c, rng);
}

// In the kernel's cells, the end of one row lies next to the start of the next row.
TEST_CASE("depthwise convolutions: NaN and infinity reach only windows that hold them") {
  Rng rng(5);
  for (const double odd :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const Conv& c : {geometry(3, 2, {1, 5, 6}, 3, 1, 1), geometry(2, 2, {1, 7, 9}, 5, 2, 2),
                          geometry(2, 1, {3, 4, 5}, 3, 1, 1), geometry(5, 1, {1, 2, 2}, 3, 1, 1)})
      for (int64_t place = 0; place < c.in * c.plane(); ++place) {
        Arrays<float> a(c);
        a.draw(rng);
        a.x[static_cast<size_t>(place)] = static_cast<float>(odd);
        a.dy[static_cast<size_t>(place) % a.dy.size()] = static_cast<float>(odd);
        a.run(c);
        const Arrays<double> want = naive(c, a);
        CHECK(error(a.y, want.y) < 1e-4);
        CHECK(error(a.dx, want.dx) < 1e-4);
        CHECK(error(a.dw, want.dw) < 1e-4);
      }
}

TEST_CASE("depthwise convolutions: same bits on any number of threads, AVX2 or AVX-512") {
  Rng rng(6);
  for (const Conv& c :
       {geometry(9, 3, {1, 14, 14}, 3, 1, 1), geometry(2, 5, {1, 90, 77}, 3, 2, 1),
        geometry(40, 2, {1, 4, 4}, 7, 1, 3), geometry(2, 3, {12, 20, 21}, 3, 1, 1)}) {
    Arrays<float> first(c);
    first.draw(rng);
    first.run(c);
    for (const VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512})
      for (const int threads : {1, 2, 3, 7, 16, 64}) {
        const VectorLevelScope scope(level);
        const test::Threads several(threads);
        Arrays<float> again = first;
        again.run(c);
        CHECK(again.y == first.y);
        CHECK(again.dx == first.dx);
        CHECK(again.dw == first.dw);
      }
  }
}

}  // namespace tern::test_conv_depthwise
