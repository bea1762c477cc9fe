// Random numbers: a generator is a small value that is passed explicitly. It is counter-based
// (Philox 4x32-10, philox.h), so that generators can be split without being correlated and
// fills give the same numbers for any number of threads.
#pragma once

#include <array>
#include <cstdint>

namespace tern {

/// A source of random numbers. Copies go on independently with the same numbers; a copy of state()
/// is all that a checkpoint needs. Not to be shared between threads: give each its stream().
///
///   Rng rng(42);
///   Rng worker = rng.stream(3);            // the same whenever it is asked for
///   rng.fill_normal(x, n, 0.0, 0.02);
class Rng {
 public:
  /// Key and position (in words of 32 bits).
  using State = std::array<uint64_t, 2>;

  explicit Rng(uint64_t seed = 0);
  explicit Rng(const State& state) : key_(state[0]), position_(state[1]) {}

  State state() const { return {key_, position_}; }
  bool operator==(const Rng& o) const { return state() == o.state(); }

  /// Generator number i derived from this one's seed: independent of this one, of every other i,
  /// and of how many numbers have been drawn.
  Rng stream(uint64_t i) const;

  /// A new generator that is independent of this one; the next call gives another.
  Rng split();

  uint32_t next_u32();
  uint64_t next_u64();

  /// In [0, 1), with 53 random bits.
  double uniform();

  /// In [low, high).
  double uniform(double low, double high);

  /// Standard normal.
  double normal();

  /// An integer in [0, n), all equally likely; n >= 1.
  int64_t below(int64_t n);

  /// Fills x with n numbers, in parallel for large n. All take their numbers from whole groups of
  /// the counter: the position moves on by a number that depends on n and the element type alone.
  /// Uniform in [low, high), with 24 or 53 random bits.
  void fill_uniform(float* x, int64_t n, double low = 0, double high = 1);
  void fill_uniform(double* x, int64_t n, double low = 0, double high = 1);

  /// Normal, by the method of Box and Muller from 32 (float) or 53 (double) bits each.
  void fill_normal(float* x, int64_t n, double mean = 0, double std = 1);
  void fill_normal(double* x, int64_t n, double mean = 0, double std = 1);

  /// 1 with probability p (rounded to a multiple of 2^-32), else 0; p in [0, 1].
  void fill_bernoulli(uint8_t* x, int64_t n, double p);

 private:
  template <class Draw>
  auto draw(Draw draw);
  uint64_t key_ = 0;
  uint64_t position_ = 0;  // words handed out
  // The block that words are handed out of; no part of the state.
  std::array<uint32_t, 4> block_{};
  uint64_t block_number_ = ~uint64_t{0};
};

}  // namespace tern
