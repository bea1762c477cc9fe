// Every pair of layouts for operands that are large enough for the kernels' other branches: long
// runs, tiles, blocks of columns, transposing copies, several threads. (The op table has small
// operands, for central differences.) f32, against contiguous copies in f64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::ops_large_layouts {
namespace {

using test::Placing;
using Inputs = std::vector<Tensor>;

/// Numbers in every placing of a shape, and the same as an op sees them, as contiguous f64.
struct Operand {
  std::vector<Placing> placings;
  Inputs leaves, copies;

  Operand(const Shape& shape, uint64_t seed) : placings(test::placings(shape, true)) {
    Rng rng(seed);
    for (const Placing& p : placings) {
      Tensor values = uniform(p.stored(shape), -1, 1, rng);
      leaves.push_back(test::lay_out<float>(test::to_array(values), p).set_requires_grad());
      copies.push_back(expand(values.to(DType::f64), shape).clone().set_requires_grad());
    }
  }
};

/// Checks that `got`, the gradient by the stored elements, is within rounding of `want`, the
/// gradient by the elements that the op sees. An element of `got` is a sum over all seen elements
/// that share it and over its share of the `outputs`. Errors of different terms mostly cancel.
/// Equal terms have the same error, half an ulp of numbers up to 8 (log_softmax), which adds up
/// where the sum itself is 0.
void check_close(const std::string& what, const Tensor& got, const Tensor& want, int64_t outputs) {
  const auto summed = static_cast<double>(std::max(want.numel(), outputs));
  const double terms = std::max(1.0, summed / static_cast<double>(got.numel()));
  const double largest = max(abs(want)).item();
  Tensor error = max(abs(got.to(DType::f64) - sum_to(want, got.shape())));
  const double rounding = (1e-5 + 1e-4 * largest) * std::sqrt(terms) + terms * 0x1p-21;
  const bool close = error.item() <= rounding;
  CHECK_MESSAGE(close, what, ": off by ", error.item(), ", the largest is ", largest);
}

void run(const std::string& name, const std::vector<Shape>& shapes,
         const std::function<Tensor(const Inputs&)>& fn) {
  std::vector<Operand> operands;
  Inputs sample;
  for (const Shape& s : shapes) {
    operands.emplace_back(s, operands.size());
    sample.push_back(operands.back().copies[0].detach());
  }
  operands.emplace_back(fn(sample).shape(), 99);  // the gradient from above
  std::vector<int> counts;
  for (const Operand& x : operands) counts.push_back(static_cast<int>(x.placings.size()));
  for (const std::vector<int>& pick : test::covering_array(counts)) {
    Inputs leaves, args, copies;
    std::string all = name;
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto p = static_cast<size_t>(pick[i]);
      all += ", " + to_string(operands[i].placings[p]);
      leaves.push_back(operands[i].leaves[p]);
      copies.push_back(operands[i].copies[p]);
      args.push_back(expand(leaves.back(), copies.back().shape()));
    }
    INFO(all);
    Tensor up = args.back().detach(), up_copy = copies.back().detach();
    for (Inputs* list : {&leaves, &args, &copies}) list->pop_back();
    Tensor got = fn(args), want = fn(copies);
    check_close("value", got, want, 1);
    Inputs g = grad({got}, leaves, {.gradients = {up}});
    Inputs w = grad({want}, copies, {.gradients = {up_copy}});
    for (size_t i = 0; i < g.size(); ++i)
      check_close("gradient " + std::to_string(i), g[i], w[i], got.numel());
  }
}

const Shape kLarge{2, 66, 70};

TEST_CASE("large layouts: elementwise, reductions, copies") {
  run("mul", {kLarge, kLarge}, [](const Inputs& x) { return x[0] * x[1]; });
  run("mul, broadcast", {kLarge, {66, 1}}, [](const Inputs& x) { return x[0] * x[1]; });
  run("gelu", {kLarge}, [](const Inputs& x) { return gelu(x[0]); });
  run("cumsum", {kLarge}, [](const Inputs& x) { return cumsum(x[0], 1); });
  run("cat", {kLarge, {2, 5, 70}}, [](const Inputs& x) { return cat(x, 1); });
  run("stack of many", {{30, 41}},
      [](const Inputs& x) { return stack(std::vector<Tensor>(40, x[0]), 1); });
  run("reshape of a permutation", {kLarge}, [](const Inputs& x) {
    return reshape(permute(x[0], {2, 0, 1}), {35, -1});
  });
  for (const Dims& axes : std::vector<Dims>{{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}}) {
    run(fmt::format("sum {}", axes), {kLarge}, [=](const Inputs& x) { return sum(x[0], axes); });
    run(fmt::format("norm {}", axes), {kLarge},
        [=](const Inputs& x) { return norm(x[0], 2, axes); });
  }
}

TEST_CASE("large layouts: products") {
  run("matmul", {kLarge, {2, 70, 68}}, [](const Inputs& x) { return matmul(x[0], x[1]); });
  run("matmul, b shared", {kLarge, {70, 68}}, [](const Inputs& x) { return matmul(x[0], x[1]); });
  run("einsum, two sums", {kLarge, {2, 34, 70}},
      [](const Inputs& x) { return einsum("bij,bkj->ik", x); });
  run("linear", {kLarge, {34, 70}, {34}, {2, 66, 34}}, [](const Inputs& x) {
    return linear(x[0], x[1], x[2], {Activation::gelu, x[3]});
  });
  run("conv2d", {{2, 3, 20, 33}, {8, 3, 3, 3}, {8}}, [](const Inputs& x) {
    return conv2d(x[0], x[1], x[2], {.padding = {1, 1}});
  });
  run("conv2d, patches", {{2, 3, 20, 32}, {8, 3, 4, 4}}, [](const Inputs& x) {
    return conv2d(x[0], x[1], {}, {.stride = {4, 4}});
  });
}

TEST_CASE("large layouts: softmax, norms, attention") {
  run("softmax", {kLarge}, [](const Inputs& x) { return softmax(x[0], -1); });
  run("log_softmax, second axis", {kLarge}, [](const Inputs& x) { return log_softmax(x[0], 1); });
  run("layer_norm", {kLarge, {70}, {70}},
      [](const Inputs& x) { return layer_norm(x[0], 70, x[1], x[2], 0.1); });
  run("batch_norm", {kLarge, {66}, {66}}, [](const Inputs& x) {
    return batch_norm(x[0], {}, {}, x[1], x[2], {.training = true, .eps = 0.1});
  });
  run("attention", {{2, 2, 50, 16}, {2, 1, 61, 16}, {2, 1, 61, 8}},
      [](const Inputs& x) { return attention(x[0], x[1], x[2], {.mask = {.causal = 11}}); });
}

}  // namespace
}  // namespace tern::ops_large_layouts
