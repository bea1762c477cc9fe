// The precision setting of matrix products: its scope, integers, second derivatives. Ops in bf16
// are tested in test_subjects.cpp, the products themselves in test_gemm_bf16.cpp.
#include <doctest/doctest.h>

#include <thread>

#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_precision {
namespace {

using test::same_bits;

constexpr MatmulPrecision kF32 = MatmulPrecision::f32, kBf16 = MatmulPrecision::bf16;

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
