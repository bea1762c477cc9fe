// Cross entropies that save memory: linear_cross_entropy, which never stores all logits, and
// cross_entropy, whose gradient reuses the memory of the logits.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test::test_linear_cross_entropy {
namespace {

/// A target class per row; every fifth row is ignored.
Tensor some_classes(int64_t rows, int64_t classes) {
  Tensor t = remainder(arange(0, rows) * 7 + 3, classes);
  return where(eq(remainder(arange(0, rows), 5), 4), -1, t);
}

struct Problem {
  Tensor x, weight, bias, target;

  Problem(int64_t rows, int64_t dim, int64_t classes, DType type = DType::f32) {
    Rng rng(3);
    x = leaf(randn({rows, dim}, rng).to(type));
    weight = leaf((randn({classes, dim}, rng) * 0.3).to(type));
    bias = leaf((randn({classes}, rng) * 0.3).to(type));
    target = some_classes(rows, classes);
  }
  Tensor fused(CrossEntropyOptions o = {}) const {
    o.ignore_index = -1;
    return linear_cross_entropy(x, weight, bias, target, o);
  }
  Tensor plain(CrossEntropyOptions o = {}) const {
    o.ignore_index = -1;
    return cross_entropy(linear(x, weight, bias), target, o);
  }
  std::vector<Tensor> gradients(const Tensor& loss) const {
    for (const Tensor* t : {&x, &weight, &bias}) t->set_grad({});
    backward(loss);
    return {x.grad(), weight.grad(), bias.grad()};
  }
};

int64_t peak_of(const std::function<void()>& run) {
  trim_memory();
  const int64_t before = memory_stats().live;
  reset_peak_memory();
  run();
  return memory_stats().peak - before;
}

}  // namespace

TEST_CASE("op table: linear_cross_entropy") {
  auto target = [](const Tensor& x) {
    Tensor t = remainder(arange(0, x.size(0) * x.size(1)), 5) - 1;
    return reshape(t, {x.size(0), x.size(1)});
  };
  auto fn = [=](const std::vector<Tensor>& x) {
    return linear_cross_entropy(x[0], x[1], x[2], target(x[0]),
                                {.ignore_index = -1, .label_smoothing = .2});
  };
  auto naive = [](const std::vector<Array>& in) {
    const int64_t rows = in[0].shape[0] * in[0].shape[1], dim = in[0].shape[2], classes = 4;
    double total = 0, count = 0;
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<double> logits(4);
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) {
        double v = in[2].v[static_cast<size_t>(c)];
        for (int64_t d = 0; d < dim; ++d)
          v += in[0].at({i / in[0].shape[1], i % in[0].shape[1], d}) * in[1].at({c, d});
        logits[static_cast<size_t>(c)] = v;
        sum += std::exp(v);
      }
      const int64_t t = i % 5 - 1;
      if (t < 0) continue;
      ++count;
      for (int64_t c = 0; c < classes; ++c)
        total -= (.05 + (c == t ? .8 : 0)) * (logits[static_cast<size_t>(c)] - std::log(sum));
    }
    Array y(Shape{});
    y[0] = count > 0 ? total / count : 0;
    return y;
  };
  op("linear_cross_entropy", {{3, 2, 3}, {4, 3}, {4}}, fn)
      .empty({{0, 2, 3}, {4, 3}, {4}})
      .equals(naive);
}

TEST_CASE("linear_cross_entropy: several blocks of rows give one loss") {
  const Problem p(500, 6, 20000);  // three blocks and a remainder
  for (const Reduction r : {Reduction::mean, Reduction::none}) {
    const CrossEntropyOptions o{.label_smoothing = 0.1, .reduction = r};
    const Tensor got = p.fused(o), want = p.plain(o);
    CHECK(close(got, want));
    const auto g = p.gradients(sum(got)), w = p.gradients(sum(want));
    for (size_t i = 0; i < g.size(); ++i) CHECK(close(g[i], w[i], 1e-4, 1e-6));
  }
}

TEST_CASE("linear_cross_entropy: takes memory for one block, not for all logits") {
  const Threads two(2);             // each packs half a megabyte
  const Problem p(1024, 8, 16384);  // logits of 64 MiB; weight and its gradient 512 KiB each
  const int64_t fused = peak_of([&] { p.gradients(p.fused()); });
  CHECK(fused < (24 << 20));
  const int64_t evaluated = peak_of([&] {
    NoGradGuard no_grad;
    static_cast<void>(p.fused());
  });
  CHECK(evaluated < (20 << 20));
}

TEST_CASE("linear_cross_entropy: same bits on any number of threads") {
  const Problem p(300, 16, 20000);
  check_threads([&] {
    std::vector<Tensor> all = p.gradients(p.fused());
    all.push_back(p.fused());
    return numbers_of(all);
  });
}

TEST_CASE("linear_cross_entropy: gradients of scaled losses, of several passes, of frozen inputs") {
  const Problem p(12, 4, 9, DType::f64);
  const auto once = p.gradients(p.fused());
  const auto scaled = p.gradients(p.fused() * 0.25);
  for (size_t i = 0; i < 3; ++i) CHECK(close(scaled[i], once[i] * 0.25, 1e-12, 1e-15));
  const Tensor loss = p.fused();
  for (const Tensor* t : {&p.x, &p.weight, &p.bias}) t->set_grad({});
  backward(loss, {.retain_graph = true});
  const Tensor first = p.weight.grad().clone();
  backward(loss);
  CHECK(close(first, once[1], 1e-12, 1e-15));
  CHECK(close(p.weight.grad(), once[1] * 2, 1e-12, 1e-15));
  p.weight.set_requires_grad(false);
  p.x.set_grad({});
  backward(p.fused());
  CHECK(close(p.x.grad(), once[0], 1e-12, 1e-15));
  CHECK_FALSE(p.weight.grad().defined());
}

TEST_CASE("linear_cross_entropy: a weight that is also the embedding") {
  Rng rng(1);
  const Tensor table = leaf(randn({30, 8}, rng)), ids = remainder(arange(0, 14), 30);
  const Tensor next = remainder(ids + 1, 30);
  auto gradient = [&](bool fused) {
    table.set_grad({});
    const Tensor x = tanh(embedding(ids, table));
    backward(fused ? linear_cross_entropy(x, table, {}, next)
                   : cross_entropy(linear(x, table), next));
    return table.grad();
  };
  CHECK(close(gradient(true), gradient(false)));
}

TEST_CASE("linear_cross_entropy: only ignored targets, one row, no rows") {
  const Problem p(4, 3, 5);
  const Tensor ignored = full({4}, -1, DType::i64);
  for (const Reduction r : {Reduction::mean, Reduction::sum}) {
    const Tensor loss =
        linear_cross_entropy(p.x, p.weight, p.bias, ignored, {.ignore_index = -1, .reduction = r});
    CHECK(loss.item() == 0);
    for (const Tensor& g : p.gradients(loss)) CHECK(all(eq(g, 0)).item<bool>());
  }
  const Tensor row = select(p.x, 0, 1);
  CHECK(close(linear_cross_entropy(row, p.weight, p.bias, scalar(2, DType::i64)),
              cross_entropy(linear(row, p.weight, p.bias), scalar(2, DType::i64))));
  CHECK(linear_cross_entropy(zeros({0, 3}), p.weight, p.bias, zeros({0}, DType::i64)).item() == 0);
}

TEST_CASE("linear_cross_entropy: targets and class weights that were overwritten are noticed") {
  const Problem p(6, 3, 5);
  const auto gradient = [&](Reduction reduction, bool create_graph, bool of_target, bool changed) {
    const Tensor labels = remainder(arange(0, 6), 5), factors = ones({5}) * 2;
    const Tensor loss = linear_cross_entropy(p.x, p.weight, p.bias, labels,
                                             {.weight = factors, .reduction = reduction});
    if (changed) fill_(of_target ? labels : factors, 4);
    return grad({sum(loss)}, {p.weight}, {.create_graph = create_graph})[0].detach();
  };
  const auto said = doctest::Contains("written in place after it was saved");
  for (const bool of_target : {true, false}) {
    CHECK_THROWS_WITH_AS(gradient(Reduction::none, false, of_target, true), said, Error);
    CHECK_THROWS_WITH_AS(gradient(Reduction::none, true, of_target, true), said, Error);
    for (const Reduction r : {Reduction::mean, Reduction::sum}) {
      CHECK_THROWS_WITH_AS(gradient(r, true, of_target, true), said, Error);
      // Forward has computed these gradients.
      CHECK(same(gradient(r, false, of_target, true), gradient(r, false, of_target, false)));
      CHECK(close(gradient(r, true, of_target, false), gradient(r, false, of_target, false), 1e-4,
                  1e-6));
    }
  }
}

TEST_CASE("linear_cross_entropy: errors name the rule and the values") {
  const Tensor x = zeros({2, 3}), w = zeros({4, 3}), none;
  auto ids = [](double a, double b) { return tensor({a, b}, {2}, DType::i64); };
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, w, none, ids(0, 4)),
                       "linear_cross_entropy: target 4 at row 1 is outside [0, 4)", Error);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, zeros({4, 2}), none, ids(0, 1)),
                       doctest::Contains("got (2, 3) and (4, 2)"), Error);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, w, zeros({3}), ids(0, 1)),
                       doctest::Contains("the bias must be (4,)"), Error);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, w, none, zeros({2, 4})),
                       doctest::Contains("call cross_entropy on the result of linear"), Error);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, w, none, zeros({3}, DType::i64)),
                       doctest::Contains("one class for each of its rows"), Error);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, w.to(DType::f64), none, ids(0, 1)),
                       doctest::Contains("convert one with .to()"), Error);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, w, none, ids(0, 1), {.label_smoothing = -1}),
                       doctest::Contains("label_smoothing"), Error);
}

TEST_CASE("cross_entropy: its gradient reuses the memory of logits without other owners") {
  const Threads two(2);  // each packs half a megabyte
  Rng rng(2);
  const Tensor x = leaf(randn({512, 4}, rng)), w = leaf(randn({8192, 4}, rng));
  const Tensor target = some_classes(512, 8192);
  const int64_t logits = 512 * 8192 * 4;
  auto loss_of = [&](const Tensor& y) { return cross_entropy(y, target, {.ignore_index = -1}); };
  Tensor loss = loss_of(linear(x, w));
  const int64_t peak = peak_of([&] {
    backward(loss);
    loss = {};
  });
  CHECK(peak < logits / 4);  // in addition to the logits, which existed before
  const Tensor want = w.grad().clone();
  // Logits with another owner stay unchanged, and a retained graph can run backward again.
  const Tensor held = linear(x, w);
  const Tensor before = held.clone().detach();
  w.set_grad({});
  backward(loss_of(held));
  CHECK(same(held.detach(), before));
  CHECK(same(w.grad(), want));
  w.set_grad({});
  loss = loss_of(linear(x, w));
  backward(loss, {.retain_graph = true});
  CHECK(same(w.grad(), want));
  w.set_grad({});
  backward(loss);
  CHECK(same(w.grad(), want));
}

}  // namespace tern::test::test_linear_cross_entropy
