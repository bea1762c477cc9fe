// The Transformer as decoding runs it: weights packed once, in f32, bf16 or as int8 with a scale
// for each output (core/ops/packed_linear.h), sentences in slots (continuous_batching.h).
//
//   decoding::PackedTransformer packed(model, PackedType::int8);
//   auto found = decoding::decode_all([&] { return packed.decoder(); }, sources, options);
//
// Keys and values of a source are kept once, whatever the beam. Those of target tokens are written
// once as well: a hypothesis is a list of their places, and beams are reordered by those lists.
// Sources are read without padding. A sentence's bits depend neither on the others nor on threads.
//
// The tables of embeddings stay the model's, everything else is a copy: later changes of the model
// are seen in embeddings alone, so pack again after training.
#pragma once

#include <memory>

#include "tern/core/ops/packed_linear.h"
#include "tern/decode/continuous_batching.h"
#include "tern/models/transformer.h"

namespace tern::decoding {

class PackedTransformer {
 public:
  /// A model of f32; dropout does not take place. With Shortlists::yes sentences may come with one.
  PackedTransformer(const models::Transformer& model, PackedType type,
                    Shortlists shortlists = Shortlists::no);
  /// The same of a model that is needed no more: each part's weights are freed as they are packed,
  /// so that both never lie in memory whole.
  PackedTransformer(models::Transformer&& model, PackedType type,
                    Shortlists shortlists = Shortlists::no);
  ~PackedTransformer();
  PackedTransformer(PackedTransformer&&) noexcept;
  PackedTransformer& operator=(PackedTransformer&&) noexcept;

  int64_t bytes() const;  ///< of packed weights
  /// A decoder for one thread. REQUIRES: this outlives it. Its errors: a source or token that is
  /// not in the vocabulary, an empty source.
  std::unique_ptr<SlotDecoder> decoder() const;

  struct Weights;

 private:
  std::unique_ptr<Weights> weights_;
};

}  // namespace tern::decoding
