// Operands without a gradient, which the op table does not place: masks, indices, targets, lengths,
// class weights, and integers. In every layout, results and the gradients of the other operands
// must equal those with a contiguous copy, bit for bit.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::ops_other_operands {
namespace {

using test::Array;
using test::Placing;

using Function = std::function<Tensor(const Tensor&)>;

struct Row {
  std::string name;
  Shape shape;
  DType type;
  int64_t low, high;  // the range [low, high) of the numbers
  Function fn;
};

std::vector<std::vector<double>> results(const Row& row, const Tensor& t) {
  Tensor y = row.fn(t);
  std::vector<std::vector<double>> out{y.to_vector<double>()};
  if (!y.requires_grad()) return out;
  // Distinct weights, so that no gradients cancel.
  Tensor up = reshape(arange(1, y.numel() + 1, 1, y.dtype()), y.shape());
  for (const Tensor& g : grad({y}, leaves(y), {.gradients = {up}}))
    out.push_back(g.to_vector<double>());
  return out;
}

void run(const std::vector<Row>& rows) {
  for (const Row& row : rows)
    for (const Placing& placing : test::placings(row.shape, true)) {
      INFO(row.name, ", ", to_string(placing));
      Array a(placing.stored(row.shape));
      for (int64_t i = 0; i < a.numel(); ++i)
        a[i] = static_cast<double>(row.low + (i * 5 + i / 3) % (row.high - row.low));
      Tensor placed = dispatch(row.type, [&]<class T>() { return test::lay_out<T>(a, placing); });
      placed = expand(placed, row.shape);
      std::vector<std::vector<double>> got, want;
      CHECK_NOTHROW(got = results(row, placed));
      CHECK_NOTHROW(want = results(row, placed.clone()));
      CHECK(got == want);
    }
}

Tensor leaf(const Shape& shape, DType type = DType::f32) {
  Rng rng(3);
  return randn(shape, rng, type).set_requires_grad();
}

TEST_CASE("every layout: masks and conditions") {
  const Tensor x = leaf({3, 4, 5}), y = leaf({3, 4, 5});
  std::vector<Row> rows;
  for (const Shape& shape : std::vector<Shape>{{3, 4, 5}, {4, 5}, {5}, {3, 1, 5}, {3, 4, 1}}) {
    const std::string name = to_string(shape);
    auto add = [&](const std::string& op, Function fn) {
      rows.push_back({op + " " + name, shape, DType::u8, 0, 2, std::move(fn)});
    };
    for (int64_t axis : {2, 1, 0}) {
      add("softmax", [=](const Tensor& m) { return softmax(x, axis, m); });
      add("log_softmax", [=](const Tensor& m) { return log_softmax(x, axis, m); });
    }
    add("masked_fill", [=](const Tensor& m) { return masked_fill(x, m, 2); });
    add("where", [=](const Tensor& m) { return where(m, x, y); });
  }
  run(rows);
}

TEST_CASE("every layout: indices") {
  const Tensor x = leaf({3, 4, 5}), w = leaf({7, 5});
  std::vector<Row> rows;
  auto add = [&](const std::string& name, const Shape& shape, int64_t high, const Function& fn) {
    rows.push_back({name, shape, DType::i64, 0, high, fn});
  };
  add("gather", {3, 4, 2}, 5, [=](const Tensor& i) { return gather(x, 2, i); });
  add("gather, first axis", {2, 4, 5}, 3, [=](const Tensor& i) { return gather(x, 0, i); });
  add("scatter_add", {2, 4, 5}, 3,
      [=](const Tensor& i) { return scatter_add(x, 0, i, narrow(x, 0, 1, 2) * 2); });
  add("take_along_axis", {3, 1, 5}, 4, [=](const Tensor& i) { return take_along_axis(x, i, 1); });
  add("index_select", {6}, 4, [=](const Tensor& i) { return index_select(x, 1, i); });
  add("embedding", {3, 4}, 7, [=](const Tensor& i) { return embedding(i, w, {.padding_idx = 2}); });
  add("one_hot", {3, 4}, 7, [](const Tensor& i) { return one_hot(i, 7); });
  run(rows);
}

TEST_CASE("every layout: targets and weights of losses and statistics") {
  const Tensor x = leaf({4, 3, 2}), rows = leaf({4, 3});
  const Tensor classes = tensor<int64_t>({0, 2, 1, 2}, {4});
  auto batch = [=](const Tensor& mean, const Tensor& var) {
    return batch_norm(x, mean, var, {}, {}, {});
  };
  const Tensor three = tensor({1, 2, 3}, {3});
  std::vector<Row> all;
  auto weights = [&](const std::string& name, const Shape& shape, const Function& fn) {
    all.push_back({name, shape, DType::f32, 1, 4, fn});
  };
  all.push_back({"cross_entropy", {4, 2}, DType::i64, -1, 3, [=](const Tensor& t) {
                   return cross_entropy(x, t, {.ignore_index = -1});
                 }});
  all.push_back({"cross_entropy, probabilities", {4, 3, 2}, DType::f32, 0, 4, [=](const Tensor& t) {
                   return cross_entropy(x, t / 6, {.label_smoothing = .1});
                 }});
  all.push_back(
      {"nll_loss", {4, 2}, DType::i64, 0, 3, [=](const Tensor& t) { return nll_loss(x, t); }});
  weights("cross_entropy, weights", {3},
          [=](const Tensor& w) { return cross_entropy(rows, classes, {.weight = w}); });
  weights("nll_loss, weights", {3},
          [=](const Tensor& w) { return nll_loss(rows, classes, {.weight = w}); });
  weights("bce_with_logits, weights", {4, 3}, [=](const Tensor& w) {
    return bce_with_logits(rows, sigmoid(rows.detach()), {.weight = w, .pos_weight = w});
  });
  weights("batch_norm, mean", {3}, [=](const Tensor& m) { return batch(m, three); });
  weights("batch_norm, var", {3}, [=](const Tensor& v) { return batch(three, v); });
  run(all);
}

TEST_CASE("every layout: masks and lengths of attention and recurrent layers") {
  const Tensor q = leaf({2, 2, 3, 4}), k = leaf({2, 2, 5, 4}), v = leaf({2, 2, 5, 6});
  auto attend = [=](const AttentionMask& mask) { return attention(q, k, v, {.mask = mask}); };
  std::vector<Row> rows;
  for (const Shape& shape : std::vector<Shape>{{2}, {2, 3}})
    rows.push_back({"lengths " + to_string(shape), shape, DType::i64, 0, 6,
                    [=](const Tensor& n) { return attend({.lengths = n}); }});
  for (const Shape& shape :
       std::vector<Shape>{{3, 5}, {2, 1, 3, 5}, {2, 2, 3, 5}, {2, 2, 1, 5}, {3, 1}})
    rows.push_back({"allowed " + to_string(shape), shape, DType::u8, 0, 2,
                    [=](const Tensor& m) { return attend({.allowed = m}); }});
  const Tensor x = leaf({4, 3, 2}), w_ih = leaf({6, 2}), w_hh = leaf({6, 2});
  rows.push_back({"rnn_layer", {3}, DType::i64, 0, 5, [=](const Tensor& n) {
                    return rnn_layer(RnnKind::gru, x, {w_ih, w_hh, {}, {}}, {.lengths = n});
                  }});
  run(rows);
}

TEST_CASE("every layout: integers") {
  std::vector<Row> rows;
  for (DType type : {DType::i64, DType::u8}) {
    auto add = [&](const std::string& name, Function fn) {
      rows.push_back(
          {name + (type == DType::u8 ? ", u8" : ", i64"), {3, 4, 5}, type, 0, 9, std::move(fn)});
    };
    const Tensor other = (remainder(reshape(arange(0, 60), {3, 4, 5}) * 7, 11) + 1).to(type);
    add("add", [=](const Tensor& t) { return t + other; });
    add("sub", [=](const Tensor& t) { return other - t; });
    add("mul", [=](const Tensor& t) { return t * other; });
    add("div", [=](const Tensor& t) { return t / other; });
    add("floor_divide", [=](const Tensor& t) { return floor_divide(t, other); });
    add("remainder", [=](const Tensor& t) { return remainder(t, other); });
    add("lt", [=](const Tensor& t) { return lt(t, other); });
    add("minimum", [=](const Tensor& t) { return minimum(t, other); });
    add("square", [](const Tensor& t) { return square(t); });
    add("exp", [](const Tensor& t) { return exp(t); });
    add("cast", [](const Tensor& t) { return t.to(DType::f64); });
    add("cumsum", [](const Tensor& t) { return cumsum(t, 1); });
    add("sort", [](const Tensor& t) { return sort(t, 1).indices; });
    add("topk", [](const Tensor& t) { return topk(t, 2, 0).indices; });
    add("argmax", [](const Tensor& t) { return argmax(t, 2); });
    add("cat", [=](const Tensor& t) { return cat({t, other, t}, 1); });
    add("roll", [](const Tensor& t) { return roll(t, {1, 2}, {0, 2}); });
    add("tril", [](const Tensor& t) { return tril(t); });
    for (const Dims& axes : std::vector<Dims>{{}, {0}, {1}, {2}, {0, 2}, {1, 2}}) {
      add("sum", [=](const Tensor& t) { return sum(t, axes); });
      add("amax", [=](const Tensor& t) { return amax(t, axes); });
      add("amin", [=](const Tensor& t) { return amin(t, axes); });
      add("prod", [=](const Tensor& t) { return prod(t, axes); });
      add("any", [=](const Tensor& t) { return any(t, axes); });
      add("all", [=](const Tensor& t) { return all(t, axes); });
    }
    if (type == DType::i64)
      add("matmul", [=](const Tensor& t) { return matmul(t, transpose(other, 1, 2)); });
    add("written to", [=](const Tensor& t) {
      Tensor y = cast(other, DType::i64);
      NoGradGuard guard;
      add_(y, t, 3);
      mul_(y, t);
      copy_(narrow(y, 0, 0, 2), narrow(t, 0, 1, 2));
      return y;
    });
  }
  run(rows);
}

}  // namespace
}  // namespace tern::ops_other_operands
