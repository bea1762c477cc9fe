// Checks sizes, draws random bits, and writes parts of a batch of sequences.
#include "tern/data/tasks/drawing.h"

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::datasets {

void check_sizes(const char* task, int64_t count, SizeRange range) {
  check(count >= 1, "{}: needs at least one sequence and one bit, got {}", task, count);
  check(range.low >= 1 && range.high >= range.low,
        "{}: sizes from {} to {} are not a range above 0", task, range.low, range.high);
}

int64_t draw_size(SizeRange range, Rng& rng) {
  return static_cast<int64_t>(randint(range.low, range.high + 1, {}, rng).item());
}

Tensor random_bits(const Shape& shape, Rng& rng) { return bernoulli(shape, 0.5, rng); }

SequenceBatch blank(int64_t batch, int64_t steps, int64_t inputs, int64_t outputs) {
  return {zeros({batch, steps, inputs}), zeros({batch, steps, outputs}), zeros({batch, steps})};
}

void put(const Tensor& whole, int64_t step, int64_t channel, const Tensor& part) {
  NoGradGuard no_grad;
  copy_(narrow(narrow(whole, 1, step, part.size(1)), 2, channel, part.size(2)), part);
}

void count_from(const SequenceBatch& b, int64_t step) {
  NoGradGuard no_grad;
  fill_(narrow(b.mask, 1, step, b.mask.size(1) - step), 1);
}

}  // namespace tern::datasets
