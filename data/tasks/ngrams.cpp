// The task dynamic n-grams of the Neural Turing Machine, and its best predictor.
#include <cmath>
#include <numbers>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/data/tasks/drawing.h"

namespace tern::datasets {
namespace {

constexpr int64_t kMostContext = 20;  // a table of a million entries

void check_context(int64_t context) {
  check(context >= 1 && context <= kMostContext, "ngrams: a context of {} bits is not in [1, {}]",
        context, kMostContext);
}

/// The last `bits` bits of a sequence as a number; the newest is the lowest bit.
class Context {
 public:
  explicit Context(int64_t bits) : mask_((size_t{1} << bits) - 1) {}
  size_t number() const { return number_; }
  void add(bool bit) { number_ = (number_ << 1 | static_cast<size_t>(bit)) & mask_; }

 private:
  size_t mask_, number_ = 0;
};

}  // namespace

SequenceTask ngram_task(const NgramTask& t) {
  check_context(t.context);
  check_sizes("ngrams", t.context, t.lengths);
  auto draw = [t](int64_t batch, int64_t length, Rng& rng) {
    check_sizes("ngrams", batch, {length, length});
    const auto entries = int64_t{1} << t.context;
    // Beta(1/2, 1/2) is the arcsine distribution: sin^2 of a uniform angle.
    const auto angle = uniform({batch, entries}, 0, std::numbers::pi / 2, rng).to_vector<double>();
    const auto chance = uniform({batch, length}, 0, 1, rng).to_vector<double>();
    SequenceBatch b = blank(batch, length, 1, 1);
    float *input = b.input.mutable_data<float>(), *target = b.target.mutable_data<float>();
    for (int64_t row = 0; row < batch; ++row) {
      Context context(t.context);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t at = row * length + i;
        const double s = std::sin(angle[static_cast<size_t>(row * entries) + context.number()]);
        const bool bit = chance[static_cast<size_t>(at)] < (i < t.context ? 0.5 : s * s);
        target[at] = bit;
        if (i + 1 < length) input[at + 1] = bit;
        context.add(bit);
      }
    }
    count_from(b, 0);
    return b;
  };
  return {"ngrams", 1, 1, t.lengths, "bits", draw};
}

Tensor best_ngram_logits(const SequenceBatch& b, int64_t context_bits) {
  check_context(context_bits);
  const auto bits = b.target.to_vector<double>();
  const int64_t batch = b.target.size(0), length = b.target.size(1);
  Tensor logits = zeros(b.target.shape());
  float* out = logits.mutable_data<float>();
  for (int64_t row = 0; row < batch; ++row) {
    std::vector<double> seen[2];
    for (auto& counts : seen) counts.assign(size_t{1} << context_bits, 0.5);
    Context context(context_bits);
    for (int64_t i = 0; i < length; ++i) {
      const bool bit = bits[static_cast<size_t>(row * length + i)] > 0.5;
      const size_t c = context.number();
      if (i >= context_bits) {
        out[row * length + i] = static_cast<float>(std::log(seen[1][c] / seen[0][c]));
        seen[bit][c] += 1;
      }
      context.add(bit);
    }
  }
  return logits;
}

}  // namespace tern::datasets
