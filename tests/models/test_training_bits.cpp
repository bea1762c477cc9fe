// Whole trainings have the same bits by every way of bf16 products, and in f32 the bits recorded
// for processors with fused multiply-adds. (On any number of threads, with AVX2 and AVX-512:
// test_thread_bits.cpp.)
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/threads.h"
#include "tern/tests/models/small_trainings.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_training_bits {
namespace {

void check_same_tensors(const std::vector<Tensor>& first, const std::vector<Tensor>& again) {
  REQUIRE(again.size() == first.size());
  for (size_t i = 0; i < first.size(); ++i) CHECK(test::same_bits(first[i], again[i]));
}

}  // namespace

TEST_CASE("bf16: a training has the same bits by every way of products and on any threads") {
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  const int before = num_threads();
  for (const test::SmallTraining& training : test::small_trainings()) {
    const std::vector<Tensor> first = training.run(3);
    for (Bf16Way way : bf16_ways()) {
      if (way == Bf16Way::portable) continue;  // single products are compared: it is slow
      for (int threads : {1, 3, 16}) {
        CAPTURE(training.name);
        CAPTURE(to_string(way));
        CAPTURE(threads);
        const Bf16WayScope scope(way);
        set_num_threads(threads);
        check_same_tensors(first, training.run(3));
      }
    }
  }
  set_num_threads(before);
}

// Not with the C library of another system: powers of Adam's betas and the like are its doubles.
TEST_CASE("f32: a training has the bits that it has on other processors") {
  if (products_by_blas()) return;
  for (const test::SmallTraining& training : test::small_trainings()) {
    CAPTURE(training.name);
    CHECK(test::hash_of(training.run(10)) == training.hash);
  }
}

}  // namespace tern::test_training_bits
