// Greedy search and sampling with any model that decodes token by token (step_model.h).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/decode/step_model.h"

namespace tern::decoding {

struct GreedyOptions {
  PerSentence begin = -1;         ///< the token of the first step; must be given
  int64_t end = -1;               ///< the token that ends a sentence; -1: none
  PerSentence max_length = 100;   ///< largest number of tokens, including the end
  std::vector<int64_t> forbid{};  ///< tokens that are never chosen, such as pad and begin
  /// Sentences decoded together: when one ends, Stepper::begin starts the next. 0: all at once.
  int64_t batch_slots = 0;
  /// Called with each token as soon as it is chosen, including the end. false ends the sentence
  /// after it.
  std::function<bool(int64_t sentence, int64_t token)> on_token = {};
};

/// The tokens that may be drawn. The filters apply in the order of transformers' generate():
/// repetition penalty, temperature, top-k, top-p, min-p. Each sees the distribution that the
/// earlier ones left.
struct SampleOptions {
  double temperature = 1;  ///< divides the logits; 0: the most likely token, as greedy
  int64_t top_k = 0;       ///< draws only from the k most likely tokens; 0: from all
  double top_p = 1;        ///< then from the smallest set of likely tokens with share >= p
  double min_p = 0;        ///< then from those with at least this share of the largest
  /// Divides positive logits of tokens that occurred before, and multiplies negative ones (Keskar
  /// et al. 2019). Also with temperature 0. 1: off.
  double repetition_penalty = 1;
  int64_t repetition_window = 0;  ///< the number of last tokens that count; 0: all
  /// Tokens before `begin`, for the penalty: one list per sentence, or none.
  std::vector<std::vector<int64_t>> prompts = {};
  PerSentence begin = -1;
  int64_t end = -1;
  PerSentence max_length = 100;
  std::vector<int64_t> forbid{};
  int64_t batch_slots = 0;  ///< this and on_token: as in GreedyOptions
  std::function<bool(int64_t sentence, int64_t token)> on_token = {};
};

/// Takes the most likely token at every step, the lowest of equals. One Hypothesis per sentence.
std::vector<Hypothesis> greedy(Stepper& stepper, const GreedyOptions& options);

/// Draws every token from softmax(logits / temperature), cut to top_k, top_p (Holtzman et al. 2019)
/// and min_p (Nguyen et al. 2024), without the forbidden tokens. Of equal logits the lower token
/// counts as more likely. log_prob is the model's own: uncut, without penalty, at temperature 1.
/// `rng` is split once; every sentence then has its own stream, so its draws do not depend on the
/// others.
std::vector<Hypothesis> sample(Stepper& stepper, const SampleOptions& options, Rng& rng);

/// The same for a model and the state to start from.
template <class M, class S>
requires StepModel<M, S> std::vector<Hypothesis> greedy(const M& model, S state,
                                                        const GreedyOptions& options) {
  detail::ModelStepper<M, S> stepper(model, std::move(state));
  return greedy(stepper, options);
}

template <class M, class S>
requires StepModel<M, S> std::vector<Hypothesis> sample(const M& model, S state,
                                                        const SampleOptions& options, Rng& rng) {
  detail::ModelStepper<M, S> stepper(model, std::move(state));
  return sample(stepper, options, rng);
}

}  // namespace tern::decoding
