// Beam search with any model that decodes token by token (step_model.h).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tern/decode/step_model.h"

namespace tern::decoding {

struct BeamOptions {
  int64_t beam = 5;        ///< running hypotheses per sentence
  double alpha = 0;        ///< >= 0, strength of the length penalty; 0: none
  int64_t n_best = 1;      ///< hypotheses returned per sentence, <= beam
  PerSentence begin = -1;  ///< this and the next three: as in GreedyOptions
  int64_t end = -1;
  PerSentence max_length = 100;
  std::vector<int64_t> forbid{};
};

/// Returns the n_best hypotheses of every sentence, best first, all different (fewer if there are
/// no more).
///
///   score = log_prob / ((5 + n) / 6)^alpha,   n tokens, including the end (Wu et al. 2016)
///
/// A step extends every running hypothesis of a sentence by every token and sorts the results by
/// falling log_prob; among equals the lower hypothesis comes first, then the lower token. The first
/// `beam` that do not end keep running. A hypothesis with the end among the first `beam` of all is
/// finished. A sentence is done as soon as one of these holds:
///   1. `beam` of its hypotheses are finished;
///   2. n_best are finished, and the n_best-th best score is at least the highest score that a
///      running one can reach. For its log_prob l <= 0 that is l / ((5 + max_length) / 6)^alpha: l
///      only falls and the divisor only grows. This rule saves steps and never changes the result;
///   3. it has made max_length steps: running hypotheses stay unfinished and rank by this score.
/// Equal scores rank in the order in which they finished. A beam of 1 is greedy search.
std::vector<std::vector<Hypothesis>> beam_search(Stepper& stepper, const BeamOptions& options);

/// The same for a model and the state to start from.
template <class M, class S>
requires StepModel<M, S> std::vector<std::vector<Hypothesis>> beam_search(
    const M& model, S state, const BeamOptions& options) {
  detail::ModelStepper<M, S> stepper(model, std::move(state));
  return beam_search(stepper, options);
}

}  // namespace tern::decoding
