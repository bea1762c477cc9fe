// Decoding: tokens out of a model that gives one token's logits after the other. Greedy, beam
// search and sampling, for every sequence model of models/ and for one's own. B sentences, V words.
//
//   NoGradGuard guard;
//   nn::set_training(model, false);
//   auto state = model.encode(source, lengths);
//   auto best = nn::greedy(model, state, {.begin = kBegin, .end = kEnd, .max_length = 50});
//   auto lists = nn::beam_search(model, state, {.beam = 5, .alpha = 0.6, .n_best = 3,
//                                               .begin = kBegin, .end = kEnd, .max_length = 50});
//   lists[0][0].tokens;   // the first sentence's best translation, without begin and end
//
// The protocol. A state S is a value that knows its sentences and can pick among them; a model
// makes the next state and the logits of the token that follows:
//
//   struct Chain {                       // p(next | last): a model of one's own
//     Tensor table;                      // logits (V, V)
//     struct State {
//       int64_t sentences;
//       int64_t batch() const { return sentences; }
//       State select_rows(const Tensor& rows) const { return {rows.size(0)}; }   // rows i64
//     };
//     struct Step { Tensor logits; State state; };                 // logits (B, V)
//     Step step(const State& state, const Tensor& tokens) const {  // tokens i64 (B)
//       return {index_select(table, 0, tokens), state};
//     }
//   };
//
// select_rows(rows) is the state of sentences rows[0], rows[1], ...; a sentence may occur several
// times or not at all. Sentences that are done leave the batch by it. Several samples of a sentence
// come from state.select_rows of its row several times.
//
// The first step is given `begin`. The log probability of a token is that of log_softmax over all V
// logits; forbidden tokens are never chosen, but keep their share. A logit of -inf is a token that
// cannot follow. Logits that are NaN or +inf, or all -inf, are an error with sentence and step.
// Nothing is recorded for gradients. Results do not depend on the number of threads.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/tensor/tensor.h"

namespace tern::nn {

/// One number for all sentences, or one for each of them.
class PerSentence {
 public:
  PerSentence(int64_t for_all) : values_{for_all}, for_all_(true) {}
  PerSentence(std::vector<int64_t> each) : values_(std::move(each)), for_all_(false) {}

  int64_t operator[](int64_t sentence) const {
    return values_[for_all_ ? 0 : static_cast<size_t>(sentence)];
  }
  /// All 0 or more, and as many as sentences where there is one for each; else an error.
  void check_values(const char* op, const char* option, int64_t batch) const;

 private:
  std::vector<int64_t> values_;
  bool for_all_;
};

/// A decoded sentence.
struct Hypothesis {
  std::vector<int64_t> tokens;  ///< without begin and end
  double log_prob = 0;          ///< of the tokens, and of the end if it came
  double score = 0;             ///< beam_search's, with its length penalty; else log_prob
  bool finished = false;        ///< the end came; false: max_length cut it off
};

struct GreedyOptions {
  PerSentence begin = -1;         ///< the token of the first step; must be given
  int64_t end = -1;               ///< the token that ends a sentence; -1: there is none
  PerSentence max_length = 100;   ///< steps at most, so tokens with the end
  std::vector<int64_t> forbid{};  ///< tokens that are never chosen, such as pad and begin
};

struct BeamOptions {
  int64_t beam = 5;    ///< hypotheses that are followed a sentence
  double alpha = 0;    ///< >= 0, strength of the length penalty; 0: none
  int64_t n_best = 1;  ///< hypotheses given a sentence, <= beam
  PerSentence begin = -1;
  int64_t end = -1;
  PerSentence max_length = 100;
  std::vector<int64_t> forbid{};
};

struct SampleOptions {
  double temperature = 1;  ///< divides the logits; 0: the most likely token, as greedy
  int64_t top_k = 0;       ///< draws among the k most likely tokens only; 0: among all
  double top_p = 1;        ///< then among the fewest most likely ones whose share is p or more
  PerSentence begin = -1;
  int64_t end = -1;
  PerSentence max_length = 100;
  std::vector<int64_t> forbid{};
};

/// A model and its state with their types left out: what the algorithms see.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual int64_t batch() const = 0;
  /// Gives every sentence a token, i64 (B); logits (B, V) of the next.
  virtual Tensor step(const Tensor& tokens) = 0;
  virtual void select_rows(const Tensor& rows) = 0;
};

/// The most likely token at every step, the lowest of equals. A Hypothesis a sentence.
std::vector<Hypothesis> greedy(Stepper& stepper, const GreedyOptions& options);

/// Beam search; the n_best hypotheses of every sentence, best first, no two alike (fewer where
/// there are no more).
///
///   score = log_prob / ((5 + n) / 6)^alpha,   n tokens, the end included (Wu et al. 2016)
///
/// A step continues every running hypothesis of a sentence by every token and goes through the
/// results by falling log_prob, of equals the lower hypothesis, then the lower token first. The
/// first `beam` that do not end run on; an end among the first `beam` of all is finished. A
/// sentence is done as soon as one of these holds:
///   1. `beam` of its hypotheses are finished;
///   2. n_best are finished, and the n_best-th best score is at least what any running one can
///      reach. With its log_prob l <= 0 that is l / ((5 + max_length) / 6)^alpha: l only falls and
///      the divisor only grows. This rule saves steps and never changes the result;
///   3. it has made max_length steps: what still runs is unfinished and ranks by the same score.
/// Equal scores rank in the order they were finished. A beam of 1 is greedy.
std::vector<std::vector<Hypothesis>> beam_search(Stepper& stepper, const BeamOptions& options);

/// Draws every token from softmax(logits / temperature), cut to top_k and then top_p (Holtzman et
/// al. 2019) and without the forbidden ones; of equal logits the lower token is the likelier.
/// log_prob is the model's own, uncut and of temperature 1. `rng` is split once; sentence i then
/// has a stream of its own, so that what it draws does not depend on the others.
std::vector<Hypothesis> sample(Stepper& stepper, const SampleOptions& options, Rng& rng);

/// A value that stands for a batch of sentences: batch() of them, and a choice of them.
template <class S>
concept DecoderState = std::copyable<S> && requires(const S& state, const Tensor& rows) {
  { state.batch() } -> std::convertible_to<int64_t>;
  { state.select_rows(rows) } -> std::convertible_to<S>;
};

/// step(state, tokens) gives .logits, a Tensor, and .state, the next state.
template <class M, class S>
concept StepModel = DecoderState<S> && requires(const M& m, const S& state, const Tensor& tokens) {
  { m.step(state, tokens).logits } -> std::convertible_to<Tensor>;
  { m.step(state, tokens).state } -> std::convertible_to<S>;
};

namespace detail {

template <class M, class S>
class ModelStepper final : public Stepper {
 public:
  ModelStepper(const M& model, S state) : model_(model), state_(std::move(state)) {}
  int64_t batch() const override { return state_.batch(); }
  Tensor step(const Tensor& tokens) override {
    auto next = model_.step(state_, tokens);
    state_ = std::move(next.state);
    return std::move(next.logits);
  }
  void select_rows(const Tensor& rows) override { state_ = state_.select_rows(rows); }

 private:
  const M& model_;
  S state_;
};

}  // namespace detail

/// The same for a model and the state to start from.
template <class M, class S>
requires StepModel<M, S> std::vector<Hypothesis> greedy(const M& model, S state,
                                                        const GreedyOptions& options) {
  detail::ModelStepper<M, S> stepper(model, std::move(state));
  return greedy(stepper, options);
}

template <class M, class S>
requires StepModel<M, S> std::vector<std::vector<Hypothesis>> beam_search(
    const M& model, S state, const BeamOptions& options) {
  detail::ModelStepper<M, S> stepper(model, std::move(state));
  return beam_search(stepper, options);
}

template <class M, class S>
requires StepModel<M, S> std::vector<Hypothesis> sample(const M& model, S state,
                                                        const SampleOptions& options, Rng& rng) {
  detail::ModelStepper<M, S> stepper(model, std::move(state));
  return sample(stepper, options, rng);
}

}  // namespace tern::nn
