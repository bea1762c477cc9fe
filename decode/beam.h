// Beam search for one sentence, step by step: which hypotheses are still running, which have ended,
// and when the sentence is done. A hypothesis is a chain of links to earlier tokens, so a step
// copies no tokens and allocates nothing. A beam of 1 is greedy search. Inside of decode only.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/decode/step_model.h"
#include "tern/decode/token_scan.h"

namespace tern::decoding::detail {

struct BeamRules {
  int64_t beam = 1;
  double alpha = 0;
  int64_t n_best = 1;
  int64_t end = -1;

  /// The number of candidates that each hypothesis needs: enough to fill the beam, and the end.
  int64_t candidates() const { return beam == 1 ? 1 : beam + 1; }
  /// Error for invalid values; `op` names the function.
  void check_values(const char* op) const;
};

class Beam {
 public:
  /// Starts a sentence of at most max_length tokens. Reuses the memory of the previous one.
  void begin(const BeamRules& rules, int64_t max_length);

  bool done() const { return done_; }
  int64_t running() const { return running_; }  ///< hypotheses, by falling log_prob
  /// The row of the previous step that hypothesis i continues, and its last token. REQUIRES: at
  /// least one step was made.
  int64_t parent(int64_t i) const { return trail_[at(i)].parent; }
  int64_t token(int64_t i) const { return trail_[at(i)].token; }

  /// Makes a step. Hypothesis i has counts[i] candidates, best first, at candidates + i * stride.
  void advance(const Candidate* candidates, const int64_t* counts, int64_t stride);

  /// The n_best hypotheses with the highest scores, best first. REQUIRES: done().
  std::vector<Hypothesis> best() const;

 private:
  struct Link {
    int64_t token, parent;
  };
  struct Ended {
    double log_prob, score;
    int64_t steps, row;  ///< the place of its last token in trail_
    bool finished;
  };
  size_t at(int64_t i) const { return static_cast<size_t>((steps_ - 1) * rules_.beam + i); }
  void end_hypothesis(double log_prob, int64_t steps, int64_t row, bool finished);
  bool is_done();
  Hypothesis hypothesis(const Ended& ended) const;

  BeamRules rules_;
  int64_t max_length_ = 0, steps_ = 0, running_ = 0;
  bool done_ = true;
  std::vector<Link> trail_;  ///< (steps, beam)
  std::vector<double> log_prob_, next_log_prob_;
  std::vector<int64_t> head_;  ///< each row's next candidate, while they are merged
  std::vector<Ended> ended_;   ///< in the order they ended
  std::vector<double> scores_;
};

}  // namespace tern::decoding::detail
