// The choice between tern's tiles and BLAS for f32 products, as ops and the tape use it. The
// products themselves are tested in test_gemm.cpp.
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "tern/core/base/build_info.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/error.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_matmul_backend {
namespace {

using test::same_bits;

constexpr MatmulBackend kTiles = MatmulBackend::tiles, kBlas = MatmulBackend::blas;

/// A product computed with backend `forward`, and its gradients with backend `back` in force.
std::vector<Tensor> run(bool by_einsum, MatmulBackend forward, MatmulBackend back) {
  Rng rng(3);
  const Tensor a = randn({701, 1300}, rng).set_requires_grad(true);
  const Tensor b = randn({1300, 641}, rng).set_requires_grad(true);
  Tensor y;
  {
    const MatmulBackendScope scope(forward);
    y = by_einsum ? einsum("ik,kj->ij", {a, b}) : matmul(a, b);
  }
  const MatmulBackendScope scope(back);
  backward(sum(square(y)));
  return {y.detach(), a.grad(), b.grad()};
}

TEST_CASE("matmul backend: both agree; gradients use the backend of their op") {
  for (bool by_einsum : {false, true}) {
    const auto tiles = run(by_einsum, kTiles, kTiles), blas = run(by_einsum, kBlas, kBlas);
    const auto tiles_first = run(by_einsum, kTiles, kBlas);
    const auto blas_first = run(by_einsum, kBlas, kTiles);
    for (size_t i = 0; i < tiles.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(tiles[i], tiles_first[i]));
      CHECK(same_bits(blas[i], blas_first[i]));
      CHECK_FALSE(same_bits(tiles[i], blas[i]));  // the order of long sums differs
      const double size = sqrt(mean(square(tiles[i]))).item<double>();
      CHECK(sqrt(mean(square(tiles[i] - blas[i]))).item<double>() < 1e-5 * size);
    }
  }
}

TEST_CASE("matmul backend: is set per thread, and holds in bodies of parallel loops") {
  const MatmulBackendScope usual(kTiles);
  {
    const MatmulBackendScope scope(kBlas);
    CHECK(products_by_blas());
    CHECK(products_in_use() == "f32 by BLAS");
    CHECK(build_info().find("products in f32 by BLAS") != std::string::npos);
    std::thread([] { CHECK(matmul_backend() == kTiles); }).join();
    std::vector<int> seen(64, -1);
    parallel_for(64, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        seen[static_cast<size_t>(i)] = static_cast<int>(matmul_backend());
    });
    CHECK(seen == std::vector<int>(64, static_cast<int>(kBlas)));
    const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
    CHECK(products_in_use().starts_with("bf16 by "));
  }
  CHECK(matmul_backend() == kTiles);
  const VectorLevelScope no_fma(VectorLevel::kBaseline);
#if defined(__x86_64__)
  CHECK(products_in_use() == "f32 by BLAS");
#else
  CHECK(products_in_use() == "f32 by tiles");
#endif
  CHECK(matmul_backend("blas") == kBlas);
  CHECK(matmul_backend(to_string(kTiles)) == kTiles);
  CHECK_THROWS_WITH_AS(matmul_backend("mkl"), doctest::Contains("use tiles or blas"), Error);
}

}  // namespace
}  // namespace tern::test_matmul_backend
