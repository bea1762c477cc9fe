// nn::LinearHook: functions that change the results x W^T + b of linear() in unchanged modules.
#include <doctest/doctest.h>

#include <memory>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/bahdanau.h"
#include "tern/models/gpt.h"
#include "tern/models/ntm.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_linear_hook {
namespace {

using nn::LinearHook;
using nn::WeightsInstead;
using test::error_of, test::leaf, test::same_bits;

const LinearHook::Fn kDouble = [](const Tensor&, const Tensor& y) { return y * 2; };
const LinearHook::Fn kKeep = [](const Tensor&, const Tensor&) { return Tensor(); };

// For f64: a hook splits fused ops, so that the order of sums differs.
bool close(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && all_close(a, b, 1e-10, 1e-10);
}

nn::Linear linear_layer(Rng& rng) {
  nn::Linear layer(3, 4, rng);
  nn::to(layer, DType::f64);
  return layer;
}

struct Head {
  nn::Parameter weight;
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};

struct Two {
  nn::Linear up, down;
  static void fields(auto& m, auto&& visit) { visit("up", m.up), visit("down", m.down); }
};

models::Gpt small_gpt(models::GptOptions o, nn::Recompute recompute, Rng& rng) {
  o.vocab = 11;
  o.context = 6;
  o.dim = 8;
  o.layers = 2;
  o.heads = 2;
  o.recompute = recompute;
  models::Gpt model(o, rng);
  nn::to(model, DType::f64);
  return model;
}

TEST_CASE("linear hook: applies before activation, dropout and residual, which stay the same") {
  Rng rng(1), draws(2);
  const nn::Linear layer = linear_layer(rng);
  const Tensor x = randn({2, 5, 3}, rng, DType::f64), r = randn({2, 5, 4}, rng, DType::f64);
  const Tensor plain = layer(x);
  for (const double p : {0., 0.4, 1.}) {
    CAPTURE(p);
    const Rng begin = draws;
    const auto run = [&] {
      draws = begin;
      return layer(x, {.activation = Activation::gelu, .residual = r, .dropout = p, .rng = &draws});
    };
    const Tensor want = run();
    const Rng after = draws;
    {
      LinearHook hook(layer, "weight", kKeep);
      CHECK(close(run(), want));
      CHECK(hook.calls() == 1);
      CHECK(draws.state() == after.state());
    }
    LinearHook hook(layer, "weight", kDouble);
    draws = begin;
    CHECK(close(run(), dropout(gelu(plain * 2), p, draws = begin) + r));
  }
  LinearHook hook(layer, "weight", kDouble);
  CHECK(close(layer(x[0][0]), plain[0][0] * 2));  // one row, and no gradient
  NoGradGuard guard;
  CHECK(close(layer(x), plain * 2));
}

TEST_CASE("linear hook: first and second gradients flow through it to its operands") {
  Rng rng(3);
  const nn::Linear layer = linear_layer(rng);
  const Tensor x = leaf(randn({2, 3}, rng, DType::f64)), s = leaf(randn({4}, rng, DType::f64));
  const std::vector<Tensor> inputs = {x, s, layer.weight.own(), layer.bias.own()};
  const LinearHook::Fn fn = [&s](const Tensor&, const Tensor& y) { return y * y * s; };
  const auto run = [&](const std::vector<Tensor>&) {
    LinearHook hook(layer, "weight", fn);
    return layer(x, {.activation = Activation::gelu});
  };
  gradcheck(run, inputs);
  gradgradcheck(run, inputs);
  // The hook is still active in the backward pass, but must not be called there.
  LinearHook hook(layer, "weight", fn);
  gradgradcheck([&](const auto&) { return layer(x, {.activation = Activation::gelu}); }, inputs);
  int64_t calls = hook.calls();
  backward(sum(layer(x)));
  CHECK(hook.calls() == calls + 1);
}

TEST_CASE("linear hook: does not change the backward pass of earlier results") {
  Rng rng(4);
  const Tensor w = leaf(randn({5, 3}, rng, DType::f64)), x = leaf(randn({4, 3}, rng, DType::f64));
  const Head head{nn::Parameter(w.detach().clone())};
  const Tensor target = tensor(std::vector<int64_t>{0, 4, 2, 2}, {4});
  // Without a reduction the backward pass recomputes the logits.
  const auto slopes = [&](bool in_scope, bool create_graph) {
    const Tensor loss =
        sum(linear_cross_entropy(x, head.weight, {}, target, {.reduction = Reduction::none}));
    std::optional<LinearHook> hook;
    if (in_scope) hook.emplace(head, "weight", kDouble);
    std::vector<Tensor> d = grad({loss}, {x, head.weight.own()}, {.create_graph = create_graph});
    if (create_graph) d = grad({sum(square(d[0]))}, {x, head.weight.own()});
    return d;
  };
  for (const bool create_graph : {false, true}) {
    CAPTURE(create_graph);
    const auto want = slopes(false, create_graph), got = slopes(true, create_graph);
    for (size_t i : {0, 1}) CHECK(same_bits(got[i], want[i]));
  }
}

// Loss and gradients of a Gpt with a LoRA on its matrices, as replaced weights or as hooks.
std::vector<Tensor> adapted(const models::GptOptions& form, nn::Recompute recompute,
                            bool as_hooks) {
  Rng rng(5);
  const models::Gpt model = small_gpt(form, recompute, rng);
  const bool gpt2 = form.names == models::GptNames::gpt2;
  const Tensor tokens = randint(0, 11, {2, 6}, rng), labels = randint(0, 11, {2, 6}, rng);
  std::vector<Tensor> trained;
  NamedTensors instead;
  std::vector<std::unique_ptr<LinearHook>> hooks;  // end in the order of scopes
  for (const auto& [name, w] : nn::named_parameters(model)) {
    const bool matrix =
        name.find(".h.") != std::string::npos || name.find(".layers.") != std::string::npos;
    if (!matrix || w.ndim() != 2) continue;
    const int64_t in = w.size(gpt2 ? 0 : 1), out = w.size(gpt2 ? 1 : 0);
    const Tensor a = leaf(randn({2, in}, rng, DType::f64));
    const Tensor b = leaf(randn({out, 2}, rng, DType::f64));
    trained.insert(trained.end(), {a, b});
    if (as_hooks) {
      hooks.push_back(std::make_unique<LinearHook>(
          model, name,
          [a, b](const Tensor& x, const Tensor& y) { return y + linear(linear(x, a), b); }));
    } else {
      const Tensor more = matmul(b, a);
      instead.emplace_back(name, w + (gpt2 ? transpose(more, 0, 1) : more));
    }
  }
  CHECK(trained.size() == (gpt2 ? 16u : 28u));
  Tensor loss;
  {
    const WeightsInstead scope(model, instead);
    loss = model.loss(tokens, labels);
  }
  while (!hooks.empty()) {
    CHECK(hooks.back()->calls() == 1);
    hooks.pop_back();
  }
  backward(loss);
  std::vector<Tensor> out = {loss};
  for (const std::vector<Tensor>& all : {trained, nn::parameters(model)})
    for (const Tensor& t : all) out.push_back(t.grad());
  return out;
}

TEST_CASE("linear hook: a LoRA added to the product equals one added to the weight, in a Gpt") {
  for (const models::GptOptions& form :
       {models::GptOptions{.dropout = 0}, models::llama_form({.kv_heads = 1, .ffn_dim = 12})}) {
    const std::vector<Tensor> want = adapted(form, nn::Recompute::none, false);
    for (const nn::Recompute recompute :
         {nn::Recompute::none, nn::Recompute::selective, nn::Recompute::full}) {
      CAPTURE(nn::name(recompute));
      const std::vector<Tensor> got = adapted(form, recompute, true);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(close(got[i], want[i]));
    }
  }
}

TEST_CASE("linear hook: on a tied table it acts on the head, in logits and in the loss") {
  Rng rng(6);
  const models::Gpt model = small_gpt({.dropout = 0}, nn::Recompute::none, rng);
  const Tensor tokens = randint(0, 11, {2, 6}, rng), labels = randint(0, 11, {2, 6}, rng);
  const Tensor logits = model(tokens);
  LinearHook hook(model, "transformer.wte.weight", kDouble);
  CHECK(close(model(tokens), logits * 2));
  const Tensor loss = model.loss(tokens, labels);
  const Tensor want = cross_entropy(reshape(logits * 2, {12, 11}), reshape(labels, 12));
  CHECK(close(loss, want));
  const std::vector<Tensor> got = grad({loss}, nn::parameters(model));
  const std::vector<Tensor> slopes = grad({want}, nn::parameters(model));
  for (size_t i = 0; i < got.size(); ++i) CHECK(close(got[i], slopes[i]));
  CHECK(close(
      linear_cross_entropy(ones({2, 3, 8}, DType::f64), model.body.embed, {},
                           narrow(labels, 1, 0, 3), {.reduction = Reduction::none}),
      reshape(cross_entropy(2 * linear(ones({6, 8}, DType::f64), model.body.embed.own() * 1),
                            reshape(narrow(labels, 1, 0, 3), 6), {.reduction = Reduction::none}),
              {2, 3})));
}

TEST_CASE("linear hook: the outermost is called first, and none inside another") {
  Rng rng(7);
  const nn::Linear layer = linear_layer(rng);
  const Tensor x = randn({2, 3}, rng, DType::f64), y = layer(x);
  LinearHook outer(layer, "weight", kDouble);
  LinearHook inner(layer, "weight",
                   [&layer](const Tensor& in, const Tensor& out) { return out + layer(in) + 1; });
  CHECK(close(layer(x), y * 2 + y + 1));
  CHECK(outer.calls() == 1);
}

TEST_CASE("linear hook: combines with WeightsInstead in any order, also for views of one tensor") {
  Rng rng(8);
  const Two two{linear_layer(rng), linear_layer(rng)};
  const Tensor x = randn({2, 3}, rng, DType::f64), flat = randn({24}, rng, DType::f64);
  const NamedTensors instead = {{"up.weight", view(narrow(flat, 0, 0, 12), {4, 3})},
                                {"down.weight", view(narrow(flat, 0, 12, 12), {4, 3})}};
  Tensor up, down;
  {
    const WeightsInstead scope(two, instead);
    up = two.up(x), down = two.down(x);
  }
  const auto check = [&] {
    CHECK(close(two.up(x), up));
    CHECK(close(two.down(x), down * 2));
  };
  {
    const WeightsInstead scope(two, instead);
    const LinearHook hook(two, "down.weight", kDouble);
    CHECK(scope.unused().size() == 2);
    check();
  }
  const LinearHook hook(two, "down.weight", kDouble);
  const WeightsInstead scope(two, instead);
  check();
}

TEST_CASE("linear hook: acts on every part of an attention projection") {
  Rng rng(9);
  nn::MultiHeadAttention attention(8, rng, {.heads = 2});
  nn::to(attention, DType::f64);
  const Tensor q = randn({2, 3, 8}, rng, DType::f64), k = randn({2, 5, 8}, rng, DType::f64);
  const Tensor v = randn({2, 5, 8}, rng, DType::f64), plain = attention(q, k, v);
  LinearHook in(attention, "in_proj_weight", kKeep);
  LinearHook out(attention, "out_proj.weight", kDouble);
  CHECK(close(attention(q, k, v), plain * 2));
  CHECK(in.calls() == 3);
  CHECK(out.calls() == 1);
}

TEST_CASE("linear hook: hooks and replacements may end in any order") {
  Rng rng(11);
  const nn::Linear layer = linear_layer(rng);
  const Tensor x = randn({2, 3}, rng, DType::f64), plain = layer(x);
  std::vector<std::unique_ptr<LinearHook>> hooks;  // the first ends first
  for (const double factor : {2., 3., 5.})
    hooks.push_back(std::make_unique<LinearHook>(
        layer, "weight", [factor](const Tensor&, const Tensor& y) { return y * factor; }));
  CHECK(close(layer(x), plain * 30));
  const auto in_checkpoint = [&] {
    return checkpoint([&](auto in) { return layer(in[0]); }, {leaf(x)});
  };
  const Tensor before = in_checkpoint();
  for (const double left : {15., 5., 1.}) {
    hooks.erase(hooks.begin());
    CHECK(close(layer(x), plain * left));
  }
  // The checkpoint reruns under the hooks of its first run.
  const auto gradient = [&](const Tensor& y) { return grad({sum(y)}, {layer.weight.own()})[0]; };
  CHECK(close(gradient(before), gradient(layer(x) * 30)));

  auto zero =
      std::make_unique<WeightsInstead>(layer, NamedTensors{{"weight", zeros({4, 3}, DType::f64)}});
  auto hook = std::make_unique<LinearHook>(layer, "weight", kDouble);
  CHECK(close(layer(x), zeros({2, 4}, DType::f64) + layer.bias.own() * 2));
  CHECK(zero->unused().empty());
  zero.reset();
  CHECK(close(layer(x), plain * 2));
  CHECK(hook->calls() == 2);
  hook.reset();
  CHECK(same_bits(layer(x), plain));
}

TEST_CASE("linear hook: one object hooks several weights") {
  Rng rng(12);
  const Two two{linear_layer(rng), linear_layer(rng)};
  const Tensor x = randn({2, 3}, rng, DType::f64), up = two.up(x), down = two.down(x);
  const LinearHook hooks(two,
                         {{"up.weight", kDouble},
                          {"down.weight", [](const Tensor&, const Tensor& y) { return y * 3; }}});
  CHECK(close(two.up(x), up * 2));
  CHECK(close(two.down(x), down * 3));
  CHECK(hooks.calls() == 2);
  CHECK(error_of([&] {
          LinearHook twice(two, {{"up.weight", kKeep}, {"up.weight", kKeep}});
        }) == "LinearHook: 'up.weight' and 'up.weight' are the same parameter; give it once");
}

TEST_CASE("linear hook: two weights replaced by one tensor keep separate hooks") {
  Rng rng(13);
  const Two two{linear_layer(rng), linear_layer(rng)};
  const Tensor x = randn({2, 3}, rng, DType::f64), w = randn({4, 3}, rng, DType::f64);
  const WeightsInstead scope(two, {{"up.weight", w}, {"down.weight", w}});
  const Tensor up = two.up(x), down = two.down(x);
  for (const char* hooked : {"up.weight", "down.weight"}) {
    const LinearHook hook(two, hooked, kDouble);
    CHECK(close(two.up(x), hooked[0] == 'u' ? up * 2 : up));
    CHECK(close(two.down(x), hooked[0] == 'd' ? down * 2 : down));
    CHECK(hook.calls() == 1);
  }
}

TEST_CASE("linear hook: an op that would not call it is an error") {
  Rng rng(14);
  const nn::Lstm lstm(3, 4, rng);
  const Tensor x = randn({2, 5, 3}, rng);
  for (const char* weight : {"weight_ih_l0", "weight_hh_l0"}) {
    const LinearHook hook(lstm, weight, kDouble);
    CHECK(
        error_of([&] { lstm(x); }) ==
        fmt::format("rnn_layer: '{}' has a LinearHook, which only linear() calls; use cells, or a "
                    "WeightsInstead",
                    weight));
  }
  lstm(x);
  const auto refused = [&](const auto& module, const char* weight, const std::string& op,
                           const auto& use) {
    const LinearHook hook(module, weight, kDouble);
    const std::string text = error_of([&] { static_cast<void>(use(module)); });
    CAPTURE(text);
    CHECK(text.find(fmt::format("{}: '{}' has a LinearHook, which only linear() calls; use a "
                                "WeightsInstead",
                                op, weight)) != std::string::npos);
  };
  refused(nn::SpatialGatingUnit(4, 5, rng), "weight", "SpatialGatingUnit", [&](const auto& m) {
    static_cast<void>(m(randn({2, 5, 4}, rng)));
  });
  for (const char* weight : {"read_heads.0.weight", "write_heads.0.weight"})
    refused(models::Ntm({.inputs = 3, .outputs = 2}, rng), weight, "Ntm",
            [&](const auto& m) { return m(x); });
  const models::Bahdanau translator({.source_vocab = 9, .target_vocab = 8}, rng);
  refused(translator.decoder, "rnn.weight_ih", "Bahdanau", [&](const auto&) {
    const Tensor tokens = ones({2, 3}, DType::i64);
    return translator(tokens, full({2}, 3, DType::i64), tokens);
  });
  refused(nn::AdditiveScore(3, 3, 4, rng), "w_v.weight", "additive_scores",
          [&](const auto& m) { return m(x, x); });
  refused(nn::WeightNorm(nn::Linear(3, 4, rng)), "parametrizations.weight.original1", "WeightNorm",
          [&](const auto& m) { return m(x); });
  refused(nn::SpectralNorm(nn::Linear(3, 4, rng), rng), "parametrizations.weight.original",
          "SpectralNorm", [&](const auto& m) { return m(x); });
}

TEST_CASE("linear hook: a wrong name or shape is an error that names the weight") {
  Rng rng(10);
  const models::Gpt model = small_gpt({.dropout = 0}, nn::Recompute::none, rng);
  const auto make = [&](const std::string& name, LinearHook::Fn fn) {
    return error_of([&] { LinearHook hook(model, name, std::move(fn)); });
  };
  CHECK(make("transformer.h.0.mlp.c_fc", kKeep).find("LinearHook: there is no parameter") == 0);
  CHECK(make("transformer.h.0.mlp.c_fc.bias", kKeep) ==
        "LinearHook: 'transformer.h.0.mlp.c_fc.bias' has the shape (32,), but linear() takes "
        "matrices");
  CHECK(make("transformer.h.0.mlp.c_fc.weight", {}) ==
        "LinearHook: the function is empty; give one to call");
  LinearHook hook(model, "transformer.h.0.mlp.c_fc.weight",
                  [](const Tensor& x, const Tensor&) { return x; });
  CHECK(error_of([&] {
          return model(zeros({1, 2}, DType::i64));
        }) ==
        "transformer.h.0.mlp.c_fc: linear: a LinearHook returned f64 (1, 2, 8), but the result "
        "that it changes is f64 (1, 2, 32)");
}

}  // namespace
}  // namespace tern::test_linear_hook
