// Tables of positional encodings (binary, sinusoidal, 2-d, learned), rotary encoding, ALiBi, and
// resizing of a table to another grid of patches.
#include "tern/nn/positions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/nn/init.h"

namespace tern::nn {
namespace {

/// offset ... offset + n - 1 as f64.
Tensor steps(int64_t n, int64_t offset = 0) {
  return arange(offset, checked_sum("positions", offset, n), 1, DType::f64);
}

void check_base(const char* name, double base) {
  check(base > 0, "{}: the base is {}; it must be above 0", name, base);
}

// Refuses integers: a table of sines would be all zeros.
void check_float(const char* name, DType dtype) {
  check(is_float(dtype), "{}: the table is floating, got {}", name, dtype);
}

/// base^(-i / n) for i = 0 ... n - 1.
Tensor frequencies(int64_t n, double base) {
  return exp(steps(n) * (-std::log(base) / static_cast<double>(n)));
}

/// 0 for fast pairs, 1 for slow ones; between them by the pair's number.
Tensor yarn_slowness(int64_t pairs, double base, const RopeScaling& s) {
  const auto pair_with_turns = [&](double turns) {
    return static_cast<double>(pairs) / std::log(base) *
           std::log(static_cast<double>(s.original_context) / (2 * std::numbers::pi * turns));
  };
  double first = pair_with_turns(s.beta_fast), last = pair_with_turns(s.beta_slow);
  if (s.truncate) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(2 * pairs - 1));
  if (first == last) last += 0.001;  // as transformers
  return clamp((steps(pairs) - first) / (last - first), 0, 1);
}

/// The angles of one token's step.
Tensor step_angles(int64_t pairs, double base, const RopeScaling& s) {
  const Tensor angles = frequencies(pairs, base);
  if (s.kind == RopeScaling::Kind::none) return angles;
  if (s.kind == RopeScaling::Kind::linear) return angles / s.factor;
  if (s.kind == RopeScaling::Kind::longrope)
    return angles / tensor(s.factor > 1 ? s.longer : s.shorter, {pairs});
  if (s.kind == RopeScaling::Kind::yarn) {
    const Tensor slow = yarn_slowness(pairs, base, s);
    return angles * (1 - slow + slow / s.factor);
  }
  const Tensor turns = angles * (static_cast<double>(s.original_context) / (2 * std::numbers::pi));
  const Tensor fast =
      clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0, 1);
  return angles * (fast + (1 - fast) / s.factor);
}

double attention_factor(const RopeScaling& s) {
  const bool yarn = s.kind == RopeScaling::Kind::yarn;
  if (!yarn && s.kind != RopeScaling::Kind::longrope) return 1;
  if (s.attention_factor) return *s.attention_factor;
  if (s.factor <= 1) return 1;
  return yarn ? 1 + std::log(s.factor) / 10
              : std::sqrt(1 +
                          std::log(s.factor) / std::log(static_cast<double>(s.original_context)));
}

}  // namespace

Tensor binary_positions(int64_t tokens, int64_t bits, int64_t offset) {
  check(tokens >= 0 && bits >= 0 && bits < 63 && offset >= 0,
        "binary_positions: tokens and offset must not be negative, and bits must be in [0, 62]; "
        "got {} tokens from {} in {} bits",
        tokens, offset, bits);
  if (bits == 0)
    bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(tokens + offset, 1) - 1));
  std::vector<int64_t> powers;
  for (int64_t i = 0; i < bits; ++i) powers.push_back(int64_t{1} << i);
  const Tensor t = arange(offset, offset + tokens);
  return remainder(floor_divide(t, tensor(powers, {bits, 1})), 2).to(DType::f32);
}

Tensor sinusoidal_positions(int64_t tokens, int64_t dim, const SinusoidOptions& o, DType dtype) {
  check(dim >= 0 && tokens >= 0,
        "sinusoidal_positions: sizes must not be negative, got {} tokens of {} channels", tokens,
        dim);
  check_float("sinusoidal_positions", dtype);
  return sinusoidal_positions(steps(tokens), dim, o).to(dtype);
}

Tensor sinusoidal_positions(const Tensor& times, int64_t dim, const SinusoidOptions& o) {
  check_defined("sinusoidal_positions", times);
  check(dim >= 0, "sinusoidal_positions: the number of channels must not be negative, got {}", dim);
  check_base("sinusoidal_positions", o.base);
  const int64_t pairs = (dim + 1) / 2;
  // Frequencies go to base^-1 over D/2, which for odd D is not the number of pairs.
  Tensor w =
      exp(steps(pairs) * (-2 * std::log(o.base) / static_cast<double>(std::max<int64_t>(dim, 1))));
  Tensor angle = unsqueeze(times.to(DType::f64) + o.offset, -1) * w;
  Tensor waves = flatten(stack({sin(angle), cos(angle)}, -1), -2);
  const DType type = is_float(times.dtype()) ? times.dtype() : DType::f32;
  return narrow(waves, -1, 0, dim).contiguous().to(type);
}

Tensor sincos_2d_positions(int64_t rows, int64_t columns, int64_t dim, const GridOptions& o,
                           DType dtype) {
  check(dim >= 0 && dim % 4 == 0, "sincos_2d_positions: {} channels are not a multiple of 4", dim);
  check(rows >= 0 && columns >= 0,
        "sincos_2d_positions: sizes must not be negative, got {} x {} patches", rows, columns);
  check_base("sincos_2d_positions", o.base);
  check_float("sincos_2d_positions", dtype);
  Tensor w = frequencies(dim / 4, o.base);
  const Shape grid{rows, columns, dim / 4};
  Tensor x = expand(unsqueeze(steps(columns, o.column_offset), 1) * w, grid);
  Tensor y = expand(unsqueeze(unsqueeze(steps(rows, o.row_offset), 1) * w, 1), grid);
  return reshape(cat({sin(x), cos(x), sin(y), cos(y)}, -1), {rows * columns, dim}).to(dtype);
}

Tensor resize_positions(const Tensor& table, int64_t rows, int64_t columns,
                        const ResizeOptions& o) {
  check(table.ndim() == 2, "resize_positions: needs a table (T, D), the shape is {}",
        table.shape());
  check_float("resize_positions", table.dtype());
  check(rows > 0 && columns > 0,
        "resize_positions: the new sizes must be positive, got {} x {} patches", rows, columns);
  const int64_t patches = table.size(0) - o.prefix, dim = table.size(1);
  const auto side = static_cast<int64_t>(
      std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(patches, 0)))));
  const int64_t old_rows = o.old_rows ? o.old_rows : side;
  const int64_t old_columns = o.old_columns ? o.old_columns : side;
  check(o.prefix >= 0 && old_rows > 0 && old_columns > 0 && patches == old_rows * old_columns,
        "resize_positions: {} positions cannot be split into {} for the prefix and {} x {} "
        "patches; give .old_rows and .old_columns",
        table.size(0), o.prefix, old_rows, old_columns);
  NoGradGuard no_grad;
  const Tensor x = table.detach();
  if (rows == old_rows && columns == old_columns) return x.clone();
  const Tensor grid = reshape(narrow(x, 0, o.prefix, patches), {1, old_rows, old_columns, dim});
  const Tensor resized =
      interpolate(permute(grid, {0, 3, 1, 2}),
                  {.size = {rows, columns}, .mode = Interpolation::bicubic, .antialias = true});
  return cat(
      {narrow(x, 0, 0, o.prefix), reshape(permute(resized, {0, 2, 3, 1}), {rows * columns, dim})});
}

LearnedPositions::LearnedPositions(int64_t tokens, int64_t dim, Rng& rng, double std)
    : weight(empty({tokens, dim})) {
  init::normal(weight, 0, std, rng);
}

Tensor LearnedPositions::operator()(const Tensor& x, int64_t offset) const {
  ModuleScope module(weight);
  check(x.ndim() >= 2 && x.size(-1) == weight.size(1),
        "LearnedPositions: needs (..., T, {}), the shape is {}", weight.size(1), x.shape());
  check(offset >= 0 && offset + x.size(-2) <= weight.size(0),
        "LearnedPositions: tokens {} to {} do not fit into {} positions; make the module with more "
        "positions",
        offset, offset + x.size(-2), weight.size(0));
  return x + narrow(weight, 0, offset, x.size(-2));
}

void check_rope_scaling(const char* op, const RopeScaling& s, int64_t pairs) {
  using Kind = RopeScaling::Kind;
  const bool llama3 = s.kind == Kind::llama3;
  check(s.kind != Kind::none || s.factor == 1,
        "{}: the factor of rotary positions is {}, but nothing is scaled by it: choose a kind of "
        "RopeScaling, or leave the factor out",
        op, s.factor);
  check(!s.attention_factor || s.kind == Kind::yarn || s.kind == Kind::longrope,
        "{}: an attention_factor ({}) is for yarn and longrope; leave it out", op,
        s.attention_factor.value_or(1));
  check(s.kind == Kind::none || (s.factor > 0 && std::isfinite(s.factor)),
        "{}: the factor of scaled rotary positions is {}; it must be positive", op, s.factor);
  check(!llama3 || (s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
                    std::isfinite(s.high_freq_factor) && s.original_context > 0),
        "{}: scaled rotary positions with low_freq_factor {}, high_freq_factor {} and an original "
        "context of {}; these must be positive, and the first the smaller one",
        op, s.low_freq_factor, s.high_freq_factor, s.original_context);
  check(
      s.kind != Kind::yarn || (s.beta_slow > 0 && s.beta_fast > s.beta_slow &&
                               std::isfinite(s.beta_fast) && s.original_context > 0),
      "{}: scaled rotary positions with beta_slow {}, beta_fast {} and an original context of {}; "
      "these must be positive, and the first the smaller one",
      op, s.beta_slow, s.beta_fast, s.original_context);
  if (s.kind == Kind::longrope) {
    check(s.original_context > 1, "{}: scaled rotary positions with an original context of {}", op,
          s.original_context);
    for (const auto* divisors : {&s.shorter, &s.longer})
      check(std::ssize(*divisors) == pairs &&
                std::ranges::all_of(*divisors, [](double d) { return d > 0 && std::isfinite(d); }),
            "{}: scaled rotary positions need a positive divisor for each of {} pairs", op, pairs);
  }
  const double grows = s.attention_factor.value_or(1);
  check(grows > 0 && std::isfinite(grows),
        "{}: the attention_factor of scaled rotary positions is {}; it must be positive", op,
        grows);
}

Tensor rotary(const Tensor& x, const RotaryOptions& o) {
  check_defined("rotary", x);
  check(x.ndim() >= 2 && x.size(-1) % 2 == 0,
        "rotary: needs (..., T, D) with an even D, the shape is {}", x.shape());
  check(o.channels >= 0 && o.channels % 2 == 0 && o.channels <= x.size(-1),
        "rotary: the first {} of {} channels cannot be turned; give an even number", o.channels,
        x.size(-1));
  if (o.channels > 0 && o.channels < x.size(-1)) {
    RotaryOptions whole = o;
    whole.channels = 0;
    return cat({rotary(narrow(x, -1, 0, o.channels), whole),
                narrow(x, -1, o.channels, x.size(-1) - o.channels)},
               -1);
  }
  check_rope_scaling("rotary", o.scaling, x.size(-1) / 2);
  check(is_float(x.dtype()), "rotary: needs floating numbers, got {}", x.dtype());
  check_base("rotary", o.base);
  check(o.scaling.kind != RopeScaling::Kind::yarn || o.base > 1,
        "rotary: yarn needs a base above 1, it is {}", o.base);
  const int64_t half = x.size(-1) / 2;
  const Tensor angle =
      unsqueeze(steps(x.size(-2), o.offset), 1) * step_angles(half, o.base, o.scaling);
  const double factor = attention_factor(o.scaling);
  const auto table = [&](const Tensor& waves) {  // (T, D/2)
    return (factor == 1 ? waves : waves * factor).to(x.dtype());
  };
  const Tensor c = table(cos(angle)), s = table(sin(angle));
  const bool halves = o.pairs == RotaryPairs::halves;
  Tensor a = halves ? narrow(x, -1, 0, half) : slice(x, -1, 0, {}, 2);
  Tensor b = halves ? narrow(x, -1, half, half) : slice(x, -1, 1, {}, 2);
  Tensor u = a * c - b * s, v = a * s + b * c;
  return halves ? cat({u, v}, -1) : flatten(stack({u, v}, -1), -2);
}

Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, int64_t offset, DType dtype) {
  check(heads > 0, "alibi: the number of heads must be positive, got {}", heads);
  check(queries >= 0 && keys >= 0, "alibi: sizes must not be negative, got {} queries and {} keys",
        queries, keys);
  check_float("alibi", dtype);
  const auto whole = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const Tensor slopes = empty({heads, 1, 1}, DType::f64);
  double* const slope = slopes.mutable_data<double>();
  for (int64_t h = 0; h < heads; ++h) {
    const double n = static_cast<double>(h < whole ? whole : 2 * whole);
    const double step = static_cast<double>(h < whole ? h + 1 : 2 * (h - whole) + 1);
    slope[h] = std::exp2(-8 * step / n);
  }
  Tensor distance = abs(unsqueeze(steps(queries, offset), 1) - steps(keys));
  return (distance * -slopes).to(dtype);
}

}  // namespace tern::nn
