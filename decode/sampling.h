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
  int64_t end = -1;               ///< the token that ends a sentence; -1: there is none
  PerSentence max_length = 100;   ///< steps at most, so tokens with the end
  std::vector<int64_t> forbid{};  ///< tokens that are never chosen, such as pad and begin
  /// Sentences at a time: where one ends, Stepper::begin starts the next. 0: all at once.
  int64_t batch_slots = 0;
  /// Called with each token as soon as it is chosen, the end too; false ends the sentence after it.
  std::function<bool(int64_t sentence, int64_t token)> on_token = {};
};

/// What may be drawn. The cuts come in the order of transformers' generate(): repetition penalty,
/// temperature, top-k, top-p, min-p; each sees the distribution that the ones before it left.
struct SampleOptions {
  double temperature = 1;  ///< divides the logits; 0: the most likely token, as greedy
  int64_t top_k = 0;       ///< draws among the k most likely tokens only; 0: among all
  double top_p = 1;        ///< then among the fewest most likely ones whose share is p or more
  double min_p = 0;        ///< then among those of at least this share of the likeliest's
  /// Divides the logits of tokens that occurred before where they are positive, and multiplies them
  /// where they are negative (Keskar et al. 2019). With temperature 0, too. 1: off.
  double repetition_penalty = 1;
  int64_t repetition_window = 0;  ///< how many of the last tokens count as before; 0: all
  /// Tokens in front of `begin`, for each sentence or none: they count as before.
  std::vector<std::vector<int64_t>> prompts = {};
  PerSentence begin = -1;
  int64_t end = -1;
  PerSentence max_length = 100;
  std::vector<int64_t> forbid{};
  int64_t batch_slots = 0;  ///< and on_token: as GreedyOptions'
  std::function<bool(int64_t sentence, int64_t token)> on_token = {};
};

/// The most likely token at every step, the lowest of equals. A Hypothesis a sentence.
std::vector<Hypothesis> greedy(Stepper& stepper, const GreedyOptions& options);

/// Draws every token from softmax(logits / temperature), cut to top_k, top_p (Holtzman et al. 2019)
/// and min_p (Nguyen et al. 2024) and without the forbidden ones; of equal logits the lower token
/// is the likelier. log_prob is the model's own: uncut, without penalty and of temperature 1. `rng`
/// is split once; sentence i then has a stream of its own, so that what it draws does not depend on
/// the others.
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
