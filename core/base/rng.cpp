// Random numbers from Philox blocks: single draws, and fills with uniform, normal and Bernoulli
// numbers by groups of 64 blocks.
#include "tern/core/base/rng.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tern/core/base/draws.h"
#include "tern/core/base/error.h"
#include "tern/core/base/philox.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"

namespace tern {
namespace {

using kernels::kPhiloxGroup;
using kernels::PhiloxGroup;

// The upper half of the counter encodes a block's purpose, so that no block is used twice.
constexpr uint32_t kForStream = 1, kForSplit = 2, kForSeed = 3;

uint64_t derive(uint64_t key, uint64_t i, uint32_t purpose) {
  auto w =
      kernels::philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, purpose}, key);
  return w[0] | uint64_t{w[1]} << 32;
}

// Not inlined, so that the three of four draws that need no new block stay short.
[[gnu::noinline]] std::array<uint32_t, 4> block_at(uint64_t key, uint64_t number) {
  return kernels::philox({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, 0},
                         key);
}

/// Numbers per group: one per word (float, u8) or per pair of words (double).
template <class T>
constexpr int kPerGroup = sizeof(T) == 8 ? 2 * kPhiloxGroup : 4 * kPhiloxGroup;

/// Random integers in [0, 2^24) or [0, 2^53), times 2^-24 or 2^-53.
[[gnu::always_inline]] inline void units(const PhiloxGroup& g, int pair, int b, float& u0,
                                         float& u1) {
  u0 = static_cast<float>(static_cast<int32_t>(g.words[2 * pair][b] >> 8)) * 0x1p-24f;
  u1 = static_cast<float>(static_cast<int32_t>(g.words[2 * pair + 1][b] >> 8)) * 0x1p-24f;
}

[[gnu::always_inline]] inline double unit53(uint32_t w0, uint32_t w1) {
  return static_cast<double>(static_cast<int32_t>(w0 >> 6)) * 0x1p-26 +
         static_cast<double>(static_cast<int32_t>(w1 >> 5)) * 0x1p-53;
}

/// A number in (0, 1], for a logarithm. It has 31 and a half bits; the smallest value is 2^-32.
[[gnu::always_inline]] inline float positive_unit(uint32_t w) {
  return (static_cast<float>(static_cast<int32_t>(w >> 1)) + 0.5f) * 0x1p-31f;
}

template <class T>
[[gnu::always_inline]] inline T scale_unit(T u, T low, T width, T high) {
  T v = low + u * width;
  return v < high ? v : low;  // the sum may round up to high
}

/// The range [low, high). If its width overflows, the bounds are halved and every drawn number is
/// doubled.
template <class T>
struct Range {
  T low, width, high, scale = 1;
  [[gnu::always_inline]] Range(double from, double to)
      : low(static_cast<T>(from)), width(static_cast<T>(to) - low), high(static_cast<T>(to)) {
    if (__builtin_isfinite(width)) return;
    low /= 2;
    high /= 2;
    width = high - low;
    scale = 2;
  }
  [[gnu::always_inline]] T at(T u) const { return scale_unit(u, low, width, high) * scale; }
};

struct Uniform {
  double low, high;
  [[gnu::always_inline]] void operator()(const PhiloxGroup& g, float* x) const {
    const Range<float> range(low, high);
    for (int pair = 0; pair < 2; ++pair)
      for (int b = 0; b < kPhiloxGroup; ++b) {
        float u0, u1;
        units(g, pair, b, u0, u1);
        x[2 * pair * kPhiloxGroup + b] = range.at(u0);
        x[(2 * pair + 1) * kPhiloxGroup + b] = range.at(u1);
      }
  }
  [[gnu::always_inline]] void operator()(const PhiloxGroup& g, double* x) const {
    const Range<double> range(low, high);
    for (int pair = 0; pair < 2; ++pair)
      for (int b = 0; b < kPhiloxGroup; ++b)
        x[pair * kPhiloxGroup + b] =
            range.at(unit53(g.words[2 * pair][b], g.words[2 * pair + 1][b]));
  }
};

/// The Box-Muller method: r = sqrt(-2 log u0), (r cos(2 pi u1), r sin(2 pi u1)).
struct Normal {
  double mean, std;
  template <class T>
  [[gnu::always_inline]] void pair_of(T u0, T u1, T& z0, T& z1) const {
    T r = std::sqrt(T(-2) * vmath::log(u0)), s, c;
    vmath::sincos_turns(u1, s, c);
    z0 = T(mean) + T(std) * (r * c);
    z1 = T(mean) + T(std) * (r * s);
  }
  [[gnu::always_inline]] void operator()(const PhiloxGroup& g, float* x) const {
    for (int pair = 0; pair < 2; ++pair)
      for (int b = 0; b < kPhiloxGroup; ++b) {
        float skip, turn;
        units(g, pair, b, skip, turn);
        float* z = x + 2 * pair * kPhiloxGroup + b;
        pair_of(positive_unit(g.words[2 * pair][b]), turn, z[0], z[kPhiloxGroup]);
      }
  }
  [[gnu::always_inline]] void operator()(const PhiloxGroup& g, double* x) const {
    for (int b = 0; b < kPhiloxGroup; ++b) {
      double u0 = unit53(g.words[0][b], g.words[1][b]) + 0x1p-54;
      double u1 = unit53(g.words[2][b], g.words[3][b]);
      pair_of(u0, u1, x[b], x[kPhiloxGroup + b]);
    }
  }
};

struct Bernoulli {
  uint32_t last;     // words up to this value give 1
  uint8_t possible;  // 0 if p is 0, else 1
  [[gnu::always_inline]] void operator()(const PhiloxGroup& g, uint8_t* x) const {
    for (int w = 0; w < 4; ++w)
      for (int b = 0; b < kPhiloxGroup; ++b)
        x[w * kPhiloxGroup + b] = (g.words[w][b] <= last) & possible;
  }
};

/// Fills groups [begin, end) of the n numbers. The last group may be incomplete.
template <class T, class Distribution>
void fill_groups(T* x, int64_t n, int64_t begin, int64_t end, uint64_t key, uint64_t first,
                 Distribution distribution) {
  simd([=] {
    for (int64_t group = begin; group < end; ++group) {
      PhiloxGroup words;
      kernels::philox_group(key, first + static_cast<uint64_t>(group) * kPhiloxGroup, words);
      alignas(64) T out[kPerGroup<T>];
      distribution(words, out);
      T* to = x + group * kPerGroup<T>;
      const int64_t count = std::min<int64_t>(kPerGroup<T>, n - group * kPerGroup<T>);
      for (int64_t i = 0; i < count; ++i) to[i] = out[i];
    }
  });
}

/// Fills x and advances the position past the groups used.
template <class T, class Distribution>
void fill_all(T* x, int64_t n, uint64_t key, uint64_t& position, Distribution distribution) {
  constexpr uint64_t kWords = 4 * kPhiloxGroup;
  const uint64_t skipped = (position + kWords - 1) / kWords;  // begins at a whole group
  const int64_t groups = (n + kPerGroup<T> - 1) / kPerGroup<T>;
  parallel_for(groups, 32, [=](int64_t begin, int64_t end) {
    fill_groups(x, n, begin, end, key, skipped * kPhiloxGroup, distribution);
  });
  position = (skipped + static_cast<uint64_t>(groups)) * kWords;
}

/// A draw that fills x.
template <class T, class Distribution>
auto filling(T* x, int64_t n, Distribution distribution) {
  return [=](uint64_t key, uint64_t& position) {
    fill_all(x, n, key, position, distribution);
    return true;
  };
}

}  // namespace

Rng::Rng(uint64_t seed) : key_(derive(0, seed, kForSeed)) {}

Rng Rng::stream(uint64_t i) const { return Rng(State{derive(key_, i, kForStream), 0}); }

// Makes every draw: draw(key, position) advances the position. An open scope of this thread records
// the draw, or replays the words of an earlier pass (draws.h).
template <class Draw>
[[gnu::noinline]] auto Rng::draw(Draw draw) {
  detail::DrawScope* scope = detail::draw_scope;
  if (!scope) return draw(key_, position_);
  const State begin = scope->begin(state());
  uint64_t position = begin[1];
  auto drawn = draw(begin[0], position);
  scope->drawn(begin, position);
  if (!scope->replays()) position_ = position;
  return drawn;
}

Rng Rng::split() {
  return draw([](uint64_t key, uint64_t& position) {
    return Rng(State{derive(key, position++, kForSplit), 0});
  });
}

uint32_t Rng::next_u32() {
  if (detail::draw_scope) [[unlikely]] {
    return draw([](uint64_t key, uint64_t& position) {
      const uint64_t at = position++;
      return block_at(key, at / 4)[at % 4];
    });
  }
  uint64_t number = position_ / 4;
  if (number != block_number_) {
    block_ = block_at(key_, number);
    block_number_ = number;
  }
  return block_[position_++ % 4];
}

uint64_t Rng::next_u64() {
  uint64_t low = next_u32();
  return low | uint64_t{next_u32()} << 32;
}

double Rng::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

double Rng::uniform(double low, double high) { return Range<double>(low, high).at(uniform()); }

double Rng::normal() {
  double u0 = uniform() + 0x1p-54, u1 = uniform();
  return std::sqrt(-2 * std::log(u0)) * std::cos(2 * std::numbers::pi * u1);
}

// Lemire, "Fast random integer generation in an interval" (2019).
int64_t Rng::below(int64_t n) {
  check(n >= 1, "Rng::below: needs n >= 1, got {}", n);
  const uint64_t size = static_cast<uint64_t>(n);
  const uint64_t reject_under = -size % size;
  while (true) {
    auto product = static_cast<unsigned __int128>(next_u64()) * size;
    if (static_cast<uint64_t>(product) >= reject_under) return static_cast<int64_t>(product >> 64);
  }
}

void Rng::fill_uniform(float* x, int64_t n, double low, double high) {
  draw(filling(x, n, Uniform{low, high}));
}

void Rng::fill_uniform(double* x, int64_t n, double low, double high) {
  draw(filling(x, n, Uniform{low, high}));
}

void Rng::fill_normal(float* x, int64_t n, double mean, double std) {
  draw(filling(x, n, Normal{mean, std}));
}

void Rng::fill_normal(double* x, int64_t n, double mean, double std) {
  draw(filling(x, n, Normal{mean, std}));
}

void Rng::fill_bernoulli(uint8_t* x, int64_t n, double p) {
  check(p >= 0 && p <= 1, "Rng::fill_bernoulli: p must be in [0, 1], got {}", p);
  const double ones = std::round(p * 0x1p32);  // number of words that give 1
  const auto last = static_cast<uint32_t>(std::max(ones, 1.0) - 1);
  draw(filling(x, n, Bernoulli{last, ones > 0}));
}

}  // namespace tern
