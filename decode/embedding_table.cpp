// Keeps a table of embeddings as f32, or as bf16 where that loses nothing.
#include "tern/decode/embedding_table.h"

#include <algorithm>
#include <bit>

#include "tern/core/base/simd.h"
#include "tern/core/ops/ops.h"

namespace tern::decoding {
namespace {

float whole(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

}  // namespace

bool fits_bf16(const Tensor& rows) {
  return simd([x = rows.data<float>(), n = rows.numel()] {
    uint32_t rest = 0;
#pragma omp simd reduction(| : rest)
    for (int64_t i = 0; i < n; ++i) rest |= std::bit_cast<uint32_t>(x[i]) & 0xffff;
    return rest == 0;
  });
}

EmbeddingTable::EmbeddingTable(const Tensor& table)
    : table_(table.contiguous()), rows_(table.size(0)), dim_(table.size(1)) {}

EmbeddingTable::EmbeddingTable(int64_t rows, int64_t dim) : rows_(rows), dim_(dim) {}

const uint16_t* EmbeddingTable::halves() const {
  return reinterpret_cast<const uint16_t*>(table_.data<uint8_t>());
}

void EmbeddingTable::append(const Tensor& rows) {
  const Tensor given = rows.contiguous();
  const float* x = given.data<float>();
  const int64_t n = given.numel();
  const bool fits = fits_bf16(given);
  if (!table_.defined())
    table_ = fits ? empty({rows_, dim_, 2}, DType::u8) : empty({rows_, dim_});
  else if (compact() && !fits)
    widen();
  if (compact())
    std::transform(
        x, x + n, reinterpret_cast<uint16_t*>(table_.mutable_data<uint8_t>()) + appended_,
        [](float number) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16); });
  else
    std::copy_n(x, n, table_.mutable_data<float>() + appended_);
  appended_ += n;
}

void EmbeddingTable::widen() {
  const Tensor wide = empty({rows_, dim_});
  std::transform(halves(), halves() + appended_, wide.mutable_data<float>(), whole);
  table_ = wide;
}

int64_t EmbeddingTable::bytes() const {
  return defined() ? table_.numel() * item_size(table_.dtype()) : 0;
}

const float* EmbeddingTable::row(int64_t token, float* room) const {
  if (!compact()) return table_.data<float>() + token * dim_;
  const uint16_t* from = halves() + token * dim_;
  std::transform(from, from + dim_, room, whole);
  return room;
}

}  // namespace tern::decoding
