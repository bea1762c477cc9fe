// Every fused op beside its composed definition (core/ops/composed.h): values and gradients, in f32
// and f64, at every vector level of this processor, for sizes that leave rests in every loop, of
// contiguous and of strided inputs. A new fused op is one row more.
//
// The expectation is the composed definition in f64. Both sides start from the same f32 numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/additive.h"
#include "tern/core/ops/composed.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace {

using Inputs = std::vector<Tensor>;
using Shapes = std::vector<Shape>;

constexpr int64_t kSizes[] = {1, 7, 17, 65};
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Row {
  std::string name;
  std::function<Shapes(int64_t n)> shapes;  // of the floating inputs
  TensorFunction fused, composed;
  int64_t terms = 1;  // numbers summed for one result, as a multiple of n: sets the f32 tolerance
};

/// `call` gets one of the two functions, and the inputs.
template <class Op, class Call>
Row row(const std::string& name, std::function<Shapes(int64_t)> shapes, Op fused, Op composed,
        Call call, int64_t terms = 1) {
  return {name, std::move(shapes), [=](const Inputs& x) { return call(fused, x); },
          [=](const Inputs& x) { return call(composed, x); }, terms};
}

struct Results {
  std::vector<double> value;
  std::vector<std::vector<double>> gradients;
};

/// The same numbers, two elements apart along the last axis; between them lie NaNs.
Tensor with_gaps(const Tensor& x) {
  return select(stack({x, full(x.shape(), std::nan(""), x.dtype())}, -1), -1, 0);
}

Results results(const TensorFunction& fn, const Inputs& inputs, const Tensor& up, DType type,
                bool strided) {
  auto placed = [&](const Tensor& x) { return strided ? with_gaps(x.to(type)) : cast(x, type); };
  Inputs leaves;
  for (const Tensor& x : inputs) leaves.push_back(placed(x).set_requires_grad());
  Tensor y = fn(leaves);
  Results r{y.to_vector<double>(), {}};
  for (const Tensor& g : grad({y}, leaves, {.gradients = {placed(up)}}))
    r.gradients.push_back(g.to_vector<double>());
  return r;
}

double largest_of(const std::vector<double>& v) {
  double largest = 0;
  for (double x : v) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
  return largest;
}

void compare(const std::string& what, const std::vector<double>& got,
             const std::vector<double>& want, double rtol, double atol) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || std::abs(got[i] - want[i]) <= atol + rtol * std::abs(want[i]))
      continue;
    FAIL_CHECK(what, ", element ", i, ": got ", got[i], ", want ", want[i]);
    return;
  }
}

void compare(const Results& got, const Results& want, DType type, double terms) {
  const bool f64 = type == DType::f64;
  compare("value", got.value, want.value, f64 ? 1e-11 : 1.3e-6 * std::sqrt(terms),
          f64 ? 1e-12 : 1e-5);
  REQUIRE(got.gradients.size() == want.gradients.size());
  for (size_t k = 0; k < got.gradients.size(); ++k) {
    const double relative = f64 ? 1e-11 : 1e-4, least = f64 ? 1e-12 : 1e-5;
    compare("gradient " + std::to_string(k), got.gradients[k], want.gradients[k], 0,
            least + relative * largest_of(want.gradients[k]));
  }
}

void run(const Row& row) {
  SerialScope serial;  // small ops wait for other threads longer than they compute
  for (int64_t n : kSizes) {
    Rng rng(static_cast<uint64_t>(n));
    Inputs inputs;
    for (const Shape& s : row.shapes(n)) inputs.push_back(randn(s, rng));
    const Tensor up = randn(row.composed(inputs).shape(), rng);
    const Results want = results(row.composed, inputs, up, DType::f64, false);
    const auto terms = static_cast<double>(n * row.terms);
    for (DType type : {DType::f64, DType::f32}) {
      INFO(row.name, ", n = ", n, ", ", fmt::format("{}", type));
      if (type == DType::f32)
        compare(results(row.composed, inputs, up, type, true), want, type, terms);
      for (int level = 0; level <= static_cast<int>(cpu().level); ++level)
        for (bool strided : {false, true}) {
          VectorLevelScope scope{static_cast<VectorLevel>(level)};
          INFO(to_string(static_cast<VectorLevel>(level)), std::string(strided ? ", strided" : ""));
          compare(results(row.fused, inputs, up, type, strided), want, type, terms);
        }
    }
  }
}

void run(const std::vector<Row>& rows) {
  for (const Row& row : rows) run(row);
}

/// 0 and 1 in a pattern of which row 1, if there are several, has no 1.
Tensor mask_rows(int64_t rows, int64_t n) {
  Tensor pattern = ne(remainder(arange(0, rows * n), 3), 1);
  return logical_and(reshape(pattern, {rows, n}), ne(reshape(arange(0, rows), {rows, 1}), 1));
}

TEST_CASE("fused and composed: linear") {
  for (auto activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
        Activation::silu, Activation::tanh, Activation::sigmoid}) {
    const std::string name = "linear " + std::to_string(static_cast<int>(activation));
    auto shapes = [](int64_t n) { return Shapes{{3, n, n}, {n + 2, n}, {n + 2}, {3, n, n + 2}}; };
    run({row(name, shapes, linear, composed::linear,
             [=](auto op, const Inputs& x) {
               return op(x[0], x[1], x[2], LinearOptions{activation, x[3]});
             }),
         row(
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

// Kernels that are not fused by nature, but have forms of their own at every level.
TEST_CASE("fused and composed: products, activations, reductions") {
  using Unary = Tensor (*)(const Tensor&);
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  auto products = [](const Tensor& a, const Tensor& b) {
    return sum(unsqueeze(a, -1) * unsqueeze(b, -3), -2);
  };
  auto both = [](auto op, const Inputs& x) { return op(x[0], x[1]); };
  auto matrices = [](int64_t n) { return Shapes{{3, n, n + 1}, {n + 1, n + 3}}; };
  std::vector<Row> rows = {row("matmul", matrices, Binary(matmul), Binary(products), both)};
  auto add = [&](const std::string& name, Unary fused, Unary composed) {
    auto one = [](auto op, const Inputs& x) { return op(x[0]); };
    auto shapes = [](int64_t n) { return Shapes{{2, n, 3 * n + 2}}; };
    rows.push_back(row(name, shapes, fused, composed, one, 4));
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
  run(rows);
}

TEST_CASE("fused and composed: softmax") {
  std::vector<Row> rows;
  auto shapes = [](int64_t n) { return Shapes{{3, n, n}}; };
  for (int64_t axis : {2, 1})
    for (bool masked : {false, true}) {
      auto call = [=](auto op, const Inputs& x) {
        Tensor mask = mask_rows(x[0].size(1), x[0].size(2));
        if (axis == 1) mask = transpose(mask, 0, 1);
        return op(x[0] * 3, axis, masked ? mask : Tensor());
      };
      const std::string rest = fmt::format(", axis {}{}", axis, masked ? ", masked" : "");
      rows.push_back(row("softmax" + rest, shapes, softmax, composed::softmax, call));
      rows.push_back(row("log_softmax" + rest, shapes, log_softmax, composed::log_softmax, call));
    }
  run(rows);
}

TEST_CASE("fused and composed: normalisation") {
  auto batch = [](const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
    return batch_norm(x, {}, {}, w, b, {.training = true, .eps = eps});
  };
  using BatchNorm = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, double);
  auto batch_call = [](auto op, const Inputs& x) { return op(x[0], x[1], x[2], 1e-3); };
  run({
      row(
          "layer_norm",
          [](int64_t n) {
            return Shapes{{5, 3, n}, {n}, {n}};
          },
          layer_norm, composed::layer_norm,
          [](auto op, const Inputs& x) { return op(x[0], x[1].shape(), x[1], x[2], 1e-3); }),
      row(
          "layer_norm, two axes, no weights",
          [](int64_t n) {
            return Shapes{{35, 3, n}};
          },
          layer_norm, composed::layer_norm,
          [](auto op, const Inputs& x) {
            return op(x[0], Shape{3, x[0].size(2)}, Tensor(), Tensor(), 1e-3);
          }),
      row(
          "rms_norm",
          [](int64_t n) {
            return Shapes{{35, n}, {n}};
          },
          rms_norm, composed::rms_norm,
          [](auto op, const Inputs& x) { return op(x[0], x[1].shape(), x[1], 1e-3); }),
      row(
          "group_norm",
          [](int64_t n) {
            return Shapes{{3, 6, n}, {6}, {6}};
          },
          group_norm, composed::group_norm,
          [](auto op, const Inputs& x) { return op(x[0], 3, x[1], x[2], 1e-3); }),
      row(
          "batch_norm",
          [](int64_t n) {
            return Shapes{{3, 5, n, 2}, {5}, {5}};
          },
          BatchNorm(batch), BatchNorm(composed::batch_norm), batch_call),
      row(
          "batch_norm (N, C)",
          [](int64_t n) {
            return Shapes{{19, n}, {n}, {n}};
          },
          BatchNorm(batch), BatchNorm(composed::batch_norm), batch_call),
  });
}

TEST_CASE("fused and composed: dropout") {
  run(row(
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
  auto classes = [](const Tensor& x) {  // -1: ignored
    return reshape(remainder(arange(0, 15), x.size(1) + 1) - 1, {5, 3});
  };
  auto of_classes = [=](const std::string& name, CrossEntropyOptions o, bool weighted) {
    o.ignore_index = -1;
    return row("cross_entropy" + name, shapes, cross_entropy, composed::cross_entropy,
               [=](auto op, const Inputs& x) {
                 CrossEntropyOptions options = o;
                 const int64_t n = x[0].size(1);
                 if (weighted) options.weight = linspace(0.5, 1.5, n, x[0].dtype());
                 return op(x[0] * 2, classes(x[0]), options);
               });
  };
  run({
      of_classes("", {.reduction = Reduction::none}, false),
      of_classes(", smoothed", {.label_smoothing = 0.1}, false),
      of_classes(", weighted", {.reduction = Reduction::sum}, true),
      of_classes(", weighted and smoothed", {.label_smoothing = 0.3}, true),
      row(
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

AttentionMask lengths_mask(int64_t keys) {
  return {.lengths = tensor<int64_t>({keys, keys / 2, 0}, {3})};
}

Row attention_row(const std::string& name, const std::function<AttentionMask(int64_t)>& mask,
                  int64_t kv_heads = 4, double dropout = 0) {
  auto shapes = [=](int64_t n) {
    return Shapes{{3, 4, n, 5}, {3, kv_heads, n + 2, 5}, {3, kv_heads, n + 2, n}};
  };
  return row(
      "attention" + name, shapes, attention, composed::attention,
      [=](auto op, const Inputs& x) {
        Rng rng(4);
        return op(x[0], x[1], x[2],
                  AttentionOptions{.mask = mask(x[1].size(2)), .dropout = dropout, .rng = &rng});
      },
      2);
}

TEST_CASE("fused and composed: attention") {
  auto none = [](int64_t) { return AttentionMask{}; };
  auto causal = [](int64_t offset) {
    return [=](int64_t) { return AttentionMask{.causal = offset}; };
  };
  auto pairs = [](int64_t keys) { return AttentionMask{.allowed = mask_rows(keys - 2, keys)}; };
  run({
      attention_row("", none),
      attention_row(", dropout", causal(1), 4, 0.3),
      attention_row(", grouped, lengths", lengths_mask, 2),
      attention_row(", one head of keys, causal", causal(2), 1),
      attention_row(", the first see nothing", causal(-2)),
      attention_row(", pairs", pairs),
  });
}

// Fused only where no gradient is asked for.
TEST_CASE("fused and composed: the weights of attention") {
  for (int64_t n : kSizes) {
    Rng rng(static_cast<uint64_t>(n));
    const Tensor q = randn({2, 2, n, 5}, rng), k = randn({2, 1, n, 5}, rng),
                 v = randn({2, 1, n, n}, rng);
    auto run = [&](DType type, bool fused) {
      Inputs in{q.to(type), k.to(type), v.to(type)};
      if (!fused) in[0] = in[0].clone().set_requires_grad();
      Attended y = attention_with_weights(in[0], in[1], in[2], {.mask = {.causal = -1}});
      CHECK(y.weights.requires_grad() == !fused);
      return std::pair{y.context.to_vector<double>(), y.weights.to_vector<double>()};
    };
    const auto want = run(DType::f64, false);
    for (DType type : {DType::f64, DType::f32})
      for (int level = 0; level <= static_cast<int>(cpu().level); ++level) {
        VectorLevelScope scope{static_cast<VectorLevel>(level)};
        const auto got = run(type, true);
        const double terms = static_cast<double>(2 * n);
        compare({got.first, {got.second}}, {want.first, {want.second}}, type, terms);
      }
  }
}

TEST_CASE("fused and composed: attention with a bias and of a scale of one's own") {
  auto shapes = [](int64_t n) {
    return Shapes{{2, 2, n, n}, {2, 2, n, n}, {2, 2, n, 3}, {2, n, n}};
  };
  run(row(
      "attention, bias", shapes, attention, composed::attention,
      [](auto op, const Inputs& x) {
        Tensor sees = mask_rows(x[3].size(1), x[3].size(2));
        AttentionOptions o{.mask = {.causal = 1, .bias = where(sees, x[3], -kInf)}, .scale = -0.3};
        return op(x[0], x[1], x[2], o);
      },
      2));
}

TEST_CASE("fused and composed: attention on joint projections") {
  run({
      row(
          "self_attention",
          [](int64_t n) {
            return Shapes{{3, n, 24}};
          },
          self_attention, composed::self_attention,
          [](auto op, const Inputs& x) {
            return op(x[0], HeadCounts{4, 2}, AttentionOptions{.mask = lengths_mask(x[0].size(1))});
          },
          2),
      row(
          "cross_attention",
          [](int64_t n) {
            return Shapes{{3, 4, 2 * n}, {3, n, 4 * n}};
          },
          cross_attention, composed::cross_attention,
          [](auto op, const Inputs& x) {
            return op(x[0], x[1], HeadCounts{2}, AttentionOptions{.mask = {.causal = 0}});
          },
          2),
  });
}

TEST_CASE("fused and composed: additive scores") {
  run(row(
      "additive_scores",
      [](int64_t n) {
        return Shapes{{2, 3, n}, {2, n, n}, {n}};
      },
      additive_scores, composed::additive_scores,
      [](auto op, const Inputs& x) { return op(x[0], x[1], x[2]); }));
}

TEST_CASE("fused and composed: recurrent cells") {
  run({
      row(
          "lstm_cell",
          [](int64_t n) {
            return Shapes{{5, 4 * n}, {5, n}};
          },
          lstm_cell, composed::lstm_cell, [](auto op, const Inputs& x) { return op(x[0], x[1]); }),
      row(
          "gru_cell",
          [](int64_t n) {
            return Shapes{{5, 3 * n}, {5, 3 * n}, {5, n}};
          },
          gru_cell, composed::gru_cell,
          [](auto op, const Inputs& x) { return op(x[0], x[1], x[2]); }),
  });
}

Row layer_row(RnnKind kind, bool reverse, bool lengths) {
  auto shapes = [=](int64_t n) {
    const int64_t rows = gate_parts(kind) * n;
    Shapes s = {{4, 3, 5}, {rows, 5}, {rows, n}, {rows}, {rows}, {3, n}};
    if (kind == RnnKind::lstm) s.push_back({3, n});
    return s;
  };
  return row(
      fmt::format("rnn_layer {}, reverse {}, lengths {}", static_cast<int>(kind), reverse, lengths),
      shapes, rnn_layer, composed::rnn_layer,
      [=](auto op, const Inputs& x) {
        // Small weights: what a step gets wrong by rounding must not grow.
        const double scale = 0.5 / std::sqrt(static_cast<double>(x[5].size(1)));
        RnnLayerOptions o{.h0 = x[5], .c0 = x.size() > 6 ? x[6] : Tensor(), .reverse = reverse};
        if (lengths) o.lengths = tensor<int64_t>({2, 4, 0}, {3});
        return op(kind, x[0], RnnWeights{x[1] * scale, x[2] * scale, x[3], x[4]}, o);
      },
      4);
}

TEST_CASE("fused and composed: recurrent layers") {
  for (RnnKind kind : {RnnKind::tanh, RnnKind::relu, RnnKind::gru, RnnKind::lstm})
    for (bool reverse : {false, true})
      for (bool lengths : {false, true}) run(layer_row(kind, reverse, lengths));
}

Row conv_row(const std::string& name, const std::function<Shapes(int64_t)>& shapes,
             const Conv2dOptions& options) {
  return row(
      "conv2d" + name, shapes, conv2d, composed::conv2d,
      [=](auto op, const Inputs& x) {
        return op(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), options);
      },
      36);
}

TEST_CASE("fused and composed: convolutions") {
  run({
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
}  // namespace tern
