// Recomputation as an option of models: the same losses, gradients and steps, bit for bit, with
// less memory. RecomputeScope and checkpoint by themselves are in test_recompute_scope.cpp.
#include <doctest/doctest.h>

#include <optional>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/fused.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/gmlp_text.h"
#include "tern/models/gpt.h"
#include "tern/models/resnet.h"
#include "tern/models/transformer.h"
#include "tern/models/vit.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test::test_recompute {
namespace {

using nn::Recompute;

struct Trained {
  std::vector<float> numbers;  // losses, and the summed gradients of two batches
  int64_t peak = 0;            // without the model
};

/// Trains the model make(recompute, rng) with loss(model). The gradients of two batches are added,
/// so a recomputed block must add to an existing gradient.
template <class Make, class Loss>
Trained train(Make make, Loss loss, Recompute recompute, bool in_backward = false) {
  Rng rng(5);
  const auto model = make(recompute, rng);
  trim_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  Trained out;
  for (int i = 0; i < 2; ++i) {
    const Tensor y = loss(model);
    out.numbers.push_back(y.item<float>());
    backward(y);
  }
  out.peak = memory_stats().peak - before;
  for (const Tensor& p : nn::parameters(model))
    for (const float v : p.grad().to_vector<float>()) out.numbers.push_back(v);
  if (!in_backward) return out;
  optim::AdamW optimizer(nn::named_parameters(model));
  for (int i = 0; i < 2; ++i) {
    optimizer.zero_grad();
    backward(loss(model), {.on_ready = optimizer.step_in_backward()});
    optimizer.step();
  }
  for (const Tensor& p : nn::parameters(model))
    for (const float v : p.to_vector<float>()) out.numbers.push_back(v);
  return out;
}

/// `saves` says whether Recompute::selective saves more than a twentieth of the memory.
template <class Make, class Loss>
void check_recompute(Make make, Loss loss, bool saves = true) {
  const Trained none = train(make, loss, Recompute::none, true);
  const Trained selective = train(make, loss, Recompute::selective, true);
  const Trained full = train(make, loss, Recompute::full, true);
  CHECK(none.numbers == selective.numbers);
  CHECK(none.numbers == full.numbers);
  CAPTURE(none.peak);
  CAPTURE(selective.peak);
  CAPTURE(full.peak);
  CHECK(selective.peak < none.peak - (saves ? none.peak / 20 : 0));
  CHECK(full.peak < selective.peak);
  CHECK(full.peak < none.peak - none.peak / 4);
}

Tensor ids(int64_t rows, int64_t tokens, int64_t words) {
  return reshape(remainder(arange(0, rows * tokens) * 31 + 7, words), {rows, tokens});
}

}  // namespace

TEST_CASE("recompute: a Transformer with dropout, masks and cross-attention") {
  for (const bool norm_first : {false, true}) {
    CAPTURE(norm_first);
    auto make = [=](Recompute recompute, Rng& rng) {
      models::TransformerOptions o;
      o.source_vocab = o.target_vocab = 50;
      o.encoder_layers = o.decoder_layers = 3;
      // Sums of 1,400 terms take several blocks, so their bits depend on the starting value.
      o.layer = {.dim = 48,
                 .heads = 4,
                 .ffn = 1400,
                 .dropout = 0.2,
                 .activation = norm_first ? Activation::gelu : Activation::relu,
                 .norm_first = norm_first,
                 .recompute = recompute};
      o.tie_source_target = o.tie_target_generator = true;
      return models::Transformer(o, rng);
    };
    const Tensor source = ids(8, 20, 50), target = ids(8, 19, 50);
    const Tensor lengths = clamp(arange(0, 8) * 3 + 2, 1, 20);
    check_recompute(
        make,
        [&](const models::Transformer& m) {
          return m.loss(source, lengths, target, target, {.label_smoothing = 0.1});
        },
        false);
  }
}

TEST_CASE("recompute: gMLP and ViT, whose last blocks compute only one token") {
  const Tensor images = sin(reshape(arange(0, 16 * 3 * 32 * 32), {16, 3, 32, 32}).to(DType::f32));
  const Tensor labels = remainder(arange(0, 16), 10);
  auto loss = [&](const auto& m) { return cross_entropy(m(images), labels); };
  check_recompute(
      [](Recompute recompute, Rng& rng) {
        return models::Gmlp({.patch = 8, .dim = 64, .layers = 4, .recompute = recompute}, rng);
      },
      loss);
  check_recompute(
      [](Recompute recompute, Rng& rng) {
        return models::Gmlp({.dim = 64,
                             .layers = 4,
                             .class_token = false,
                             .drop_path = 0.3,
                             .attention_dim = 16,
                             .recompute = recompute},
                            rng);
      },
      loss);
  check_recompute(
      [](Recompute recompute, Rng& rng) {
        return models::Vit({.image = 32,
                            .patch = 8,
                            .dim = 64,
                            .layers = 4,
                            .heads = 4,
                            .classes = 10,
                            .dropout = 0.1,
                            .drop_path = 0.2,
                            .recompute = recompute},
                           rng);
      },
      loss);
}

TEST_CASE("recompute: a ResNet's running statistics change once per step") {
  Rng data(1);
  const Tensor images = randn({4, 3, 32, 32}, data);
  const auto run = [&](Recompute recompute) {
    Rng rng(2);
    const models::ResNet model(
        {.layers = {4}, .classes = 3, .width = 8, .small_pictures = true, .recompute = recompute},
        rng);
    trim_memory();
    reset_peak_memory();
    const int64_t before = memory_stats().live;
    sum(square(model(images))).backward();
    Trained out{{}, memory_stats().peak - before};
    for (const Tensor& p : nn::parameters(model))
      for (const float v : p.grad().to_vector<float>()) out.numbers.push_back(v);
    for (const auto& named : nn::named_buffers(model))
      for (const auto v : named.second.to_vector<double>())
        out.numbers.push_back(static_cast<float>(v));
    CHECK(model.stages[0][1].bn2.num_batches_tracked.tensor().item<int64_t>() == 1);
    return out;
  };
  const Trained none = run(Recompute::none), full = run(Recompute::full);
  CHECK(none.numbers == full.numbers);
  CAPTURE(none.peak);
  CAPTURE(full.peak);
  CHECK(full.peak < none.peak - none.peak / 4);
  CHECK(run(Recompute::selective).numbers == none.numbers);
}

TEST_CASE("recompute: running statistics of norms equal those without a checkpoint") {
  Rng rng(3);
  const Tensor x = randn({3, 2, 5}, rng).set_requires_grad();
  const auto run = [&](auto layer, bool twice) {
    const auto fn = [&layer](std::span<const Tensor> in) { return layer(in[0]); };
    const auto around = [&](std::span<const Tensor> in) { return checkpoint(fn, {in[0]}); };
    const Tensor y = twice ? checkpoint(around, {x}) : layer(x);
    CHECK_FALSE(recomputing());
    sum(square(y)).backward();
    std::vector<std::vector<double>> out;
    for (const auto& named : nn::named_buffers(layer)) {
      const Tensor& t = named.second;
      out.push_back(t.template to_vector<double>());
    }
    return out;
  };
  const nn::BatchNorm1d batch(2);
  CHECK(run(batch, true) == run(batch, false));
  const nn::BatchNorm1d mean_of_all(2, {.momentum = std::nullopt});
  CHECK(run(mean_of_all, true) == run(mean_of_all, false));
  const nn::InstanceNorm1d each(2, {.track_running_stats = true});
  CHECK(run(each, true) == run(each, false));
}

TEST_CASE("recompute: fused formulas are recomputed only if their inputs are kept anyway") {
  Rng rng(3);
  const Tensor u = randn({64, 1, 256}, rng).set_requires_grad();
  const Tensor v = randn({64, 40, 256}, rng).set_requires_grad();
  const Tensor b = randn({40, 1}, rng).set_requires_grad();
  const Tensor w = randn({8, 256}, rng).set_requires_grad();
  const Tensor one = ones({1}).set_requires_grad();
  auto gate = [&](const Tensor& x) {
    return fused(
        "gate", [](auto a, auto c, auto d) { return a * (c + d); }, u, x, b);
  };
  auto sum_of_all = [&](const Tensor& x) {  // no gradient needs an input
    return fused(
        "sum", [](auto a, auto c, auto d) { return a + c + d; }, u, x, b);
  };
  struct Run {
    std::vector<float> numbers;
    int64_t kept = 0;
  };
  auto run = [&](auto formula, bool recompute, bool twice) {
    std::optional<RecomputeScope> scope;
    if (recompute) scope.emplace();
    const int64_t before = memory_stats().live;
    const Tensor y = sum(square(linear(formula(v * one), w)));
    Run out{{y.item<float>()}, memory_stats().live - before};
    scope.reset();
    std::vector<Tensor> gradients = grad({y}, {u, v, b}, {.create_graph = twice});
    if (twice) gradients = grad({sum(square(gradients[1]))}, {u, v, b}, {.allow_unused = true});
    for (const Tensor& t : gradients)
      if (t.defined())
        for (const float g : t.to_vector<float>()) out.numbers.push_back(g);
    return out;
  };
  for (const bool twice : {false, true}) {
    const Run kept = run(gate, false, twice), again = run(gate, true, twice);
    CHECK(again.numbers == kept.numbers);
    CHECK(again.kept < kept.kept - v.numel() * 7 / 2);  // the result of the gate is not kept
    const Run sums = run(sum_of_all, false, twice), same = run(sum_of_all, true, twice);
    CHECK(same.numbers == sums.numbers);
    CHECK(same.kept == sums.kept);
  }
}

TEST_CASE("recompute: language models") {
  const Tensor tokens = ids(8, 24, 60), labels = remainder(tokens + 5, 60);
  auto loss = [&](const auto& m) { return m.loss(tokens, labels); };
  models::GptOptions o{.vocab = 60, .context = 24, .dim = 64, .layers = 4, .heads = 4};
  check_recompute(
      [&](Recompute recompute, Rng& rng) {
        o.recompute = recompute;
        return models::Gpt(o, rng);
      },
      loss);
  models::GptOptions llama = models::llama_form(o);
  llama.kv_heads = 2;
  check_recompute(
      [&](Recompute recompute, Rng& rng) {
        llama.recompute = recompute;
        return models::Gpt(llama, rng);
      },
      loss);
  check_recompute(
      [](Recompute recompute, Rng& rng) {
        return models::GmlpLanguageModel(
            {.vocab = 60, .context = 24, .dim = 64, .layers = 4, .recompute = recompute}, rng);
      },
      loss);
}

TEST_CASE("recompute: BERT, and a masked language model with gMLP") {
  const Tensor tokens = ids(8, 24, 60);
  check_recompute(
      [](Recompute recompute, Rng& rng) {
        return models::Bert({.vocab = 60,
                             .dim = 64,
                             .layers = 4,
                             .heads = 4,
                             .ffn = 256,
                             .positions = 24,
                             .recompute = recompute},
                            rng);
      },
      [&](const models::Bert& m) {
        const Tensor places = arange(0, 40) * 4;
        const models::BertLoss loss = models::pretraining_loss(
            m, {.tokens = tokens, .mask = nn::Mask::lengths(clamp(arange(0, 8) * 4, 1, 24))},
            {places, remainder(places, 60), remainder(arange(0, 8), 2)});
        return loss.total;
      });
  check_recompute(
      [](Recompute recompute, Rng& rng) {
        return models::GmlpMaskedLanguageModel(
            {.vocab = 60, .context = 24, .dim = 64, .layers = 4, .recompute = recompute}, rng);
      },
      [&](const models::GmlpMaskedLanguageModel& m) {
        return m.loss(tokens, clamp(arange(0, 8) * 4, 1, 24), tokens, {.ignore_index = 3});
      });
}

TEST_CASE("recompute: same bits on any number of threads and in evaluation") {
  auto run = [](Recompute recompute) {
    Rng rng(1);
    const models::Vit model({.image = 16,
                             .patch = 4,
                             .dim = 48,
                             .layers = 2,
                             .heads = 3,
                             .classes = 5,
                             .dropout = 0.3,
                             .recompute = recompute},
                            rng);
    const Tensor images = randn({4, 3, 16, 16}, rng);
    backward(sum(square(model(images))));
    std::vector<float> out;
    for (const Tensor& p : nn::parameters(model))
      for (const float v : p.grad().to_vector<float>()) out.push_back(v);
    NoGradGuard no_grad;
    nn::set_training(model, false);
    for (const float v : model(images).to_vector<float>()) out.push_back(v);
    return out;
  };
  check_threads([&] { return run(Recompute::full); });
  check_threads([&] { return run(Recompute::selective); });
  CHECK(run(Recompute::full) == run(Recompute::none));
}

TEST_CASE("recompute: names") {
  for (const std::string& n : nn::recompute_names()) CHECK(nn::name(nn::recompute_named(n)) == n);
  CHECK_THROWS_WITH_AS(nn::recompute_named("some"), doctest::Contains("none, selective, full"),
                       Error);
}

}  // namespace tern::test::test_recompute
