// A training step of each family of models has the same bits on any number of threads, in f32 and
// bf16. Batches are large enough that products, norms and attention are cut for many threads.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/models/bahdanau.h"
#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/gpt.h"
#include "tern/models/ntm.h"
#include "tern/models/transformer.h"
#include "tern/models/vit.h"
#include "tern/optim/clip.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_thread_bits {
namespace {

/// The losses and norms of two steps, and the weights after them.
std::vector<Tensor> trained(const NamedTensors& parameters, const std::function<Tensor()>& loss) {
  optim::AdamW optimizer(parameters, {.lr = 1e-2});
  std::vector<Tensor> out;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    const Tensor l = loss();
    l.backward();
    out.push_back(l.detach());
    out.push_back(scalar(optim::clip_grad_norm(parameters, 1.0), DType::f64));
    optimizer.step();
  }
  for (const auto& [name, t] : parameters) out.push_back(t.detach().clone());
  return out;
}

std::vector<Tensor> train_gmlp(Rng& rng) {
  const models::Gmlp model({.image = 12,
                            .stem = {{.channels = 24}, {.channels = 32}},
                            .patch = 3,
                            .dim = 160,
                            .layers = 2,
                            .attention_dim = 16},
                           rng);
  const Tensor images = randn({29, 3, 12, 12}, rng), labels = randint(0, 10, {29}, rng);
  return trained(nn::named_parameters(model), [&] { return cross_entropy(model(images), labels); });
}

std::vector<Tensor> train_vit(Rng& rng) {
  const models::Vit model(
      {.image = 16, .patch = 4, .dim = 144, .layers = 2, .heads = 3, .classes = 10, .dropout = 0.1},
      rng);
  const Tensor images = randn({31, 3, 16, 16}, rng), labels = randint(0, 10, {31}, rng);
  return trained(nn::named_parameters(model), [&] { return cross_entropy(model(images), labels); });
}

std::vector<Tensor> train_transformer(Rng& rng) {
  models::TransformerOptions o = models::transformer_options("multi30k");
  o.source_vocab = o.target_vocab = 701;
  o.encoder_layers = o.decoder_layers = 1;
  o.layer.dim = 192;
  o.layer.heads = 3;
  o.layer.ffn = 334;
  const models::Transformer model(o, rng);
  const Tensor source = randint(4, 701, {9, 37}, rng), target = randint(4, 701, {9, 35}, rng);
  const Tensor lengths = tensor<int64_t>({37, 9, 37, 9, 37, 30, 31, 32, 33}, {9});
  return trained(nn::named_parameters(model), [&] {
    return model.loss(source, lengths, target, target, {.label_smoothing = 0.1});
  });
}

std::vector<Tensor> train_gpt(Rng& rng) {
  const models::Gpt model({.vocab = 2057, .context = 170, .dim = 192, .layers = 1, .heads = 3},
                          rng);
  const Tensor tokens = randint(0, 2057, {2, 169}, rng);
  return trained(nn::named_parameters(model), [&] { return model.loss(tokens, tokens); });
}

std::vector<Tensor> train_bert(Rng& rng) {
  const models::Bert model(
      {.vocab = 501, .dim = 144, .layers = 1, .heads = 3, .ffn = 300, .positions = 40}, rng);
  const Tensor tokens = randint(1, 501, {12, 37}, rng);
  return trained(nn::named_parameters(model), [&] {
    const models::Bert::Output y = model({.tokens = tokens});
    return cross_entropy(reshape(y.words, {12 * 37, 501}), reshape(tokens, 12 * 37)) +
           sum(square(y.next));
  });
}

std::vector<Tensor> train_bahdanau(Rng& rng) {
  const models::Bahdanau model(
      {.source_vocab = 301, .target_vocab = 301, .embed = 96, .hidden = 136}, rng);
  const Tensor source = randint(4, 301, {67, 5}, rng), target = randint(4, 301, {67, 4}, rng);
  return trained(nn::named_parameters(model),
                 [&] { return model.loss(source, {}, target, target, {.label_smoothing = 0.1}); });
}

std::vector<Tensor> train_ntm(Rng& rng) {
  const models::Ntm model({.inputs = 9, .outputs = 8, .slots = 64, .width = 20, .hidden = 60}, rng);
  const Tensor input = randn({33, 4, 9}, rng), target = bernoulli({33, 4, 8}, 0.5, rng);
  return trained(nn::named_parameters(model),
                 [&] { return bce_with_logits(model(input), target); });
}

}  // namespace

TEST_CASE("threads: every family of models trains with the same bits on 1 to 64 of them") {
  using Train = std::vector<Tensor> (*)(Rng&);
  const std::pair<const char*, Train> families[] = {
      {"gmlp", train_gmlp}, {"vit", train_vit},   {"transformer", train_transformer},
      {"gpt", train_gpt},   {"bert", train_bert}, {"bahdanau", train_bahdanau},
      {"ntm", train_ntm}};
  const int before = num_threads();
  for (const auto& family : families)
    for (const MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::bf16}) {
      const MatmulPrecisionScope scope(precision);
      std::vector<Tensor> first;
      for (int threads : {1, 2, 3, 7, 16, 64}) {
        if (precision == MatmulPrecision::bf16 && threads != 1 && threads != 7 && threads != 64)
          continue;
        set_num_threads(threads);
        Rng rng(3);
        const std::vector<Tensor> out = family.second(rng);
        if (first.empty()) first = out;
        size_t different = 0;
        for (size_t i = 0; i < out.size(); ++i) different += !test::same_bits(first[i], out[i]);
        CHECK_MESSAGE(different == 0, std::string(family.first), " on ", threads,
                      " threads, precision ", static_cast<int>(precision));
      }
    }
  set_num_threads(before);
}

}  // namespace tern::test_thread_bits
