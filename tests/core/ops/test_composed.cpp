// The table of fused ops (fused_table.h): linear, softmax, norms, dropout, cross_entropy and
// convolutions against their composed definitions.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/attention/additive.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/fused_table.h"

namespace tern::test_composed {
namespace {

using test::fused_row;
using test::FusedRow;
using test::Inputs;
using test::mask_rows;
using test::run_fused;
using test::Shapes;

TEST_CASE("fused and composed: linear") {
  for (auto activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
        Activation::silu, Activation::tanh, Activation::sigmoid}) {
    const std::string name = "linear " + std::to_string(static_cast<int>(activation));
    auto shapes = [](int64_t n) { return Shapes{{3, n, n}, {n + 2, n}, {n + 2}, {3, n, n + 2}}; };
    run_fused({fused_row(name, shapes, linear, composed::linear,
                         [=](auto op, const Inputs& x) {
                           return op(x[0], x[1], x[2], LinearOptions{activation, x[3]});
                         }),
               fused_row(
                   name + ", no bias",
                   [=](int64_t n) {
                     return Shapes{{n, n}, {n + 2, n}};
                   },
                   linear, composed::linear,
                   [=](auto op, const Inputs& x) {
                     return op(x[0], x[1], Tensor(), LinearOptions{activation, {}});
                   })});
  }
}

// These ops are not fused, but their kernels have separate code for every vector level.
TEST_CASE("fused and composed: products, activations, reductions") {
  using Unary = Tensor (*)(const Tensor&);
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  auto products = [](const Tensor& a, const Tensor& b) {
    return sum(unsqueeze(a, -1) * unsqueeze(b, -3), -2);
  };
  auto both = [](auto op, const Inputs& x) { return op(x[0], x[1]); };
  auto matrices = [](int64_t n) { return Shapes{{3, n, n + 1}, {n + 1, n + 3}}; };
  std::vector<FusedRow> rows = {
      fused_row("matmul", matrices, Binary(matmul), Binary(products), both)};
  auto add = [&](const std::string& name, Unary fused, Unary composed) {
    auto one = [](auto op, const Inputs& x) { return op(x[0]); };
    auto shapes = [](int64_t n) { return Shapes{{2, n, 3 * n + 2}}; };
    rows.push_back(fused_row(name, shapes, fused, composed, one, 4));
  };
  add(
      "gelu", [](const Tensor& x) { return gelu(x); },
      [](const Tensor& x) { return 0.5 * x * (1 + erf(x / std::sqrt(2.0))); });
  add(
      "gelu, tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); },
      [](const Tensor& x) {
        const double factor = std::sqrt(2 / std::acos(-1.0));
        return 0.5 * x * (1 + tanh(factor * (x + 0.044715 * x * x * x)));
      });
  add("silu", silu, [](const Tensor& x) { return x * sigmoid(x); });
  add("sigmoid", sigmoid, [](const Tensor& x) { return 1 / (1 + exp(-x)); });
  add("softplus", softplus, [](const Tensor& x) { return log(1 + exp(x)); });
  add(
      "logsumexp", [](const Tensor& x) { return logsumexp(x, -1); },
      [](const Tensor& x) { return log(sum(exp(x), -1)); });
  add(
      "std",
      [](const Tensor& x) {
        return std(x, {0, 2});
      },
      [](const Tensor& x) {
        return sqrt(var(x, {0, 2}));
      });
  add(
      "norm", [](const Tensor& x) { return norm(x, 3, 1); },
      [](const Tensor& x) { return pow(sum(pow(abs(x), 3), 1), 1 / 3.0); });
  add(
      "avg_pool2d",
      [](const Tensor& x) {
        return avg_pool2d(unsqueeze(x, 0), {.kernel = {1, 3}, .stride = {1, 2}});
      },
      [](const Tensor& x) { return mean(unfold(unsqueeze(x, 0), -1, 3, 2), -1); });
  run_fused(rows);
}

TEST_CASE("fused and composed: softmax") {
  std::vector<FusedRow> rows;
  auto shapes = [](int64_t n) { return Shapes{{3, n, n}}; };
  for (int64_t axis : {2, 1})
    for (bool masked : {false, true}) {
      auto call = [=](auto op, const Inputs& x) {
        Tensor mask = mask_rows(x[0].size(1), x[0].size(2));
        if (axis == 1) mask = transpose(mask, 0, 1);
        return op(x[0] * 3, axis, masked ? mask : Tensor());
      };
      const std::string rest = fmt::format(", axis {}{}", axis, masked ? ", masked" : "");
      rows.push_back(fused_row("softmax" + rest, shapes, softmax, composed::softmax, call));
      rows.push_back(
          fused_row("log_softmax" + rest, shapes, log_softmax, composed::log_softmax, call));
    }
  run_fused(rows);
}

TEST_CASE("fused and composed: normalisation") {
  auto batch = [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
    return batch_norm(x, {}, {}, w, b, {.training = true, .eps = eps});
  };
  using BatchNorm = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, double);
  auto batch_call = [](auto op, const Inputs& x) { return op(x[0], x[1], x[2], 1e-3); };
  run_fused({
      fused_row(
          "layer_norm",
          [](int64_t n) {
            return Shapes{{5, 3, n}, {n}, {n}};
          },
          layer_norm, composed::layer_norm,
          [](auto op, const Inputs& x) { return op(x[0], x[1].shape(), x[1], x[2], 1e-3); }),
      fused_row(
          "layer_norm, two axes, no weights",
          [](int64_t n) {
            return Shapes{{35, 3, n}};
          },
          layer_norm, composed::layer_norm,
          [](auto op, const Inputs& x) {
            return op(x[0], Shape{3, x[0].size(2)}, Tensor(), Tensor(), 1e-3);
          }),
      fused_row(
          "rms_norm",
          [](int64_t n) {
            return Shapes{{35, n}, {n}};
          },
          rms_norm, composed::rms_norm,
          [](auto op, const Inputs& x) { return op(x[0], x[1].shape(), x[1], 1e-3); }),
      fused_row(
          "group_norm",
          [](int64_t n) {
            return Shapes{{3, 6, n}, {6}, {6}};
          },
          group_norm, composed::group_norm,
          [](auto op, const Inputs& x) { return op(x[0], 3, x[1], x[2], 1e-3); }),
      fused_row(
          "batch_norm",
          [](int64_t n) {
            return Shapes{{3, 5, n, 2}, {5}, {5}};
          },
          BatchNorm(batch), BatchNorm(composed::batch_norm), batch_call),
      fused_row(
          "batch_norm (N, C)",
          [](int64_t n) {
            return Shapes{{19, n}, {n}, {n}};
          },
          BatchNorm(batch), BatchNorm(composed::batch_norm), batch_call),
  });
}

TEST_CASE("fused and composed: dropout") {
  run_fused(fused_row(
      "dropout",
      [](int64_t n) {
        return Shapes{{3, n, n}};
      },
      dropout, composed::dropout,
      [](auto op, const Inputs& x) {
        Rng rng(5);
        return op(x[0], 0.3, rng);
      }));
}

TEST_CASE("fused and composed: cross_entropy") {
  auto shapes = [](int64_t n) { return Shapes{{5, n, 3}}; };
  auto classes = [](const Tensor& x) {  // -1 is ignored
    return reshape(remainder(arange(0, 15), x.size(1) + 1) - 1, {5, 3});
  };
  auto of_classes = [=](const std::string& name, CrossEntropyOptions o, bool weighted) {
    o.ignore_index = -1;
    return fused_row("cross_entropy" + name, shapes, cross_entropy, composed::cross_entropy,
                     [=](auto op, const Inputs& x) {
                       CrossEntropyOptions options = o;
                       const int64_t n = x[0].size(1);
                       if (weighted) options.weight = linspace(0.5, 1.5, n, x[0].dtype());
                       return op(x[0] * 2, classes(x[0]), options);
                     });
  };
  run_fused({
      of_classes("", {.reduction = Reduction::none}, false),
      of_classes(", smoothed", {.label_smoothing = 0.1}, false),
      of_classes(", weighted", {.reduction = Reduction::sum}, true),
      of_classes(", weighted and smoothed", {.label_smoothing = 0.3}, true),
      fused_row(
          "cross_entropy of probabilities",
          [](int64_t n) {
            return Shapes{{5, n}};
          },
          cross_entropy, composed::cross_entropy,
          [](auto op, const Inputs& x) {
            Tensor t =
                softmax(reshape(arange(0, x[0].numel(), 1, x[0].dtype()), x[0].shape()) * 0.3, 1);
            return op(x[0], t, CrossEntropyOptions{.label_smoothing = 0.1});
          }),
  });
}

FusedRow conv_row(const std::string& name, const std::function<Shapes(int64_t)>& shapes,
                  const Conv2dOptions& options) {
  return fused_row(
      "conv2d" + name, shapes, conv2d, composed::conv2d,
      [=](auto op, const Inputs& x) {
        return op(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), options);
      },
      36);
}

TEST_CASE("fused and composed: convolutions") {
  run_fused({
      conv_row("",
               [](int64_t n) {
                 return Shapes{{2, 3, 4, n}, {5, 3, 3, 3}, {5}};
               },
               {.padding = {0, 1}}),
      conv_row(", stride, dilation",
               [](int64_t n) {
                 return Shapes{{2, 3, n, 9}, {5, 3, 2, 3}};
               },
               {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}}),
      conv_row(", groups",
               [](int64_t n) {
                 return Shapes{{1, 4, 3, n}, {6, 2, 3, 3}};
               },
               {.padding = {1, 1}, .groups = 2}),
      conv_row(", depthwise",
               [](int64_t n) {
                 return Shapes{{2, 3, 5, n}, {3, 1, 3, 3}, {3}};
               },
               {.padding = {1, 1}, .groups = 3}),
      conv_row(", depthwise, stride",
               [](int64_t n) {
                 return Shapes{{2, 2, n, 8}, {4, 1, 5, 3}};
               },
               {.stride = {2, 2}, .padding = {2, 1}, .groups = 2}),
      conv_row(", patches",
               [](int64_t n) {
                 return Shapes{{2, 3, 4, 2 * n}, {n, 3, 2, 2}, {n}};
               },
               {.stride = {2, 2}}),
      conv_row(", points",
               [](int64_t n) {
                 return Shapes{{2, 4, 3, n}, {n, 4, 1, 1}, {n}};
               },
               {}),
  });
}

}  // namespace
}  // namespace tern::test_composed
