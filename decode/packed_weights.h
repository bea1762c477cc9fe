// The weights of a PackedTransformer, and the places of its keys and values.
// Inside of decode only.
#pragma once

#include <memory>
#include <vector>

#include "tern/decode/packed_layers.h"
#include "tern/decode/packed_transformer.h"

namespace tern::decoding {

struct PackedFfn {
  PackedLinear linear1, linear2;
  Activation activation;
};

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

/// Rows of a table, as the model has them.
struct PackedTable {
  Tensor rows;  ///< f32 (V, D), without gaps
  int64_t size() const { return rows.size(0); }
};

struct PackedTransformer::Weights {
  PackedType type;
  int64_t dim;
  PackedTable source, target;
  std::vector<PackedEncoderLayer> encoder;
  std::vector<PackedDecoderLayer> decoder;
  PackedNorm encoder_norm, decoder_norm;  ///< without weights where there is none
  PackedGenerator generator;

  /// `taken`: the model itself where its weights may be freed, else null.
  Weights(const models::Transformer& model, PackedType type, Shortlists shortlists,
          models::Transformer* taken);
};

/// Keys and values of target tokens. A cell holds one token's, of every layer; cells that are given
/// back are used again, and chunks of them never move.
class CellPool {
 public:
  CellPool(int64_t layers, int64_t width) : layers_(layers), width_(width) {}
  int32_t take();
  void give_back(int32_t cell) { free_.push_back(cell); }
  float* at(int64_t layer, int32_t cell) const {
    return chunks_[cell / kCells].get() + (layer * kCells + cell % kCells) * width_;
  }

 private:
  static constexpr int64_t kCells = 256;
  int64_t layers_, width_;
  std::vector<std::unique_ptr<float[]>> chunks_;
  std::vector<int32_t> free_;
};

}  // namespace tern::decoding
