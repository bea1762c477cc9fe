// Philox 4x32-10, a counter-based generator (Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011): ten rounds of multiplication turn a 128-bit counter and a
// 64-bit key into four 32-bit words. Each block is computed on its own, so fills can be vectorised
// and split among threads without changing the numbers. Inside of core only.
#pragma once

#include <array>
#include <cstdint>

namespace tern::kernels {

/// Blocks are computed in groups of this many, one per vector lane.
constexpr int kPhiloxGroup = 64;

/// The words of a group: word w of block b is words[w][b].
struct PhiloxGroup {
  alignas(64) uint32_t words[4][kPhiloxGroup];
};

/// One round on kBlocks blocks; k0 and k1 are the key of the round.
template <int kBlocks>
[[gnu::always_inline]] inline void philox_round(uint32_t (&x)[4][kBlocks], uint32_t k0,
                                                uint32_t k1) {
  for (int b = 0; b < kBlocks; ++b) {
    uint64_t p0 = uint64_t{0xD2511F53} * x[0][b], p1 = uint64_t{0xCD9E8D57} * x[2][b];
    uint32_t y0 = static_cast<uint32_t>(p1 >> 32) ^ x[1][b] ^ k0;
    uint32_t y2 = static_cast<uint32_t>(p0 >> 32) ^ x[3][b] ^ k1;
    x[1][b] = static_cast<uint32_t>(p1);
    x[3][b] = static_cast<uint32_t>(p0);
    x[0][b] = y0;
    x[2][b] = y2;
  }
}

/// The ten rounds, in place.
template <int kBlocks>
[[gnu::always_inline]] inline void philox_rounds(uint32_t (&x)[4][kBlocks], uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    philox_round(x, k0, k1);
    k0 += 0x9E3779B9;  // the golden ratio
    k1 += 0xBB67AE85;  // sqrt(3) - 1
  }
}

/// One block: the four words for a counter (low word first) and a key.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key) {
  uint32_t x[4][1] = {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
  philox_rounds(x, key);
  return {x[0][0], x[1][0], x[2][0], x[3][0]};
}

/// The blocks with counters first, first + 1, ...; `first` is a multiple of kPhiloxGroup.
[[gnu::always_inline]] inline void philox_group(uint64_t key, uint64_t first, PhiloxGroup& out) {
  for (int b = 0; b < kPhiloxGroup; ++b) {
    out.words[0][b] = static_cast<uint32_t>(first) + static_cast<uint32_t>(b);
    out.words[1][b] = static_cast<uint32_t>(first >> 32);
    out.words[2][b] = 0;
    out.words[3][b] = 0;
  }
  philox_rounds(out.words, key);
}

}  // namespace tern::kernels
