// ComposedScope: fused ops run as the simpler ops that they consist of, with equal results. And
// what ops tell their observers beside their inputs.
#include <doctest/doctest.h>

#include <set>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/additive.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/composed_scope.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/fused.h"
#include "tern/core/ops/normalisation/residual.h"
#include "tern/core/ops/recurrent/ntm.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/ops/scans/linear_scan.h"
#include "tern/core/tape/op.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_composed_scope {
namespace {

/// The ops that announced a result.
struct Makers : Observer {
  std::set<std::string> names;
  void made(const OpScope& op, const Tensor&, int) override { names.insert(op.name()); }
};

TEST_CASE("ComposedScope: fused ops give equal results by other ops") {
  Rng rng(1);
  auto random = [&](const Shape& shape) { return randn(shape, rng); };
  const Tensor x = random({2, 5, 8}), w = random({6, 8}), b = random({6}), n = random({8});
  const Tensor picture = random({2, 3, 8, 8}), patches = random({4, 3, 4, 4});
  const Tensor wide = random({3, 4, 2, 2}), gates = random({3, 16}), state = random({3, 4});
  const RnnWeights weights{random({16, 8}), random({16, 4}), random({16}), random({16})};
  const NtmMemory memory{.locations = 5, .width = 3, .reads = 1, .writes = 1, .shift = 1};
  const Tensor ntm = softmax(random({2, memory.state()}), -1);
  const Tensor heads = random({2, memory.parameters()});
  const AttentionOptions causal{.mask = {.causal = 0}};
  auto swiglu = [](auto u, auto v) { return u * sigmoid(u) * v; };
  // The op, and a call.
  const std::vector<std::pair<const char*, std::function<Tensor()>>> rows = {
      {"linear", [&] { return linear(x, w, b, {.activation = Activation::gelu}); }},
      {"attention",
       [&] {
         return self_attention(cat({x, x, x}, -1), {2}, causal);
       }},
      {"attention",
       [&] {
         const Tensor q = unsqueeze(x, 1);
         return attention_with_weights(q, q, q, causal).context;
       }},
      {"swiglu", [&] { return fused("swiglu", swiglu, x, x + 1); }},
      {"rms_norm", [&] { return rms_norm(x, 8, n); }},
      {"add_layer_norm", [&] { return add_layer_norm(x, x, 8, n); }},
      {"sum_and_rms_norm", [&] { return sum_and_rms_norm(x, x, 8, n).norm; }},
      {"to_patches", [&] { return conv2d(picture, patches, {}, {.stride = 4}); }},
      {"from_patches", [&] { return conv_transpose2d(picture, wide, {}, {.stride = 2}); }},
      {"interpolate",
       [&] {
         return interpolate(picture, {.size = {{12, 5}}});
       }},
      {"lstm_cell", [&] { return lstm_cell(gates, state); }},
      {"gru_cell",
       [&] { return gru_cell(narrow(gates, 1, 0, 12), narrow(gates, 1, 4, 12), state); }},
      {"rnn_layer", [&] { return rnn_layer(RnnKind::lstm, x, weights); }},
      {"additive_scores", [&] { return additive_scores(x, x, n); }},
      {"linear_scan", [&] { return linear_scan(sigmoid(x), x, 1); }},
      {"ntm_step", [&] { return ntm_step(heads, ntm, memory); }},
  };
  for (const auto& row : rows) {
    const char* const op = row.first;
    CAPTURE(op);
    NoGradGuard no_grad;
    Makers whole, parts;
    Tensor expected, got;
    {
      const ObserverScope watching(whole);
      expected = row.second();
    }
    {
      const ComposedScope composed;
      const ObserverScope watching(parts);
      got = row.second();
    }
    CHECK(test::close(got, expected, 1e-4, 1e-5));
    CHECK(whole.names.contains(op));
    CHECK(!parts.names.contains(op));
  }
}

/// What ops tell, as text.
struct Listener : Observer {
  std::string told;
  void noted(const OpScope& op, const char* name, const Note& value) override {
    told += fmt::format("{} {}=", op.name(), name);
    if (const auto* i = std::get_if<int64_t>(&value)) told += std::to_string(*i);
    if (const auto* d = std::get_if<double>(&value)) told += fmt::format("{}", *d);
    if (const auto* all = std::get_if<Dims>(&value)) told += to_string(*all);
    if (const auto* t = std::get_if<const Tensor*>(&value))
      told += (*t)->defined() ? to_string((*t)->shape()) : "none";
    told += "; ";
  }
};

TEST_CASE("ops tell observers their properties") {
  const Tensor x = zeros({2, 3, 4}), mask = zeros({3, 4}, DType::u8);
  auto told = [&](const std::function<Tensor()>& call) {
    Listener listener;
    const ObserverScope watching(listener);
    static_cast<void>(call());
    return listener.told;
  };
  CHECK(told([&] { return permute(x, {2, 0, -2}); }) == "permute axes=(2, 0, 1); ");
  CHECK(told([&] { return sum(x, {-1, 0}, true); }) == "sum axes=(0, 2); sum keepdim=1; ");
  CHECK(told([&] { return narrow(x, -1, -3, 2); }) ==
        "slice axis=2; slice start=1; slice length=2; slice step=1; slice drops=0; ");
  CHECK(told([&] { return leaky_relu(x, 0.5); }) == "leaky_relu slope=0.5; ");
  CHECK(told([&] { return where(mask, x, x); }) == "where condition=(3, 4); ");
  CHECK(told([&] { return softmax(x, -1); }) == "softmax axis=2; softmax mask=none; ");
  CHECK(told([&] { return x + x; }).empty());
}

}  // namespace
}  // namespace tern::test_composed_scope
