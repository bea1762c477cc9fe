// Score functions, attention with each of them, and attention by 1x1 convolutions, against loops.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/nn/attention_layers.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_attention_layers {
namespace {

using namespace nn;
using test::Array;
using test::close;
using test::for_each_index;
using test::to_array;
using Vector = std::vector<double>;
using Formula = std::function<double(const Vector& query, const Vector& key, int64_t place)>;

double dot(const Vector& a, const Vector& b) {
  REQUIRE(a.size() == b.size());
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

/// w x, w (N, M).
Vector times(const Array& w, const Vector& x) {
  Vector y;
  for (int64_t i = 0; i < w.shape[0]; ++i) {
    y.push_back(0);
    for (int64_t j = 0; j < w.shape[1]; ++j) y.back() += w.at({i, j}) * x[static_cast<size_t>(j)];
  }
  return y;
}

Vector row(const Array& x, int64_t b, int64_t t) {
  Vector out;
  for (int64_t d = 0; d < x.shape[2]; ++d) out.push_back(x.at({b, t, d}));
  return out;
}

struct Expected {
  Array scores, weights, context;
};

/// Weights and context in plain loops. Example b sees its first lengths[b] keys.
Expected expected(const Formula& formula, const std::vector<int64_t>& lengths, const Array& q,
                  const Array& k, const Array& v) {
  const int64_t keys = k.shape[1];
  const Shape shape{q.shape[0], q.shape[1], keys};
  Expected out{Array(shape), Array(shape), Array(Shape{shape[0], shape[1], v.shape[2]})};
  for_each_index({shape[0], shape[1]}, [&](const Dims& i) {
    double total = 0;
    for (int64_t s = 0; s < keys; ++s) {
      const double score = formula(row(q, i[0], i[1]), row(k, i[0], s), s);
      out.scores.at({i[0], i[1], s}) = score;
      if (s < lengths[static_cast<size_t>(i[0])])
        total += out.weights.at({i[0], i[1], s}) = std::exp(score);
    }
    for (int64_t s = 0; s < keys && total > 0; ++s) {
      out.weights.at({i[0], i[1], s}) /= total;
      for (int64_t d = 0; d < v.shape[2]; ++d)
        out.context.at({i[0], i[1], d}) += out.weights.at({i[0], i[1], s}) * v.at({i[0], s, d});
    }
  });
  return out;
}

bool close(const Tensor& a, const Array& b) { return close(a, tensor(b.v, b.shape), 1e-12, 1e-13); }

struct QueriesKeysValues {
  Tensor q, k, v;
  QueriesKeysValues(int64_t query_dim, int64_t key_dim) {
    Rng rng(11);
    q = randn({3, 4, query_dim}, rng, DType::f64);
    k = randn({3, 5, key_dim}, rng, DType::f64);
    v = randn({3, 5, 2}, rng, DType::f64);
  }
};

template <class M>
M in_f64(M m) {
  to(m, DType::f64);
  return m;
}

/// Checks the gradients of fn for the inputs and the module's parameters.
template <class M>
void check_gradients(const M& m, std::vector<Tensor> inputs, const TensorFunction& fn) {
  for (Tensor& t : inputs) t = t.clone().set_requires_grad();
  for (const Tensor& p : parameters(m)) inputs.push_back(p);
  CHECK_NOTHROW(gradcheck(fn, inputs));
  CHECK_NOTHROW(gradgradcheck(fn, inputs));
}

/// Checks attention with this score: values, gradients, dropout, and rows without visible keys.
template <class Score>
void check_score(const Score& score, int64_t query_dim, int64_t key_dim, const Formula& formula) {
  const QueriesKeysValues x(query_dim, key_dim);
  const std::vector<int64_t> lengths = {5, 0, 3};
  const Expected want = expected(formula, lengths, to_array(x.q), to_array(x.k), to_array(x.v));
  CHECK(close(score(x.q, x.k), want.scores));
  Rng rng(12);
  ScoreAttention<Score> attend(score, 0.5, rng);
  set_training(attend, false);
  const Mask mask = Mask::lengths(lengths);
  Attended got = attend(x.q, x.k, x.v, mask);
  CHECK(close(got.weights, want.weights));
  CHECK(close(got.context, want.context));
  CHECK(close(sum(attend(x.q, x.k, x.v).weights, 2), ones({3, 4}, DType::f64), 1e-12, 0));
  check_gradients(attend, {x.q, x.k, x.v}, [&](const std::vector<Tensor>& in) {
    Attended y = attend(in[0], in[1], in[2], mask);
    return cat({flatten(y.context), flatten(y.weights)});
  });
  // Example 1 has no visible keys.
  Tensor k = x.k.clone().set_requires_grad(), q = x.q.clone().set_requires_grad();
  Attended blind = attend(q, k, x.v, mask);
  CHECK(max(abs(select(blind.context, 0, 1))).item() == 0);
  CHECK(max(abs(select(blind.weights, 0, 1))).item() == 0);
  sum(select(blind.context, 0, 1)).backward();
  CHECK(max(abs(q.grad())).item() == 0);
  if (k.grad().defined()) CHECK(max(abs(k.grad())).item() == 0);  // location ignores keys
  for (const Tensor& p : parameters(attend)) CHECK(max(abs(p.grad())).item() == 0);
}

}  // namespace

TEST_CASE("scores: dot, scaled dot and cosine follow their formulas") {
  check_score(DotScore{}, 4, 4, [](auto& q, auto& k, int64_t) { return dot(q, k); });
  check_score(ScaledDotScore{}, 4, 4, [](auto& q, auto& k, int64_t) { return dot(q, k) / 2; });
  check_score(CosineScore{}, 3, 3, [](auto& q, auto& k, int64_t) {
    return dot(q, k) / (std::sqrt(dot(q, q)) * std::sqrt(dot(k, k)) + 1e-8);
  });
  check_score(CosineScore{.sharpness = 3, .eps = 0.5}, 3, 3, [](auto& q, auto& k, int64_t) {
    return 3 * dot(q, k) / (std::sqrt(dot(q, q)) * std::sqrt(dot(k, k)) + 0.5);
  });
}

TEST_CASE("scores: general, additive and location follow their formulas") {
  Rng rng(1);
  auto general = in_f64(GeneralScore(4, 3, rng));
  check_score(general, 4, 3, [w = to_array(general.w.weight)](auto& q, auto& k, int64_t) {
    return dot(q, times(w, k));
  });
  auto additive = in_f64(AdditiveScore(4, 3, 6, rng));
  check_score(additive, 4, 3,
              [w_q = to_array(additive.w_q.weight), w_k = to_array(additive.w_k.weight),
               w_v = to_array(additive.w_v.weight)](auto& q, auto& k, int64_t) {
                Vector hidden = times(w_q, q), other = times(w_k, k);
                for (size_t i = 0; i < hidden.size(); ++i)
                  hidden[i] = std::tanh(hidden[i] + other[i]);
                return times(w_v, hidden)[0];
              });
  auto location = in_f64(LocationScore(4, 7, rng));  // 7 places for 5 keys
  check_score(location, 4, 3, [w = to_array(location.w.weight)](auto& q, auto&, int64_t place) {
    return times(w, q)[static_cast<size_t>(place)];
  });
}

TEST_CASE("scores: the cosine of a zero vector is 0, and so is its gradient") {
  Tensor q = zeros({1, 1, 3}).set_requires_grad(), k = ones({1, 2, 3}).set_requires_grad();
  Tensor y = CosineScore{}(q, k);
  CHECK(max(abs(y)).item() == 0);
  sum(y).backward();
  CHECK(all(isfinite(q.grad())).item() == 1);
  CHECK(max(abs(k.grad())).item() == 0);
}

TEST_CASE("scores: weights have d2l's names") {
  Rng rng(2);
  auto names = [](const auto& m) {
    std::vector<std::string> out;
    for (const auto& [name, t] : named_parameters(m)) out.push_back(name);
    return out;
  };
  using Names = std::vector<std::string>;
  CHECK(names(AdditiveAttention({2, 3, 4, rng}, 0.1, rng)) ==
        Names{"W_q.weight", "W_k.weight", "w_v.weight"});
  CHECK(names(GeneralAttention({2, 3, rng}, 0, rng)) == Names{"W.weight"});
  CHECK(names(DotAttention({}, 0, rng)).empty());
  CHECK(names(ContentAttention<AdditiveScore>(2, 3, rng, {3, 3, 4, rng})) ==
        Names{"theta", "W_q.weight", "W_k.weight", "w_v.weight"});
  CHECK(names(AttentionLayer(2, 3, 4, rng)) ==
        Names{"conv_Q.weight", "conv_K.weight", "conv_V.weight"});
}

TEST_CASE("score attention: dropout acts on the weights, only in training") {
  Rng rng(3);
  const QueriesKeysValues x(4, 4);
  DotAttention attend({}, 0.5, rng);
  Attended first = attend(x.q, x.k, x.v), second = attend(x.q, x.k, x.v);
  CHECK_FALSE(test::same(first.context, second.context));
  CHECK(test::same(first.weights, second.weights));  // from before dropout
  // With one-hot values the context shows the weights after dropout: 0 or twice as large.
  Tensor left = attend(x.q, x.k, expand(eye(5, 5, DType::f64), {3, 5, 5})).context;
  Tensor factor = left / first.weights;
  CHECK(close(factor * (factor - 2), zeros({3, 4, 5}, DType::f64), 0, 1e-12));
  CHECK(min(factor).item() == 0);
  CHECK(max(factor).item() > 1);
  set_training(attend, false);
  CHECK(test::same(attend(x.q, x.k, x.v).context, matmul(first.weights, x.v)));
}

TEST_CASE("content attention: learned queries; context attention: given ones") {
  Rng rng(4);
  const QueriesKeysValues x(3, 3);
  auto content = in_f64(ContentAttention<>(6, 3, rng));
  const Tensor& theta = content.theta;
  CHECK(theta.shape() == Shape{6, 3});
  const std::vector<int64_t> lengths = {5, 0, 3};
  const Mask mask = Mask::lengths(lengths);
  const Formula formula = [](auto& q, auto& k, int64_t) { return dot(q, k); };
  Tensor queries = expand(theta.detach(), {3, 6, 3});
  Expected want = expected(formula, lengths, to_array(queries), to_array(x.k), to_array(x.k));
  Attended got = content(x.k, mask);
  CHECK(close(got.context, want.context));
  CHECK(close(got.weights, want.weights));
  test::check_leaves(sum(got.context), content);
  check_gradients(content, {x.k},
                  [&](const std::vector<Tensor>& in) { return content(in[0], mask).context; });
  ContextAttention<> context(rng);
  Attended given = context(queries, x.k, mask);
  CHECK(test::same(given.context, got.context.detach()));
  CHECK(test::same(given.weights, got.weights.detach()));
}

TEST_CASE("attention layer: equals loops; a row without visible tokens") {
  Rng rng(5);
  auto layer = in_f64(AttentionLayer(3, 2, 4, rng));
  Tensor x = randn({3, 3, 5}, rng, DType::f64);
  auto projected = [&](const Conv1d& conv) {  // (B, T, out)
    return matmul(transpose(x, 1, 2), transpose(select(conv.weight.tensor().detach(), 2, 0), 0, 1));
  };
  const std::vector<int64_t> lengths = {5, 0, 3};
  const Mask mask = Mask::lengths(lengths);
  Expected want = expected([](auto& q, auto& k, int64_t) { return dot(q, k); }, lengths,
                           to_array(projected(layer.conv_q)), to_array(projected(layer.conv_k)),
                           to_array(projected(layer.conv_v)));
  Tensor context = transpose(tensor(want.context.v, want.context.shape), 1, 2);
  CHECK(close(layer(x, mask), context, 1e-12, 1e-13));
  Attended got = layer.with_weights(x, mask);
  CHECK(close(got.context, context, 1e-12, 1e-13));
  CHECK(close(got.weights, want.weights));
  test::check_leaves(sum(square(layer(x, mask))), layer);
  check_gradients(layer, {x}, [&](const std::vector<Tensor>& in) { return layer(in[0], mask); });
  for (bool weights : {false, true}) {
    zero_grad(layer);
    Tensor in = x.clone().set_requires_grad();
    Tensor y = weights ? layer.with_weights(in, mask).context : layer(in, mask);
    CHECK(max(abs(select(y, 0, 1))).item() == 0);
    sum(select(y, 0, 1)).backward();
    CHECK(max(abs(in.grad())).item() == 0);
    for (const Tensor& p : parameters(layer)) CHECK(max(abs(p.grad())).item() == 0);
  }
  CHECK_THROWS_WITH_AS(layer(zeros({2, 4, 5}, DType::f64)), doctest::Contains("channels"), Error);
}

TEST_CASE("score attention: errors name the layer, the rule and the shapes") {
  Rng rng(6);
  auto refuses = [](auto&& call, const char* text) {
    CHECK_THROWS_WITH_AS(static_cast<void>(call()), doctest::Contains(text), Error);
  };
  Tensor q = zeros({2, 4, 3}), k = zeros({2, 5, 3}), flat = zeros({5, 3});
  const char* rule = "needs query (B, T, Dq) and key (B, S, Dk), got ";
  auto each_refuses = [&](const auto& score, const char* name) {
    refuses([&] { return score(flat, k); }, (std::string(name) + ": " + rule + "(5, 3)").c_str());
    refuses([&] { return score(q, flat); },
            (std::string(name) + ": " + rule + "(2, 4, 3)").c_str());
    refuses([&] { return score(q, zeros({3, 5, 3})); }, "and (3, 5, 3)");
    refuses([&] { return score(scalar(1), k); }, name);
  };
  each_refuses(DotScore{}, "DotScore");
  each_refuses(ScaledDotScore{}, "ScaledDotScore");
  each_refuses(CosineScore{}, "CosineScore");
  each_refuses(GeneralScore(3, 3, rng), "GeneralScore");
  each_refuses(AdditiveScore(3, 3, 4, rng), "AdditiveScore");
  each_refuses(LocationScore(3, 5, rng), "LocationScore");
  Tensor wide = zeros({2, 5, 4});
  refuses([&] { return DotScore{}(q, wide); },
          "DotScore: queries of 3 channels do not match keys of 4");
  refuses([&] { return CosineScore{}(q, wide); }, "CosineScore: queries of 3");
  refuses([&] { return GeneralScore(3, 3, rng)(q, wide); },
          "GeneralScore: keys have 4 channels, but the weight needs 3");
  refuses([&] { return GeneralScore(4, 3, rng)(q, k); }, "GeneralScore: queries have 3 channels");
  refuses([&] { return AdditiveScore(3, 3, 2, rng)(q, wide); },
          "AdditiveScore: keys have 4 channels");
  refuses([&] { return AdditiveScore(4, 3, 2, rng)(q, k); },
          "AdditiveScore: queries have 3 channels");
  refuses([&] { return LocationScore(4, 5, rng)(q, k); }, "LocationScore: queries have 3 channels");
  refuses([&] { return LocationScore(3, 4, rng)(q, k); },
          "5 keys, but the weights are for 4 positions");
  refuses([&] { DotAttention({}, 1, rng); }, "p must be in [0, 1)");
  DotAttention attend({}, 0, rng);
  refuses(
      [&] {
        return attend(q, k, zeros({2, 4, 3}));
      },
      "attention: values (2, 4, 3) do not match scores (2, 4, 5)");
  refuses([&] { return attend(q, k, k, Mask::lengths({5, 6})); }, "a length is 6");
  refuses([&] { return attend(q, k, k, Mask::lengths({5})); }, "lengths must be (2,)");
  refuses([&] { return ContentAttention<>(6, 4, rng)(k); }, "keys of 3");
  refuses([&] { return ContentAttention<>(6, 3, rng)(flat); }, rule);
}

}  // namespace tern::test_attention_layers
