// Scores a model on fixed validation sequences and on sequences of other lengths; ranks share the
// batches.
#include "tern/apps/ntm/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/shared_work.h"

namespace tern::apps::ntm {
namespace {

constexpr uint64_t kValidationSeed = 0x5eed;  // the same for all runs

// Sums over a batch: sequences, cost, wrong bits, sequences without wrong bits, cost of the best
// predictor, target bits.
dist::Numbers score_batch(const SequenceModel& model, const datasets::SequenceTask& task,
                          const datasets::SequenceBatch& b) {
  const Tensor logits = model(b.input);
  const auto n = static_cast<double>(b.input.size(0));
  double errors = 0, perfect = 0;
  for (int64_t wrong : datasets::wrong_bits(logits, b).to_vector<int64_t>()) {
    errors += static_cast<double>(wrong);
    perfect += wrong == 0;
  }
  const bool ngrams = task.name == "ngrams";
  return {n,
          n * datasets::cost_in_bits(logits, b),
          errors,
          perfect,
          ngrams ? n * datasets::cost_in_bits(datasets::best_ngram_logits(b), b) : 0,
          tern::sum(b.mask).item() * static_cast<double>(task.outputs)};
}

// The score on sequences from draw(n), which is called with batch sizes n up to `at_once`.
template <class Draw>
std::optional<SequenceScore> score(const SequenceModel& model, const datasets::SequenceTask& task,
                                   int64_t count, int64_t at_once, Draw draw, const KeepOn& keep_on,
                                   dist::World* world = nullptr) {
  NoGradGuard no_grad;
  int64_t drawn = 0;
  const auto batches = dist::share_numbers(
      world, "the scores", ceil_div(count, at_once),
      [&](int64_t batch) -> std::optional<dist::Numbers> {
        if (keep_on && !keep_on()) return std::nullopt;
        datasets::SequenceBatch b;  // every rank draws all batches, so that they are the same
        for (; drawn <= batch; ++drawn) b = draw(std::min(at_once, count - drawn * at_once));
        return score_batch(model, task, b);
      });
  if (!batches) return std::nullopt;
  dist::Numbers sums(6);
  for (const dist::Numbers& b : *batches)
    std::transform(b.begin(), b.end(), sums.begin(), sums.begin(), std::plus<>());
  const double n = sums[0];
  return SequenceScore{.bits = sums[1] / n,
                       .wrong = sums[2] / n,
                       .perfect = sums[3] / n,
                       .best = sums[4] / n,
                       .sequences = static_cast<int64_t>(n),
                       .target_bits = sums[5] / n};
}

}  // namespace

std::optional<SequenceScore> validate(const SequenceModel& model,
                                      const datasets::SequenceTask& task, const KeepOn& keep_on,
                                      dist::World* world) {
  constexpr int64_t kAtOnce = 4;  // small batches, so that many lengths occur
  Rng rng(kValidationSeed);
  const auto draw = [&](int64_t n) { return task.draw(n, rng); };
  return score(model, task, kValidationSequences, kAtOnce, draw, keep_on, world);
}

std::optional<std::vector<LengthScore>> score_lengths(const SequenceModel& model,
                                                      const datasets::SequenceTask& task,
                                                      const std::vector<int64_t>& lengths,
                                                      int64_t count, uint64_t seed,
                                                      const KeepOn& keep_on) {
  constexpr int64_t kAtOnce = 25;
  std::vector<LengthScore> scores;
  for (int64_t length : lengths) {
    Rng rng = Rng(seed).stream(static_cast<uint64_t>(length));
    const auto draw = [&](int64_t n) { return task.draw_length(n, length, rng); };
    const auto found = score(model, task, count, kAtOnce, draw, keep_on);
    if (!found) return std::nullopt;
    scores.push_back({*found, length});
  }
  return scores;
}

std::vector<int64_t> report_lengths(const datasets::SequenceTask& task) {
  const int64_t top = task.lengths.high;
  std::vector<int64_t> lengths;
  for (int64_t tenths : {5, 10, 15, 20, 30, 40, 50, 60}) {
    const int64_t length = std::max(task.lengths.low, top * tenths / 10);
    if (lengths.empty() || length > lengths.back()) lengths.push_back(length);
  }
  return lengths;
}

std::string length_table(const datasets::SequenceTask& task,
                         const std::vector<LengthScore>& scores) {
  const bool best = task.name == "ngrams";
  std::string s = fmt::format("{:>8} {:>13} {:>10} {:>7} {:>8}{}\n", task.unit, "bits/sequence",
                              "wrong bits", "of bits", "no error", best ? "     best" : "");
  for (const LengthScore& l : scores) {
    s += fmt::format("{:>8} {:>13.4f} {:>10.3f} {:>7.1f} {:>6.1f} %", l.length, l.bits, l.wrong,
                     l.target_bits, 100 * l.perfect);
    s += best ? fmt::format(" {:>8.4f}\n", l.best) : "\n";
  }
  return s;
}

}  // namespace tern::apps::ntm
