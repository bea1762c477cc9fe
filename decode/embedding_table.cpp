// Keeps a table of embeddings as f32, or as bf16 where that loses nothing.
#include "tern/decode/embedding_table.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "tern/core/base/simd.h"
#include "tern/core/ops/ops.h"

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

float whole(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

}  // namespace

EmbeddingTable::EmbeddingTable(const Tensor& table)
    : table_(table.contiguous()), rows_(table.size(0)), dim_(table.size(1)) {}

EmbeddingTable::EmbeddingTable(int64_t rows, int64_t dim) : rows_(rows), dim_(dim) {
  halves_.reserve(static_cast<size_t>(rows * dim));  // address space, until numbers come
}

void EmbeddingTable::append(const Tensor& rows) {
  const Tensor given = rows.contiguous();
  const float* x = given.data<float>();
  const int64_t n = given.numel();
  if (!table_.defined() && !fits_bf16(x, n)) widen();
  if (table_.defined())
    std::copy_n(x, n, table_.mutable_data<float>() + appended_);
  else
    std::transform(x, x + n, std::back_inserter(halves_), [](float number) {
      return static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16);
    });
  appended_ += n;
}

void EmbeddingTable::widen() {
  table_ = empty({rows_, dim_});
  std::transform(halves_.begin(), halves_.end(), table_.mutable_data<float>(), whole);
  halves_ = {};
}

int64_t EmbeddingTable::bytes() const {
  const int64_t numbers = table_.defined() ? table_.numel() : 0;
  return numbers * int64_t{sizeof(float)} + std::ssize(halves_) * int64_t{sizeof(uint16_t)};
}

const float* EmbeddingTable::row(int64_t token, float* room) const {
  if (table_.defined()) return table_.data<float>() + token * dim_;
  const uint16_t* from = halves_.data() + token * dim_;
  std::transform(from, from + dim_, room, whole);
  return room;
}

}  // namespace tern::decoding
