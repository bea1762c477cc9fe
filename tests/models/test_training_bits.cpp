// Trainings have the same bits in all fast implementations of bf16 products, and in f32 the
// recorded bits of processors with fused multiply-adds. Vector levels and threads:
// test_thread_bits.cpp.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/tests/models/small_trainings.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"

namespace tern::test_training_bits {
namespace {

void check_same_tensors(const std::vector<Tensor>& first, const std::vector<Tensor>& again) {
  REQUIRE(again.size() == first.size());
  for (size_t i = 0; i < first.size(); ++i) CHECK(test::same_bits(first[i], again[i]));
}

}  // namespace

TEST_CASE("bf16: a training has the same bits in every implementation and on any threads") {
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  for (const test::SmallTraining& training : test::small_trainings()) {
    const std::vector<Tensor> first = training.run(3);
    for (Bf16Way way : bf16_ways()) {
      if (way == Bf16Way::portable) continue;  // slow; other tests compare single products
      for (int threads : {1, 3, 16}) {
        CAPTURE(training.name);
        CAPTURE(to_string(way));
        CAPTURE(threads);
        const Bf16WayScope scope(way);
        const test::Threads several(threads);
        check_same_tensors(first, training.run(3));
      }
    }
  }
}

// Another system's C library may give other bits, such as in the powers of Adam's betas.
TEST_CASE("f32: a training has the bits recorded on other processors") {
  if (products_by_blas()) return;
  for (const test::SmallTraining& training : test::small_trainings()) {
    CAPTURE(training.name);
    CHECK(test::hash_of(training.run(10)) == training.hash);
  }
}

}  // namespace tern::test_training_bits
