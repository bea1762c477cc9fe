// Dequantises the blocks of GGUF files with the formulas of ggml (ggml-quants.c, dequantize_row_*),
// in the same order of operations. So results have the same bits.
//
// A block has scales in f16, and unsigned integers of few bits. Nibbles and pairs of bits are in
// stripes: the lower bits of 16, 32 or 64 bytes are the first elements, the next bits follow.
#include "tern/core/io/gguf_blocks.h"

#include <cstring>

#include "tern/core/base/half.h"

namespace tern::detail {
namespace {

float half_at(const uint8_t* bytes) {
  return half_to_float(static_cast<uint16_t>(bytes[0] | bytes[1] << 8));
}

// Blocks of 32 elements.

void q4_0(const uint8_t* block, float* y) {
  const float d = half_at(block);
  for (int i = 0; i < 16; ++i) {
    const uint8_t q = block[2 + i];
    y[i] = d * static_cast<float>((q & 15) - 8);
    y[i + 16] = d * static_cast<float>((q >> 4) - 8);
  }
}

void q4_1(const uint8_t* block, float* y) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    const uint8_t q = block[4 + i];
    y[i] = d * static_cast<float>(q & 15) + m;
    y[i + 16] = d * static_cast<float>(q >> 4) + m;
  }
}

// Elements i and i + 16 of 32 with five bits: their nibbles are in one byte, and the fifth bits of
// all in 4 bytes before the first of those.
struct FiveBits {
  explicit FiveBits(const uint8_t* block) : nibbles(block + 4) {
    std::memcpy(&fifth, block, sizeof fifth);
  }
  int low(int i) const { return (nibbles[i] & 15) | static_cast<int>(fifth >> i & 1) << 4; }
  int high(int i) const { return nibbles[i] >> 4 | static_cast<int>(fifth >> (i + 16) & 1) << 4; }
  const uint8_t* nibbles;
  uint32_t fifth;
};

void q5_0(const uint8_t* block, float* y) {
  const float d = half_at(block);
  const FiveBits q(block + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>(q.low(i) - 16);
    y[i + 16] = d * static_cast<float>(q.high(i) - 16);
  }
}

void q5_1(const uint8_t* block, float* y) {
  const float d = half_at(block), m = half_at(block + 2);
  const FiveBits q(block + 4);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>(q.low(i)) + m;
    y[i + 16] = d * static_cast<float>(q.high(i)) + m;
  }
}

void q8_0(const uint8_t* block, float* y) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// "K" blocks: 256 elements, in groups of 16 or 32 with scales of few bits each.

// The bits of the elements of a group, which are at the same place of neighbouring bytes.
struct Bits {
  int operator[](int i) const { return bytes[i] >> shift & mask; }
  const uint8_t* bytes;
  int shift, mask;
};

// A group that begins at element `first` of a block. Two bits: 64 bytes in stripes of 32.
Bits two_bits(const uint8_t* q, int first) {
  return {q + first / 128 * 32 + first % 32, first % 128 / 32 * 2, 3};
}
// Four bits: 128 bytes in stripes of `stripe`.
Bits four_bits(const uint8_t* q, int first, int stripe) {
  return {q + first / (2 * stripe) * stripe + first % stripe, first / stripe % 2 * 4, 15};
}
// One bit: 32 bytes in stripes of 32.
Bits one_bit(const uint8_t* q, int first) { return {q + first % 32, first / 32, 1}; }

void q2_k(const uint8_t* block, float* y) {
  const float d = half_at(block + 80), least = half_at(block + 82);
  for (int group = 0; group < 16; ++group, y += 16) {
    const float scale = d * static_cast<float>(block[group] & 15);
    const float m = least * static_cast<float>(block[group] >> 4);
    const Bits q = two_bits(block + 16, group * 16);
    for (int i = 0; i < 16; ++i) y[i] = scale * static_cast<float>(q[i]) - m;
  }
}

void q3_k(const uint8_t* block, float* y) {
  const uint8_t* scales = block + 96;
  const float d = half_at(block + 108);
  for (int group = 0; group < 16; ++group, y += 16) {
    const int low = scales[group % 8] >> (group < 8 ? 0 : 4) & 15;
    const int six_bits = low | (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4;
    const float scale = d * static_cast<float>(six_bits - 32);
    const Bits q = two_bits(block + 32, group * 16), high = one_bit(block, group * 16);
    for (int i = 0; i < 16; ++i) y[i] = scale * static_cast<float>(q[i] + high[i] * 4 - 4);
  }
}

struct ScaleAndLeast {
  float scale, least;
};

// The six bits of a scale and of a smallest value, of group 0 to 7, in the 12 bytes that follow two
// f16 by which they are multiplied.
ScaleAndLeast scale_and_least(const uint8_t* block, int group) {
  const uint8_t* s = block + 4;
  int scale = s[group] & 63, least = s[group + 4] & 63;
  if (group >= 4) {
    scale = (s[group + 4] & 15) | (s[group - 4] >> 6) << 4;
    least = s[group + 4] >> 4 | (s[group] >> 6) << 4;
  }
  return {half_at(block) * static_cast<float>(scale),
          half_at(block + 2) * static_cast<float>(least)};
}

void q4_k(const uint8_t* block, float* y) {
  for (int group = 0; group < 8; ++group, y += 32) {
    const auto [scale, m] = scale_and_least(block, group);
    const Bits q = four_bits(block + 16, group * 32, 32);
    for (int i = 0; i < 32; ++i) y[i] = scale * static_cast<float>(q[i]) - m;
  }
}

void q5_k(const uint8_t* block, float* y) {
  for (int group = 0; group < 8; ++group, y += 32) {
    const auto [scale, m] = scale_and_least(block, group);
    const Bits q = four_bits(block + 48, group * 32, 32), high = one_bit(block + 16, group * 32);
    for (int i = 0; i < 32; ++i) y[i] = scale * static_cast<float>(q[i] | high[i] << 4) - m;
  }
}

void q6_k(const uint8_t* block, float* y) {
  const float d = half_at(block + 208);
  for (int group = 0; group < 16; ++group, y += 16) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + group]));
    const Bits low = four_bits(block, group * 16, 64), high = two_bits(block + 128, group * 16);
    for (int i = 0; i < 16; ++i) y[i] = scale * static_cast<float>((low[i] | high[i] << 4) - 32);
  }
}

template <void (*kBlock)(const uint8_t*, float*), int64_t kElements, int64_t kBytes>
constexpr ElementType block_type(std::string_view name) {
  return {name, kBytes, DType::f32,
          [](const std::byte* from, void* to, int64_t n) {
            const auto* block = reinterpret_cast<const uint8_t*>(from);
            auto* y = static_cast<float*>(to);
            for (int64_t i = 0; i < n; i += kElements, block += kBytes) kBlock(block, y + i);
          },
          kElements};
}

constexpr ElementType kBlockTypes[] = {
    block_type<q4_0, 32, 18>("Q4_0"),   block_type<q4_1, 32, 20>("Q4_1"),
    block_type<q5_0, 32, 22>("Q5_0"),   block_type<q5_1, 32, 24>("Q5_1"),
    block_type<q8_0, 32, 34>("Q8_0"),   block_type<q2_k, 256, 84>("Q2_K"),
    block_type<q3_k, 256, 110>("Q3_K"), block_type<q4_k, 256, 144>("Q4_K"),
    block_type<q5_k, 256, 176>("Q5_K"), block_type<q6_k, 256, 210>("Q6_K"),
};

}  // namespace

const ElementType* find_block_type(std::string_view name) {
  for (const ElementType& t : kBlockTypes)
    if (t.name == name) return &t;
  return nullptr;
}

}  // namespace tern::detail
