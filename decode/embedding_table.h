// A table of embeddings, as packed models read it. Inside of decode only.
#pragma once

#include <cstdint>

#include "tern/core/tensor/tensor.h"

namespace tern::decoding {

/// Whether bf16 can hold all numbers of f32 rows, contiguous.
bool fits_bf16(const Tensor& rows);

class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  /// table f32 (V, D). Shares its memory.
  explicit EmbeddingTable(const Tensor& table);
  /// A table of its own for `rows` rows. append() adds them in order, f32 (n, D). As long as bf16
  /// can hold all numbers, as in most published models, it keeps them as bf16: half the memory, the
  /// same numbers.
  EmbeddingTable(int64_t rows, int64_t dim);
  void append(const Tensor& rows);

  bool defined() const { return table_.defined(); }
  int64_t bytes() const;  ///< memory held or shared
  /// The row of a token. `room` has space for D numbers, which may be used. REQUIRES: token < V.
  const float* row(int64_t token, float* room) const;

 private:
  bool compact() const { return table_.dtype() == DType::u8; }
  const uint16_t* halves() const;
  void widen();

  Tensor table_;  // f32 (V, D), or as bytes the upper halves of f32 numbers whose lower ones are 0
  int64_t rows_ = 0, dim_ = 0;
  int64_t appended_ = 0;  // numbers
};

}  // namespace tern::decoding
