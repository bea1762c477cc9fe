// Checks of the common options and of a step's logits, and the most likely tokens of every row.
#include "tern/decode/step_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"

namespace tern::decoding {

void PerSentence::check_values(const char* op, const char* option, int64_t batch) const {
  check(for_all_ || std::ssize(values_) == batch, "{}: .{} has {} values for {} sentences", op,
        option, values_.size(), batch);
  for (int64_t v : values_) check(v >= 0, "{}: .{} is {}; give one of 0 or more", op, option, v);
}

void Stepper::begin(std::span<const int64_t>) {
  fail("decoding: this model starts all sentences together; leave out .batch_slots");
}

void PromptStepper::begin(std::span<const int64_t> sentences) {
  std::vector<std::vector<int64_t>> texts;
  for (const int64_t s : sentences) texts.push_back(prompts_[s]);
  texts_.add(texts);
}

namespace detail {

Tensor token_tensor(const std::vector<int64_t>& values) {
  return tensor(values, {static_cast<int64_t>(values.size())});
}

void Rules::check_batch(int64_t batch) const {
  check(end >= -1, "{}: .end is a token, or -1 for none, got {}", op, end);
  check(batch_slots >= 0, "{}: .batch_slots is {}; give 1 or more, or 0 for all sentences at once",
        op, batch_slots);
  begin.check_values(op, "begin", batch);
  max_length.check_values(op, "max_length", batch);
}

template <class T>
std::vector<int64_t> top_tokens(const T* x, int64_t n, int64_t count, const uint8_t* allowed) {
  constexpr int64_t kBlock = 256;
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  auto better = [=](int64_t a, int64_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); };
  std::vector<int64_t> best;  // a heap with the worst first
  auto full = [&] { return static_cast<int64_t>(best.size()) >= count; };
  for (int64_t first = 0; first < n && count > 0; first += kBlock) {
    const int64_t size = std::min(n - first, kBlock);
    if (full() && simd([=] { return kernels::max_of(x + first, size); }) <= x[best.front()])
      continue;
    for (int64_t i = first; i < first + size; ++i) {
      if (!allowed[i] || x[i] == kNever || (full() && x[i] <= x[best.front()])) continue;
      if (full()) {
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
      best.push_back(i);
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

template std::vector<int64_t> top_tokens(const float*, int64_t, int64_t, const uint8_t*);
template std::vector<int64_t> top_tokens(const double*, int64_t, int64_t, const uint8_t*);

void check_logits(const char* op, int64_t sentence, int64_t step, double max) {
  check(std::isfinite(max),
        "{}: the logits of sentence {} at step {} have {}; are the model's weights finite?", op,
        sentence, step,
        std::isnan(max) ? "a NaN"
        : max > 0       ? "+inf"
                        : "nothing but -inf");
}

void check_found(const char* op, int64_t sentence, int64_t step, int64_t found) {
  check(found > 0,
        "{}: no token can follow in sentence {} at step {}: every token has logit -inf or is in "
        ".forbid",
        op, sentence, step);
}

StepLogits::StepLogits(const Rules& rules, const Tensor& logits,
                       const std::vector<int64_t>& sentence, PerSentence step, int64_t count)
    : rules_(rules), sentence_(sentence), step_(std::move(step)), count_(count) {
  const auto n = static_cast<int64_t>(sentence.size());
  check(logits.defined() && logits.ndim() == 2 && logits.size(0) == n && logits.size(1) > 0,
        "{}: step() must give logits (B, V) with B = {}, got {}", rules.op, n,
        logits.defined() ? logits.shape() : Shape());
  logits_ = logits.contiguous();
  check_ids();
  allowed_.assign(vocab(), 1);
  for (int64_t id : rules.forbid) allowed_[id] = 0;
  count_ = std::min(count_, vocab());
  scan();
}

void StepLogits::check_ids() const {
  check(rules_.end < vocab(), "{}: .end is {}, but there are logits of {} tokens", rules_.op,
        rules_.end, vocab());
  for (int64_t id : rules_.forbid)
    check(id >= 0 && id < vocab(), "{}: .forbid has {}, but there are logits of {} tokens",
          rules_.op, id, vocab());
}

void StepLogits::scan() {
  constexpr int64_t kExpCost = 10;  // in multiplications, the unit of parallel_blocks
  log_sum_.resize(rows());
  counts_.resize(rows());
  candidates_.resize(rows() * count_);
  dispatch_float(dtype(), rules_.op, [&]<class T>() {
    parallel_blocks(rows(), rows() * vocab() * kExpCost, [&](int64_t r) {
      RowScan scan;
      Candidate* best = candidates_.data() + r * count_;
      for (int64_t first = 0; first < vocab(); first += kScanBlock)
        scan_block(row<T>(r) + first, std::min(kScanBlock, vocab() - first), first, allowed(), true,
                   count_, scan, best);
      log_sum_[r] = scan.log_sum();
      counts_[r] = scan.found;
      for (int64_t i = 0; i < scan.found; ++i) best[i].log_prob -= log_sum_[r];
    });
  });
  for (int64_t r = 0; r < rows(); ++r) check_logits(rules_.op, sentence_[r], step_[r], log_sum_[r]);
  for (int64_t r = 0; r < rows(); ++r) check_found(rules_.op, sentence_[r], step_[r], counts_[r]);
}

}  // namespace detail
}  // namespace tern::decoding
