// Keeps a table of embeddings as f32, or as bf16 where that loses nothing.
#include "tern/decode/embedding_table.h"

#include <bit>

#include "tern/core/base/simd.h"

namespace tern::decoding {
namespace {

bool fits_bf16(const float* x, int64_t n) {
  return simd([=] {
    uint32_t rest = 0;
#pragma omp simd reduction(| : rest)
    for (int64_t i = 0; i < n; ++i) rest |= std::bit_cast<uint32_t>(x[i]) & 0xffff;
    return rest == 0;
  });
}

}  // namespace

EmbeddingTable::EmbeddingTable(const Tensor& table)
    : table_(table.contiguous()), dim_(table.size(1)) {}

EmbeddingTable EmbeddingTable::compact(const Tensor& table) {
  EmbeddingTable out(table);
  const float* x = out.table_.data<float>();
  const int64_t n = table.numel();
  if (!fits_bf16(x, n)) return out;
  out.halves_.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out.halves_[static_cast<size_t>(i)] =
        static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i]) >> 16);
  out.table_ = {};
  return out;
}

int64_t EmbeddingTable::bytes() const {
  const int64_t whole = table_.defined() ? table_.numel() * int64_t{sizeof(float)} : 0;
  return whole + std::ssize(halves_) * int64_t{sizeof(uint16_t)};
}

const float* EmbeddingTable::row(int64_t token, float* room) const {
  if (table_.defined()) return table_.data<float>() + token * dim_;
  const uint16_t* from = halves_.data() + token * dim_;
  for (int64_t i = 0; i < dim_; ++i) room[i] = std::bit_cast<float>(uint32_t{from[i]} << 16);
  return room;
}

}  // namespace tern::decoding
