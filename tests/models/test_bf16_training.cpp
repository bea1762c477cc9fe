// Whole trainings in bf16: what computes the products and the number of threads change no bit.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/models/gpt.h"
#include "tern/models/transformer.h"
#include "tern/optim/adam.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_bf16_training {
namespace {

/// The losses of five steps, and the weights after them.
std::vector<Tensor> trained(const NamedTensors& parameters, const std::function<Tensor()>& loss) {
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  optim::AdamW optimizer(parameters, {.lr = 1e-2});
  std::vector<Tensor> out;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const Tensor l = loss();
    l.backward();
    optimizer.step();
    out.push_back(l.detach());
  }
  for (const auto& [name, t] : parameters) out.push_back(t.detach().clone());
  return out;
}

// Sizes are odd, sentences are of two lengths, and dropout draws in every layer: attention, masks,
// norms, tied tables and the loss of all words take part.
std::vector<Tensor> train_transformer() {
  Rng rng(3);
  models::TransformerOptions o = models::transformer_options("multi30k");
  o.source_vocab = o.target_vocab = 301;
  o.encoder_layers = o.decoder_layers = 2;
  o.layer.dim = 96;
  o.layer.heads = 3;
  o.layer.ffn = 134;
  o.tie_source_target = true;
  const models::Transformer model(o, rng);
  const Tensor source = randint(4, 301, {5, 37}, rng), target = randint(4, 301, {5, 35}, rng);
  const Tensor lengths = tensor<int64_t>({37, 9, 37, 9, 37}, {5});
  return trained(nn::named_parameters(model), [&] {
    return model.loss(source, lengths, target, target, {.label_smoothing = 0.1});
  });
}

std::vector<Tensor> train_gpt() {
  Rng rng(5);
  const models::Gpt model({.vocab = 257, .context = 70, .dim = 96, .layers = 2, .heads = 3}, rng);
  const Tensor tokens = randint(0, 257, {3, 69}, rng);
  return trained(nn::named_parameters(model), [&] { return model.loss(tokens, tokens); });
}

}  // namespace

TEST_CASE("bf16: a training has the same bits by every way of products and on any threads") {
  const int before = num_threads();
  for (const auto train : {train_transformer, train_gpt}) {
    const std::vector<Tensor> first = train();
    for (Bf16Way way : bf16_ways()) {
      if (way == Bf16Way::portable) continue;  // single products are compared: it is slow
      for (int threads : {1, 3, 16}) {
        CAPTURE(to_string(way));
        CAPTURE(threads);
        const Bf16WayScope scope(way);
        set_num_threads(threads);
        const std::vector<Tensor> again = train();
        REQUIRE(again.size() == first.size());
        for (size_t i = 0; i < first.size(); ++i) CHECK(test::same_bits(first[i], again[i]));
      }
    }
  }
  set_num_threads(before);
}

}  // namespace tern::test_bf16_training
