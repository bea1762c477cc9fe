// A table of embeddings, as packed models read it. Inside of decode only.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::decoding {

class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  /// table f32 (V, D). Shares its memory.
  explicit EmbeddingTable(const Tensor& table);
  /// If bf16 can hold all numbers, as in most published models, copies them as bf16, so that the
  /// table can be freed: half the memory, the same numbers. Else shares the table.
  static EmbeddingTable compact(const Tensor& table);

  bool defined() const { return table_.defined() || !halves_.empty(); }
  int64_t bytes() const;  ///< memory held or shared
  /// The row of a token. `room` has space for D numbers, which may be used. REQUIRES: token < V.
  const float* row(int64_t token, float* room) const;

 private:
  Tensor table_;                  // or:
  std::vector<uint16_t> halves_;  // upper halves of f32 numbers whose lower halves are 0
  int64_t dim_ = 0;
};

}  // namespace tern::decoding
