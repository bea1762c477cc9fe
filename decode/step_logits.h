// Parts shared by greedy search, sampling and beam search: their common options, and a step's
// logits row by row. Inside of decode only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/decode/step_model.h"
#include "tern/decode/token_scan.h"

namespace tern::decoding::detail {

/// The common options; `op` names the function in errors.
struct Rules {
  const char* op;
  PerSentence begin;
  int64_t end;
  PerSentence max_length;
  std::vector<int64_t> forbid;
  int64_t batch_slots = 0;
  std::function<bool(int64_t sentence, int64_t token)> on_token = {};

  template <class Options>
  Rules(const char* name, const Options& o)
      : op(name), begin(o.begin), end(o.end), max_length(o.max_length), forbid(o.forbid) {
    if constexpr (requires { o.batch_slots; }) batch_slots = o.batch_slots, on_token = o.on_token;
  }

  /// Error if the options do not fit `batch` sentences.
  void check_batch(int64_t batch) const;
};

/// Error if the largest logit of a row (RowScan::max) is not finite.
void check_logits(const char* op, int64_t sentence, int64_t step, double max);
/// Error if a row has no candidates.
void check_found(const char* op, int64_t sentence, int64_t step, int64_t found);

/// The `count` largest of x[0 .. n) among the tokens that are allowed and not -inf, best first; of
/// equals the lower token first. Fewer if there are no more.
template <class T>
std::vector<int64_t> top_tokens(const T* x, int64_t n, int64_t count, const uint8_t* allowed);

/// The checked logits (rows, V) of a step, with the most likely tokens of every row.
class StepLogits {
 public:
  /// Finds the `count` most likely tokens of every row. Row r belongs to sentence[r] and is at
  /// step[r]. REQUIRES: rules and sentence outlive this.
  StepLogits(const Rules& rules, const Tensor& logits, const std::vector<int64_t>& sentence,
             PerSentence step, int64_t count);

  int64_t rows() const { return logits_.size(0); }
  int64_t vocab() const { return logits_.size(1); }
  DType dtype() const { return logits_.dtype(); }
  template <class T>
  const T* row(int64_t r) const {
    return logits_.data<T>() + r * vocab();
  }
  /// (V): 0 for forbidden tokens.
  const uint8_t* allowed() const { return allowed_.data(); }
  double log_prob(int64_t row, double logit) const { return logit - log_sum_[row]; }

  /// The most likely tokens, best first; of equals the lower first. A row has 1 to `count` of them,
  /// and starts at a multiple of `count`.
  const Candidate* candidates() const { return candidates_.data(); }
  const int64_t* counts() const { return counts_.data(); }
  const Candidate& best(int64_t row) const { return candidates_[row * count_]; }

 private:
  void check_ids() const;
  void scan();

  const Rules& rules_;
  const std::vector<int64_t>& sentence_;
  PerSentence step_;
  int64_t count_;
  Tensor logits_;
  std::vector<uint8_t> allowed_;
  std::vector<double> log_sum_;  // log sum exp of every row
  std::vector<Candidate> candidates_;
  std::vector<int64_t> counts_;
};

/// i64 (n).
Tensor token_tensor(const std::vector<int64_t>& values);

}  // namespace tern::decoding::detail
