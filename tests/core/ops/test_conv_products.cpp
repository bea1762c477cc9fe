// Convolutions in f32 (windows packed for products, or Winograd's filtering) against those in f64,
// which other code computes as columns times weights. Shapes are drawn at random. Each shape has
// the same bits on any number of threads.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/conv_method.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_conv_products {
namespace {

using Three = std::array<int64_t, 3>;

/// A convolution over the last `axes` axes; sizes of the others are not used.
struct Example {
  int axes = 2;
  int64_t batch = 1, in = 1, out = 1, groups = 1;
  Three size{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};

  Shape shape(int64_t first, int64_t second, const Three& sizes) const {
    Shape s{first, second};
    for (int a = 3 - axes; a < 3; ++a) s.push_back(sizes[static_cast<size_t>(a)]);
    return s;
  }
  std::string text() const {
    std::string t = fmt::format("{} axes, batch {}, {} -> {} channels, {} groups;", axes, batch, in,
                                out, groups);
    for (int a = 3 - axes; a < 3; ++a) {
      const auto i = static_cast<size_t>(a);
      t += fmt::format(" size {} kernel {} stride {} padding {} dilation {};", size[i], kernel[i],
                       stride[i], padding[i], dilation[i]);
    }
    return t;
  }
  Tensor operator()(const Tensor& x, const Tensor& w, const Tensor& b) const {
    if (axes == 1)
      return conv1d(
          x, w, b,
          {.stride = stride[2], .padding = padding[2], .dilation = dilation[2], .groups = groups});
    if (axes == 2)
      return conv2d(x, w, b,
                    {.stride = {stride[1], stride[2]},
                     .padding = {padding[1], padding[2]},
                     .dilation = {dilation[1], dilation[2]},
                     .groups = groups});
    return conv3d(x, w, b,
                  {.stride = {stride[0], stride[1], stride[2]},
                   .padding = {padding[0], padding[1], padding[2]},
                   .dilation = {dilation[0], dilation[1], dilation[2]},
                   .groups = groups});
  }
};

int64_t between(int64_t first, int64_t last, Rng& rng) {
  return randint(first, last + 1, {1}, rng).item<int64_t>();
}

Example any(Rng& rng) {
  Example e;
  e.axes = static_cast<int>(between(1, 3, rng));
  e.batch = between(0, 5, rng);
  e.groups = between(0, 3, rng) == 0 ? between(2, 3, rng) : 1;
  e.in = e.groups * between(1, e.groups > 1 ? 6 : 40, rng);
  e.out = e.groups * between(1, e.groups > 1 ? 6 : 40, rng);
  for (size_t a = static_cast<size_t>(3 - e.axes); a < 3; ++a) {
    e.kernel[a] = between(1, 5, rng);
    e.stride[a] = between(1, 3, rng);
    e.dilation[a] = between(1, 2, rng);
    e.padding[a] = between(0, 3, rng);
    const int64_t least = (e.kernel[a] - 1) * e.dilation[a] + 1 - 2 * e.padding[a];
    e.size[a] = std::max({int64_t{1}, least, between(1, e.axes == 3 ? 9 : 20, rng)});
  }
  return e;
}

/// A random convolution of a shape that ConvMethod::winograd supports, of at most `size` pixels
/// each way.
Example three_by_three(Rng& rng, int64_t size = 23) {
  Example e;
  e.batch = between(2, 4, rng);
  e.in = between(32, 100, rng);
  e.out = between(32, 100, rng);
  for (size_t a = 1; a < 3; ++a) {
    e.kernel[a] = 3;
    e.padding[a] = between(0, 3, rng);
    e.size[a] = between(10, size, rng);
  }
  return e;
}

/// y and the gradients by x, w and the bias.
struct Results {
  Tensor all[4];
};

struct Inputs {
  Tensor x, w, b, dy;
  explicit Inputs(const Example& e, Rng& rng)
      : x(randn(e.shape(e.batch, e.in, e.size), rng)),
        w(randn(e.shape(e.out, e.in / e.groups, e.kernel), rng)),
        b(randn({e.out}, rng)),
        dy(randn(e(x, w, b).shape(), rng)) {}
};

Results run(const Example& e, const Inputs& in, DType type = DType::f32) {
  const Tensor x = in.x.to(type).clone().set_requires_grad();
  const Tensor w = in.w.to(type).clone().set_requires_grad();
  const Tensor b = in.b.to(type).clone().set_requires_grad();
  const Tensor y = e(x, w, b);
  backward(y, {.gradient = in.dy.to(type)});
  return {{y.detach(), x.grad(), w.grad(), b.grad()}};
}

/// The largest difference relative to the largest number of b.
double difference(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  const double most = max(abs(b)).item<double>();
  return max(abs(a.to(DType::f64) - b)).item<double>() / (most > 0 ? most : 1);
}

double deviation(const Tensor& a, const Tensor& b) {
  return std::sqrt(mean(square(a.to(DType::f64) - b)).item<double>());
}

void check_threads(const Example& e, const Inputs& in, const Results& one,
                   std::initializer_list<int> threads) {
  for (int n : threads) {
    CAPTURE(n);
    const test::Threads scope(n);
    const Results again = run(e, in);
    for (int i = 0; i < 4; ++i) {
      CAPTURE(i);
      CHECK(test::same_bits(one.all[i], again.all[i]));
    }
  }
}

/// Checks that f32 agrees with f64, and that all numbers of `threads` give the same bits.
void check_example(const Example& e, Rng& rng, std::initializer_list<int> threads) {
  CAPTURE(e.text());
  const Inputs in(e, rng);
  const test::Threads single(1);
  const Results one = run(e, in), exact = run(e, in, DType::f64);
  for (int k = 0; k < 4; ++k) {
    CAPTURE(k);
    CHECK(difference(one.all[k], exact.all[k]) < 3e-6);
  }
  check_threads(e, in, one, threads);
}

/// On processors without FMA, BLAS computes products in f32, and so all convolutions in f32 by
/// direct sums.
bool f32_by_blas() { return matmul_precision() == MatmulPrecision::f32 && products_by_blas(); }

}  // namespace

TEST_CASE("conv: f32 agrees with f64 for any shape, same bits on any number of threads") {
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    const Example e = i % 4 == 0 ? three_by_three(rng) : any(rng);
    if (i % 3 == 0)
      check_example(e, rng, {2, 3, 7, 16, 64});
    else
      check_example(e, rng, {});
  }
}

TEST_CASE("conv: large convolutions with shared weights, same bits on any number of threads") {
  // clang-format off
  const std::vector<Example> examples{
      {.batch = 5, .in = 40, .out = 72, .size = {1, 25, 31}, .kernel = {1, 3, 3},
       .padding = {0, 1, 1}},
      {.batch = 3, .in = 600, .out = 64, .size = {1, 9, 9}, .kernel = {1, 1, 1}},
      {.batch = 3, .in = 600, .out = 50, .size = {1, 8, 10}, .kernel = {1, 1, 1}},  // x in place
      {.batch = 3, .in = 40, .out = 50, .size = {1, 12, 20}, .kernel = {1, 5, 5}},
      {.batch = 3, .in = 64, .out = 600, .size = {1, 9, 9}, .kernel = {1, 3, 3},
       .padding = {0, 1, 1}},
      {.batch = 4, .in = 64, .out = 96, .size = {1, 17, 17}, .kernel = {1, 3, 3},
       .stride = {1, 2, 2}, .padding = {0, 1, 1}},
      {.axes = 1, .batch = 3, .in = 64, .out = 48, .size = {1, 1, 700}, .kernel = {1, 1, 5},
       .padding = {0, 0, 8}, .dilation = {1, 1, 4}}};
  // clang-format on
  Rng rng(4);
  for (const Example& e : examples) check_example(e, rng, {2, 3, 7, 16, 64});
}

TEST_CASE("conv: the error of Winograd's filtering is at most three times that of direct sums") {
  const MatmulBackendScope tiles(MatmulBackend::tiles);
  Rng rng(5);
  for (MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::bf16})
    for (int64_t channels : {32, 64, 256}) {
      if (precision == MatmulPrecision::bf16 && channels < 64) continue;
      CAPTURE(to_string(precision));
      CAPTURE(channels);
      const Example e{.batch = 2,
                      .in = channels,
                      .out = channels,
                      .size = {1, 16, 16},
                      .kernel = {1, 3, 3},
                      .padding = {0, 1, 1}};
      const Inputs in(e, rng);
      const Results exact = run(e, in, DType::f64);
      const MatmulPrecisionScope rounding(precision);
      const Results winograd = run(e, in);
      const ConvMethodScope scope(ConvMethod::direct);
      const Results direct = run(e, in);
      for (int k = 0; k < 3; ++k) {
        CAPTURE(k);
        CHECK(test::same_bits(winograd.all[k], direct.all[k]) == f32_by_blas());
        CHECK(deviation(winograd.all[k], exact.all[k]) <=
              3 * deviation(direct.all[k], exact.all[k]));
      }
    }
}

TEST_CASE("conv: in bf16 a gradient has the same bits whether others hold the input or not") {
  Rng rng(9);
  const Example e{.batch = 2,
                  .in = 96,
                  .out = 64,
                  .size = {1, 15, 16},
                  .kernel = {1, 3, 3},
                  .padding = {0, 1, 1}};
  const Inputs in(e, rng);
  const Tensor dy = randn(e(in.x, in.w, {}).shape(), rng);
  const MatmulPrecisionScope rounding(MatmulPrecision::bf16);
  auto gradient = [&](bool held) {  // an input that nobody holds is kept as bf16
    Tensor x = in.x.clone();
    const Tensor other = held ? x : Tensor();
    const Tensor w = in.w.clone().set_requires_grad();
    const Tensor y = e(x, w, {});
    x = Tensor();
    backward(y, {.gradient = dy});
    return w.grad();
  };
  CHECK(test::same_bits(gradient(true), gradient(false)));
}

TEST_CASE("conv: a gradient is computed by the method of its op") {
  const MatmulBackendScope tiles(MatmulBackend::tiles);
  Rng rng(6);
  const Example e{.batch = 2,
                  .in = 32,
                  .out = 32,
                  .size = {1, 16, 16},
                  .kernel = {1, 3, 3},
                  .padding = {0, 1, 1}};
  const Inputs in(e, rng);
  auto gradient = [&](ConvMethod of_op, ConvMethod of_gradient) {
    const Tensor w = in.w.clone().set_requires_grad();
    Tensor y;
    {
      const ConvMethodScope scope(of_op);
      y = e(in.x, w, {});
    }
    const ConvMethodScope scope(of_gradient);
    backward(y, {.gradient = in.dy});
    return w.grad();
  };
  const Tensor direct = gradient(ConvMethod::direct, ConvMethod::direct);
  CHECK(test::same_bits(direct, gradient(ConvMethod::direct, ConvMethod::winograd)));
  CHECK(test::same_bits(direct, gradient(ConvMethod::winograd, ConvMethod::direct)) ==
        f32_by_blas());
}

TEST_CASE("conv: every bf16 way gives the same bits, those of rounded operands, by both methods") {
  Rng rng(7);
  for (int i = 0; i < 40; ++i) {
    Example e = i % 4 == 0 ? three_by_three(rng, 13) : any(rng);
    e.groups = 1;  // depthwise convolutions stay f32
    CAPTURE(e.text());
    if (e.in == 1) continue;
    const Inputs in(e, rng);
    const MatmulPrecisionScope precision(MatmulPrecision::bf16);
    // The expected results are sums in f64 of rounded operands.
    auto rounded = [](const Tensor& t) {
      std::vector<float> v = t.to_vector<float>();
      for (float& x : v) {
        uint32_t bits = std::bit_cast<uint32_t>(x);
        bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
        x = std::bit_cast<float>(bits);
      }
      return tensor<float>(v, t.shape());
    };
    Inputs exact_in = in;
    exact_in.x = rounded(in.x);
    exact_in.w = rounded(in.w);
    exact_in.dy = rounded(in.dy);
    const Results exact = run(e, exact_in, DType::f64);
    for (ConvMethod method : {ConvMethod::direct, ConvMethod::winograd}) {
      const ConvMethodScope scope(method);
      const test::Threads single(1);
      const Results one = run(e, in);
      // Winograd's filtering rounds sums of operands once more.
      const double most = method == ConvMethod::direct ? 1e-5 : 2e-2;
      for (int k = 1; k < 3; ++k) CHECK(difference(one.all[k], exact.all[k]) < most);
      for (Bf16Way way : bf16_ways())
        for (int n : {1, 7}) {
          if (way == Bf16Way::portable && n > 1) continue;
          CAPTURE(to_string(way));
          const Bf16WayScope way_scope(way);
          const test::Threads several(n);
          const Results again = run(e, in);
          for (int k = 0; k < 4; ++k) CHECK(test::same_bits(one.all[k], again.all[k]));
        }
    }
  }
}

TEST_CASE("conv: a NaN reaches only the windows that hold it, with both methods") {
  Rng rng(8);
  const int64_t size = 16, at = 5;
  Tensor x = randn({3, 32, size, size}, rng);
  const Tensor w = randn({32, 32, 3, 3}, rng);
  x[1][7][at][at] = test::kNan;
  for (ConvMethod method : {ConvMethod::direct, ConvMethod::winograd}) {
    const ConvMethodScope scope(method);
    const Tensor y = conv2d(x, w, {}, {.padding = 1});
    const std::vector<float> v = y.to_vector<float>();
    size_t i = 0;
    for (int64_t picture = 0; picture < 3; ++picture)
      for (int64_t channel = 0; channel < 32; ++channel)
        for (int64_t r = 0; r < size; ++r)
          for (int64_t c = 0; c < size; ++c, ++i) {
            const bool held = std::abs(r - at) <= 1 && std::abs(c - at) <= 1;
            CHECK(std::isnan(v[i]) == (picture == 1 && held));
          }
  }
}

}  // namespace tern::test_conv_products
