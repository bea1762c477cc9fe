// The spatial gating unit and the tiny attention as sequence layers: causality, padding, shorter
// sequences and steps, for all combinations of options. test_layers.cpp compares with definitions.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_spatial_gating {
using nn::Gate, nn::SpatialGatingOptions, nn::SpatialGatingUnit, nn::SpatialMatrix;
using test::close, test::same;

namespace {

constexpr int64_t kTokens = 5, kChannels = 8;

std::vector<SpatialGatingOptions> all_forms() {
  std::vector<SpatialGatingOptions> out;
  for (Gate gate : {Gate::multiplicative, Gate::additive, Gate::linear})
    for (bool split : {true, false})
      for (int64_t heads : {1, 2})
        for (auto m : {SpatialMatrix::full, SpatialMatrix::toeplitz, SpatialMatrix::circulant})
          for (bool causal : {false, true})
            if (gate != Gate::linear || !split)
              out.push_back({gate, split, heads, m, causal, 0.5, true});
  return out;
}

std::string name_of(const SpatialGatingOptions& o) {
  return fmt::format("gate {} split {} heads {} matrix {} causal {}", static_cast<int>(o.gate),
                     o.split, o.heads, static_cast<int>(o.matrix), o.causal);
}

int64_t gated(const SpatialGatingOptions& o) { return o.split ? kChannels / 2 : kChannels; }

/// A unit in f64 whose weights are all different.
SpatialGatingUnit unit_of(const SpatialGatingOptions& o, Rng& rng, int64_t tokens = kTokens) {
  SpatialGatingUnit unit(kChannels, tokens, rng, o);
  for (const Tensor& p : nn::parameters(unit)) nn::init::normal(p, 0.5, 1, rng);
  nn::to(unit, DType::f64);
  return unit;
}

Tensor input(int64_t batch, int64_t tokens, Rng& rng) {
  return randn({batch, tokens, kChannels}, rng, DType::f64);
}

Tensor u8(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, DType::u8);
}

}  // namespace

TEST_CASE("spatial gating: no token of a causal unit sees a later one, bit for bit") {
  for (const SpatialGatingOptions& o : all_forms()) {
    Rng rng(1);
    const SpatialGatingUnit unit = unit_of(o, rng);
    const Tensor x = input(2, kTokens, rng), added = randn({2, kTokens, gated(o)}, rng, DType::f64);
    for (int64_t seen = 1; seen < kTokens; ++seen) {
      const Tensor other = cat({narrow(x, 1, 0, seen), input(2, kTokens - seen, rng)}, 1);
      const Tensor a = narrow(unit(x, added), 1, 0, seen);
      CHECK_MESSAGE(same(a, narrow(unit(other, added), 1, 0, seen)) == o.causal, name_of(o));
    }
  }
}

TEST_CASE("spatial gating: Toeplitz and circulant matrices share their diagonals") {
  for (const SpatialGatingOptions& o : all_forms()) {
    if (o.matrix == SpatialMatrix::full) continue;
    Rng rng(2);
    const SpatialGatingUnit unit = unit_of(o, rng);
    const Tensor w = reshape(unit.spatial_weight(), {o.heads, kTokens, kTokens});
    for (int64_t h = 0; h < o.heads; ++h) {
      for (int64_t i = 0; i < kTokens; ++i)
        for (int64_t j = 0; j < kTokens; ++j) {
          const double here = w[h][i][j].item();
          if (o.causal && j > i) CHECK(here == 0);
          if (i > 0 && j > 0) CHECK(here == w[h][i - 1][j - 1].item());
          if (o.matrix == SpatialMatrix::circulant && !o.causal && i > 0 && j == 0)
            CHECK(here == w[h][i - 1][kTokens - 1].item());
        }
    }
  }
}

TEST_CASE("spatial gating: a head mixes only its share of the channels") {
  for (bool split : {true, false}) {
    Rng rng(3);
    SpatialGatingUnit unit = unit_of({.split = split, .heads = 2}, rng);
    const int64_t share = gated(unit.options) / 2;
    const Tensor x = input(2, kTokens, rng), before = unit(x);
    NoGradGuard guard;
    narrow(unit.weight.tensor().detach(), 0, 1, 1).mutable_data<double>()[3] += 1;  // head 1
    const Tensor after = unit(x);
    CHECK(same(narrow(before, 2, 0, share), narrow(after, 2, 0, share)));
    CHECK_FALSE(same(narrow(before, 2, share, share), narrow(after, 2, share, share)));
  }
}

TEST_CASE("spatial gating: W = 0 and b = 1 pass u through, in every form of the matrix") {
  for (SpatialGatingOptions o : all_forms()) {
    Rng rng(4);
    o.weight_bound = 0;
    SpatialGatingUnit unit(kChannels, kTokens, rng, o);
    const Tensor x = randn({2, kTokens, kChannels}, rng), u = narrow(x, 2, 0, gated(o));
    const Tensor want = o.gate == Gate::multiplicative ? u
                        : o.gate == Gate::additive     ? u + 1
                                                       : ones_like(u);
    CHECK_MESSAGE(same(unit(x), want), name_of(o));
  }
}

TEST_CASE("spatial gating: padding changes nothing; a shorter sequence equals a padded one") {
  const Tensor real = u8({1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {3, kTokens});
  for (const SpatialGatingOptions& o : all_forms()) {
    Rng rng(5);
    const SpatialGatingUnit unit = unit_of(o, rng);
    const Tensor x = input(3, kTokens, rng);
    const Tensor y = unit(x, {}, real);
    // First with other padding, then the first sentence alone.
    const Tensor other = where(unsqueeze(real, -1), x, input(3, kTokens, rng));
    const Tensor zero = zeros_like(y);
    auto kept = [&](const Tensor& t) { return where(unsqueeze(real, -1), t, zero); };
    CHECK_MESSAGE(same(kept(y), kept(unit(other, {}, real))), name_of(o));
    const Tensor alone = unit(narrow(narrow(x, 0, 0, 1), 1, 0, 3));
    CHECK_MESSAGE(close(alone, narrow(narrow(y, 0, 0, 1), 1, 0, 3), 1e-12, 1e-12), name_of(o));
    CHECK_MESSAGE(same(narrow(y, 0, 1, 1), narrow(unit(x), 0, 1, 1)), name_of(o));
  }
}

TEST_CASE("spatial gating: steps of any length equal the whole") {
  for (const SpatialGatingOptions& o : all_forms()) {
    if (!o.causal) continue;
    Rng rng(6);
    const SpatialGatingUnit unit = unit_of(o, rng);
    const Tensor x = input(2, kTokens, rng), added = randn({2, kTokens, gated(o)}, rng, DType::f64);
    const Tensor whole = unit(x, added);
    for (const std::vector<int64_t>& lengths :
         std::vector<std::vector<int64_t>>{{1, 1, 1, 1, 1}, {2, 3}, {5}, {4, 1}}) {
      nn::SpatialGatingCache cache;
      std::vector<Tensor> parts;
      for (int64_t length : lengths) {
        const int64_t at = cache.length();
        parts.push_back(unit.step(narrow(x, 1, at, length), cache, narrow(added, 1, at, length)));
      }
      CHECK_MESSAGE(close(cat(parts, 1), whole, 1e-12, 1e-12), name_of(o));
      CHECK(cache.length() == kTokens);
      CHECK_THROWS_WITH_AS(unit.step(narrow(x, 1, 0, 1), cache), doctest::Contains("5 tokens"),
                           Error);
    }
  }
}

TEST_CASE("spatial gating: a cache is a value; rows can be selected") {
  Rng rng(7);
  const SpatialGatingUnit unit = unit_of({.causal = true}, rng);
  const Tensor x = input(3, kTokens, rng), rows = tensor<int64_t>({2, 0, 2}, {3});
  nn::SpatialGatingCache cache;
  static_cast<void>(unit.step(narrow(x, 1, 0, 3), cache));
  nn::SpatialGatingCache picked = cache.select_rows(rows);
  const Tensor next = index_select(narrow(x, 1, 3, 1), 0, rows);
  CHECK(close(unit.step(next, picked), index_select(narrow(unit(x), 1, 3, 1), 0, rows), 1e-12, 0));
  CHECK(cache.length() == 3);
  CHECK(nn::SpatialGatingCache().select_rows(rows).length() == 0);
}

TEST_CASE("spatial gating: gradients of padded, shorter and stepwise sequences") {
  const Tensor real = u8({1, 1, 0, 1, 0, 0}, {2, 3});
  for (const SpatialGatingOptions& o : all_forms()) {
    if (o.gate == Gate::additive) continue;
    Rng rng(8);
    const SpatialGatingUnit unit = unit_of(o, rng);
    std::vector<Tensor> inputs = {input(2, 3, rng).set_requires_grad()};
    gradcheck([&](const std::vector<Tensor>& in) { return unit(in[0], {}, real); }, inputs);
    if (!o.causal) continue;
    gradcheck(
        [&](const std::vector<Tensor>& in) {
          nn::SpatialGatingCache cache;
          Tensor first = unit.step(narrow(in[0], 1, 0, 2), cache);
          return cat({first, unit.step(narrow(in[0], 1, 2, 1), cache)}, 1);
        },
        inputs);
  }
}

TEST_CASE("spatial gating: one token, no examples, errors") {
  for (const SpatialGatingOptions& o : all_forms()) {
    Rng rng(9);
    const SpatialGatingUnit one = unit_of(o, rng, 1), unit = unit_of(o, rng);
    CHECK(one(input(2, 1, rng)).shape() == Shape{2, 1, gated(o)});
    CHECK(unit(input(0, kTokens, rng)).shape() == Shape{0, kTokens, gated(o)});
    CHECK_THROWS_AS(unit(input(1, kTokens + 1, rng)), Error);
    CHECK_THROWS_AS(unit(input(1, kTokens, rng), {}, ones({1, 4}, DType::u8)), Error);
    nn::SpatialGatingCache cache;
    if (!o.causal)
      CHECK_THROWS_WITH_AS(unit.step(input(1, 1, rng), cache), doctest::Contains(".causal"), Error);
  }
}

TEST_CASE("tiny attention: causality bit for bit, padding, steps") {
  Rng rng(10);
  nn::TinyAttention causal(6, 4, 3, rng, true), open(6, 4, 3, rng);
  nn::to(causal, DType::f64);
  nn::to(open, DType::f64);
  const Tensor x = randn({2, 5, 6}, rng, DType::f64), y = randn({2, 5, 6}, rng, DType::f64);
  for (int64_t seen = 1; seen < 5; ++seen) {
    const Tensor other = cat({narrow(x, 1, 0, seen), narrow(y, 1, seen, 5 - seen)}, 1);
    CHECK(same(narrow(causal(x), 1, 0, seen), narrow(causal(other), 1, 0, seen)));
    CHECK_FALSE(same(narrow(open(x), 1, 0, seen), narrow(open(other), 1, 0, seen)));
    const nn::Mask mask = nn::Mask::lengths({seen, seen});
    CHECK(same(narrow(open(x, mask), 1, 0, seen), narrow(open(other, mask), 1, 0, seen)));
  }
  for (int64_t length : {1, 2, 3}) {
    nn::KeyValueCache cache;
    std::vector<Tensor> parts;
    for (int64_t at = 0; at < 5; at += length)
      parts.push_back(causal.step(narrow(x, 1, at, std::min(length, 5 - at)), cache));
    CHECK(close(cat(parts, 1), causal(x), 1e-12, 1e-12));
  }
  nn::KeyValueCache cache;
  CHECK_THROWS_WITH_AS(open.step(x, cache), doctest::Contains("causal"), Error);
}

}  // namespace tern::test_spatial_gating
