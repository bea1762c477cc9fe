// GPT-2 and Llama (models/gpt.h) as decoding runs them: weights packed once, in f32, bf16 or as
// int8 with a scale for each output (core/ops/packed_linear.h), texts side by side.
//
//   decoding::PackedGpt packed(std::move(model), PackedType::int8);
//   auto texts = packed.texts();
//   texts->add(prompts);                        // of any lengths, each without its last token
//   decoding::sample(*texts, {.temperature = 0.8, .begin = last_tokens, .end = kEnd}, rng);
//
// Keys and values of all tokens are kept. A step multiplies the rows of all texts at once: it reads
// the weights from memory once, however many texts there are. A text's bits depend neither on
// other texts nor on threads, nor on whether its tokens come one by one or together.
//
// The embedding tables are the model's own; everything else is a copy. Pack again after training:
// changes of other weights are not seen.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tern/core/ops/packed_linear.h"
#include "tern/decode/step_model.h"
#include "tern/models/gpt.h"

namespace tern::decoding {

class PackedGpt {
 public:
  /// A model of f32; dropout does not take place.
  PackedGpt(const models::Gpt& model, PackedType type);
  /// Takes the model: frees each block's weights as soon as they are packed, so that memory never
  /// holds both whole.
  PackedGpt(models::Gpt&& model, PackedType type);
  ~PackedGpt();
  PackedGpt(PackedGpt&&) noexcept;
  PackedGpt& operator=(PackedGpt&&) noexcept;

  int64_t bytes() const;  ///< of packed weights
  /// Logits (B, T, V) of tokens i64 (B, T), T <= context; no gradients.
  Tensor operator()(const Tensor& tokens) const;
  /// No texts at first; not for several threads at a time. REQUIRES: this outlives it. Errors: a
  /// token that is not in the vocabulary, more tokens than the context.
  std::unique_ptr<TextStepper> texts() const;

  struct Weights;

 private:
  std::unique_ptr<Weights> weights_;
};

}  // namespace tern::decoding
