// Multi-head attention against its formula, and the cache of keys and values.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/nn/multihead_attention.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_multihead_attention {
namespace {

using namespace nn;
using test::close;
using test::same;

constexpr int64_t kDim = 12;

/// A layer in f64 whose biases are not 0.
MultiHeadAttention layer_of(Rng& rng, const MultiHeadOptions& options) {
  MultiHeadAttention m(kDim, rng, options);
  to(m, DType::f64);
  if (m.in_proj_bias.defined()) {
    m.in_proj_bias = randn(m.in_proj_bias.shape(), rng, DType::f64);
    m.out_proj.bias = randn({kDim}, rng, DType::f64);
  }
  return m;
}

bool near(const Tensor& a, const Tensor& b) { return close(a, b, 1e-12, 1e-13); }

Tensor index(const std::vector<int64_t>& rows) {
  return tensor(rows, static_cast<int64_t>(rows.size()));
}

struct Projected {
  Tensor q, k, v;  // (B, heads, T, D)
};

/// Projects each part by its rows of in_proj. Repeats heads of keys and values for the queries that
/// share them.
Projected project(const MultiHeadAttention& m, const Tensor& query, const Tensor& key) {
  const int64_t heads = m.counts.heads, kv = m.counts.kv_heads, dim = kDim / heads;
  auto part = [&](const Tensor& x, int64_t first, int64_t count) {
    Tensor y = matmul(x, transpose(narrow(m.in_proj_weight, 0, first * dim, count * dim), 0, 1)) +
               narrow(m.in_proj_bias, 0, first * dim, count * dim);
    y = transpose(reshape(y, {x.size(0), x.size(1), count, dim}), 1, 2);
    return repeat_interleave(y, heads / count, 1);
  };
  return {part(query, 0, heads), part(key, heads, kv), part(key, heads + kv, kv)};
}

struct Expected {
  Tensor context, weights;
};

Expected expected(const MultiHeadAttention& m, const Tensor& query, const Tensor& key,
                  const Mask& mask) {
  Projected p = project(m, query, key);
  Tensor scores = matmul(p.q, transpose(p.k, 2, 3)) / std::sqrt(static_cast<double>(p.q.size(3)));
  Tensor weights = softmax(scores, -1, mask.dense(scores.shape()));
  Tensor heads = flatten(transpose(matmul(weights, p.v), 1, 2), 2);
  return {matmul(heads, transpose(m.out_proj.weight, 0, 1)) + m.out_proj.bias, weights};
}

}  // namespace

TEST_CASE("multi-head attention: every call follows the formula, for all numbers of heads") {
  for (const auto& counts : {std::pair{1, 0}, {6, 0}, {6, 3}, {6, 2}, {6, 1}, {12, 4}}) {
    const int heads = counts.first, kv = counts.second;
    CAPTURE(heads);
    CAPTURE(kv);
    Rng rng(1);
    MultiHeadAttention m = layer_of(rng, {.heads = heads, .kv_heads = kv});
    const int64_t groups = kv ? kv : heads;
    CHECK(m.in_proj_weight.shape() == Shape{kDim / heads * (heads + 2 * groups), kDim});
    Tensor x = randn({3, 5, kDim}, rng, DType::f64), memory = randn({3, 7, kDim}, rng, DType::f64);
    for (const Mask& mask : {Mask(), Mask::lengths({5, 0, 2}), Mask::causal()}) {
      Expected self = expected(m, x, x, mask), cross = expected(m, x, memory, mask);
      CHECK(near(m(x, mask), self.context));
      CHECK(near(m(x, x, x, mask), self.context));
      CHECK(near(m(x, memory, memory, mask), cross.context));
      CHECK(near(m(x, memory, memory.clone(), mask), cross.context));
      CHECK(near(m.attend_memory(x, m.project_memory(memory), mask), cross.context));
      auto check_weights = [&] {
        Attended y = m.with_weights(x, memory, memory, mask);
        CHECK(near(y.context, cross.context));
        CHECK(near(y.weights, cross.weights));
      };
      check_weights();
      NoGradGuard no_grad;
      check_weights();
    }
  }
}

TEST_CASE("multi-head attention: gradients of inputs and weights; leaves") {
  Rng rng(2);
  for (auto [kv, bias] : {std::pair{0, Bias::yes}, {2, Bias::yes}, {1, Bias::no}}) {
    MultiHeadAttention m = layer_of(rng, {.heads = 4, .kv_heads = kv, .bias = bias});
    std::vector<Tensor> in = {randn({2, 3, kDim}, rng, DType::f64),
                              randn({2, 4, kDim}, rng, DType::f64)};
    for (const Tensor& p : parameters(m)) in.push_back(p);
    in[0].set_requires_grad();
    in[1].set_requires_grad();
    const Mask mask = Mask::lengths({4, 2});
    CHECK_NOTHROW(gradcheck(
        [&](const std::vector<Tensor>& x) {
          Attended y = m.with_weights(x[0], x[1], x[1], mask);
          return cat({flatten(m(x[0], x[1], x[1], mask)), flatten(m(x[0], Mask::causal())),
                      flatten(y.context), flatten(y.weights)});
        },
        in));
    Tensor x = in[0].detach();
    test::check_leaves(sum(m(x)), m);
    test::check_leaves(sum(m(x, in[1].detach(), in[1].detach())), m);
  }
}

TEST_CASE("multi-head attention: padding, order of the batch, rows without visible keys") {
  Rng rng(3);
  MultiHeadAttention m = layer_of(rng, {.heads = 4});
  Tensor x = randn({3, 6, kDim}, rng, DType::f64);
  Tensor keys = le(arange(0, 6), tensor<int64_t>({5, 1, 3}, {3, 1}));  // shows the first 6, 2 and 4
  Tensor y = m(x, Mask::lengths({6, 2, 4}));
  CHECK(same(m(x, Mask::keys(keys)), y));
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t n = std::vector<int64_t>{6, 2, 4}[static_cast<size_t>(b)];
    Tensor alone = m(narrow(narrow(x, 0, b, 1), 1, 0, n));
    CHECK(near(narrow(narrow(y, 0, b, 1), 1, 0, n), alone));
  }
  Tensor rows = index({2, 0, 1});
  CHECK(same(m(index_select(x, 0, rows), Mask::lengths({4, 6, 2})), index_select(y, 0, rows)));
  // Without visible keys the context is 0, the output is the bias, and gradients are 0.
  for (bool weights : {false, true}) {
    Tensor q = x.clone().set_requires_grad(), k = x.clone().set_requires_grad();
    const Mask none = Mask::lengths({6, 0, 4});
    Tensor out = weights ? m.with_weights(q, k, k, none).context : m(q, k, k, none);
    CHECK(same(select(out, 0, 1), expand(m.out_proj.bias, {6, kDim}).contiguous()));
    zero_grad(m);
    sum(select(out, 0, 1)).backward();
    CHECK(max(abs(q.grad())).item() == 0);
    CHECK(max(abs(k.grad())).item() == 0);
    CHECK(max(abs(m.in_proj_weight.grad())).item() == 0);
  }
}

TEST_CASE("multi-head attention: dropout of the weights in training only; threads") {
  Rng rng(4);
  MultiHeadAttention m(kDim, rng, {.heads = 4, .dropout = 0.5});
  Tensor x = randn({3, 6, kDim}, rng);
  CHECK_FALSE(same(m(x), m(x)));
  CHECK(same(m.with_weights(x, x, x).weights, m.with_weights(x, x, x).weights));
  set_training(m, false);
  Tensor y = m(x);
  CHECK(same(m(x), y));
  MultiHeadAttention without(kDim, rng, {.heads = 4});
  load_state_dict(without, state_dict(m));
  CHECK(same(without(x), y));
  test::check_threads([] {
    Rng seed(5);
    MultiHeadAttention wide(64, seed, {.heads = 8, .kv_heads = 2, .dropout = 0.1});
    Tensor out = wide(randn({4, 33, 64}, seed), Mask::causal() & Mask::lengths({33, 7, 0, 20}));
    sum(square(out)).backward();
    return test::with_gradients(out, wide);
  });
}

TEST_CASE("cache: steps of any length equal the full causal pass") {
  for (int64_t kv : {0, 2, 1})
    for (bool recorded : {false, true})
      for (const std::vector<int64_t>& chunks :
           {std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1}, {3, 1, 3}, {7}, {0, 2, 0, 5}}) {
        Rng rng(6);
        MultiHeadAttention m = layer_of(rng, {.heads = 4, .kv_heads = kv});
        Tensor x = randn({2, 7, kDim}, rng, DType::f64);
        Tensor whole = m(x, Mask::causal());
        sum(square(whole)).backward();
        Tensor want = m.in_proj_weight.grad().clone();
        zero_grad(m);
        KeyValueCache cache;
        std::vector<Tensor> out;
        {
          std::optional<NoGradGuard> guard;
          if (!recorded) guard.emplace();
          for (int64_t n : chunks) out.push_back(m.step(narrow(x, 1, cache.length(), n), cache));
        }
        CHECK(cache.length() == 7);
        CHECK(cache.keys().shape() == Shape{2, m.counts.kv_heads, 7, 3});
        CHECK(near(cat(out, 1), whole));
        if (!recorded) continue;
        sum(square(cat(out, 1))).backward();
        CHECK(near(m.in_proj_weight.grad(), want));
      }
}

TEST_CASE("cache: grows for long sentences, without and with gradients") {
  Rng rng(7);
  MultiHeadAttention m = layer_of(rng, {.heads = 4});
  Tensor x = randn({2, 75, kDim}, rng, DType::f64);
  Tensor whole = m(x, Mask::causal());
  KeyValueCache cache;
  std::vector<Tensor> out;
  for (int64_t t = 0; t < 75; ++t) {
    std::optional<NoGradGuard> guard;
    if (t % 30 < 20) guard.emplace();  // records tokens 20 to 29 and 50 to 59
    out.push_back(m.step(narrow(x, 1, t, 1), cache).detach());
  }
  CHECK(near(cat(out, 1), whole));
}

TEST_CASE("cache: copies continue independently") {
  Rng rng(8);
  MultiHeadAttention m = layer_of(rng, {.heads = 4, .kv_heads = 2});
  for (bool recorded : {false, true}) {
    std::optional<NoGradGuard> guard;
    if (!recorded) guard.emplace();
    Tensor start = randn({2, 3, kDim}, rng, DType::f64);
    KeyValueCache first;
    static_cast<void>(m.step(start, first));
    Tensor keys = first.keys(), before = keys.clone();
    KeyValueCache second = first, third = first;
    // In turns, so that each could overwrite the others.
    struct Branch {
      KeyValueCache& cache;
      Tensor tokens;
      std::vector<Tensor> out = {};
    };
    std::vector<Branch> branches = {{first, randn({2, 4, kDim}, rng, DType::f64)},
                                    {second, randn({2, 4, kDim}, rng, DType::f64)},
                                    {third, randn({2, 4, kDim}, rng, DType::f64)}};
    for (int64_t t = 0; t < 4; ++t)
      for (Branch& b : branches) b.out.push_back(m.step(narrow(b.tokens, 1, t, 1), b.cache));
    for (const Branch& b : branches)
      CHECK(near(cat(b.out, 1), narrow(m(cat({start, b.tokens}, 1), Mask::causal()), 1, 3, 4)));
    CHECK(same(keys, before));
  }
}

TEST_CASE("cache: selected rows continue independently") {
  Rng rng(9);
  MultiHeadAttention m = layer_of(rng, {.heads = 4});
  Tensor rows = index({2, 0, 0, 1});
  for (bool recorded : {false, true}) {
    std::optional<NoGradGuard> guard;
    if (!recorded) guard.emplace();
    Tensor start = randn({3, 3, kDim}, rng, DType::f64);
    KeyValueCache cache;
    CHECK(cache.select_rows(rows).length() == 0);
    static_cast<void>(m.step(start, cache));
    KeyValueCache chosen = cache.select_rows(rows), none = cache.select_rows(index({}));
    CHECK(none.keys().shape() == Shape{0, 4, 3, 3});
    Tensor next = randn({4, 2, kDim}, rng, DType::f64),
           other = randn({3, 2, kDim}, rng, DType::f64);
    Tensor a = m.step(next, chosen), b = m.step(other, cache);
    Tensor of_chosen = cat({index_select(start, 0, rows), next}, 1);
    CHECK(near(a, narrow(m(of_chosen, Mask::causal()), 1, 3, 2)));
    CHECK(near(b, narrow(m(cat({start, other}, 1), Mask::causal()), 1, 3, 2)));
    CHECK_THROWS_AS(cache.select_rows(index({3})), Error);
  }
}

TEST_CASE("multi-head attention: errors name the rule, the values and a way out") {
  Rng rng(10);
  auto refuses = [](auto&& call, const char* text) {
    CHECK_THROWS_WITH_AS(static_cast<void>(call()), doctest::Contains(text), Error);
  };
  auto make = [&](int64_t dim, const MultiHeadOptions& o) { MultiHeadAttention(dim, rng, o); };
  refuses([&] { make(10, {.heads = 4}); }, "10 channels cannot be split into 4 heads");
  refuses([&] { make(12, {.heads = 0}); }, "12 channels cannot be split into 0 heads");
  refuses([&] { make(-4, {.heads = 4}); }, "-4 channels cannot be split into 4 heads");
  refuses([&] { make(12, {.heads = 4, .kv_heads = 3}); },
          "the 3 key heads must divide the 4 query heads");
  refuses([&] { make(12, {.heads = 4, .kv_heads = -1}); }, "the -1 key heads must divide the 4");
  refuses([&] { make(12, {.heads = 4, .dropout = 1}); }, "dropout must be in [0, 1), it is 1");
  MultiHeadAttention m(kDim, rng, {.heads = 4});
  Tensor x = zeros({2, 5, 12}), narrow_x = zeros({2, 5, 10}), flat = zeros({5, 12});
  const char* rule = "MultiHeadAttention: needs (B, T, 12), got ";
  for (const Tensor& bad : {narrow_x, flat}) {
    KeyValueCache cache;
    refuses([&] { return m(bad); }, rule);
    refuses([&] { return m(bad, x, x); }, rule);
    refuses([&] { return m(x, bad, bad); }, rule);
    refuses([&] { return m(x, x, bad); }, rule);
    refuses([&] { return m.with_weights(x, bad, x); }, rule);
    refuses([&] { return m.project_memory(bad); }, rule);
    refuses([&] { return m.step(bad, cache); }, rule);
  }
  refuses([&] { return m(flat); }, "got (5, 12); unsqueeze(x, 0) makes a batch of one");
  Tensor three = zeros({3, 5, 12}), shorter = zeros({2, 4, 12});
  const char* differ = "MultiHeadAttention: query (2, 5, 12), key (3, 5, 12) and value (3, 5, 12)";
  refuses([&] { return m(x, three, three); }, differ);
  refuses([&] { return m.with_weights(x, three, three); }, differ);
  refuses([&] { return m(x, x, shorter); }, "value (2, 4, 12)");
  refuses([&] { return m.attend_memory(x, m.project_memory(three)); }, "(3, 5, 24)");
  refuses([&] { return m.attend_memory(x, x); },
          "needs keys and values (B, S, 24) from project_memory, got (2, 5, 12)");
  refuses(
      [&] {
        return m(x, Mask::lengths({5, 5, 5}));
      },
      "lengths must be (2,) or (2, 5), got (3,)");
  refuses([&] { return m(x, Mask::lengths({5, 6})); }, "a length is 6");
  refuses([&] { return m(x, Mask::allowed(ones({2, 5, 5}, DType::u8))); }, "(B, 1, T, S)");
  KeyValueCache cache;
  static_cast<void>(m.step(x, cache));
  refuses([&] { return m.step(three, cache); }, "KeyValueCache: cannot append f32 (3, 4, 5, 3) to");
  refuses([&] { cache.append(x, x); }, "needs keys and values (B, G, n, D)");
  refuses(
      [&] {
        cache.append(zeros({2, 4, 1, 3}, DType::f64), zeros({2, 4, 1, 3}, DType::f64));
      },
      "f64");
  CHECK(cache.length() == 5);
}

}  // namespace tern::test_multihead_attention
