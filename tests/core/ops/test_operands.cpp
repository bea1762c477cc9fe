// Operands that bf16 products keep for their backward passes: those without another owner are kept
// rounded to bf16. test_subjects.cpp checks that gradients have the bits of those with whole
// operands; here are odd numbers, memory, writes and threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/allocator.h"
#include "tern/core/base/bf16_way.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/base/system.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_operands {
namespace {

using test::same_bits;

constexpr MatmulPrecision kF32 = MatmulPrecision::f32, kBf16 = MatmulPrecision::bf16;

LinearOptions with(Activation a) { return {.activation = a}; }

constexpr auto kInf = static_cast<float>(test::kInf), kNan = static_cast<float>(test::kNan);
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = 1e-40f;  // below the smallest normal number

// d(w) = x^T dy. With dy = 1e38, tiny numbers that are not read as zero would show.
std::vector<float> gradient_by(const std::vector<float>& values, float dy, bool held) {
  const MatmulPrecisionScope scope(kBf16);
  const auto n = static_cast<int64_t>(values.size());
  const Tensor w = ones({n, 1}).set_requires_grad(true);
  Tensor x = tensor(values, {1, n});
  const Tensor y = matmul(x, w);
  if (!held) x = {};
  backward(sum(y * dy));
  return w.grad().to_vector<float>();
}

TEST_CASE("operands: zeros, tiny and huge numbers and NaN are rounded as products round them") {
  const std::vector<float> odd = {0,           -0.0f, kTiny, -kTiny,    1.17549e-38f, 1.1755e-38f,
                                  kMax,        -kMax, kInf,  1,         kNan,         1.00390625f,
                                  1.01171875f, 1e38f, -kInf, 3.3895e38f};
  for (const Bf16Way way : bf16_ways()) {
    const Bf16WayScope by(way);
    CAPTURE(to_string(way));
    for (const float dy : {1.0f, 1e38f}) {
      const std::vector<float> held = gradient_by(odd, dy, true);
      const std::vector<float> let_go = gradient_by(odd, dy, false);
      for (size_t i = 0; i < held.size(); ++i) {
        CAPTURE(odd[i]);
        CHECK((std::isnan(held[i]) ? std::isnan(let_go[i]) : held[i] == let_go[i]));
      }
    }
  }
}

// A tiny result counts as zero in a product, but not for the slope of the ReLU that made it.
TEST_CASE("operands: a ReLU's gradient passes where its result is tiny") {
  auto gradient = [](bool held) {
    const MatmulPrecisionScope scope(kBf16);
    const Tensor x = zeros({3, 4}), w = zeros({4, 4});
    const Tensor b = tensor(std::vector<float>{kTiny, 0, -kTiny, 1}).set_requires_grad(true);
    Tensor hidden = linear(x, w, b, with(Activation::relu));
    const Tensor y = linear(hidden, ones({2, 4}).set_requires_grad(true));
    if (!held) hidden = {};
    backward(sum(y));
    return b.grad().to_vector<float>();
  };
  CHECK(gradient(true) == std::vector<float>{6, 0, 0, 6});
  CHECK(gradient(false) == std::vector<float>{6, 0, 0, 6});
}

/// Layers with ReLU, one per weight, whose inputs have no other owner.
Tensor stack(const Tensor& x, const std::vector<Tensor>& weights) {
  Tensor h = x;
  for (const Tensor& w : weights) h = linear(h, w, {}, with(Activation::relu));
  return h;
}

std::vector<Tensor> square_weights(int n, int64_t width) {
  Rng rng(1);
  std::vector<Tensor> weights;
  for (int i = 0; i < n; ++i)
    weights.push_back((randn({width, width}, rng) * std::sqrt(2.0 / static_cast<double>(width)))
                          .set_requires_grad(true));
  return weights;
}

TEST_CASE("operands: a network's activations take half of the memory in bf16") {
  constexpr int kLayers = 8;
  constexpr int64_t kRows = 512, kWidth = 256, kBytes = kRows * kWidth * 4;
  constexpr int64_t kPages = 2 * detail::kPage;  // blocks are whole pages
  auto held_by_graph = [&](MatmulPrecision precision) {
    const std::vector<Tensor> weights = square_weights(kLayers, kWidth);
    const MatmulPrecisionScope scope(precision);
    const int64_t before = memory_stats().live;
    const Tensor loss = sum(stack(ones({kRows, kWidth}), weights));
    const int64_t after = memory_stats().live - before;
    backward(loss);
    return after;
  };
  CHECK(std::abs(held_by_graph(kF32) - (kLayers + 1) * kBytes) < kLayers * kPages);
  CHECK(std::abs(held_by_graph(kBf16) - (kLayers + 1) * kBytes / 2) < kLayers * kPages);
  // ShapeOnlyScope predicts the same memory.
  const ShapeOnlyScope shapes;
  const std::vector<Tensor> weights = square_weights(kLayers, kWidth);
  const MatmulPrecisionScope scope(kBf16);
  const int64_t before = shapes.live_bytes();
  const Tensor loss = sum(stack(ones({kRows, kWidth}), weights));
  CHECK(std::abs(shapes.live_bytes() - before - (kLayers + 1) * kBytes / 2) < kLayers * kPages);
}

std::vector<Tensor> gradients_of_stack(const std::function<void()>& before_letting_go,
                                       const std::function<void()>& after) {
  const std::vector<Tensor> weights = square_weights(1, 256);
  const MatmulPrecisionScope scope(kBf16);
  Rng rng(2);
  Tensor x = randn({512, 256}, rng);
  const Tensor loss = sum(square(stack(x, weights)));
  before_letting_go();
  x = {};
  after();
  backward(loss);
  return {weights[0].grad()};
}

TEST_CASE("operands: without memory for rounding they stay whole") {
  auto nothing = [] {};
  const Tensor want = gradients_of_stack(nothing, nothing)[0];
  int64_t live = 0;
  auto close = [&] {
    trim_memory();
    live = memory_stats().live;
    set_memory_cap(live);
  };
  auto open = [&] {
    CHECK(memory_stats().live == live);
    set_memory_cap(0);
  };
  CHECK(same_bits(gradients_of_stack(close, open)[0], want));
}

TEST_CASE("operands: one that was written to is refused, released or not") {
  for (bool held : {false, true}) {
    const MatmulPrecisionScope scope(kBf16);
    const Tensor w = ones({5, 4}).set_requires_grad(true);
    Tensor x = ones({3, 4});
    const Tensor y = linear(x, w);
    mul_(x, 2);
    if (!held) x = {};
    CHECK_THROWS_WITH_AS(backward(sum(y)),
                         doctest::Contains("linear saved a tensor of shape (3, 4) at version 0, "
                                           "but it is now at version 1"),
                         Error);
  }
}

TEST_CASE("operands: a ShapeOnlyScope does not lose their elements") {
  auto gradients = [](bool in_scope, bool again) {
    const MatmulPrecisionScope precision(kBf16);
    Rng rng(4);
    const Tensor leaf = randn({6, 33}, rng).set_requires_grad(true);
    const Tensor w = randn({9, 33}, rng).set_requires_grad(true);
    Tensor x = leaf * 2;
    const Tensor y = sum(square(linear(x, w, {}, with(Activation::relu))));
    {
      std::optional<ShapeOnlyScope> nothing;
      if (in_scope) nothing.emplace();
      x = {};
      if (again) static_cast<void>(grad({y}, {leaf, w}, {.create_graph = true}));
    }
    return grad({y}, {leaf, w});
  };
  for (const bool again : {false, true}) {
    const std::vector<Tensor> want = gradients(false, again), got = gradients(true, again);
    for (size_t i = 0; i < want.size(); ++i) CHECK(same_bits(got[i], want[i]));
  }
}

struct Watched : Observer {
  std::vector<std::string> modules;
  void begin(const OpScope& op) override {
    if (op.name() == std::string("rounding for backward")) modules.push_back(op.module());
  }
};

TEST_CASE("operands: rounding is counted for the module that needs them") {
  const MatmulPrecisionScope precision(kBf16);
  const std::vector<Tensor> weights = square_weights(2, 16);
  set_parameter_name(weights[0], "first.weight");
  set_parameter_name(weights[1], "second.weight");
  Watched watched;
  const ObserverScope watching(watched);
  Tensor x = linear(ones({4, 16}), weights[0]);
  x = linear(x, weights[1]);
  CHECK(watched.modules == std::vector<std::string>{"first", "second"});
}

TEST_CASE("operands: a gradient that is an operand is not added to in place") {
  const MatmulPrecisionScope scope(kBf16);
  const Tensor x = ones({3, 4}).set_requires_grad(true);
  const Tensor w = ones({4, 2}).set_requires_grad(true);
  backward(sum(x * 2));
  const Tensor y = matmul(x.grad(), w);
  backward(sum(x));
  CHECK(x.grad().to_vector<float>() == std::vector<float>(12, 3));
  backward(sum(y));
  CHECK(w.grad().to_vector<float>() == std::vector<float>(8, 6));
}

TEST_CASE("operands: a graph may run backward twice, and has second derivatives") {
  auto gradients = [](bool held) {
    const MatmulPrecisionScope scope(kBf16);
    Rng rng(3);
    const Tensor leaf = randn({6, 33}, rng).set_requires_grad(true);
    const Tensor w = randn({33, 33}, rng).set_requires_grad(true);
    Tensor x = leaf * leaf;
    const Tensor y = sum(square(linear(x, w, {}, with(Activation::relu))));
    if (!held) x = {};
    std::vector<Tensor> all = grad({y}, {leaf, w}, {.retain_graph = true});
    for (const Tensor& g : grad({y}, {leaf, w}, {.create_graph = true})) {
      all.push_back(g.detach());
      for (const Tensor& second : grad({sum(square(g))}, {leaf, w}, {.retain_graph = true}))
        all.push_back(second);
    }
    for (const Tensor& g : grad({y}, {leaf, w})) all.push_back(g);
    return all;
  };
  const std::vector<Tensor> held = gradients(true), let_go = gradients(false);
  REQUIRE(held.size() == let_go.size());
  for (size_t i = 0; i < held.size(); ++i) CHECK(same_bits(held[i], let_go[i]));
}

TEST_CASE("operands: one thread may release what another needs") {
  const std::vector<Tensor> weights = square_weights(1, 64);
  for (int i = 0; i < 50; ++i) {
    Tensor x = ones({64, 64});
    Tensor loss;
    {
      const MatmulPrecisionScope scope(kBf16);
      loss = sum(stack(x, weights));
    }
    std::thread other([x = std::move(x)]() mutable { x = {}; });
    backward(loss);
    other.join();
  }
  const std::vector<float> g = weights[0].grad().to_vector<float>();
  CHECK(*std::min_element(g.begin(), g.end()) == 0);
  CHECK(*std::max_element(g.begin(), g.end()) == 50 * 64);
}

}  // namespace
}  // namespace tern::test_operands
