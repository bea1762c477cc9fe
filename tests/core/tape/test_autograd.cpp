// Gradients on the tape: accumulation, higher derivatives, saved tensors, user-defined ops,
// checkpoints, and graphs of a million ops.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_autograd {
namespace {

using test::f64, test::leaf;

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }
using Values = std::vector<double>;

// A user-defined op: the cube, with its gradient beside it.
Tensor cube(const Tensor& x) {
  Tensor value = [&] {
    NoGradGuard guard;
    return x * x * x;
  }();
  Op op("cube", x);
  return op.record(Fresh::adopt(value),
                   [x = save(x)](const Tensor& dy) { return dy * 3 * x.get() * x.get(); });
}

TEST_CASE("backward adds to the leaves' gradients") {
  Tensor x = leaf(f64({1, 2, 3}, {3})), y = leaf(f64({4, 5, 6}, {3}));
  Tensor loss = sum(x * y + x);
  backward(loss);
  CHECK(values(x.grad()) == Values{5, 6, 7});
  CHECK(values(y.grad()) == Values{1, 2, 3});
  backward(sum(x * 2));
  CHECK(values(x.grad()) == Values{7, 8, 9});
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("a gradient flows through every use, and broadcasting is undone") {
  Tensor x = leaf(f64({3}, {1})), m = leaf(f64({1, 2, 3, 4, 5, 6}, {2, 3}));
  backward(sum(x * m * x));
  CHECK(values(x.grad()) == Values{2 * 3 * 21});
  CHECK(values(m.grad()) == Values{9, 9, 9, 9, 9, 9});
}

TEST_CASE("gradients of leaves do not share memory with each other or the graph") {
  Tensor a = leaf(f64({1, 2}, {2})), b = leaf(f64({3, 4}, {2}));
  backward(sum(a + b));
  NoGradGuard guard;
  fill_(a.grad(), 7);
  CHECK(values(b.grad()) == Values{1, 1});
}

TEST_CASE("grad gives gradients of leaves and inner tensors, and does not change grad()") {
  Tensor x = leaf(f64({2}, {}));
  Tensor y = x * x, z = y * y;
  std::vector<Tensor> g = grad({z}, {x, y}, {.retain_graph = true});
  CHECK(g[0].item() == 32);
  CHECK(g[1].item() == 8);
  CHECK_FALSE(x.grad().defined());
  Tensor other = leaf(f64({1}, {}));
  CHECK_THROWS_WITH_AS(grad({z}, {other}), doctest::Contains("allow_unused"), Error);
  CHECK_FALSE(grad({z}, {other}, {.retain_graph = true, .allow_unused = true})[0].defined());
}

TEST_CASE("higher derivatives by create_graph") {
  Tensor x = leaf(f64({2}, {}));
  Tensor y = x * x * x * x;
  for (double want : {32.0, 48.0, 48.0, 24.0}) {
    y = grad({y}, {x}, {.create_graph = true})[0];
    CHECK(y.item() == want);
  }
}

TEST_CASE("a second backward is refused unless the graph was kept") {
  Tensor x = leaf(f64({2}, {}));
  Tensor y = x * x;
  backward(y, {.retain_graph = true});
  backward(y);
  CHECK(x.grad().item() == 8);
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("retain_graph"), Error);
}

TEST_CASE("an in-place write to a saved tensor is an error that gives both versions") {
  Tensor x = leaf(f64({2}, {})), w = tensor({3}, {}, DType::f64);
  Tensor y = x * w;
  {
    NoGradGuard guard;
    fill_(w, 5);
  }
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("mul saved a tensor"), Error);
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("at version 0, but it is now at version 1"),
                       Error);
}

TEST_CASE("set_grad refuses a gradient with a history: a leaf would hold its own graph") {
  Tensor x = leaf(f64({3}, {}));
  Tensor g = grad({x * x * x}, {x}, {.create_graph = true})[0];
  CHECK_THROWS_WITH_AS(x.set_grad(g), doctest::Contains("detach()"), Error);
  CHECK_THROWS_WITH_AS(x.set_grad(x), doctest::Contains("detach()"), Error);
  x.set_grad(g.detach());
  CHECK(x.grad().item() == 27);
}

TEST_CASE("NoGradGuard stops recording, EnableGradGuard resumes it") {
  Tensor x = leaf(f64({2}, {}));
  NoGradGuard off;
  CHECK_FALSE((x * x).requires_grad());
  EnableGradGuard on;
  CHECK((x * x).requires_grad());
}

TEST_CASE("backward of a tensor that needs no gradient, or is not a scalar, is an error") {
  Tensor x = tensor({2}, {}, DType::f64);
  CHECK_THROWS_WITH_AS(backward(x * x), doctest::Contains("requires a gradient. Was it computed"),
                       Error);
  const Tensor y = leaf(f64({2}, {})), slope = grad({y * y}, {y})[0];
  CHECK_THROWS_WITH_AS(backward(slope), doctest::Contains("grad() without .create_graph"), Error);
  CHECK_THROWS_WITH_AS(backward(Tensor()), doctest::Contains("backward: the output is undefined"),
                       Error);
  Tensor v = leaf(f64({1, 2}, {2}));
  CHECK_THROWS_WITH_AS(backward(v * 2), doctest::Contains("(2,)"), Error);
  backward(v * 2, {.gradient = tensor({1, 10}, {2}, DType::f64)});
  CHECK(values(v.grad()) == Values{2, 20});
  const Tensor result = v * 2;
  CHECK(result.set_requires_grad().requires_grad());
  CHECK(values(grad({sum(result)}, {v})[0]) == Values{2, 2});  // it keeps its history
  CHECK_THROWS_AS(result.set_requires_grad(false), Error);
  CHECK_THROWS_AS(arange(0, 3).set_requires_grad(), Error);
}

TEST_CASE("detach cuts the graph and shares the elements") {
  Tensor x = leaf(f64({2}, {}));
  Tensor y = x * 3, d = y.detach();
  CHECK_FALSE(d.requires_grad());
  backward(y * d);
  CHECK(x.grad().item() == 18);
}

TEST_CASE("leaves() lists the leaves that a tensor depends on") {
  Tensor a = leaf(f64({1}, {})), b = leaf(f64({2}, {})), c = leaf(f64({3}, {}));
  Tensor loss = a * b + a + c.detach();
  std::vector<Tensor> found = leaves(loss);
  REQUIRE(found.size() == 2);
  auto holds = [&](const Tensor& t) {
    return std::any_of(found.begin(), found.end(),
                       [&](const Tensor& f) { return f.ref() == t.ref(); });
  };
  CHECK(holds(a));
  CHECK(holds(b));
}

TEST_CASE("a user-defined op has first and second derivatives") {
  Tensor x = leaf(f64({1.5, -2}, {2}));
  CHECK_NOTHROW(gradcheck([](auto& in) { return cube(in[0]); }, {x}));
  CHECK_NOTHROW(gradgradcheck([](auto& in) { return cube(in[0]); }, {x}));
  auto wrong = [](const std::vector<Tensor>& in) {
    Op op("wrong", in[0]);
    return op.record(Fresh::adopt(in[0].detach()), [](const Tensor& dy) { return dy * 1.01; });
  };
  CHECK_THROWS_WITH_AS(gradcheck(wrong, {x}), doctest::Contains("input 0"), Error);
  auto fused = [](const std::vector<Tensor>& in) {
    Op op("fused", in[0]);
    return op.record(Fresh::adopt(in[0].detach()), [](const Tensor& dy) {
      Op op("fused_backward", dy);
      return op.record(Fresh::adopt(dy.detach()), no_second_derivative("fused"));
    });
  };
  CHECK_NOTHROW(gradcheck(fused, {x}));
  CHECK_THROWS_WITH_AS(gradgradcheck(fused, {x}), doctest::Contains("no second derivative"), Error);
}

TEST_CASE("checkpoint: same gradients for inputs, parameters and random numbers") {
  Tensor x = leaf(f64({1, 2, 3, 4}, {4})), w = leaf(f64({2, 3, 4, 5}, {4}));
  Rng rng(7);
  auto segment = [&](std::span<const Tensor> in) { return dropout(tanh(in[0] * w) * w, 0.5, rng); };
  Rng start = rng;
  backward(sum(segment(std::vector<Tensor>{x})));
  Values dx = values(x.grad()), dw = values(w.grad());
  x.set_grad({});
  w.set_grad({});
  rng = start;
  Tensor loss = sum(checkpoint(segment, {x}, {.rngs = {&rng}}));
  CHECK(leaves(loss).size() == 2);
  backward(loss);
  CHECK(values(x.grad()) == dx);
  CHECK(values(w.grad()) == dw);
  auto smooth = [&](const std::vector<Tensor>& in) {
    return checkpoint([&](std::span<const Tensor> a) { return tanh(a[0] * w); }, in);
  };
  CHECK_NOTHROW(gradcheck(smooth, {x}));
  CHECK_NOTHROW(gradgradcheck(smooth, {x}));
}

TEST_CASE("checkpoint: grad() and second derivatives of weights also used outside it") {
  Tensor x = leaf(f64({1, 2, 3, 4}, {4})), w = leaf(f64({0.2, 0.3, 0.4, 0.5}, {4}));
  auto segment = [&](std::span<const Tensor> in) { return tanh(in[0] * w) * w; };
  auto gradients = [&](bool recompute, bool create_graph) {
    std::vector<Tensor> in = {x * w};  // w is used before, in and after the segment
    Tensor y = recompute ? checkpoint(segment, in) : segment(in);
    std::vector<Tensor> out = grad({sum(y * w * w)}, {x, w}, {.create_graph = create_graph});
    if (create_graph)
      for (const Tensor& second : grad({sum(out[0] * out[1])}, {x, w})) out.push_back(second);
    return cat(out).detach();
  };
  CHECK(all_close(gradients(true, false), gradients(false, false), 1e-12, 0));
  CHECK(all_close(gradients(true, true), gradients(false, true), 1e-12, 0));
}

TEST_CASE("a chain of a million ops runs backward and is freed without recursion") {
  Tensor x = leaf(f64({1}, {}));
  int64_t before = memory_stats().live;
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + 1;
  CHECK(y.item() == 1'000'001);
  backward(y);
  CHECK(x.grad().item() == 1);
  y = x;
  CHECK(memory_stats().live <= before + 1024);
  for (int i = 0; i < 1'000'000; ++i) y = -y;  // a graph that is dropped without backward
  y = {};
  CHECK(memory_stats().live <= before + 1024);
}

TEST_CASE("backward frees saved tensors as it goes") {
  Tensor x = zeros({1024, 1024});
  x.set_requires_grad();
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = tanh(y);
  Tensor loss = sum(y);
  y = {};
  int64_t with_graph = memory_stats().live;
  backward(loss);
  CHECK(memory_stats().live < with_graph - 8 * 1024 * 1024 * 4);
}

}  // namespace
}  // namespace tern::test_autograd
