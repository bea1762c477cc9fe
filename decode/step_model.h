// Decoding: generates tokens with a model that gives the logits of the next token, step by step.
// Greedy search and sampling (sampling.h) and beam search (beam_search.h) work with every sequence
// model of models/ and with your own. B sentences, V words.
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
// The protocol. A state S is a value that knows its number of sentences and can select some of
// them. A model computes the next state and the logits of the next token:
//
//   struct Chain {                       // p(next | last): your own model
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
// times or not at all. Decoding uses it to remove finished sentences from the batch. For
// several samples of a sentence, select its row several times.
//
// The first step gets the token `begin`. The log probability of a token is that of log_softmax over
// all V logits; forbidden tokens are never chosen, but keep their share. A logit of -inf marks a
// token that cannot follow. Logits that are NaN or +inf, or all -inf, are an Error that names
// sentence and step. Nothing is recorded for gradients. Results do not depend on the number of
// threads.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::decoding {

/// One number for all sentences, or one per sentence.
class PerSentence {
 public:
  PerSentence(int64_t for_all) : values_{for_all}, for_all_(true) {}
  PerSentence(std::vector<int64_t> each) : values_(std::move(each)), for_all_(false) {}

  int64_t operator[](int64_t sentence) const {
    return values_[for_all_ ? 0 : static_cast<size_t>(sentence)];
  }
  /// Error if a number is negative, or if there is one per sentence but not for `batch` sentences.
  void check_values(const char* op, const char* option, int64_t batch) const;

 private:
  std::vector<int64_t> values_;
  bool for_all_;
};

/// A decoded sentence.
struct Hypothesis {
  std::vector<int64_t> tokens;  ///< without begin and end
  double log_prob = 0;          ///< of the tokens, and of the end if reached
  double score = 0;             ///< beam_search's, with its length penalty; else log_prob
  bool finished = false;        ///< the end was reached; false: stopped before it
};

/// A model and its state behind one interface, which the algorithms use.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual int64_t batch() const = 0;  ///< sentences
  /// Gives every sentence its token, i64 (B). Returns the logits (B, V) of the next.
  virtual Tensor step(const Tensor& tokens) = 0;
  virtual void select_rows(const Tensor& rows) = 0;
  /// Begins sentences and appends their rows to the existing ones. Needed only for .batch_slots,
  /// which starts sentences later.
  virtual void begin(std::span<const int64_t> sentences);
};

/// Texts that a language model continues, one per row. Their lengths may differ.
class TextStepper : public Stepper {
 public:
  /// Reads the tokens of new texts and appends their rows to the existing ones. A text may be
  /// empty.
  virtual void add(std::span<const std::vector<int64_t>> texts) = 0;
  /// Reads more tokens of one row's text. The same as steps, but computed together.
  virtual void extend(int64_t row, std::span<const int64_t> tokens) = 0;
};

/// Prompts that a model continues, for .batch_slots: when one text ends, the next prompt takes its
/// place. `prompts` lacks the last token of each prompt: it is given to the first step.
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

/// The state of a batch of sentences: tells their number and can select some of them.
template <class S>
concept DecoderState = std::copyable<S> && requires(const S& state, const Tensor& rows) {
  { state.batch() } -> std::convertible_to<int64_t>;
  { state.select_rows(rows) } -> std::convertible_to<S>;
};

/// A model whose step(state, tokens) returns .logits, a Tensor, and .state, the next state.
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
