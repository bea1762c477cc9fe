// Decoding: tokens out of a model that gives one token's logits after the other. Greedy search and
// sampling (sampling.h) and beam search (beam_search.h) work with every sequence model of models/
// and with a model of one's own. B sentences, V words.
//
//   NoGradGuard guard;
//   nn::set_training(model, false);
//   auto state = model.encode(source, lengths);
//   auto best =
//       decoding::greedy(model, state, {.begin = kBegin, .end = kEnd, .max_length = 50});
//   auto lists = decoding::beam_search(
//       model, state,
//       {.beam = 5, .alpha = 0.6, .n_best = 3, .begin = kBegin, .end = kEnd, .max_length = 50});
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
#include <span>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::decoding {

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

/// A model and its state with their types left out: what the algorithms see.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual int64_t batch() const = 0;  ///< sentences
  /// Gives every sentence a token, i64 (B); logits (B, V) of the next.
  virtual Tensor step(const Tensor& tokens) = 0;
  virtual void select_rows(const Tensor& rows) = 0;
  /// Begins sentences, whose rows come behind those there are: for .batch_slots, where not all have
  /// begun.
  virtual void begin(std::span<const int64_t> sentences);
};

/// Texts that a language model writes, a row each. They may be of different lengths.
class TextStepper : public Stepper {
 public:
  /// Reads the tokens of new texts, whose rows come behind those there are. A text may be empty.
  virtual void add(std::span<const std::vector<int64_t>> texts) = 0;
  /// Reads more tokens of the text in a row, as steps would, but together.
  virtual void extend(int64_t row, std::span<const int64_t> tokens) = 0;
};

/// Prompts that a model continues, for .batch_slots: where one text ends, the next prompt takes its
/// place. The first step is given the last token of each prompt, which is not in `prompts`.
class PromptStepper final : public Stepper {
 public:
  /// REQUIRES: both outlive this; no texts yet.
  PromptStepper(TextStepper& texts, std::span<const std::vector<int64_t>> prompts)
      : texts_(texts), prompts_(prompts) {}
  int64_t batch() const override { return std::ssize(prompts_); }
  Tensor step(const Tensor& tokens) override { return texts_.step(tokens); }
  void select_rows(const Tensor& rows) override { texts_.select_rows(rows); }
  void begin(std::span<const int64_t> sentences) override;

 private:
  TextStepper& texts_;
  std::span<const std::vector<int64_t>> prompts_;
};

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

}  // namespace tern::decoding
