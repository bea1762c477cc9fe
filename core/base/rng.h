// Random numbers. A generator is a small value that is passed explicitly. It is counter-based
// (Philox 4x32-10, philox.h): split generators are independent, and fills give the same numbers for
// any number of threads.
#pragma once

#include <array>
#include <cstdint>

namespace tern {

/// A source of random numbers. A copy continues with the same numbers on its own. A checkpoint
/// needs only state(). Do not share one between threads: give each thread a stream().
///
///   Rng rng(42);
///   Rng worker = rng.stream(3);            // the same on every call
///   rng.fill_normal(x, n, 0.0, 0.02);
class Rng {
 public:
  /// Key and position (in 32-bit words).
  using State = std::array<uint64_t, 2>;

  explicit Rng(uint64_t seed = 0);
  explicit Rng(const State& state) : key_(state[0]), position_(state[1]) {}

  State state() const { return {key_, position_}; }
  bool operator==(const Rng& o) const { return state() == o.state(); }

  /// Generator i, derived from this one's seed. It is independent of this one and of every other i,
  /// and does not depend on how many numbers were drawn.
  Rng stream(uint64_t i) const;

  /// A new generator, independent of this one. Each call returns a different one.
  Rng split();

  uint32_t next_u32();
  uint64_t next_u64();

  /// Uniform in [0, 1), with 53 random bits.
  double uniform();

  /// Uniform in [low, high).
  double uniform(double low, double high);

  /// Standard normal.
  double normal();

  /// A uniform integer in [0, n); n >= 1.
  int64_t below(int64_t n);

  /// The fills write n numbers to x, in parallel for large n. They consume whole groups of the
  /// counter, so the position advances by an amount that depends only on n and the element type.
  /// Uniform in [low, high), with 24 (float) or 53 (double) random bits.
  void fill_uniform(float* x, int64_t n, double low = 0, double high = 1);
  void fill_uniform(double* x, int64_t n, double low = 0, double high = 1);

  /// Normal, by the Box-Muller method from 32 (float) or 53 (double) bits each.
  void fill_normal(float* x, int64_t n, double mean = 0, double std = 1);
  void fill_normal(double* x, int64_t n, double mean = 0, double std = 1);

  /// 1 with probability p (rounded to a multiple of 2^-32), else 0; p in [0, 1].
  void fill_bernoulli(uint8_t* x, int64_t n, double p);

 private:
  template <class Draw>
  auto draw(Draw draw);
  uint64_t key_ = 0;
  uint64_t position_ = 0;  // number of words drawn
  // The current block of words; not part of the state.
  std::array<uint32_t, 4> block_{};
  uint64_t block_number_ = ~uint64_t{0};
};

}  // namespace tern
