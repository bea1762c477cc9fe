// The fused attention op: rows of the op table against plain loops, then masks, dropout, long
// sentences, large scores, threads and errors.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_attention {
namespace {

using test::op, test::Array, test::Arrays, test::for_each_index, test::kInf, test::OpRow;
using Inputs = std::vector<Tensor>;
using Sees = std::function<bool(const Dims&)>;  // index (b, h, t, s)

// Attention by plain loops. q (B,H,T,D), k (B,G,S,D), v (B,G,S,E), bias broadcast to (B,H,T,S).
struct Naive {
  double scale = 0;  // 0: 1 / sqrt(D)
  Sees sees = [](const Dims&) { return true; };
  bool weights = false;

  Array operator()(const Arrays& in) const {
    const Array &q = in[0], &k = in[1], &v = in[2];
    const int64_t heads = q.shape[1], keys = k.shape[2], dim = q.shape[3];
    const int64_t group = std::max<int64_t>(heads, 1) / std::max<int64_t>(k.shape[1], 1);
    Array p(Shape{q.shape[0], heads, q.shape[2], keys});
    Array y(Shape{q.shape[0], heads, q.shape[2], v.shape[3]});
    const double factor = scale ? scale : 1 / std::sqrt(static_cast<double>(dim));
    for_each_index(Shape{q.shape[0], heads, q.shape[2]}, [&](const Dims& i) {
      double total = 0;
      for (int64_t s = 0; s < keys; ++s) {
        Dims at{i[0], i[1], i[2], s};
        double score = 0;
        for (int64_t d = 0; d < dim; ++d)
          score += q.at({i[0], i[1], i[2], d}) * k.at({i[0], i[1] / group, s, d}) * factor;
        if (in.size() > 3) score += in[3].broadcast_at(at);
        p.at(at) = sees(at) ? std::exp(score) : 0;
        total += p.at(at);
      }
      for (int64_t s = 0; s < keys; ++s) {
        double& w = p.at({i[0], i[1], i[2], s});
        w = total > 0 ? w / total : 0;
        for (int64_t e = 0; e < v.shape[3]; ++e)
          y.at({i[0], i[1], i[2], e}) += w * v.at({i[0], i[1] / group, s, e});
      }
    });
    return weights ? p : y;
  }
};

OpRow row(const std::string& name, const std::vector<Shape>& shapes, const AttentionMask& mask,
          const Naive& naive) {
  auto fn = [=](const Inputs& x) {
    AttentionOptions options{.mask = mask};
    if (naive.scale) options.scale = naive.scale;
    if (x.size() > 3) options.mask.bias = x[3];
    if (naive.weights) return attention_with_weights(x[0], x[1], x[2], options).weights;
    return attention(x[0], x[1], x[2], options);
  };
  OpRow r{.name = "attention, " + name, .shapes = shapes, .fn = fn, .naive = naive};
  // The empty run has no channels in v; the mask may fix the other sizes.
  r.empty_shapes = shapes;
  r.empty_shapes[2][3] = 0;
  return r;
}

TEST_CASE("op table: attention") {
  const std::vector<Shape> plain = {{2, 3, 3, 4}, {2, 3, 5, 4}, {2, 3, 5, 2}};
  Tensor lengths = tensor<int64_t>({5, 2}, {2}),
         lengths2 = tensor<int64_t>({1, 5, 0, 3, 2, 4}, {2, 3});
  Tensor pairs = tensor({1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1}, {3, 5}, DType::u8);
  const std::vector<int> p = pairs.to_vector<int>(), n2 = lengths2.to_vector<int>();
  auto at = [](const std::vector<int>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  OpRow weights = row("weights", plain, {.causal = 0},
                      {.sees = [](const Dims& i) { return i[3] <= i[2]; }, .weights = true});
  weights.empty_shapes = {{2, 3, 0, 4}, plain[1], plain[2]};
  test::run_rows({
      row("plain", plain, {}, {}),
      row("a scale of one's own", plain, {}, {.scale = -1.5}),
      row("lengths", plain, {.lengths = lengths},
          {.sees = [](const Dims& i) { return i[0] == 0 || i[3] < 2; }}),
      row("lengths of queries", plain, {.lengths = lengths2},
          {.sees = [=](const Dims& i) { return i[3] < at(n2, i[0] * 3 + i[2]); }}),
      row("causal", plain, {.causal = 1}, {.sees = [](const Dims& i) { return i[3] <= i[2] + 1; }}),
      row("causal, the first see nothing", plain, {.causal = -2},
          {.sees = [](const Dims& i) { return i[3] <= i[2] - 2; }}),
      row("pairs and causal", plain, {.causal = 1, .allowed = pairs},
          {.sees = [=](const Dims& i) { return i[3] <= i[2] + 1 && at(p, i[2] * 5 + i[3]); }}),
      row("bias", {plain[0], plain[1], plain[2], {3, 3, 5}}, {}, {}),
      row("grouped heads", {{2, 4, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 3}}, {.lengths = lengths},
          {.sees = [](const Dims& i) { return i[0] == 0 || i[3] < 2; }}),
      weights,
  });
}

TEST_CASE("op table: attention on joint projections") {
  // (B, T, heads * D) -> (B, heads, T, D)
  auto part = [](const Array& x, int64_t first, int64_t heads, int64_t dim) {
    Array y(Shape{x.shape[0], heads, x.shape[1], dim});
    for_each_index(y.shape, [&](const Dims& i) {
      y.at(i) = x.at({i[0], i[2], first + i[1] * dim + i[3]});
    });
    return y;
  };
  auto joined = [](const Array& y) {
    Array x(Shape{y.shape[0], y.shape[2], y.shape[1] * y.shape[3]});
    for_each_index(y.shape, [&](const Dims& i) {
      x.at({i[0], i[2], i[1] * y.shape[3] + i[3]}) = y.at(i);
    });
    return x;
  };
  const Naive causal{.sees = [](const Dims& i) { return i[3] <= i[2]; }};
  op("self_attention", {{2, 3, 16}}, [](const Inputs& x) {
    return self_attention(x[0], {.heads = 4, .kv_heads = 2}, {.mask = {.causal = 0}});
  }).equals([=](const Arrays& x) {
    return joined(causal({part(x[0], 0, 4, 2), part(x[0], 8, 2, 2), part(x[0], 12, 2, 2)}));
  });
  op("cross_attention", {{2, 3, 6}, {2, 4, 12}}, [](const Inputs& x) {
    return cross_attention(x[0], x[1], {.heads = 2});
  }).equals([=](const Arrays& x) {
    return joined(Naive{}({part(x[0], 0, 2, 3), part(x[1], 0, 2, 3), part(x[1], 6, 2, 3)}));
  });
}

struct Random {
  Tensor q, k, v, dy;
  Random(const Shape& qs, const Shape& ks, int64_t value_dim, uint64_t seed = 1) {
    Rng rng(seed);
    q = randn(qs, rng, DType::f64);
    k = randn(ks, rng, DType::f64);
    v = randn({ks[0], ks[1], ks[2], value_dim}, rng, DType::f64);
    dy = randn({qs[0], qs[1], qs[2], value_dim}, rng, DType::f64);
  }
  std::vector<Tensor> gradients(const AttentionOptions& options, bool composed) const {
    Inputs in{q.clone(), k.clone(), v.clone()};
    for (const Tensor& t : in) t.set_requires_grad();
    return grad({attention(in[0], in[1], in[2], options)}, in,
                {.create_graph = composed, .gradients = {dy}});
  }
};

// Large enough for several tiles per head.
TEST_CASE("attention: fused gradients equal those of the composed ops, also with dropout") {
  Random x({2, 4, 300, 8}, {2, 2, 290, 8}, 6);
  for (double p : {0.0, 0.3}) {
    Rng a(7), b(7);
    AttentionOptions options{.mask = {.lengths = tensor<int64_t>({290, 77}, {2}), .causal = -5},
                             .dropout = p};
    options.rng = &a;
    auto fused = x.gradients(options, false);
    options.rng = &b;
    auto composed = x.gradients(options, true);
    for (size_t i = 0; i < 3; ++i) {
      double largest = max(abs(composed[i])).item();
      CHECK(max(abs(fused[i] - composed[i])).item() <= 1e-11 * largest);
      CHECK(largest > 0.01);
    }
  }
}

// Several tiles per head and more keys than one block; no size is a multiple of a tile or a block.
TEST_CASE("attention: long sentences in f32 agree with f64, same bits on any number of threads") {
  constexpr int64_t kKeys = 1101;
  Random x({1, 4, 301, 20}, {1, 2, kKeys, 20}, 37);
  auto run = [&](DType type, const AttentionMask& mask) {
    Rng drop(9);
    Inputs in{x.q.to(type), x.k.to(type), x.v.to(type)};
    for (Tensor& t : in) t = t.detach().clone(), t.set_requires_grad();
    Tensor y = attention(in[0], in[1], in[2], {.mask = mask, .dropout = 0.1, .rng = &drop});
    std::vector<Tensor> all = grad({y}, in, {.gradients = {x.dy.to(type)}});
    all.push_back(y.detach());
    return all;
  };
  for (const AttentionMask& mask :
       {AttentionMask{}, AttentionMask{.causal = 700}, AttentionMask{.causal = -9},
        AttentionMask{.lengths = tensor<int64_t>({513}, {1}), .causal = 512}}) {
    const test::Threads one(1);
    const std::vector<Tensor> exact = run(DType::f64, mask), alone = run(DType::f32, mask);
    const test::Threads three(3);
    const std::vector<Tensor> together = run(DType::f32, mask);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double largest = max(abs(exact[i])).item();
      // Sums have at most kKeys terms, each rounded by 2^-24.
      CHECK(max(abs(alone[i].to(DType::f64) - exact[i])).item() <= kKeys * 0x1p-24 * largest);
      CHECK(together[i].to_vector<float>() == alone[i].to_vector<float>());
    }
  }
}

// The largest score exceeds the others by far: its probability is 1, so scores have gradient 0.
TEST_CASE("attention: gradients of large scores") {
  Random x({1, 2, 20, 3}, {1, 2, 20, 3}, 4);
  for (double size : {1e2, 1e4, 3e9, 1e15}) {
    Inputs in{(x.q * size).to(DType::f32), (x.k * size).to(DType::f32), x.v.to(DType::f32)};
    for (const Tensor& t : in) t.set_requires_grad();
    const Tensor dy = x.dy.to(DType::f32);
    const Tensor y = attention(in[0], in[1], in[2]);
    const std::vector<Tensor> g = grad({y}, in, {.gradients = {dy}});
    CHECK(max(abs(g[0])).item() == 0);
    CHECK(max(abs(g[1])).item() == 0);
    const Tensor p =
        one_hot(argmax(matmul(in[0], transpose(in[1], -1, -2)), -1), 20).to(DType::f32);
    CHECK(all_close(y, matmul(p, in[2]), 0, 0));
    CHECK(all_close(g[2], matmul(transpose(p, -1, -2), dy), 1e-6, 1e-6));
  }
}

TEST_CASE("attention: dropout drops its share and scales the rest") {
  Rng rng(3);
  const int64_t keys = 512;
  // With equal scores every probability is 1 / keys, so the context counts the keys that are left.
  Tensor q = zeros({2, 2, 64, 4}), k = zeros({2, 2, keys, 4}), v = ones({2, 2, keys, 1});
  Tensor y = attention(q, k, v, {.dropout = 0.25, .rng = &rng});
  Tensor left = y * (0.75 * static_cast<double>(keys));  // how many keys are left
  CHECK(all_close(left, round(left), 0, 1e-3));
  // Binomial: 256 rows of 512 keys with mean 384 and deviation 9.8; the mean of all has 9.8 / 16.
  CHECK(std::abs(mean(left).item() - 384) < 4 * 9.8 / 16);
  CHECK(std::abs(tern::std(left).item() - 9.8) < 2);
  Tensor again = attention(q, k, v, {.dropout = 0.25, .rng = &rng});
  CHECK(y.to_vector<float>() != again.to_vector<float>());
}

TEST_CASE("attention: results do not depend on the number of threads") {
  Rng rng(5);
  Tensor q = randn({3, 4, 70, 32}, rng), k = randn({3, 2, 90, 32}, rng);
  Tensor v = randn({3, 2, 90, 32}, rng), dy = randn({3, 4, 70, 32}, rng);
  test::check_threads({3}, [&] {
    Rng drop(9);
    Inputs in{q.clone(), k.clone(), v.clone()};
    for (const Tensor& t : in) t.set_requires_grad();
    Tensor y =
        attention(in[0], in[1], in[2], {.mask = {.causal = 20}, .dropout = 0.1, .rng = &drop});
    std::vector<Tensor> all = grad({y}, in, {.gradients = {dy}});
    all.push_back(y);
    return test::numbers_of(all);
  });
}

TEST_CASE("attention: a query that sees no key gives zeros and no gradient") {
  Random x({2, 2, 4, 8}, {2, 2, 6, 8}, 8);
  Tensor sees = tensor({0, 1, 1, 1}, {4, 1}, DType::u8);  // 1 if query t sees any key
  Tensor pairs = expand(sees, {4, 6});
  Tensor hidden = where(pairs, zeros({4, 6}, DType::f64), -kInf);
  for (const AttentionMask& mask :
       {AttentionMask{.lengths = tensor<int64_t>({0, 6, 6, 6, 0, 6, 6, 6}, {2, 4})},
        AttentionMask{.causal = -1}, AttentionMask{.allowed = pairs},
        AttentionMask{.bias = hidden}}) {
    Inputs in{x.q.clone(), x.k.clone(), x.v.clone()};
    for (const Tensor& t : in) t.set_requires_grad();
    Tensor y = attention(in[0], in[1], in[2], {.mask = mask});
    CHECK(max(abs(select(y, 2, 0))).item() == 0);
    CHECK(max(abs(select(y, 2, 1))).item() > 0);
    std::vector<Tensor> g = grad({y}, in, {.gradients = {x.dy}});
    CHECK(max(abs(select(g[0], 2, 0))).item() == 0);
    for (const Tensor& t : g) CHECK(all(isfinite(t)).item() == 1);
    // The gradient from above of the query that sees no key has no effect.
    Tensor other = where(sees, x.dy, 1e6);
    Tensor again = attention(in[0], in[1], in[2], {.mask = mask});
    std::vector<Tensor> h = grad({again}, in, {.gradients = {other}});
    for (size_t i = 0; i < 3; ++i) CHECK(g[i].to_vector<double>() == h[i].to_vector<double>());
  }
}

TEST_CASE("attention: hidden keys change no bit; NaN spreads from seen keys") {
  Rng rng(2);
  Tensor q = randn({1, 2, 5, 8}, rng), k = randn({1, 2, 9, 8}, rng), v = randn({1, 2, 9, 8}, rng);
  AttentionOptions options{.mask = {.lengths = tensor<int64_t>({6}, {1})}};
  Tensor y = attention(q, k, v, options);
  Tensor short_y = attention(q, narrow(k, 2, 0, 6), narrow(v, 2, 0, 6));
  CHECK(y.to_vector<float>() == short_y.to_vector<float>());
  Tensor hidden = ge(arange(0, 9), 6);
  k = masked_fill(k, unsqueeze(hidden, 1), std::nan(""));
  v = masked_fill(v, unsqueeze(hidden, 1), std::nan(""));
  CHECK(attention(q, k, v, options).to_vector<float>() == y.to_vector<float>());
  Tensor sixth = logical_and(eq(arange(0, 9), 5), tensor<int64_t>({0, 1}, {2, 1}));
  Tensor spoilt = attention(q, masked_fill(k, unsqueeze(sixth, -1), std::nan("")), v, options);
  CHECK(all(isnan(select(spoilt, 1, 1))).item() == 1);
  CHECK(all(isfinite(select(spoilt, 1, 0))).item() == 1);
}

TEST_CASE("attention: no keys, no heads, no examples") {
  CHECK(max(abs(attention(ones({2, 3, 4, 5}), zeros({2, 3, 0, 5}), zeros({2, 3, 0, 6})))).item() ==
        0);
  CHECK(attention(zeros({0, 3, 4, 5}), zeros({0, 3, 2, 5}), zeros({0, 3, 2, 6})).shape() ==
        Shape{0, 3, 4, 6});
  // Without channels, all scores are equal.
  Tensor y = attention(zeros({1, 1, 2, 0}), zeros({1, 1, 2, 0}), tensor({1, 3}, {1, 1, 2, 1}));
  CHECK(y.to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("attention: offsets at the limits of i64 hide all keys or none") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = -kMost - 1;
  Rng rng(5);
  const Tensor q = randn({1, 1, 3, 2}, rng), k = randn({1, 1, 4, 2}, rng);
  const Tensor all = attention(q, k, k), none = zeros(all.shape());
  auto is = [&](const AttentionMask& mask, const Tensor& want) {
    const Tensor got = attention(q, k, k, {.mask = mask});
    CHECK(got.to_vector<float>() == want.to_vector<float>());
    CHECK(min(seen_keys(mask, {1, 1, 3, 4})).item<int>() == (want.ref() == all.ref()));
  };
  for (int64_t far : {kMost, kMost - 1, int64_t{5}}) {
    is({.causal = far}, all);
    is({.from = far}, none);
  }
  for (int64_t far : {kLeast, kLeast + 1, int64_t{-5}}) {
    is({.causal = far}, none);
    is({.from = far}, all);
  }
}

TEST_CASE("attention: wrong arguments name the rule and the values") {
  Tensor q = zeros({2, 4, 3, 8}), k = zeros({2, 3, 5, 8});
  CHECK_THROWS_WITH_AS(attention(q, k, k),
                       doctest::Contains("the 3 key heads must divide the 4 query heads"), Error);
  Tensor fine = zeros({2, 4, 5, 8});
  auto run = [&](const AttentionOptions& o) { return attention(q, fine, fine, o); };
  CHECK_THROWS_WITH_AS(run({.mask = {.lengths = tensor<int64_t>({5, 6}, {2})}}),
                       doctest::Contains("a length is 6, outside [0, 5 keys]"), Error);
  CHECK_THROWS_WITH_AS(run({.mask = {.lengths = zeros({3}, DType::i64)}}),
                       doctest::Contains("lengths must be (2,) or (2, 3), got (3,)"), Error);
  CHECK_THROWS_WITH_AS(run({.mask = {.allowed = zeros({3, 5})}}), doctest::Contains("u8"), Error);
  CHECK_THROWS_AS(run({.mask = {.allowed = ones({2, 5}, DType::u8)}}), Error);
  CHECK_THROWS_WITH_AS(run({.mask = {.bias = zeros({3, 5}, DType::f64)}}),
                       doctest::Contains(".to()"), Error);
  CHECK_THROWS_WITH_AS(run({.dropout = 0.1}), doctest::Contains("set .rng"), Error);
  CHECK_THROWS_WITH_AS(self_attention(zeros({2, 3, 30}), {.heads = 4}),
                       "self_attention: 30 channels cannot be split into 4 query heads and 4 heads "
                       "each for keys and values: give a multiple of 4 + 2 * 4 channels",
                       Error);
  CHECK_THROWS_WITH_AS(self_attention(zeros({2, 3, 30}), {.heads = 4, .kv_heads = 2}),
                       doctest::Contains("30 channels cannot be split into 4 query heads"), Error);
  CHECK_THROWS_WITH_AS(
      cross_attention(zeros({2, 3, 8}), zeros({2, 5, 30}), {.heads = 4}),
      doctest::Contains("30 channels cannot be split into keys and values of 4 heads"), Error);
  CHECK_THROWS_WITH_AS(cross_attention(zeros({2, 3, 0}), zeros({2, 5, 0}), {.heads = 2}),
                       "attention: 0 channels cannot be split into 2 heads", Error);
  CHECK_THROWS_WITH_AS(self_attention(zeros({2, 3, 0}), {.heads = 2}),
                       "attention: 0 channels cannot be split into 6 heads", Error);
  CHECK_THROWS_WITH_AS(self_attention({}, {}), doctest::Contains("self_attention: "), Error);
}

}  // namespace
}  // namespace tern::ops_attention
