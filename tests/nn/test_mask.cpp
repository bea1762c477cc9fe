// Masks: every factory and every pair of them, against booleans in plain loops.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/mask.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_mask {
namespace {

using nn::Mask;
using test::Array, test::close, test::for_each_index, test::kInf, test::to_array;
using Sees = std::function<bool(const Dims&)>;  // whether (b, h, t, s) is visible

const Shape kScores{2, 3, 4, 5};  // B, H, T, S

struct Case {
  std::string name;
  Mask mask;
  Sees sees;
  Array bias = Array(Shape{1});  // finite for visible keys
  bool heads_differ = false;
};

Tensor random_pairs(const Shape& shape, Rng& rng) {
  return bernoulli(shape, 0.6, rng).to(DType::u8);
}

void add_lengths(std::vector<Case>& out) {
  const std::vector<int64_t> one = {4, 0};
  const std::vector<int64_t> each = {1, 5, 0, 3, 2, 4, 5, 0};
  auto at = [](const std::vector<int64_t>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  Sees sees = [=](const Dims& i) { return i[3] < at(one, i[0]); };
  out.push_back({"lengths", Mask::lengths(one), sees});
  out.push_back({"lengths (B)", Mask::lengths(tensor(one, {2})), sees});
  out.push_back({"lengths (B, T)", Mask::lengths(tensor(each, {2, 4})),
                 [=](const Dims& i) { return i[3] < at(each, i[0] * 4 + i[2]); }});
}

std::vector<Case> cases() {
  Rng rng(1);
  std::vector<Case> out = {{"all", {}, [](const Dims&) { return true; }}};
  add_lengths(out);
  for (int64_t offset : {0, 2, -2})
    out.push_back({"causal " + std::to_string(offset), Mask::causal(offset),
                   [=](const Dims& i) { return i[3] <= i[2] + offset; }});
  for (const auto& [offset, window] : {std::pair(0, 1), {1, 2}, {-1, 3}, {3, 9}})
    out.push_back({"window " + std::to_string(window), Mask::causal(offset, window),
                   [o = offset, w = window](const Dims& i) {
                     return i[3] <= i[2] + o && i[3] > i[2] + o - w;
                   }});
  Tensor padding = random_pairs({2, 5}, rng);
  out.push_back({"key padding", Mask::keys(padding), [a = to_array(padding)](const Dims& i) {
                   return a.at({i[0], i[3]}) != 0;
                 }});
  for (const Shape& shape : {Shape{5}, {4, 5}, {4, 1}, {3, 4, 5}, {2, 1, 4, 5}, {2, 3, 1, 5}}) {
    const bool heads = shape.size() > 2 && shape[shape.size() - 3] == 3;
    Tensor pairs = random_pairs(shape, rng) * 2;  // anything but 0 means visible
    out.push_back({"allowed " + to_string(shape), Mask::allowed(pairs),
                   [a = to_array(pairs)](const Dims& i) { return a.broadcast_at(i) != 0; },
                   Array(Shape{1}), heads});
    Tensor bias = where(random_pairs(shape, rng), randn(shape, rng, DType::f64), Scalar(-kInf));
    Array b = to_array(bias);
    out.push_back({"bias " + to_string(shape), Mask::bias(bias),
                   [=](const Dims& i) { return b.broadcast_at(i) != -kInf; }, b, heads});
  }
  return out;
}

// softmax over the keys that both masks show, with the sum of their biases.
Tensor naive_softmax(const Array& scores, const Case& a, const Case& b) {
  Array p(scores.shape);
  for_each_index({2, 3, 4}, [&](const Dims& i) {
    double total = 0;
    for (int64_t s = 0; s < 5; ++s) {
      Dims at{i[0], i[1], i[2], s};
      if (!a.sees(at) || !b.sees(at)) continue;
      p.at(at) = std::exp(scores.at(at) + a.bias.broadcast_at(at) + b.bias.broadcast_at(at));
      total += p.at(at);
    }
    for (int64_t s = 0; s < 5 && total > 0; ++s) p.at({i[0], i[1], i[2], s}) /= total;
  });
  return tensor(p.v, p.shape);
}

}  // namespace

TEST_CASE("mask: a pair shows the keys that both show, in dense(), softmax() and attention") {
  Rng rng(2);
  Tensor q = randn({2, 3, 4, 6}, rng, DType::f64), k = randn({2, 3, 5, 6}, rng, DType::f64);
  Tensor v = randn({2, 3, 5, 2}, rng, DType::f64);
  Tensor scores = matmul(q, transpose(k, 2, 3)) * 0.7;
  Tensor recorded = q.clone().set_requires_grad();
  const std::vector<Case> all = cases();
  for (const Case& a : all)
    for (const Case& b : all) {
      CAPTURE(a.name);
      CAPTURE(b.name);
      const Mask mask = a.mask & b.mask;
      std::vector<int> sees;
      for_each_index(kScores, [&](const Dims& i) { sees.push_back(a.sees(i) && b.sees(i)); });
      Tensor dense = mask.dense(kScores);
      CHECK(dense.defined() == (a.name != "all" || b.name != "all"));
      if (dense.defined()) {
        CHECK(dense.shape() == kScores);
        CHECK(ne(dense, 0).to_vector<int>() == sees);
      }
      Tensor want = naive_softmax(to_array(scores), a, b);
      CHECK(close(mask.softmax(scores), want, 1e-12, 1e-14));
      if (!a.heads_differ && !b.heads_differ)
        CHECK(close(mask.softmax(select(scores, 1, 1)), select(want, 1, 1), 1e-12, 1e-14));
      const AttentionOptions options{.mask = mask.parts(), .scale = 0.7};
      Attended fused = attention_with_weights(q, k, v, options);
      CHECK(close(fused.weights, want, 1e-12, 1e-14));
      CHECK(close(fused.context, matmul(want, v), 1e-12, 1e-14));
      CHECK(close(attention(recorded, k, v, options), fused.context, 1e-12, 1e-14));
      CHECK(close(attention_with_weights(recorded, k, v, options).weights, want, 1e-12, 1e-14));
    }
}

TEST_CASE("mask: the offset of causal counts the keys of a cache") {
  Tensor whole = Mask::causal().dense({1, 1, 6, 6});
  for (int64_t before = 0; before < 6; ++before)
    CHECK(test::same(Mask::causal(before).dense({1, 1, 6 - before, 6}),
                     narrow(whole, 2, before, 6 - before)));
  // A window before all keys hides them, without overflow.
  const Tensor none = Mask::causal(std::numeric_limits<int64_t>::min(), 3).dense({1, 1, 6, 6});
  CHECK(max(none).item<int>() == 0);
}

TEST_CASE("mask: windows have gradients, and scales that are not positive") {
  Rng rng(5);
  std::vector<Tensor> in;
  for (int i = 0; i < 3; ++i)
    in.push_back(randn({1, 2, 6, 4}, rng, DType::f64).set_requires_grad());
  for (const double scale : {0.6, -0.6, 0.0}) {
    const AttentionOptions options{.mask = Mask::causal(0, 3).parts(), .scale = scale};
    auto run = [&](const std::vector<Tensor>& x) { return attention(x[0], x[1], x[2], options); };
    CHECK_NOTHROW(gradcheck(run, in));
    CHECK_NOTHROW(gradgradcheck(run, in));
    const Tensor p = Mask::causal(0, 3).softmax(matmul(in[0], transpose(in[1], 2, 3)) * scale);
    CHECK(close(run(in), matmul(p, in[2]), 1e-12, 1e-14));
  }
}

TEST_CASE("mask: gradients of scores and biases") {
  Rng rng(3);
  Tensor hidden = tensor({0, -kInf, 0, 0, 0}, {5}, DType::f64);
  for (const Shape& shape : {Shape{3, 1, 5}, {2, 1, 1, 5}, {2, 3, 4, 5}}) {
    std::vector<Tensor> in = {randn(kScores, rng, DType::f64), randn(shape, rng, DType::f64),
                              randn({4, 1}, rng, DType::f64)};
    for (const Tensor& t : in) t.set_requires_grad();
    auto run = [&](const std::vector<Tensor>& x) {
      Mask mask = Mask::bias(x[1]) & Mask::bias(hidden) & Mask::bias(x[2]) & Mask::lengths({4, 0}) &
                  Mask::causal(1);
      return mask.softmax(x[0]);
    };
    CHECK_NOTHROW(gradcheck(run, in));
    CHECK_NOTHROW(gradgradcheck(run, in));
  }
  // The fused op, too: gradients of q, k, v and the bias.
  std::vector<Tensor> in = {
      randn({2, 3, 4, 6}, rng, DType::f64), randn({2, 3, 5, 6}, rng, DType::f64),
      randn({2, 3, 5, 2}, rng, DType::f64), randn({3, 1, 5}, rng, DType::f64)};
  for (const Tensor& t : in) t.set_requires_grad();
  CHECK_NOTHROW(gradcheck(
      [&](const std::vector<Tensor>& x) {
        Mask mask = Mask::bias(x[3]) & Mask::bias(hidden) & Mask::lengths({4, 0});
        return attention(x[0], x[1], x[2], {.mask = mask.parts()});
      },
      in));
}

TEST_CASE("mask: hidden scores never count, not even NaN") {
  Tensor scores = tensor({1, std::nan(""), 2, kInf, 3, -kInf}, {1, 1, 1, 6}).set_requires_grad();
  Tensor pairs = tensor({1, 0, 1, 0, 1, 0}, {6}, DType::u8);
  Tensor p = Mask::allowed(pairs).softmax(scores);
  Tensor want = softmax(tensor({1, 2, 3}, {3}), 0);
  CHECK(close(slice(flatten(p), 0, 0, {}, 2), want));
  CHECK(sum(slice(p, 3, 1, {}, 2)).item() == 0);
  sum(square(p)).backward();
  CHECK(all(isfinite(scores.grad())).item() == 1);
  CHECK(sum(abs(slice(scores.grad(), 3, 1, {}, 2))).item() == 0);
  CHECK(sum(abs(scores.grad())).item() > 0);
}

TEST_CASE("mask: factories refuse wrong tensors") {
  auto refuses = [](auto&& make, const char* text) {
    CHECK_THROWS_WITH_AS(static_cast<void>(make()), doctest::Contains(text), Error);
  };
  refuses([] { Mask::lengths(tensor({1, 2}, {2})); }, "lengths are i64 (B) or (B, T), got f32");
  refuses([] { Mask::lengths(zeros({1, 1, 1}, DType::i64)); }, "got i64 (1, 1, 1)");
  refuses([] { Mask::causal(0, -1); }, "the window is -1");
  refuses([] { Mask::keys(ones({5}, DType::u8)); }, "(B, S), got (5,)");
  refuses([] { Mask::keys(ones({2, 5})); }, "u8");
  refuses([] { Mask::allowed(ones({4, 5})); }, "u8 (0 = hidden), got f32");
  refuses([] { Mask::bias(ones({4, 5}, DType::u8)); }, "give a u8 mask to Mask::allowed");
  refuses([] { Mask::lengths({1, 2}) & Mask::lengths({3}); }, "(2,) and (1,)");
  refuses(
      [] {
        Mask::lengths({1, 2}) & Mask::lengths(zeros({1, 3}, DType::i64));
      },
      "(2,) and (1, 3)");
  refuses(
      [] {
        Mask::allowed(ones({4, 5}, DType::u8)) & Mask::allowed(ones({3, 5}, DType::u8));
      },
      "(4, 5)");
  refuses([] { return Mask().softmax(zeros({4, 5})); }, "(B, H, T, S) or (B, T, S), got (4, 5)");
}

TEST_CASE("mask: a mask that does not fit the scores is an error everywhere") {
  Tensor q = zeros({2, 3, 4, 6}), k = zeros({2, 3, 5, 6}), recorded = q.clone();
  recorded.set_requires_grad();
  auto u8 = [](const Shape& shape) { return Mask::allowed(ones(shape, DType::u8)); };
  const std::vector<std::pair<Mask, std::string>> wrong = {
      {Mask::lengths({5, 5, 5}), "lengths must be (2,) or (2, 4), got (3,)"},
      {Mask::lengths({5, 6}), "a length is 6, outside [0, 5 keys]"},
      {Mask::lengths({5, -1}), "a length is -1, outside [0, 5 keys]"},
      {Mask::lengths(zeros({2, 3}, DType::i64)), "or (2, 4), got (2, 3)"},
      {u8({2, 5}), "(2, 5) does not broadcast to the scores (B, H, T, S) = (2, 3, 4, 5)"},
      {u8({2, 4, 5}), "examples come before heads: (B, 1, T, S)"},
      {u8({1, 2, 3, 4, 5}), "(1, 2, 3, 4, 5)"},
      {Mask::keys(ones({3, 5}, DType::u8)), "(3, 1, 1, 5)"},
      {Mask::bias(zeros({3, 4, 6})), "the bias of shape (3, 4, 6)"},
      {Mask::bias(zeros({4, 5}, DType::f64)), ".to("},
  };
  for (const auto& row : wrong) {
    const auto& mask = row.first;
    const auto& text = row.second;
    CAPTURE(text);
    const AttentionOptions options{.mask = mask.parts()};
    const doctest::Contains contains(text.c_str());
    CHECK_THROWS_WITH_AS(mask.softmax(zeros(kScores)), contains, Error);
    CHECK_THROWS_WITH_AS(attention(q, k, k, options), contains, Error);
    CHECK_THROWS_WITH_AS(attention_with_weights(q, k, k, options), contains, Error);
    CHECK_THROWS_WITH_AS(attention_with_weights(recorded, k, k, options), contains, Error);
    if (text != ".to(") CHECK_THROWS_WITH_AS(mask.dense(kScores), contains, Error);
  }
  // A mask that differs between heads does not fit scores without heads.
  CHECK_THROWS_WITH_AS(u8({3, 4, 5}).softmax(zeros({2, 4, 5})), doctest::Contains("(2, 1, 4, 5)"),
                       Error);
}

}  // namespace tern::test_mask
