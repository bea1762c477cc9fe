// The precision setting of matrix products, as ops and the tape use it. The products themselves are
// tested in test_gemm_bf16.cpp.
#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"

namespace tern::test_precision {
namespace {

using test::same_bits;

constexpr MatmulPrecision kF32 = MatmulPrecision::f32, kBf16 = MatmulPrecision::bf16;

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

struct Example {
  const char* name;
  Function fn;
  std::vector<Shape> shapes;
  int products = 1;  // products in sequence
};

std::vector<Example> examples() {
  return {
      {"matmul", [](const Inputs& x) { return matmul(x[0], x[1]); }, {{3, 20, 33}, {3, 33, 7}}},
      {"matmul with a vector",
       [](const Inputs& x) { return matmul(x[0], x[1]); },
       {{20, 33}, {33}}},
      {"linear",
       [](const Inputs& x) { return linear(x[0], x[1], x[2], {.activation = Activation::gelu}); },
       {{40, 33}, {17, 33}, {17}}},
      {"einsum",
       [](const Inputs& x) { return einsum("bij,bkj->ik", x); },
       {{4, 5, 33}, {4, 7, 33}}},
      {"conv2d", [](const Inputs& x) { return conv2d(x[0], x[1]); }, {{2, 3, 8, 8}, {5, 3, 3, 3}}},
      {"lstm",
       [](const Inputs& x) {
         return rnn_layer(RnnKind::lstm, x[0], {x[1], x[2], x[3], x[4]});
       },
       {{5, 3, 17}, {36, 17}, {36, 9}, {36}, {36}},
       5},
      {"attention",
       [](const Inputs& x) { return attention(x[0], x[1], x[2], {.mask = {.causal = 0}}); },
       {{2, 2, 19, 16}, {2, 2, 19, 16}, {2, 2, 19, 16}},
       2},
  };
}

std::vector<Tensor> inputs(const Example& e) {
  Rng rng(7);
  std::vector<Tensor> x;
  for (const Shape& s : e.shapes) x.push_back(randn(s, rng).set_requires_grad(true));
  return x;
}

struct Result {
  Tensor value;
  std::vector<Tensor> gradients;
};

Result run(const Example& e, MatmulPrecision forward, MatmulPrecision back) {
  const std::vector<Tensor> x = inputs(e);
  Result r;
  {
    const MatmulPrecisionScope scope(forward);
    r.value = e.fn(x);
  }
  const MatmulPrecisionScope scope(back);
  backward(sum(square(r.value)));
  for (const Tensor& t : x) r.gradients.push_back(t.grad());
  return r;
}

bool same(const Result& a, const Result& b) {
  bool all = same_bits(a.value, b.value);
  for (size_t i = 0; i < a.gradients.size(); ++i)
    all = all && same_bits(a.gradients[i], b.gradients[i]);
  return all;
}

TEST_CASE("precision: gradients use the precision of the forward pass") {
  for (const Example& e : examples()) {
    CAPTURE(std::string(e.name));
    const Result f32 = run(e, kF32, kF32), bf16 = run(e, kBf16, kBf16);
    CHECK_FALSE(same_bits(f32.value, bf16.value));
    CHECK(same(run(e, kF32, kBf16), f32));
    CHECK(same(run(e, kBf16, kF32), bf16));
  }
}

TEST_CASE("precision: the same bits by every bf16 way and on any number of threads") {
  for (const Example& e : examples()) {
    CAPTURE(std::string(e.name));
    const Result first = run(e, kBf16, kBf16);
    for (Bf16Way way : bf16_ways())
      for (int threads : {1, 3}) {
        CAPTURE(to_string(way));
        CAPTURE(threads);
        const Bf16WayScope scope(way);
        const test::Threads several(threads);
        CHECK(same(run(e, kBf16, kBf16), first));
      }
  }
}

// Rounding an operand to bf16 changes it by at most a relative 2^-9.
TEST_CASE("precision: bf16 is as close to f64 as 8 bits of mantissa allow") {
  for (const Example& e : examples()) {
    CAPTURE(std::string(e.name));
    std::vector<Tensor> wide;
    for (const Tensor& t : inputs(e)) wide.push_back(t.detach().to(DType::f64));
    const MatmulPrecisionScope scope(kBf16);
    const Tensor want = e.fn(wide);
    {
      const MatmulPrecisionScope f32(kF32);
      CHECK(same_bits(e.fn(wide), want));  // the setting does not affect f64
    }
    const Tensor got = e.fn(inputs(e)).detach().to(DType::f64);
    const double error = sqrt(mean(square(got - want))).item<double>();
    const double size = sqrt(mean(square(want))).item<double>();
    CHECK(error < e.products * 0x1p-8 * size);
    CHECK(error > 0x1p-12 * size);
  }
}

TEST_CASE("precision: products of 8-bit integers are exact") {
  const MatmulPrecisionScope scope(kBf16);
  Rng rng(0);
  const Tensor a = randint(-200, 200, {9, 40}, rng).to(DType::f32),
               b = randint(-200, 200, {40, 11}, rng).to(DType::f32);
  CHECK(same_bits(matmul(a, b), matmul(a.to(DType::f64), b.to(DType::f64)).to(DType::f32)));
  const Tensor i = a.to(DType::i64), j = b.to(DType::i64);
  CHECK(same_bits(matmul(i, j), matmul(a, b).to(DType::i64)));
}

TEST_CASE("precision: second derivatives keep the precision of the forward pass") {
  Rng rng(3);
  const Tensor x = randn({6, 33}, rng).set_requires_grad(true);
  const Tensor w = randn({33, 33}, rng);
  auto second = [&](MatmulPrecision later) {
    Tensor y;
    {
      const MatmulPrecisionScope scope(kBf16);
      y = sum(square(square(matmul(x, w))));
    }
    const MatmulPrecisionScope scope(later);
    const Tensor g = grad({y}, {x}, {.create_graph = true})[0];
    return grad({sum(square(g))}, {x})[0];
  };
  CHECK(same_bits(second(kF32), second(kBf16)));
}

TEST_CASE("precision: a scope nests, ends, and affects only its thread") {
  CHECK(matmul_precision() == kF32);
  {
    const MatmulPrecisionScope scope(kBf16);
    CHECK(matmul_precision() == kBf16);
    std::thread([] { CHECK(matmul_precision() == kF32); }).join();
    const MatmulPrecisionScope inner(kF32);
    CHECK(matmul_precision() == kF32);
  }
  CHECK(matmul_precision() == kF32);
  CHECK(matmul_precision("bf16") == kBf16);
  CHECK_THROWS_WITH_AS(matmul_precision("f16"), doctest::Contains("use f32 or bf16"), Error);
}

}  // namespace
}  // namespace tern::test_precision
