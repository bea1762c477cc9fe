// GPT-2 and Llama (models/gpt.h) for fast decoding: weights are packed once, in f32, bf16 or as
// int8 with a scale per output (core/ops/products/packed_linear.h), and several texts are decoded
// together.
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

#include "tern/core/ops/products/packed_linear.h"
#include "tern/decode/step_model.h"
#include "tern/models/gpt.h"

namespace tern::decoding {

class PackedGpt {
 public:
  /// The model must be f32. There is no dropout.
  PackedGpt(const models::Gpt& model, PackedType type);
  /// Takes the model and frees each block's weights as soon as they are packed, so that memory
  /// never holds both copies of the whole model.
  PackedGpt(models::Gpt&& model, PackedType type);
  ~PackedGpt();
  PackedGpt(PackedGpt&&) noexcept;
  PackedGpt& operator=(PackedGpt&&) noexcept;

  int64_t bytes() const;  ///< size of the packed weights
  /// Logits (B, T, V) of tokens i64 (B, T), T <= context; no gradients.
  Tensor operator()(const Tensor& tokens) const;
  /// A stepper without texts, for one thread at a time. REQUIRES: this outlives it. Error for a
  /// token outside the vocabulary, or more tokens than the context.
  std::unique_ptr<TextStepper> texts() const;

  struct Weights;

 private:
  std::unique_ptr<Weights> weights_;
};

}  // namespace tern::decoding
