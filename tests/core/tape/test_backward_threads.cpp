// Threads that run backward into the same leaves at the same time: gradients add up, or there is an
// error.
#include <doctest/doctest.h>

#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/core/tools/anomaly.h"

namespace tern::test_backward_threads {
namespace {

using Loss = std::function<Tensor(const Tensor& w, const Tensor& b, const Tensor& x)>;

struct Row {
  std::string name;
  Loss loss;
};

// Each way for a gradient to reach a leaf: handed over, added in place by a product, added by a
// checkpointed segment, or from several ops of a graph.
const std::vector<Row> kRows = {
    {"elementwise", [](auto& w, auto& b, auto& x) { return sum(w * x) + sum(b * 2); }},
    {"product", [](auto& w, auto&, auto& x) { return sum(matmul(x, w)); }},
    {"linear", [](auto& w, auto& b, auto& x) { return sum(linear(x, w, b)); }},
    {"several", [](auto& w, auto& b, auto& x) { return sum(linear(x, w, b)) + sum(w * x + b); }},
    {"rows",
     [](auto& w, auto&, auto&) {
       return sum(index_select(w, 0, tensor(std::vector<int64_t>{3, 1, 3})));
     }},
    {"checkpoint",
     [](auto& w, auto& b, auto& x) {
       auto fn = [x, b](std::span<const Tensor> in) { return linear(x, in[0], b); };
       return sum(checkpoint(fn, {w}));
     }},
    {"checkpoint that captures its input", [](auto& w, auto&, auto& x) {
       auto fn = [x, w](std::span<const Tensor> in) { return matmul(x, in[0]) + w; };
       return sum(checkpoint(fn, {w}));
     }}};

// Whole numbers: their sums are exact in any order.
Tensor whole(Rng& rng, const Shape& shape) { return randint(-3, 4, shape, rng).to(DType::f32); }

TEST_CASE("backward: threads with the same leaves lose no gradient") {
  constexpr int kThreads = 3, kRounds = 60, kPasses = 4;
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    Rng rng(1);
    const Tensor w = whole(rng, {24, 24}).set_requires_grad();
    const Tensor b = whole(rng, {24}).set_requires_grad(), x = whole(rng, {24, 24});
    const std::vector<Tensor> leaves = {w, b};
    backward(row.loss(w, b, x));
    std::vector<std::vector<double>> once;
    for (const Tensor& t : leaves) {
      once.push_back(t.grad().defined() ? t.grad().to_vector<double>() : std::vector<double>());
      t.set_grad({});
    }
    int lost = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::barrier start(kThreads);
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
          start.arrive_and_wait();
          for (int pass = 0; pass < kPasses; ++pass) backward(row.loss(w, b, x));
        });
      for (std::thread& t : threads) t.join();
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (once[i].empty()) continue;
        std::vector<double> want = once[i];
        for (double& v : want) v *= kThreads * kPasses;
        lost += leaves[i].grad().to_vector<double>() != want;
        leaves[i].set_grad({});
      }
    }
    CHECK(lost == 0);
  }
}

TEST_CASE("backward: a checkpoint that captures its input adds to the input's gradient") {
  Rng rng(2);
  const Tensor x = whole(rng, {4, 4}), w = whole(rng, {4, 4}).set_requires_grad();
  const Loss& loss = kRows.back().loss;
  backward(loss(w, w, x));
  const auto once = w.grad().to_vector<double>();
  backward(loss(w, w, x));
  std::vector<double> twice = once;
  for (double& v : twice) v *= 2;
  CHECK(w.grad().to_vector<double>() == twice);
}

// Another thread runs backward into the same leaf while this observer looks at its gradient.
struct AddsMeanwhile final : Observer {
  Tensor w;
  std::vector<float> before, after;
  void begin(const OpScope& op) override {
    if (!op.is_vjp() || op.num_gathered() == 0 || !before.empty()) return;
    const Tensor& seen = op.gathered(0);
    if (!seen.defined()) return;
    before = seen.to_vector<float>();
    std::thread([this] { backward(sum(w * 5)); }).join();
    after = seen.to_vector<float>();
  }
};

TEST_CASE("backward: an observer's gradients stay while another thread adds to them") {
  AddsMeanwhile observer;
  observer.w = ones({2, 3}).set_requires_grad();
  backward(sum(observer.w * 2));
  {
    const ObserverScope watching(observer);
    backward(sum(observer.w * 3));
  }
  CHECK(observer.before == std::vector<float>(6, 2));
  CHECK(observer.after == observer.before);
  CHECK(observer.w.grad().to_vector<float>() == std::vector<float>(6, 10));
}

TEST_CASE("backward: one thread looks for NaN while another adds to the same gradients") {
  Rng rng(3);
  const Tensor w = whole(rng, {24, 24}).set_requires_grad(), x = whole(rng, {24, 24});
  const Tensor b = whole(rng, {24}).set_requires_grad();
  const Loss& loss = kRows[3].loss;
  backward(loss(w, b, x));
  std::vector<double> want = w.grad().to_vector<double>();
  for (double& v : want) v *= 41;
  std::barrier start(2);
  const auto passes = [&] {
    start.arrive_and_wait();
    for (int i = 0; i < 20; ++i) backward(loss(w, b, x));
  };
  std::thread other(passes);
  {
    const AnomalyDetector detector;
    passes();
  }
  other.join();
  CHECK(w.grad().to_vector<double>() == want);
}

TEST_CASE("backward: a leaf that is in on_ready on one thread is refused to others") {
  const Tensor w = ones({2, 3}).set_requires_grad();
  auto beside = [&]() -> std::string {
    std::string told;
    std::thread([&] {
      try {
        backward(sum(w * 2));
      } catch (const Error& e) {
        told = e.what();
      }
    }).join();
    return told;
  };
  std::string told;
  int calls = 0;
  const BackwardOptions options = {.on_ready = [&](const Tensor&) {
    ++calls;
    told = beside();
    EnableGradGuard on;
    backward(sum(w * 3));  // allowed: the same thread
  }};
  backward(sum(w), options);
  CHECK(calls == 1);
  CHECK(told.find("a leaf of shape (2, 3) gets gradients from two threads") != told.npos);
  CHECK(w.grad().to_vector<float>() == std::vector<float>(6, 4));

  CHECK(beside() == "");  // allowed after that pass
  CHECK_THROWS(backward(sum(w), {.on_ready = [](const Tensor&) { fail("no"); }}));
  CHECK(beside() == "");
  CHECK(w.grad().to_vector<float>() == std::vector<float>(6, 9));
}

// A copy of x whose backward pass calls `run`.
Tensor meanwhile(const Tensor& x, const std::function<void()>& run) {
  Op op("meanwhile", x);
  return op.record(Fresh::adopt(x.clone()), [run](const Tensor& dy) {
    run();
    return dy;
  });
}

TEST_CASE("grad: a leaf that another thread asks for is refused, not lost") {
  const Tensor w = ones({2, 3}).set_requires_grad(), v = ones({2}).set_requires_grad();
  auto beside = [&](const Tensor& x) {
    std::string told;
    std::thread([&] {
      try {
        if (grad({sum(x * 2)}, {x})[0].to_vector<float>()[0] != 2) told = "another gradient";
      } catch (const Error& e) {
        told = e.what();
      }
    }).join();
    return told;
  };
  std::string told, of_another;
  const Tensor y = meanwhile(w * 3, [&] {
    told = beside(w);
    of_another = beside(v);
    EnableGradGuard on;
    CHECK(grad({sum(w * 5)}, {w})[0].to_vector<float>()[0] == 5);  // allowed: the same thread
    std::thread([&] { backward(sum(w * 7)); }).join();             // adds to w.grad()
  });
  CHECK(grad({sum(y)}, {w})[0].to_vector<float>() == std::vector<float>(6, 3));
  CHECK(told.find("grad: two threads ask for the gradient of one leaf of shape (2, 3)") == 0);
  CHECK(of_another == "");
  CHECK(w.grad().to_vector<float>() == std::vector<float>(6, 7));
  CHECK(beside(w) == "");  // allowed after that pass
}

}  // namespace
}  // namespace tern::test_backward_threads
