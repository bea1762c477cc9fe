// nn::WeightsInstead: modules that run with other weights. check_module checks that every layer and
// model uses them (tests/nn/test_check_module.cpp).
#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <thread>

#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/decode/packed_layers.h"
#include "tern/models/gpt.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/heap_calls.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_weights_instead {
namespace {

using nn::WeightsInstead;
using test::error_of, test::leaf, test::same_bits;

struct Mlp {
  nn::Linear up, down;
  explicit Mlp(Rng& rng) : up(3, 4, rng), down(4, 2, rng) {}
  Tensor operator()(const Tensor& x) const { return down(tanh(up(x))); }
  static void fields(auto& m, auto&& visit) { visit("up", m.up), visit("down", m.down); }
};

models::GptOptions small_gpt(nn::Recompute recompute = nn::Recompute::none) {
  return {.vocab = 11,
          .context = 6,
          .dim = 8,
          .layers = 2,
          .heads = 2,
          .dropout = 0,
          .recompute = recompute};
}

bool says(const std::function<void()>& fn, const std::string& text) {
  const std::string got = error_of(fn);
  CAPTURE(got);
  const bool found = got.find(text) != std::string::npos;
  CHECK(found);
  return found;
}

std::set<const void*> set_of(const std::vector<Tensor>& tensors) {
  std::set<const void*> out;
  for (const Tensor& t : tensors) out.insert(t.ref().get());
  return out;
}

TEST_CASE("weights instead: one weight by its name; gradients reach the sources") {
  Rng rng(1);
  const Mlp model(rng);
  const Tensor x = randn({5, 3}, rng), a = leaf(randn({2, 3}, rng)), b = leaf(randn({4, 2}, rng));
  const Tensor want = model.down(tanh(linear(x, model.up.weight + matmul(b, a), model.up.bias)));
  const std::vector<Tensor> parts = {a, b, model.up.weight.own(), model.down.weight.own()};
  const std::vector<Tensor> slopes = grad({sum(square(want))}, parts);
  const Tensor before = model(x);
  Tensor y;
  {
    WeightsInstead scope(model, {{"up.weight", model.up.weight + matmul(b, a)}});
    y = model(x);
    CHECK(scope.unused().empty());
  }
  CHECK(same_bits(y, want));
  CHECK(same_bits(model(x), before));
  const Tensor loss = sum(square(y));
  CHECK(set_of(leaves(loss)) ==
        set_of({a, b, model.up.weight, model.up.bias, model.down.weight, model.down.bias}));
  backward(loss);  // after the scope
  for (size_t i = 0; i < parts.size(); ++i) CHECK(same_bits(parts[i].grad(), slopes[i]));
}

TEST_CASE("weights instead: a parameter replaced by another leaf gets no gradient") {
  Rng rng(2);
  const Mlp model(rng);
  std::vector<Tensor> others;
  for (const Tensor& p : nn::parameters(model)) others.push_back(leaf(p * 0.5));
  Tensor loss;
  {
    WeightsInstead scope(model, others);
    loss = sum(model(ones({1, 3})));
  }
  CHECK(set_of(leaves(loss)) == set_of(others));
  backward(loss);
  for (const Tensor& p : nn::parameters(model)) CHECK(!p.grad().defined());
  for (const Tensor& t : others) CHECK(t.grad().defined());
}

TEST_CASE("weights instead: scopes nest, and end with exceptions") {
  Rng rng(3);
  const Mlp model(rng);
  const auto w = [&](double v) { return full({4, 3}, v); };
  const auto first = [&] { return model.up.weight.tensor().to_vector<float>()[0]; };
  const float own = first();
  {
    WeightsInstead outer(model, {{"up.weight", w(1)}, {"up.bias", full({4}, 7)}});
    {
      // Names of a part work, and so does the outer replacement in place of the parameter.
      WeightsInstead inner(model.up, {{"weight", w(2)}});
      CHECK(first() == 2);
      CHECK(model.up.bias.tensor().to_vector<float>()[0] == 7);
      CHECK_THROWS_AS(
          [&] {
            WeightsInstead third(NamedTensors{{"w", model.up.weight}}, {{"w", w(3)}});
            CHECK(first() == 3);
            fail("out of here");
          }(),
          Error);
      CHECK(first() == 2);
    }
    CHECK(first() == 1);
  }
  CHECK(first() == own);
  WeightsInstead mine(model, {{"up.weight", w(5)}});
  float other_thread = 0;
  std::thread([&] { other_thread = first(); }).join();
  CHECK(other_thread == own);
  // Lists of parameters have the parameter itself.
  CHECK(nn::parameters(model)[0].to_vector<float>()[0] == own);
  CHECK(nn::state_dict(model)[0].second.to_vector<float>()[0] == own);
}

TEST_CASE("weights instead: a wrong name, shape or type is an error that names it") {
  Rng rng(4);
  Mlp model(rng);
  const Tensor w = zeros({4, 3});
  says(
      [&] {
        WeightsInstead s(model, {{"up.wieght", w}});
      },
      "'up.wieght'; did you mean 'up.weight'");
  says(
      [&] {
        WeightsInstead s(model, {{"down.weight", w}});
      },
      "'down.weight' is f32 (2, 4), its replacement is f32 (4, 3)");
  says(
      [&] {
        WeightsInstead s(nn::BatchNorm1d(3), {{"running_mean", zeros({3})}});
      },
      "no parameter 'running_mean'; a buffer is no parameter");
  says([&] { WeightsInstead s(model, {{"up.weight", w.to(DType::f64)}}); }, "f64 (4, 3)");
  says([&] { WeightsInstead s(model, {{"up.weight", Tensor()}}); }, "'up.weight' is undefined");
  says(
      [&] {
        WeightsInstead s(model, NamedTensors{{"up.weight", w}, {"up.weight", w}});
      },
      "give it once");
  says([&] { WeightsInstead s(model, std::vector<Tensor>{w}); }, "1 tensors for 4 parameters");
  says(
      [&] {
        WeightsInstead s(nn::state_dict(model), {{"up.weight", w}});
      },
      "nn::named_parameters(module)");
  WeightsInstead s(model, {{"up.weight", w}});
  says([&] { const Mlp copy = model; }, "'up.weight': it cannot be copied while");
  says([&] { nn::to(model, DType::f64); }, "'up.weight': it cannot get new elements while");
  // Errors of ops name the module whose weight is replaced.
  says([&] { return model(ones({1, 7})); }, "up: linear: the input (1, 7)");
}

TEST_CASE("weights instead: an earlier copy of the module is not replaced; unused() tells") {
  Rng rng(5);
  const Mlp model(rng);
  const auto copy = [model](const Tensor& x) { return model(x); };
  WeightsInstead scope(model, {{"up.weight", zeros({4, 3})}, {"down.bias", zeros({2})}});
  static_cast<void>(copy(ones({1, 3})));
  CHECK(scope.unused() == std::vector<std::string>{"down.bias", "up.weight"});
  static_cast<void>(model(ones({1, 3})));
  CHECK(scope.unused().empty());
}

TEST_CASE("weights instead: a moved module keeps its replacement") {
  Rng rng(6);
  Mlp model(rng);
  const Tensor w = zeros({2, 4});
  WeightsInstead scope(model, {{"down.weight", w}, {"down.bias", zeros({2})}});
  const Mlp moved = std::move(model);
  CHECK(same_bits(moved(ones({1, 3})), zeros({1, 2})));
}

// Loss and gradients of a Gpt with a LoRA on every matrix and on the tied table.
struct Adapted {
  std::vector<Tensor> gradients;
  Tensor loss;
};

template <class Backward>
Adapted adapt(nn::Recompute recompute, bool frozen, Backward run) {
  Rng rng(7);
  models::Gpt model(small_gpt(recompute), rng);
  nn::set_requires_grad(model, !frozen);
  NamedTensors instead;
  std::vector<Tensor> adapters;
  for (const auto& [name, p] : nn::named_parameters(model)) {
    if (p.ndim() != 2) continue;
    adapters.push_back(leaf(randn({p.size(0), 2}, rng)));
    adapters.push_back(leaf(randn({2, p.size(1)}, rng)));
    instead.emplace_back(name, p + matmul(adapters.end()[-2], adapters.back()));
  }
  const Tensor tokens = randint(0, 11, {2, 6}, rng), labels = randint(0, 11, {2, 6}, rng);
  Adapted out;
  {
    WeightsInstead scope(model, instead);
    out.loss = model.loss(tokens, labels);
  }
  run(model, out.loss);
  for (const std::vector<Tensor>& all : {adapters, nn::parameters(model)})
    for (const Tensor& t : all) out.gradients.push_back(t.grad());
  return out;
}

void check_same(const Adapted& a, const Adapted& b) {
  CHECK(same_bits(a.loss, b.loss));
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    REQUIRE(a.gradients[i].defined() == b.gradients[i].defined());
    if (a.gradients[i].defined()) CHECK(same_bits(a.gradients[i], b.gradients[i]));
  }
}

TEST_CASE("weights instead: recomputation uses the replacements of the first pass") {
  for (const bool frozen : {true, false}) {
    CAPTURE(frozen);
    const auto plain = [](const auto&, const Tensor& loss) { backward(loss); };
    const Adapted want = adapt(nn::Recompute::none, frozen, plain);
    size_t defined = 0;
    for (const Tensor& g : want.gradients) defined += g.defined();
    CHECK(defined == (frozen ? 20u : want.gradients.size()));  // two for each of 10 matrices
    check_same(adapt(nn::Recompute::selective, frozen, plain), want);
    check_same(adapt(nn::Recompute::full, frozen, plain), want);
    // The backward pass in another scope, and in another thread.
    check_same(adapt(nn::Recompute::full, frozen,
                     [](const auto& model, const Tensor& loss) {
                       std::vector<Tensor> zero;
                       for (const Tensor& p : nn::parameters(model)) zero.push_back(zeros_like(p));
                       WeightsInstead other(model, zero);
                       backward(loss);
                     }),
               want);
    check_same(
        adapt(nn::Recompute::full, frozen,
              [](const auto&, const Tensor& loss) { std::thread([&] { backward(loss); }).join(); }),
        want);
  }
}

TEST_CASE("weights instead: a checkpoint from outside a scope reruns without one") {
  Rng rng(8);
  const Mlp model(rng);
  const auto run = [&](bool in_scope) {
    for (const Tensor& p : nn::parameters(model)) p.set_grad({});
    const Tensor x = leaf(ones({2, 3}));
    const Tensor y = checkpoint([&model](std::span<const Tensor> in) { return model(in[0]); }, {x});
    std::optional<WeightsInstead> scope;
    if (in_scope) scope.emplace(model, NamedTensors{{"up.weight", zeros({4, 3})}});
    backward(sum(square(y)));
    return x.grad();
  };
  CHECK(same_bits(run(true), run(false)));
}

TEST_CASE("weights instead: second derivatives, through a checkpoint too") {
  Rng rng(9);
  Mlp model(rng);
  nn::to(model, DType::f64);
  const Tensor x = randn({2, 3}, rng, DType::f64);
  std::vector<Tensor> inputs;
  for (const Tensor& p : nn::parameters(model)) inputs.push_back(leaf(p));
  for (const bool recompute : {false, true}) {
    CAPTURE(recompute);
    const auto fn = [&](const std::vector<Tensor>& in) {
      std::vector<Tensor> fast;
      for (const Tensor& t : in) fast.push_back(t * t);
      WeightsInstead scope(model, fast);
      if (!recompute) return model(x);
      return checkpoint([&model](std::span<const Tensor> s) { return model(s[0]); }, {x});
    };
    gradcheck(fn, inputs);
    gradgradcheck(fn, inputs);
  }
}

// The outer gradient flows through the gradients of the inner steps.
TEST_CASE("weights instead: MAML through a Gpt, against central differences") {
  Rng rng(12);
  for (models::GptOptions form : {models::GptOptions{}, models::llama_form({.ffn_dim = 6})}) {
    form.vocab = 5, form.context = 3, form.dim = 4, form.layers = 1, form.heads = 2;
    form.dropout = 0;
    models::Gpt model(form, rng);
    nn::to(model, DType::f64);
    const auto some = [&] { return randint(0, 5, {2, 3}, rng); };
    const Tensor tokens = some(), labels = some(), new_tokens = some(), new_labels = some();
    std::vector<Tensor> inputs;
    for (const Tensor& p : nn::parameters(model)) inputs.push_back(leaf(p));
    const auto outer_loss = [&](const std::vector<Tensor>& in) {
      std::vector<Tensor> fast = in;
      for (int step = 0; step < 2; ++step) {
        const WeightsInstead scope(model, fast);
        const auto slopes = grad({model.loss(tokens, labels)}, fast, {.create_graph = true});
        for (size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - 0.5 * slopes[i];
      }
      const WeightsInstead scope(model, fast);
      return model.loss(new_tokens, new_labels);
    };
    gradcheck(outer_loss, inputs);
  }
}

TEST_CASE(
    "weights instead: on_ready is called once per leaf, also for a parameter that its own "
    "replacement uses") {
  for (const nn::Recompute recompute : {nn::Recompute::none, nn::Recompute::full}) {
    std::vector<const void*> ready;
    std::set<const void*> all;
    adapt(recompute, /*frozen=*/false, [&](const auto&, const Tensor& loss) {
      for (const Tensor& t : leaves(loss)) all.insert(t.ref().get());
      backward(loss, {.on_ready = [&](const Tensor& t) { ready.push_back(t.ref().get()); }});
    });
    CHECK(ready.size() == all.size());
    CHECK(std::set<const void*>(ready.begin(), ready.end()) == all);
  }
}

TEST_CASE("weights instead: stepping in the backward pass equals stepping afterwards") {
  const auto train = [](nn::Recompute recompute, bool in_backward, bool trains_base) {
    Rng rng(10);
    models::Gpt model(small_gpt(recompute), rng);
    nn::set_requires_grad(model, trains_base);
    nn::Linear a(8, 2, rng, nn::Bias::no), b(2, 24, rng, nn::Bias::no);
    NamedTensors trained = {{"a", a.weight.own()}, {"b", b.weight.own()}};
    if (trains_base)
      for (const auto& p : nn::named_parameters(model)) trained.push_back(p);
    optim::AdamW optimizer(trained, {.lr = 1e-2});
    const Tensor tokens = randint(0, 11, {2, 6}, rng), labels = randint(0, 11, {2, 6}, rng);
    std::vector<float> losses;
    const auto& w = model.body.blocks[1].attention.c_attn->weight;  // (in, out)
    for (int step = 0; step < 4; ++step) {
      Tensor loss;
      {
        const Tensor more = transpose(matmul(b.weight, a.weight), 0, 1);
        WeightsInstead scope(model, {{"transformer.h.1.attn.c_attn.weight", w + more}});
        loss = model.loss(tokens, labels);
      }
      BackwardOptions options;
      if (in_backward) options.on_ready = optimizer.step_in_backward();
      backward(loss, options);
      optimizer.step();
      optimizer.zero_grad();
      losses.push_back(loss.item<float>());
    }
    return losses;
  };
  for (const bool base : {false, true}) {
    const std::vector<float> want = train(nn::Recompute::none, false, base);
    CHECK(want[3] < want[0]);
    CHECK(train(nn::Recompute::none, true, base) == want);
    CHECK(train(nn::Recompute::full, true, base) == want);
  }
}

TEST_CASE("weights instead: decoding and packing use the replacements") {
  Rng rng(11);
  models::Gpt model(small_gpt(), rng);
  nn::set_training(model, false);
  models::Gpt other(small_gpt(), rng);
  nn::set_training(other, false);
  const Tensor tokens = randint(0, 11, {2, 4}, rng), next = randint(0, 11, {2}, rng);
  NoGradGuard no_grad;
  const Tensor want = other.step(other.encode(tokens), next).logits;
  WeightsInstead scope(model, nn::parameters(other));
  CHECK(same_bits(model.step(model.encode(tokens), next).logits, want));
  const nn::LayerNorm norm({2});
  WeightsInstead twos(norm, {{"weight", full({2}, 2)}});
  CHECK(decoding::PackedNorm(norm).weight == std::vector<float>{2, 2});
}

TEST_CASE("weights instead: in bf16, where products take over tensors without other owners") {
  const auto plain = [](const auto&, const Tensor& loss) { backward(loss); };
  const MatmulPrecisionScope precision(MatmulPrecision::bf16);
  const Adapted want = adapt(nn::Recompute::none, /*frozen=*/true, plain);
  check_same(adapt(nn::Recompute::selective, true, plain), want);
  check_same(adapt(nn::Recompute::full, true, plain), want);
  // Against a product with a sum that stays alive until the end.
  Rng rng(14);
  const nn::Linear layer(64, 48, rng);
  const Tensor x = randn({32, 64}, rng), a = leaf(randn({2, 64}, rng)),
               b = leaf(randn({48, 2}, rng));
  const Tensor sum_of = layer.weight + matmul(b, a);
  const std::vector<Tensor> slopes = grad({sum(square(linear(x, sum_of, layer.bias)))}, {a, b});
  Tensor y;
  {
    WeightsInstead scope(layer, {{"weight", layer.weight + matmul(b, a)}});
    y = layer(x);
  }
  backward(sum(square(y)));
  CHECK(same_bits(a.grad(), slopes[0]));
  CHECK(same_bits(b.grad(), slopes[1]));
}

TEST_CASE("weights instead: works on layers chosen at run time") {
  Rng rng(15);
  nn::DynamicSequential layers;
  layers.add(nn::Linear(3, 4, rng)).add(nn::Linear(4, 2, rng));
  const Tensor x = randn({5, 3}, rng), w = zeros({2, 4});
  const Tensor bias = nn::named_parameters(layers)[3].second;
  WeightsInstead scope(layers, {{"1.weight", w}});
  CHECK(same_bits(layers(x).detach(), expand(bias.detach(), {5, 2})));
}

// A module that ignores a WeightsInstead.
struct Own {
  nn::Linear up;
  explicit Own(Rng& rng) : up(3, 4, rng) {}
  Tensor operator()(const Tensor& x) const { return linear(x, up.weight.own(), up.bias); }
  static void fields(auto& m, auto&& visit) { visit("up", m.up); }
};

TEST_CASE("weights instead: check_module finds a module that ignores them") {
  Rng rng(13);
  const std::string text = error_of([&] { nn::check_module(Own(rng), {randn({5, 3}, rng)}); });
  CAPTURE(text);
  CHECK(text.find("1 fault\n  other weights: ") != std::string::npos);
}

TEST_CASE("weights instead: a use does not allocate") {
  Rng rng(12);
  const Mlp model(rng);
  const auto uses = [&] {
    const int64_t before = test::heap_calls;
    for (int i = 0; i < 100; ++i)
      if (!model.up.weight.tensor().defined()) return int64_t(-1);
    return test::heap_calls - before;
  };
  CHECK(uses() == 0);
  WeightsInstead scope(model, {{"up.weight", zeros({4, 3})}});
  CHECK(uses() == 0);
}

TEST_CASE("WeightsInstead: an optimizer's step without gradients names the scope") {
  Rng rng(1);
  Mlp mlp(rng);
  optim::Sgd optimizer(nn::named_parameters(mlp), {.lr = 0.1});
  const Tensor x = randn({2, 3}, rng), up = leaf(mlp.up.weight), down = leaf(mlp.down.weight);
  nn::set_requires_grad(mlp, false);
  nn::set_requires_grad(mlp, true);
  {
    const WeightsInstead other(mlp, {{"up.weight", up}});
    says([&] { optimizer.step(); }, "a WeightsInstead is active");
  }
  says([&] { optimizer.step(); }, "Was a copy of the model trained");
}

}  // namespace
}  // namespace tern::test_weights_instead
