// The gradients of fused attention in f32 with large scores: as exact as those of the products and
// softmax that compose it.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_attention_gradient {

namespace {

using Attend = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&);

struct Inputs {
  Tensor q, k, v, dout;
  AttentionOptions options;

  std::vector<Tensor> gradients(DType type, Attend attend) const {
    auto leaf = [type](const Tensor& x) { return x.to(type).clone().set_requires_grad(); };
    const Tensor a = leaf(q), b = leaf(k), c = leaf(v);
    AttentionOptions o = options;
    if (o.mask.bias.defined()) o.mask.bias = o.mask.bias.to(type);
    return grad({sum(attend(a, b, c, o) * dout.to(type))}, {a, b, c});
  }
};

/// The relative error of a gradient in the 2-norm.
double error(const Tensor& got, const Tensor& exact) {
  return (norm(got.to(DType::f64) - exact) / norm(exact)).item();
}

/// Fused and composed attention round the same scores, so the fused gradients must not lose more.
/// The factor 1.5 leaves room for another order of the sums.
void check_exact(const Inputs& in) {
  const std::vector<Tensor> exact = in.gradients(DType::f64, composed::attention);
  const std::vector<Tensor> by_ops = in.gradients(DType::f32, composed::attention);
  const std::vector<Tensor> got = in.gradients(DType::f32, attention);
  for (size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(error(got[i], exact[i]) <= 1.5 * error(by_ops[i], exact[i]));
  }
}

TEST_CASE("attention: gradients of large scores are as exact as with composed ops") {
  for (double size : {1.0, 10.0, 30.0, 100.0}) {
    Rng rng(1);
    const Shape queries{2, 4, 90, 32}, keys{2, 2, 110, 32};
    Inputs in{
        randn(queries, rng) * size, randn(keys, rng), randn(keys, rng), randn(queries, rng), {}};
    const Tensor bias = randn({2, 4, 90, 110}, rng) * size;
    CAPTURE(size);
    check_exact(in);
    in.options.mask = {.causal = 20};
    check_exact(in);
    in.options.mask = {.lengths = tensor(std::vector<int64_t>{110, 37})};
    check_exact(in);
    in.options.mask = {.bias = bias};
    check_exact(in);
    in.options.mask = {.allowed = gt(bias, 0)};
    check_exact(in);
    in.options = {.scale = -0.2};
    check_exact(in);
  }
}

TEST_CASE("attention: gradients of large scores have the same bits on any number of threads") {
  Rng rng(2);
  const Shape shape{3, 2, 130, 16};
  const Inputs in{randn(shape, rng) * 50,
                  randn(shape, rng),
                  randn(shape, rng),
                  randn(shape, rng),
                  {.mask = {.causal = 0}}};
  test::check_threads([&] { return test::numbers_of(in.gradients(DType::f32, attention)); });
}

TEST_CASE("attention: bf16 products change nothing in f64") {
  Rng rng(8);
  const Tensor x = randn({3, 1, 2, 5, 4}, rng, DType::f64) * 30;
  const auto gradients = [&] {
    std::vector<Tensor> in;
    for (const int64_t i : {0, 1, 2}) in.push_back(select(x, 0, i).detach().set_requires_grad());
    return test::numbers_of(grad({sum(square(attention(in[0], in[1], in[2])))}, in));
  };
  const auto want = gradients();
  const MatmulPrecisionScope scope(MatmulPrecision::bf16);
  CHECK(gradients() == want);
}

TEST_CASE("attention: a query that sees no key has a gradient of 0") {
  Rng rng(3);
  const Shape shape{1, 1, 4, 3};
  Tensor bias = zeros({1, 1, 4, 4});
  fill_(narrow(bias, 2, 1, 1), -test::kInf);  // query 1 sees no key
  Inputs in{randn(shape, rng),
            randn(shape, rng),
            randn(shape, rng),
            randn(shape, rng),
            {.mask = {.bias = bias}}};
  const std::vector<Tensor> got = in.gradients(DType::f32, attention);
  const std::vector<Tensor> want = in.gradients(DType::f64, composed::attention);
  for (size_t i = 0; i < 3; ++i) CHECK(error(got[i], want[i]) <= 0x1p-20);
  CHECK(sum(abs(narrow(got[0], 2, 1, 1))).item() == 0);
}

}  // namespace

}  // namespace tern::test_attention_gradient
