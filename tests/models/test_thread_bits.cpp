// Ten steps of training of each family of models have the same bits on any number of threads, at
// every vector level, in f32 and bf16.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tern/core/base/cpu.h"
#include "tern/core/base/precision.h"
#include "tern/tests/models/small_trainings.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"

namespace tern::test_thread_bits {
namespace {

using Results = std::vector<Tensor>;

/// Results at a vector level. Checks that they equal `expected`, if given, on each number of
/// threads. Returns `expected` if the processor lacks the level.
Results on_threads(const test::SmallTraining& training, int steps, VectorLevel level,
                   const std::vector<int>& numbers, Results expected = {}) {
  if (level > detail::cpu().level) return expected;
  const VectorLevelScope scope(level);
  for (int threads : numbers) {
    const test::Threads several(threads);
    const Results out = training.run(steps);
    if (expected.empty()) expected = out;
    size_t different = 0;
    for (size_t i = 0; i < out.size(); ++i) different += !test::same_bits(expected[i], out[i]);
    CHECK_MESSAGE(different == 0, training.name, " on ", threads, " threads, ", to_string(level),
                  ", products in ", to_string(matmul_precision()));
  }
  return expected;
}

}  // namespace

// Without fused multiply-adds BLAS computes f32 products, so the baseline level has other bits.
TEST_CASE("threads: every family of models trains with the same bits on 1 to 64 threads") {
  const std::vector<int> numbers = {1, 2, 3, 7, 16, 64};
  for (const test::SmallTraining& training : test::small_trainings()) {
    on_threads(training, 10, VectorLevel::kBaseline, numbers);
    const Results avx2 = on_threads(training, 10, VectorLevel::kAvx2, numbers);
    on_threads(training, 10, VectorLevel::kAvx512, numbers, avx2);
  }
}

// Products in bf16 have the same bits without fused multiply-adds, but take fifty times as long:
// the baseline level runs one step, once.
TEST_CASE("threads: every family trains in bf16 with the same bits on 1 to 64 threads") {
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  const std::vector<int> numbers = {1, 2, 3, 7, 16, 64};
  for (const test::SmallTraining& training : test::small_trainings()) {
    const Results avx2 = on_threads(training, 10, VectorLevel::kAvx2, numbers);
    on_threads(training, 10, VectorLevel::kAvx512, numbers, avx2);
    const Results step = on_threads(training, 1, VectorLevel::kAvx2, {1});
    on_threads(training, 1, VectorLevel::kBaseline, {7}, step);
  }
}

}  // namespace tern::test_thread_bits
