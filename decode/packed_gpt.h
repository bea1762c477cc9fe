// The models of models/gpt.h (GPT-2, Llama and later families) for fast decoding: weights are
// packed once, in f32, bf16, int8 or int4 (core/ops/products/packed_linear.h), and several texts
// are decoded together. int4 keeps the head in int8, as GGUF files of 4 bits do.
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
// A table of tokens that is the head's weight, too, is kept once, as the head is packed: rounded in
// int8 and int4. In bf16 a table of f32 numbers that bf16 cannot hold is kept beside the head.
// The weights are copies, but for other embedding tables of a model that was not moved from, which
// stay the model's own. Pack again after training: changes of other weights are not seen.
#pragma once

#include <memory>

#include "tern/core/io/tensor_file.h"
#include "tern/core/ops/products/packed_linear.h"
#include "tern/decode/step_model.h"
#include "tern/models/gpt.h"

namespace tern::decoding {

class PackedGpt {
 public:
  /// The model must be f32. There is no dropout.
  PackedGpt(const models::Gpt& model, PackedType type);
  /// Takes the model and frees each block's weights as soon as they are packed, so that memory
  /// never holds both copies of the whole model. Returns what it freed to the system
  /// (trim_memory()).
  PackedGpt(models::Gpt&& model, PackedType type);
  /// Packs the weights of a file (names: models::load_gpt_state) while it reads them: layer by
  /// layer, then the table of tokens and the head in blocks of rows. So memory never holds more
  /// than the packed weights and one block, or the packed layers and one layer.
  ///
  ///   PackedGpt packed(options, PackedType::int8, open_tensors("model.safetensors"));
  PackedGpt(const models::GptOptions& options, PackedType type, const TensorSource& source);
  ~PackedGpt();
  PackedGpt(PackedGpt&&) noexcept;
  PackedGpt& operator=(PackedGpt&&) noexcept;

  int64_t bytes() const;  ///< size of the packed weights and of the table of tokens
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
