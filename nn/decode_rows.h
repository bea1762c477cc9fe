// What the ways of decoding share: their common options, and a step's logits row by row.
// Inside of nn only.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/nn/decode.h"

namespace tern::nn::detail {

/// The options that all have in common; `op` names the function in errors.
struct Rules {
  const char* op;
  PerSentence begin;
  int64_t end;
  PerSentence max_length;
  std::vector<int64_t> forbid;

  template <class Options>
  Rules(const char* name, const Options& o)
      : op(name), begin(o.begin), end(o.end), max_length(o.max_length), forbid(o.forbid) {}

  /// Errors for options that do not fit `batch` sentences.
  void check_batch(int64_t batch) const;
};

struct Candidate {
  int64_t token;
  double log_prob;
};

/// The `count` largest of x[0 .. n) among the tokens that are allowed and not -inf, best first, the
/// lower token of equals first; fewer where there are no more.
template <class T>
std::vector<int64_t> top_tokens(const T* x, int64_t n, int64_t count, const uint8_t* allowed);

/// Logits (rows, V) of a step, checked.
class StepLogits {
 public:
  /// sentence[r] is what row r belongs to. REQUIRES: rules and sentence outlive this.
  StepLogits(const Rules& rules, const Tensor& logits, const std::vector<int64_t>& sentence,
             int64_t step);

  int64_t rows() const { return logits_.size(0); }
  int64_t vocab() const { return logits_.size(1); }
  DType dtype() const { return logits_.dtype(); }
  template <class T>
  const T* row(int64_t r) const {
    return logits_.data<T>() + r * vocab();
  }
  /// (V) 0 where a token is forbidden.
  const uint8_t* allowed() const { return allowed_.data(); }
  double log_prob(int64_t row, double logit) const { return logit - log_sum_[row]; }

  /// The `count` most likely tokens of every row as top_tokens gives them, at least one.
  std::vector<std::vector<Candidate>> top(int64_t count) const;

 private:
  void check_ids() const;
  void check_sums() const;

  const Rules& rules_;
  const std::vector<int64_t>& sentence_;
  int64_t step_;
  Tensor logits_;
  std::vector<uint8_t> allowed_;
  std::vector<double> log_sum_;  // log sum exp of a row
};

/// i64 (n).
Tensor token_tensor(const std::vector<int64_t>& values);

}  // namespace tern::nn::detail
