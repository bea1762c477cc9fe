// The list of subjects (subjects.h), and what their rows are made of.
#include "tern/tests/core/ops/subjects.h"

#include <fmt/ranges.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/additive.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/linalg/linalg.h"
#include "tern/core/ops/losses/losses.h"
#include "tern/tests/support/tensors.h"

namespace tern::test {

Subject Subject::at(int64_t size) const {
  Subject s = *this;
  s.large = size;
  return s;
}

Subject Subject::bf16(int products_in_sequence, int storages_rounded) const {
  Subject s = *this;
  s.products = products_in_sequence;
  s.rounded = storages_rounded;
  return s;
}

Inputs inputs_of(const Subject& subject, int64_t n, Rng& rng) {
  Inputs inputs;
  for (Shape s : subject.shapes) {
    for (int64_t& size : s) {
      const int64_t factor = (size + N / 2) / N;
      size += factor * (n - N);
    }
    inputs.push_back(randn(s, rng));
  }
  return inputs;
}

Tensor mask_rows(int64_t rows, int64_t n) {
  const Tensor pattern = ne(remainder(arange(0, rows * n), 3), 1);
  return logical_and(reshape(pattern, {rows, n}), ne(reshape(arange(0, rows), {rows, 1}), 1));
}

namespace {

using Subjects = std::vector<Subject>;
using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

constexpr Activation kActivations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                       Activation::gelu_tanh, Activation::silu, Activation::tanh,
                                       Activation::sigmoid};

Subject one(const std::string& name, const Shape& shape, Unary fn) {
  return {name, {shape}, [fn](const Inputs& x) { return fn(x[0]); }};
}

Subject two(const std::string& name, std::vector<Shape> shapes, Binary fn) {
  return {name, std::move(shapes), [fn](const Inputs& x) { return fn(x[0], x[1]); }};
}

/// These are not fused, but their kernels have separate code for every vector level.
Subject same_as(const std::string& name, Unary fn, Unary other) {
  auto call = [](auto op, const Inputs& x) { return op(x[0]); };
  return both(name, {{2, N, 3 * N + 2}}, fn, other, call, 4);
}

Tensor tanh_gelu(const Tensor& x) {
  const double factor = std::sqrt(2 / std::acos(-1.0));
  return 0.5 * x * (1 + tanh(factor * (x + 0.044715 * x * x * x)));
}

Subjects elementwise() {
  return {
      same_as(
          "gelu", [](const Tensor& x) { return gelu(x); },
          [](const Tensor& x) { return 0.5 * x * (1 + erf(x / std::sqrt(2.0))); }),
      same_as(
          "gelu, tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); }, tanh_gelu),
      same_as("silu", silu, [](const Tensor& x) { return x * sigmoid(x); }),
      same_as("sigmoid", sigmoid, [](const Tensor& x) { return 1 / (1 + exp(-x)); }),
      same_as("softplus", softplus, [](const Tensor& x) { return log(1 + exp(x)); }),
      one("tanh", {7, N}, tanh),
      one("erf", {7, N}, erf),
      one("sin", {7, N}, [](const Tensor& x) { return sin(1024 * x); }),
      one("log1p", {7, N}, [](const Tensor& x) { return log1p(square(x)); }),
      two("mul", {{2, N, N + 4}, {2, N, N + 4}}, mul),
      two("mul, broadcast", {{2, N, N + 4}, {N, 1}}, mul),
      one("randn", {1},
          [](const Tensor& x) {
            Rng rng(11);
            return x * cast(randn({6400}, rng), x.dtype());
          }),
      both("dropout", {{3, N, N}}, dropout, composed::dropout,
           [](auto op, const Inputs& x) {
             Rng rng(5);
             return op(x[0], 0.3, rng);
           }),
  };
}

Subjects copies_and_reductions() {
  const Shape shape{2, N, N + 4};
  Subjects all = {
      {"cat", {shape, {2, 5, N + 4}}, [](const Inputs& x) { return cat(x, 1); }},
      one("stack of many", {30, N + 8},
          [](const Tensor& x) { return stack(std::vector<Tensor>(40, x), 1); }),
      one("reshape of a permutation", shape,
          [](const Tensor& x) {
            return reshape(permute(x, {2, 0, 1}), {2, -1});
          }),
      one("cumsum", shape, [](const Tensor& x) { return cumsum(x, 1); }),
      one("sum of many", {70, N}, [](const Tensor& x) { return sum(x); }).at(1031),
      one("var", {5, N}, [](const Tensor& x) { return var(x, 1); }).at(1031),
      two("cdist", {{9, N}, {11, N}}, [](const Tensor& a, const Tensor& b) { return cdist(a, b); }),
      same_as(
          "logsumexp", [](const Tensor& x) { return logsumexp(x, -1); },
          [](const Tensor& x) { return log(sum(exp(x), -1)); }),
      same_as(
          "std",
          [](const Tensor& x) {
            return std(x, {0, 2});
          },
          [](const Tensor& x) {
            return sqrt(var(x, {0, 2}));
          }),
      same_as(
          "norm", [](const Tensor& x) { return norm(x, 3, 1); },
          [](const Tensor& x) { return pow(sum(pow(abs(x), 3), 1), 1 / 3.0); }),
      same_as(
          "avg_pool2d",
          [](const Tensor& x) {
            return avg_pool2d(unsqueeze(x, 0), {.kernel = {1, 3}, .stride = {1, 2}});
          },
          [](const Tensor& x) { return mean(unfold(unsqueeze(x, 0), -1, 3, 2), -1); }),
  };
  for (const Dims& axes : std::vector<Dims>{{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}}) {
    all.push_back(
        {fmt::format("sum {}", axes), {shape}, [=](const Inputs& x) { return sum(x[0], axes); }});
    all.push_back({fmt::format("norm {}", axes), {shape}, [=](const Inputs& x) {
                     return norm(x[0], 2, axes);
                   }});
  }
  return all;
}

Subjects matrix_products() {
  const Binary by_hand = [](const Tensor& a, const Tensor& b) {
    return sum(unsqueeze(a, -1) * unsqueeze(b, -3), -2);
  };
  const Binary transposed = [](const Tensor& a, const Tensor& b) {
    return matmul(transpose(a, 0, 1), b);
  };
  const Binary of_columns = [](const Tensor& a, const Tensor& b) {
    return matmul(slice(a, 1, {}, {}, 2), b);
  };
  const std::vector<Shape> batches = {{3, 2 * N, 2 * N + 4}, {3, 2 * N + 4, N + 2}};
  return {
      both("matmul", {{3, N, N + 1}, {N + 1, N + 3}}, Binary(matmul), by_hand,
           [](auto op, const Inputs& x) { return op(x[0], x[1]); })
          .bf16(1, 2),
      two("matmul of long sums", {{71, N}, {N, 93}}, matmul).at(1300).bf16(1, 2),
      two("a large matmul", {{N, 2 * N + 100}, {2 * N + 100, N}}, matmul).at(300).bf16(1, 2),
      two("batched matmul", batches, matmul).bf16(1, 2),
      two("matmul, broadcast", {{3, 2 * N, 2 * N + 4}, {2 * N + 4, N + 2}}, matmul).bf16(1, 2),
      two("matmul with a vector", {{71, N}, {N}}, matmul).at(1300).bf16(1, 2),
      two("a vector by a matrix", {{N}, {N, 71}}, matmul).at(1300),
      two("matmul of a transposed matrix", {{N, 35}, {N, 19}}, transposed).at(1300).bf16(1, 2),
      two("matmul of every other column", {{20, 2 * N}, {N, 7}}, of_columns).bf16(1, 2),
      one("matmul of a matrix with itself", {N, N}, [](const Tensor& x) { return matmul(x, x); })
          .bf16(1, 1),
      two("einsum", {{4, 2 * N, N + 4}, {4, N + 1, N + 4}},
          [](const Tensor& a, const Tensor& b) {
            return einsum("bij,bkj->ik", {a, b});
          })
          .bf16(1, 2),
  };
}

Subjects linear_layers() {
  const std::vector<Shape> with_residual = {{3, N, N}, {N + 2, N}, {N + 2}, {3, N, N + 2}};
  Subjects all;
  for (const Activation activation : kActivations) {
    const std::string name = fmt::format("linear {}", static_cast<int>(activation));
    all.push_back(
        both(name, with_residual, linear, composed::linear, [=](auto op, const Inputs& x) {
          return op(x[0], x[1], x[2], LinearOptions{activation, x[3]});
        }));
    all.push_back(both(name + ", no bias", {{N, N}, {N + 2, N}}, linear, composed::linear,
                       [=](auto op, const Inputs& x) {
                         return op(x[0], x[1], Tensor(), LinearOptions{activation, {}});
                       }));
    for (const float p : {0.0f, 0.25f}) {
      auto fn = [=](const Inputs& x) {
        Rng rng(5);
        return linear(x[0], x[1], x[2], {.activation = activation, .dropout = p, .rng = &rng});
      };
      // A ReLU keeps its result, too, but the square of the result needs that whole.
      const Subject dropped{
          fmt::format("{}, dropout {}", name, p), {{4, 10, N}, {17, N}, {17}}, fn};
      // tanh and sigmoid do not grow with their argument, whose error is relative to its size.
      const bool grows = activation != Activation::tanh && activation != Activation::sigmoid;
      all.push_back(dropped.bf16(p == 0 && grows ? 1 : 0, 2));
    }
  }
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::silu, Activation::tanh})
    for (const bool residual : {false, true})
      all.push_back(both(fmt::format("linear {} with dropout, residual {}",
                                     static_cast<int>(activation), residual),
                         with_residual, linear, composed::linear, [=](auto op, const Inputs& x) {
                           Rng rng(5);
                           LinearOptions o{.activation = activation, .dropout = 0.3, .rng = &rng};
                           if (residual) o.residual = x[3];
                           const Tensor y = op(x[0], x[1], x[2], o);
                           return residual ? y : y + x[3] * 0;
                         }));
  const LinearOptions relu{.activation = Activation::relu};
  all.push_back(Subject{
      "linear, ReLU, residual", {{10, N}, {17, N}, {17}, {10, 17}}, [=](const Inputs& x) {
        LinearOptions o = relu;
        o.residual = x[3];
        return linear(x[0], x[1], x[2], o);
      }}.bf16(1, 3));  // also the tensor that the ReLU keeps
  all.push_back(Subject{
      "linear, ReLU, linear", {{40, N}, {64, N}, {64}, {9, 64}}, [=](const Inputs& x) {
        return linear(linear(x[0], x[1], x[2], relu), x[3]);
      }}.bf16(2, 4));
  return all;
}

Subject conv(const std::string& name, const std::vector<Shape>& shapes,
             const Conv2dOptions& options) {
  return both(
      "conv2d" + name, shapes, conv2d, composed::conv2d,
      [=](auto op, const Inputs& x) {
        return op(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), options);
      },
      36);
}

Subjects convolutions() {
  const auto plain = [](const std::string& name, std::vector<Shape> shapes, Conv2dOptions o) {
    return Subject{"conv2d" + name, std::move(shapes),
                   [=](const Inputs& x) { return conv2d(x[0], x[1], {}, o); }};
  };
  return {
      conv("", {{2, 3, 4, N}, {5, 3, 3, 3}, {5}}, {.padding = {0, 1}}),
      conv(", high", {{2, 3, 20, N}, {8, 3, 3, 3}, {8}}, {.padding = {1, 1}}),
      conv(", stride, dilation", {{2, 3, N, 9}, {5, 3, 2, 3}},
           {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}}),
      conv(", groups", {{1, 4, 3, N}, {6, 2, 3, 3}}, {.padding = {1, 1}, .groups = 2}),
      conv(", depthwise", {{2, 3, 5, N}, {3, 1, 3, 3}, {3}}, {.padding = {1, 1}, .groups = 3}),
      conv(", depthwise, stride", {{2, 2, N, 8}, {4, 1, 5, 3}},
           {.stride = {2, 2}, .padding = {2, 1}, .groups = 2}),
      conv(", patches", {{2, 3, 4, 2 * N}, {N, 3, 2, 2}, {N}}, {.stride = {2, 2}}),
      conv(", points", {{2, 4, 3, N}, {N, 4, 1, 1}, {N}}, {}),
      plain(", channels", {{2, 19, 9, 9}, {21, 19, 3, 3}}, {}).bf16(1, 0),
      plain(" by Winograd's filtering", {{2, 35, 11, 13}, {37, 35, 3, 3}}, {.padding = 1}),
      plain(", channels, strides", {{2, 35, 11, 13}, {37, 35, 3, 3}}, {.stride = 2, .padding = 1}),
      plain(", channels, patches", {{2, 3, 20, 32}, {8, 3, 4, 4}}, {.stride = {4, 4}}),
      plain(", channels of points", {{2, 600, 4, 7}, {37, 600, 1, 1}}, {}),
      plain(", channels in groups", {{2, 12, 9, 9}, {20, 3, 3, 3}}, {.groups = 4}),
      plain(", depthwise, wide", {{2, 5, 9, 37}, {5, 1, 3, 3}}, {.groups = 5}),
  };
}

Subjects softmax_and_norms() {
  Subjects all = {
      one("softmax of long rows", {5, N}, [](const Tensor& x) { return softmax(x, 1); }).at(1031),
      one("log_softmax of long rows", {5, N}, [](const Tensor& x) { return log_softmax(x, 1); })
          .at(1031),
  };
  for (const int64_t axis : {2, 1})
    for (const bool masked : {false, true}) {
      auto call = [=](auto op, const Inputs& x) {
        Tensor mask = mask_rows(x[0].size(1), x[0].size(2));
        if (axis == 1) mask = transpose(mask, 0, 1);
        return op(x[0] * 3, axis, masked ? mask : Tensor());
      };
      const std::string rest = fmt::format(", axis {}{}", axis, masked ? ", masked" : "");
      all.push_back(both("softmax" + rest, {{3, N, N}}, softmax, composed::softmax, call));
      all.push_back(
          both("log_softmax" + rest, {{3, N, N}}, log_softmax, composed::log_softmax, call));
    }
  using BatchNorm = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, double);
  const BatchNorm batch = [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
    return batch_norm(x, {}, {}, w, b, {.training = true, .eps = eps});
  };
  auto with_eps = [](auto op, const Inputs& x) { return op(x[0], x[1], x[2], 1e-3); };
  auto of_rows = [](auto op, const Inputs& x) { return op(x[0], x[1].shape(), x[1], x[2], 1e-3); };
  auto no_weights = [](auto op, const Inputs& x) {
    return op(x[0], Shape{3, x[0].size(2)}, Tensor(), Tensor(), 0.1);
  };
  auto rms = [](auto op, const Inputs& x) { return op(x[0], x[1].shape(), x[1], 1e-3); };
  auto groups = [](auto op, const Inputs& x) { return op(x[0], 3, x[1], x[2], 1e-3); };
  const BatchNorm composed_batch = composed::batch_norm;
  const Subjects norms = {
      both("layer_norm", {{5, 3, N}, {N}, {N}}, layer_norm, composed::layer_norm, of_rows).at(263),
      both("layer_norm, two axes, no weights", {{35, 3, N}}, layer_norm, composed::layer_norm,
           no_weights),
      both("rms_norm", {{35, N}, {N}}, rms_norm, composed::rms_norm, rms).at(263),
      both("group_norm", {{3, 6, N}, {6}, {6}}, group_norm, composed::group_norm, groups),
      both("batch_norm", {{3, 5, N, 2}, {5}, {5}}, batch, composed_batch, with_eps),
      both("batch_norm (N, C)", {{19, N}, {N}, {N}}, batch, composed_batch, with_eps),
  };
  all.insert(all.end(), norms.begin(), norms.end());
  for (const double p : {0.0, 0.3}) {
    const std::string rest = fmt::format(", p = {}", p);
    auto options = [=](Rng& rng) { return AddNormOptions{.eps = 1e-3, .dropout = p, .rng = &rng}; };
    all.push_back(both("add_layer_norm" + rest, {{5, 3, N}, {5, 3, N}, {N}, {N}}, add_layer_norm,
                       composed::add_layer_norm, [=](auto op, const Inputs& x) {
                         Rng rng(5);
                         return op(x[0], x[1], x[2].shape(), x[2], x[3], options(rng));
                       }));
    all.push_back(both("add_rms_norm" + rest, {{5, 3, N}, {5, 3, N}, {N}}, add_rms_norm,
                       composed::add_rms_norm, [=](auto op, const Inputs& x) {
                         Rng rng(5);
                         return op(x[0], x[1], x[2].shape(), x[2], options(rng));
                       }));
    all.push_back(both("dropout_add" + rest, {{3, N, N}, {3, N, N}}, dropout_add,
                       composed::dropout_add, [=](auto op, const Inputs& x) {
                         Rng rng(5);
                         return op(x[0], x[1], p, rng);
                       }));
  }
  return all;
}

/// Targets from -1, which is ignored, to classes - 1.
Tensor targets(const Shape& shape, int64_t classes) {
  return reshape(remainder(arange(0, numel(shape)), classes + 1) - 1, shape);
}

Subjects losses() {
  auto of_classes = [=](const std::string& name, CrossEntropyOptions o, bool weighted) {
    o.ignore_index = -1;
    return both("cross_entropy" + name, {{5, N, 3}}, cross_entropy, composed::cross_entropy,
                [=](auto op, const Inputs& x) {
                  CrossEntropyOptions options = o;
                  const int64_t n = x[0].size(1);
                  if (weighted) options.weight = linspace(0.5, 1.5, n, x[0].dtype());
                  return op(x[0] * 2, targets({5, 3}, n), options);
                });
  };
  auto of_linear = [](const std::string& name, CrossEntropyOptions o, bool weighted, bool biased) {
    o.ignore_index = -1;
    return both(
        "linear_cross_entropy" + name, {{20, 5}, {N, 5}, {N}}, linear_cross_entropy,
        composed::linear_cross_entropy,
        [=](auto op, const Inputs& x) {
          CrossEntropyOptions options = o;
          const int64_t n = x[1].size(0);
          if (weighted) options.weight = linspace(0.5, 1.5, n, x[0].dtype());
          const Tensor y = op(x[0], x[1], biased ? x[2] : Tensor(), targets({20}, n), options);
          return biased ? y : y + sum(x[2] * 0);  // makes the loss use all three inputs
        },
        8);
  };
  const CrossEntropyOptions each{.reduction = Reduction::none};
  return {
      of_classes("", each, false),
      of_classes(", smoothed", {.label_smoothing = 0.1}, false),
      of_classes(", weighted", {.reduction = Reduction::sum}, true),
      of_classes(", weighted and smoothed", {.label_smoothing = 0.3}, true),
      both("cross_entropy of probabilities", {{5, N}}, cross_entropy, composed::cross_entropy,
           [](auto op, const Inputs& x) {
             const Tensor t = reshape(arange(0, x[0].numel(), 1, x[0].dtype()), x[0].shape()) * 0.3;
             return op(x[0], softmax(t, 1), CrossEntropyOptions{.label_smoothing = 0.1});
           }),
      both("cross_entropy of long rows", {{9, N}}, cross_entropy, composed::cross_entropy,
           [](auto op, const Inputs& x) {
             const Tensor t = remainder(arange(0, 9) * 515, x[0].size(1));
             return op(x[0], t, CrossEntropyOptions{.label_smoothing = 0.1});
           })
          .at(1031),
      of_linear("", {}, false, true),
      of_linear(", without bias", {}, false, false),
      of_linear(", none", each, false, true).bf16(1, 1),
      of_linear(", none, smoothed", {.label_smoothing = .1, .reduction = Reduction::none}, true,
                true),
      of_linear(", weighted sum", {.reduction = Reduction::sum}, true, true),
      of_linear(", weighted and smoothed", {.label_smoothing = .3}, true, true),
  };
}

AttentionMask lengths_mask(int64_t keys) {
  return {.lengths = tensor<int64_t>({keys, keys / 2, 0}, {3})};
}

Subject attend(const std::string& name, const std::function<AttentionMask(int64_t)>& mask,
               int64_t kv_heads = 4, double dropout = 0) {
  return both(
      "attention" + name, {{3, 4, N, 5}, {3, kv_heads, N + 2, 5}, {3, kv_heads, N + 2, N}},
      attention, composed::attention,
      [=](auto op, const Inputs& x) {
        Rng rng(4);
        return op(x[0], x[1], x[2],
                  AttentionOptions{.mask = mask(x[1].size(2)), .dropout = dropout, .rng = &rng});
      },
      2);
}

Subjects attentions() {
  auto none = [](int64_t) { return AttentionMask{}; };
  auto causal = [](int64_t offset) {
    return [=](int64_t) { return AttentionMask{.causal = offset}; };
  };
  auto pairs = [](int64_t keys) { return AttentionMask{.allowed = mask_rows(keys - 2, keys)}; };
  auto with_bias = [](auto op, const Inputs& x) {
    const Tensor sees = mask_rows(x[3].size(1), x[3].size(2));
    AttentionOptions o{.mask = {.causal = 1, .bias = where(sees, x[3], -kInf)}, .scale = -0.3};
    return op(x[0], x[1], x[2], o);
  };
  auto self = [](auto op, const Inputs& x) {
    return op(x[0], HeadCounts{4, 2}, AttentionOptions{.mask = lengths_mask(x[0].size(1))});
  };
  auto cross = [](auto op, const Inputs& x) {
    return op(x[0], x[1], HeadCounts{2}, AttentionOptions{.mask = {.causal = 0}});
  };
  const Shape heads{2, 2, N, 16};
  return {
      attend("", none),
      attend(", dropout", causal(1), 4, 0.3),
      attend(", grouped, lengths", lengths_mask, 2),
      attend(", one head of keys, causal", causal(2), 1),
      attend(", the first see nothing", causal(-2)),
      attend(", pairs", pairs),
      both("attention, bias", {{2, 2, N, N}, {2, 2, N, N}, {2, 2, N, 3}, {2, N, N}}, attention,
           composed::attention, with_bias, 2),
      both("self_attention", {{3, N, 24}}, self_attention, composed::self_attention, self, 2),
      both("cross_attention", {{3, 4, 2 * N}, {3, N, 4 * N}}, cross_attention,
           composed::cross_attention, cross, 2),
      both("additive_scores", {{2, 3, N}, {2, N, N}, {N}}, additive_scores,
           composed::additive_scores,
           [](auto op, const Inputs& x) { return op(x[0], x[1], x[2]); }),
      Subject{"attention, causal",
              {heads, heads, heads},
              [](const Inputs& x) { return attention(x[0], x[1], x[2], {.mask = {.causal = 0}}); }}
          .at(67)
          .bf16(2, 3),
      Subject{
          "attention, one head of keys, later",
          {{2, 2, N + 17, 16}, {2, 1, N + 28, 16}, {2, 1, N + 28, 8}},
          [](const Inputs& x) { return attention(x[0], x[1], x[2], {.mask = {.causal = 11}}); }},
      one("self-attention, causal", {2, N, 48},
          [](const Tensor& x) { return self_attention(x, {.heads = 2}, {.mask = {.causal = 0}}); })
          .bf16(0, 1),
      two("cross-attention, fewer heads of keys", {{2, 9, 32}, {2, N, 32}},
          [](const Tensor& a, const Tensor& b) {
            return cross_attention(a, b, {.heads = 4, .kv_heads = 2});
          })
          .bf16(0, 2),
      Subject{"attention of transposed heads",
              {{2, 9, 3, 16}, {2, 3, N, 16}, {2, 3, N, 8}},
              [](const Inputs& x) { return attention(transpose(x[0], 1, 2), x[1], x[2]); }}
          .bf16(0, 3),
      Subject{"attention of every other channel",
              {{2, 3, 9, 32}, {2, 3, N, 16}},
              [](const Inputs& x) { return attention(slice(x[0], 3, {}, {}, 2), x[1], x[1]); }}
          .bf16(0, 2),
      Subject{"attention with a bias for all heads",
              {{2, 2, 9, 16}, {2, 2, N, 16}, {2, 2, N, 16}, {9, N}},
              [](const Inputs& x) { return attention(x[0], x[1], x[2], {.mask = {.bias = x[3]}}); }}
          .bf16(0, 3),  // the bias is not an operand of a product
  };
}

Subject scan(const std::string& name, int axis, bool reverse, const std::vector<Shape>& initial) {
  std::vector<Shape> shapes = {{2, N, 5}, {2, N, 5}};
  shapes.insert(shapes.end(), initial.begin(), initial.end());
  return both("linear_scan, " + name, shapes, linear_scan, composed::linear_scan,
              [=](auto op, const Inputs& x) {
                const Tensor start = x.size() > 2 ? x[2] : Tensor();
                return op(sigmoid(x[0]), x[1], axis,
                          LinearScanOptions{.initial = start, .reverse = reverse});
              });
}

Subject recurrent_layer(RnnKind kind, bool reverse, bool lengths) {
  const int64_t rows = gate_parts(kind) * N;
  std::vector<Shape> shapes = {{4, 3, 5}, {rows, 5}, {rows, N}, {rows}, {rows}, {3, N}};
  if (kind == RnnKind::lstm) shapes.push_back({3, N});
  return both(
      fmt::format("rnn_layer {}, reverse {}, lengths {}", static_cast<int>(kind), reverse, lengths),
      shapes, rnn_layer, composed::rnn_layer,
      [=](auto op, const Inputs& x) {
        // Small weights, so that the rounding error of a step does not grow.
        const double scale = 0.5 / std::sqrt(static_cast<double>(x[5].size(1)));
        RnnLayerOptions o{.h0 = x[5], .c0 = x.size() > 6 ? x[6] : Tensor(), .reverse = reverse};
        if (lengths) o.lengths = tensor<int64_t>({2, 4, 0}, {3});
        return op(kind, x[0], RnnWeights{x[1] * scale, x[2] * scale, x[3], x[4]}, o);
      },
      4);
}

/// `memory` with N locations. The state gets a softmax on its weightings, so that they sum to 1.
Subject ntm(const std::string& name, NtmMemory memory, NtmAddressing addressing = {}) {
  memory.addressing = addressing;
  const int64_t rest = memory.reads * memory.width, per_location = memory.heads() + memory.width;
  return both(
      "ntm_step" + name, {{2, memory.parameters()}, {2, rest + per_location * N}}, ntm_step,
      composed::ntm_step,
      [=](auto op, const Inputs& x) {
        NtmMemory m = memory;
        m.locations = (x[1].size(1) - rest) / per_location;
        NtmParts parts = ntm_parts(x[1], m);
        parts.weights = softmax(parts.weights, 2);
        return op(x[0], ntm_state(parts), m);
      },
      memory.width);
}

Subjects sequences() {
  auto three = [](auto op, const Inputs& x) { return op(x[0], x[1], x[2]); };
  Subjects all = {
      both("lstm_cell", {{5, 4 * N}, {5, N}}, lstm_cell, composed::lstm_cell,
           [](auto op, const Inputs& x) { return op(x[0], x[1]); }),
      both("gru_cell", {{5, 3 * N}, {5, 3 * N}, {5, N}}, gru_cell, composed::gru_cell, three),
      scan("middle axis", 1, false, {{2, 5}}),
      scan("middle axis, reverse", 1, true, {}),
      scan("first axis, reverse", 0, true, {{N, 5}}),
      Subject{"lstm",
              {{5, 3, 17}, {36, 17}, {36, 9}, {36}, {36}},
              [](const Inputs& x) {
                return rnn_layer(RnnKind::lstm, x[0], {x[1], x[2], x[3], x[4]});
              }}
          .bf16(5, 0),
  };
  for (RnnKind kind : {RnnKind::tanh, RnnKind::relu, RnnKind::gru, RnnKind::lstm})
    for (bool reverse : {false, true})
      for (bool lengths : {false, true}) all.push_back(recurrent_layer(kind, reverse, lengths));
  const NtmMemory single{.width = 6}, many{.width = 5, .reads = 2, .writes = 3, .shift = 2};
  const Subjects steps = {
      ntm("", single),
      ntm(", heads", many),
      ntm(", no shift", {.width = 3, .shift = 0}),
      ntm(", only reads", {.width = 3, .writes = 0}),
      ntm(", only writes", {.width = 3, .reads = 0, .writes = 2}),
      ntm(" without content", many, {.content = false}),
      ntm(" without interpolation", single, {.interpolation = false}),
      ntm(" without shift", many, {.shift = false}),
      ntm(" without sharpening", single, {.sharpening = false}),
      ntm(" of content alone", single,
          {.interpolation = false, .shift = false, .sharpening = false}),
  };
  all.insert(all.end(), steps.begin(), steps.end());
  return all;
}

}  // namespace

const std::vector<Subject>& subjects() {
  static const Subjects all = [] {
    Subjects list;
    for (const Subjects& family :
         {elementwise(), copies_and_reductions(), matrix_products(), linear_layers(),
          convolutions(), softmax_and_norms(), losses(), attentions(), sequences()})
      list.insert(list.end(), family.begin(), family.end());
    return list;
  }();
  return all;
}

}  // namespace tern::test
