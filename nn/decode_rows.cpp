#include "tern/nn/decode_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"

namespace tern::nn::detail {
namespace {

constexpr int64_t kExpCost = 10;  // in the multiplications that parallel_blocks counts

/// log sum exp(x), never below the largest x; that one where it is not finite.
template <class T>
double log_sum_exp(const T* x, int64_t n) {
  return simd([=]() -> double {
    const T max = kernels::max_of(x, n);
    if (!std::isfinite(max)) return max;
    const double sum =
        kernels::blocked_sum<T>(n, [=](int64_t i) { return vmath::exp(x[i] - max); });
    return max + std::log(sum);
  });
}

}  // namespace

Tensor token_tensor(const std::vector<int64_t>& values) {
  return tensor(values, {static_cast<int64_t>(values.size())});
}

void Rules::check_batch(int64_t batch) const {
  check(end >= -1, "{}: .end is a token, or -1 for none, got {}", op, end);
  begin.check_values(op, "begin", batch);
  max_length.check_values(op, "max_length", batch);
}

template <class T>
std::vector<int64_t> top_tokens(const T* x, int64_t n, int64_t count, const uint8_t* allowed) {
  constexpr int64_t kBlock = 256;
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  auto better = [=](int64_t a, int64_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); };
  std::vector<int64_t> best;  // a heap with the worst in front
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

StepLogits::StepLogits(const Rules& rules, const Tensor& logits,
                       const std::vector<int64_t>& sentence, int64_t step)
    : rules_(rules), sentence_(sentence), step_(step) {
  const auto n = static_cast<int64_t>(sentence.size());
  check(logits.defined() && logits.ndim() == 2 && logits.size(0) == n && logits.size(1) > 0,
        "{}: step() must give logits (B, V) with B = {}, got {}", rules.op, n,
        logits.defined() ? logits.shape() : Shape());
  logits_ = logits.contiguous();
  check_ids();
  allowed_.assign(vocab(), 1);
  for (int64_t id : rules.forbid) allowed_[id] = 0;
  log_sum_.resize(n);
  dispatch_float(dtype(), rules.op, [&]<class T>() {
    parallel_blocks(n, n * vocab() * kExpCost,
                    [&](int64_t r) { log_sum_[r] = log_sum_exp(row<T>(r), vocab()); });
  });
  check_sums();
}

void StepLogits::check_ids() const {
  check(rules_.end < vocab(), "{}: .end is {}, but there are logits of {} tokens", rules_.op,
        rules_.end, vocab());
  for (int64_t id : rules_.forbid)
    check(id >= 0 && id < vocab(), "{}: .forbid has {}, but there are logits of {} tokens",
          rules_.op, id, vocab());
}

void StepLogits::check_sums() const {
  for (int64_t r = 0; r < rows(); ++r)
    check(std::isfinite(log_sum_[r]),
          "{}: the logits of sentence {} at step {} have {}; are the model's weights finite?",
          rules_.op, sentence_[r], step_,
          std::isnan(log_sum_[r]) ? "a NaN"
          : log_sum_[r] > 0       ? "+inf"
                                  : "nothing but -inf");
}

std::vector<std::vector<Candidate>> StepLogits::top(int64_t count) const {
  std::vector<std::vector<Candidate>> best(rows());
  dispatch_float(dtype(), rules_.op, [&]<class T>() {
    parallel_blocks(rows(), rows() * vocab(), [&](int64_t r) {
      const T* x = row<T>(r);
      for (int64_t token : top_tokens(x, vocab(), count, allowed()))
        best[r].push_back({token, log_prob(r, x[token])});
    });
  });
  for (int64_t r = 0; r < rows(); ++r)
    check(!best[r].empty(),
          "{}: no token can follow in sentence {} at step {}: .forbid leaves none but those of "
          "logit -inf",
          rules_.op, sentence_[r], step_);
  return best;
}

}  // namespace tern::nn::detail
