// Positional encodings. Tables are (T, D), for tokens offset ... offset + T - 1; offset is the
// number of earlier tokens, as in a cache.
#pragma once

#include "tern/core/ops/ops.h"
#include "tern/nn/mask.h"
#include "tern/nn/parameter.h"

namespace tern::nn {

/// (bits, T): element (i, t) is bit i of t + offset. bits = 0 means the number that the last token
/// needs, ceil(log2(offset + T)).
Tensor binary_positions(int64_t tokens, int64_t bits = 0, int64_t offset = 0);

struct SinusoidOptions {
  int64_t offset = 0;
  double base = 1e4;
};
/// (T, D): sin(t w_i) in column 2i, cos(t w_i) in column 2i + 1, w_i = base^(-2i / D) (Vaswani et
/// al. 2017, section 3.5). D may be odd: the last cosine is left out.
Tensor sinusoidal_positions(int64_t tokens, int64_t dim, const SinusoidOptions& options = {},
                            DType dtype = DType::f32);
/// The same for times t of any shape -> (..., D), in their type (f32 for integers). Times may be
/// fractional or negative, as in diffusion models (Ho et al. 2020), and have a gradient. Computed
/// in f64: integer times give the rows of the table.
Tensor sinusoidal_positions(const Tensor& times, int64_t dim, const SinusoidOptions& options = {});

struct GridOptions {
  int64_t row_offset = 0, column_offset = 0;
  double base = 1e4;
};
/// (rows * columns, D) for the patches of an image, row by row; D is a multiple of 4. The quarters
/// of the channels are sin(x w), cos(x w), sin(y w), cos(y w), w_i = base^(-4i / D) (Chen, Xie & He
/// 2021).
Tensor sincos_2d_positions(int64_t rows, int64_t columns, int64_t dim,
                           const GridOptions& options = {}, DType dtype = DType::f32);

struct ResizeOptions {
  int64_t prefix = 0;                     ///< tokens before the patches, kept unchanged
  int64_t old_rows = 0, old_columns = 0;  ///< 0: the grid is a square
};
/// Resizes a table (prefix + old_rows * old_columns, D) of a grid of patches, row by row, to rows *
/// columns: bicubic with antialiasing (a = -0.5, corners not aligned), as timm's
/// resample_abs_pos_embed. No gradient. Error if the table does not fit such a grid.
Tensor resize_positions(const Tensor& table, int64_t rows, int64_t columns,
                        const ResizeOptions& options = {});

/// Learned positions: weight (tokens, D) starts in N(0, std^2) and is added to x (B, T, D).
struct LearnedPositions {
  Parameter weight;

  LearnedPositions(int64_t tokens, int64_t dim, Rng& rng, double std = 0.02);
  Tensor operator()(const Tensor& x, int64_t offset = 0) const;
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};

enum class RotaryPairs {
  neighbours,  ///< channels 2i and 2i + 1, as in the paper
  halves,      ///< channels i and i + D/2, as in GPT-NeoX and Llama
};
/// Slower rotations, for texts that are longer than those of the first training.
struct RopeScaling {
  enum class Kind {
    none,
    linear,  ///< all angles are divided by `factor` (Chen et al. 2023)
    llama3,  ///< Llama 3.1: angles of slow pairs are divided, those of fast pairs are not
    yarn,  ///< the same by other bounds (Peng et al. 2023), and results grow by `attention_factor`
    longrope,  ///< a divisor for each pair (Ding et al. 2024), and `attention_factor`
  };
  Kind kind = Kind::none;
  double factor = 1;  ///< longrope: context / original_context
  /// llama3: a pair is slow if it turns at most low_freq_factor times in the original context, and
  /// fast if it turns at least high_freq_factor times. Between these the divisor changes smoothly.
  double low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 8192;  ///< of the first training (llama3, yarn, longrope)
  /// yarn: a pair is fast if it turns at least beta_fast times in the original context, and slow if
  /// at most beta_slow times. Between these the divisor changes linearly with the pair's number.
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  ///< yarn: both bounds are moved to whole pairs
  /// longrope: divisors of the pairs' angles; `longer` if factor is above 1.
  std::vector<double> shorter = {}, longer = {};
  /// yarn, longrope: cosines and sines are multiplied by it. Default: 1 + ln(factor) / 10 (yarn) or
  /// sqrt(1 + ln(factor) / ln(original_context)) (longrope), and 1 if factor is at most 1.
  std::optional<double> attention_factor = {};

  bool operator==(const RopeScaling&) const = default;
};
/// Error if these values make no rotation of `pairs` pairs of channels, or if a factor or an
/// attention_factor is given that the kind does not use.
void check_rope_scaling(const char* op, const RopeScaling& scaling, int64_t pairs);

struct RotaryOptions {
  int64_t offset = 0;
  double base = 1e4;
  RotaryPairs pairs = RotaryPairs::neighbours;
  int64_t channels = 0;  ///< rotates only the first `channels`, an even number; 0: all
  RopeScaling scaling = {};
};
/// Rotary encoding (Su et al. 2021) of queries or keys x (..., T, D), D even: rotates pair i of
/// token t by the angle t base^(-2i / D), so that products depend only on distances. With
/// `channels`, D in this formula is their number.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

/// Attention with linear biases (Press, Smith & Lewis 2022): head h adds -slope_h |distance| to its
/// scores (H, T, S); query t is token t + offset, key s is token s. The slopes are 2^(-8 (h + 1) /
/// H) if H is a power of two. Otherwise they are those of the next lower power, then every second
/// one of the next higher power.
Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, int64_t offset = 0,
                  DType dtype = DType::f32);
inline Mask alibi(int64_t heads, int64_t queries, int64_t keys, int64_t offset = 0) {
  return Mask::bias(alibi_bias(heads, queries, keys, offset));
}

}  // namespace tern::nn
