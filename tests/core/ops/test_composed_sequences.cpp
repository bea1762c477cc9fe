// The table of fused ops (fused_table.h): attention, recurrent ops and linear_scan against their
// composed definitions.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/additive.h"
#include "tern/tests/core/ops/fused_table.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_composed_sequences {
namespace {

using test::fused_row, test::FusedRow, test::Inputs, test::kInf, test::mask_rows, test::run_fused,
    test::Shapes;

AttentionMask lengths_mask(int64_t keys) {
  return {.lengths = tensor<int64_t>({keys, keys / 2, 0}, {3})};
}

FusedRow attention_row(const std::string& name, const std::function<AttentionMask(int64_t)>& mask,
                       int64_t kv_heads = 4, double dropout = 0) {
  auto shapes = [=](int64_t n) {
    return Shapes{{3, 4, n, 5}, {3, kv_heads, n + 2, 5}, {3, kv_heads, n + 2, n}};
  };
  return fused_row(
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
  run_fused({
      attention_row("", none),
      attention_row(", dropout", causal(1), 4, 0.3),
      attention_row(", grouped, lengths", lengths_mask, 2),
      attention_row(", one head of keys, causal", causal(2), 1),
      attention_row(", the first see nothing", causal(-2)),
      attention_row(", pairs", pairs),
  });
}

// The weights are fused only if no gradient is needed.
TEST_CASE("fused and composed: the weights of attention") {
  for (int64_t n : test::kSizes) {
    Rng rng(static_cast<uint64_t>(n));
    const Tensor q = randn({2, 2, n, 5}, rng), k = randn({2, 1, n, 5}, rng),
                 v = randn({2, 1, n, n}, rng);
    auto attend = [&](DType type, bool fused) {
      Inputs in{q.to(type), k.to(type), v.to(type)};
      if (!fused) in[0] = in[0].clone().set_requires_grad();
      Attended y = attention_with_weights(in[0], in[1], in[2], {.mask = {.causal = -1}});
      CHECK(y.weights.requires_grad() == !fused);
      return std::pair{y.context.to_vector<double>(), y.weights.to_vector<double>()};
    };
    const auto want = attend(DType::f64, false);
    for (DType type : {DType::f64, DType::f32})
      for (int level = 0; level <= static_cast<int>(detail::cpu().level); ++level) {
        VectorLevelScope scope{static_cast<VectorLevel>(level)};
        const auto got = attend(type, true);
        const double terms = static_cast<double>(2 * n);
        test::compare({got.first, {got.second}}, {want.first, {want.second}}, type, terms);
      }
  }
}

TEST_CASE("fused and composed: attention with a bias and a given scale") {
  auto shapes = [](int64_t n) {
    return Shapes{{2, 2, n, n}, {2, 2, n, n}, {2, 2, n, 3}, {2, n, n}};
  };
  run_fused(fused_row(
      "attention, bias", shapes, attention, composed::attention,
      [](auto op, const Inputs& x) {
        Tensor sees = mask_rows(x[3].size(1), x[3].size(2));
        AttentionOptions o{.mask = {.causal = 1, .bias = where(sees, x[3], -kInf)}, .scale = -0.3};
        return op(x[0], x[1], x[2], o);
      },
      2));
}

TEST_CASE("fused and composed: attention on joint projections") {
  run_fused({
      fused_row(
          "self_attention",
          [](int64_t n) {
            return Shapes{{3, n, 24}};
          },
          self_attention, composed::self_attention,
          [](auto op, const Inputs& x) {
            return op(x[0], HeadCounts{4, 2}, AttentionOptions{.mask = lengths_mask(x[0].size(1))});
          },
          2),
      fused_row(
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
  run_fused(fused_row(
      "additive_scores",
      [](int64_t n) {
        return Shapes{{2, 3, n}, {2, n, n}, {n}};
      },
      additive_scores, composed::additive_scores,
      [](auto op, const Inputs& x) { return op(x[0], x[1], x[2]); }));
}

TEST_CASE("fused and composed: recurrent cells") {
  run_fused({
      fused_row(
          "lstm_cell",
          [](int64_t n) {
            return Shapes{{5, 4 * n}, {5, n}};
          },
          lstm_cell, composed::lstm_cell, [](auto op, const Inputs& x) { return op(x[0], x[1]); }),
      fused_row(
          "gru_cell",
          [](int64_t n) {
            return Shapes{{5, 3 * n}, {5, 3 * n}, {5, n}};
          },
          gru_cell, composed::gru_cell,
          [](auto op, const Inputs& x) { return op(x[0], x[1], x[2]); }),
  });
}

FusedRow scan_row(const std::string& name, int axis, bool reverse, bool initial) {
  auto shapes = [=](int64_t n) {
    Shapes s = {{2, n, 5}, {2, n, 5}};
    if (initial) s.push_back(axis == 1 ? Shape{2, 5} : Shape{n, 5});
    return s;
  };
  return fused_row("linear_scan, " + name, shapes, linear_scan, composed::linear_scan,
                   [=](auto op, const Inputs& x) {
                     LinearScanOptions o{.initial = initial ? x[2] : Tensor(), .reverse = reverse};
                     return op(sigmoid(x[0]), x[1], axis, o);
                   });
}

TEST_CASE("fused and composed: linear scans") {
  run_fused({
      scan_row("middle axis", 1, false, true),
      scan_row("middle axis, reverse", 1, true, false),
      scan_row("first axis, reverse", 0, true, true),
  });
}

FusedRow layer_row(RnnKind kind, bool reverse, bool lengths) {
  auto shapes = [=](int64_t n) {
    const int64_t rows = gate_parts(kind) * n;
    Shapes s = {{4, 3, 5}, {rows, 5}, {rows, n}, {rows}, {rows}, {3, n}};
    if (kind == RnnKind::lstm) s.push_back({3, n});
    return s;
  };
  return fused_row(
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

TEST_CASE("fused and composed: recurrent layers") {
  for (RnnKind kind : {RnnKind::tanh, RnnKind::relu, RnnKind::gru, RnnKind::lstm})
    for (bool reverse : {false, true})
      for (bool lengths : {false, true}) run_fused(layer_row(kind, reverse, lengths));
}

}  // namespace
}  // namespace tern::test_composed_sequences
