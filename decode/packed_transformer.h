// The Transformer for fast decoding: weights are packed once, in f32, bf16, int8 or int4
// (core/ops/products/packed_linear.h), and sentences are decoded in slots (continuous_batching.h).
//
//   decoding::PackedTransformer packed(model, PackedType::int8);
//   auto found = decoding::decode_all([&] { return packed.decoder(); }, sources, options);
//
// Keys and values of a source are stored once for all hypotheses. Those of a target token are
// written once, too: a hypothesis is a list of their places, and reordering a beam reorders these
// lists. Sources are read without padding. A sentence's bits depend neither on the others nor on
// threads.
//
// The embedding tables are the model's own; everything else is a copy. Pack again after training:
// changes of other weights are not seen.
#pragma once

#include <memory>

#include "tern/core/ops/products/packed_linear.h"
#include "tern/decode/continuous_batching.h"
#include "tern/models/transformer.h"

namespace tern::decoding {

class PackedTransformer {
 public:
  /// The model must be f32. There is no dropout. Shortlists::yes allows sentences with a shortlist.
  PackedTransformer(const models::Transformer& model, PackedType type,
                    Shortlists shortlists = Shortlists::no);
  /// Takes the model and frees each layer's weights as soon as they are packed, so that memory
  /// never holds both copies of the whole model.
  PackedTransformer(models::Transformer&& model, PackedType type,
                    Shortlists shortlists = Shortlists::no);
  ~PackedTransformer();
  PackedTransformer(PackedTransformer&&) noexcept;
  PackedTransformer& operator=(PackedTransformer&&) noexcept;

  int64_t bytes() const;  ///< size of the packed weights
  /// A decoder for one thread. REQUIRES: this outlives it. Error for a source or token that is not
  /// in the vocabulary, or an empty source.
  std::unique_ptr<SlotDecoder> decoder() const;

  struct Weights;

 private:
  std::unique_ptr<Weights> weights_;
};

}  // namespace tern::decoding
