// The weights of a PackedTransformer. Inside of decode only.
#pragma once

#include <vector>

#include "tern/decode/packed_layers.h"
#include "tern/decode/packed_transformer.h"

namespace tern::decoding {

struct PackedEncoderLayer {
  PackedAttention self;
  PackedFfn ffn;
  PackedNorm norm1, norm2;
  bool norm_first;
};

struct PackedDecoderLayer {
  PackedAttention self, memory;
  PackedFfn ffn;
  PackedNorm norm1, norm2, norm3;
  bool norm_first;
};

struct PackedTransformer::Weights {
  PackedType type;
  int64_t dim;
  Tensor source, target;  ///< f32 (V, D), the model's own tables, contiguous
  std::vector<PackedEncoderLayer> encoder;
  std::vector<PackedDecoderLayer> decoder;
  PackedNorm encoder_norm, decoder_norm;  ///< without weights if the model has none
  PackedGenerator generator;

  /// `taken`: the model if its weights may be freed, else null.
  Weights(const models::Transformer& model, PackedType type, Shortlists shortlists,
          models::Transformer* taken);
};

}  // namespace tern::decoding
