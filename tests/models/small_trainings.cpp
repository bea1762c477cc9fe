// Ten small models, each trained for some steps of AdamW with clipped gradients; and the hashes of
// the recorded results.
#include "tern/tests/models/small_trainings.h"

#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/models/bahdanau.h"
#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/gpt.h"
#include "tern/models/ntm.h"
#include "tern/models/resnet.h"
#include "tern/models/seq2seq.h"
#include "tern/models/transformer.h"
#include "tern/models/vit.h"
#include "tern/optim/adam.h"
#include "tern/optim/clip.h"

namespace tern::test {
namespace {

std::vector<Tensor> trained(const NamedTensors& parameters, const std::function<Tensor()>& loss,
                            int steps) {
  optim::AdamW optimizer(parameters, {.lr = 1e-2});
  std::vector<Tensor> out;
  for (int step = 0; step < steps; ++step) {
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

// With a stem, tiny attention and stochastic depth.
std::vector<Tensor> train_gmlp(int steps) {
  Rng rng(3);
  const models::Gmlp model({.image = 10,
                            .stem = {{.channels = 9}, {.channels = 11}},
                            .patch = 2,
                            .dim = 46,
                            .layers = 2,
                            .d_ffn = 66,
                            .fc_dim = 33,
                            .drop_path = 0.3,
                            .attention_dim = 17},
                           rng);
  const Tensor images = randn({47, 3, 10, 10}, rng), labels = randint(0, 10, {47}, rng);
  return trained(
      nn::named_parameters(model), [&] { return cross_entropy(model(images), labels); }, steps);
}

// With layer scale and stochastic depth.
std::vector<Tensor> train_vit(int steps) {
  Rng rng(4);
  const models::Vit model({.image = 12,
                           .patch = 3,
                           .dim = 51,
                           .layers = 2,
                           .heads = 3,
                           .mlp_dim = 70,
                           .classes = 10,
                           .layer_scale = 0.5,
                           .dropout = 0.1,
                           .drop_path = 0.3},
                          rng);
  const Tensor images = randn({67, 3, 12, 12}, rng), labels = randint(0, 10, {67}, rng);
  return trained(
      nn::named_parameters(model), [&] { return cross_entropy(model(images), labels); }, steps);
}

// Bottlenecks with groups, and their running statistics.
std::vector<Tensor> train_resnet(int steps) {
  Rng rng(12);
  const models::ResNet model({.block = models::ResNetBlockKind::bottleneck,
                              .layers = {1, 1},
                              .classes = 10,
                              .width = 24,
                              .groups = 2,
                              .width_per_group = 40},
                             rng);
  const Tensor images = randn({27, 3, 37, 30}, rng), labels = randint(0, 10, {27}, rng);
  std::vector<Tensor> out = trained(
      nn::named_parameters(model), [&] { return cross_entropy(model(images), labels); }, steps);
  for (const auto& [name, t] : nn::named_buffers(model)) out.push_back(t.clone());
  return out;
}

std::vector<Tensor> train_ntm(int steps) {
  Rng rng(5);
  const models::Ntm model({.inputs = 9, .outputs = 8, .locations = 37, .width = 20, .hidden = 60},
                          rng);
  const Tensor input = randn({33, 4, 9}, rng), target = bernoulli({33, 4, 8}, 0.5, rng);
  return trained(
      nn::named_parameters(model), [&] { return bce_with_logits(model(input), target); }, steps);
}

std::vector<Tensor> train_seq2seq(int steps) {
  Rng rng(6);
  const models::LstmSeq2Seq model({.source_vocab = 203,
                                   .target_vocab = 205,
                                   .embed = 47,
                                   .hidden = 67,
                                   .layers = 2,
                                   .dropout = 0.1,
                                   .reverse_source = true},
                                  rng);
  const Tensor source = randint(4, 203, {61, 5}, rng), target = randint(4, 205, {61, 4}, rng);
  const Tensor lengths = randint(1, 6, {61}, rng);
  return trained(
      nn::named_parameters(model),
      [&] { return model.loss(source, lengths, target, target, {.label_smoothing = 0.1}); }, steps);
}

std::vector<Tensor> train_bahdanau(int steps) {
  Rng rng(7);
  const models::Bahdanau model(
      {.source_vocab = 203, .target_vocab = 205, .embed = 47, .hidden = 67}, rng);
  const Tensor source = randint(4, 203, {61, 5}, rng), target = randint(4, 205, {61, 4}, rng);
  const Tensor lengths = randint(1, 6, {61}, rng);
  return trained(
      nn::named_parameters(model),
      [&] { return model.loss(source, lengths, target, target, {.label_smoothing = 0.1}); }, steps);
}

// Sentences of different lengths, and dropout in every layer.
std::vector<Tensor> train_transformer(int steps) {
  Rng rng(8);
  models::TransformerOptions o = models::transformer_options("multi30k");
  o.source_vocab = o.target_vocab = 301;
  o.encoder_layers = o.decoder_layers = 1;
  o.layer.dim = 78;
  o.layer.heads = 3;
  o.layer.ffn = 134;
  o.tie_source_target = true;
  const models::Transformer model(o, rng);
  const Tensor source = randint(4, 301, {20, 37}, rng), target = randint(4, 301, {20, 35}, rng);
  const Tensor lengths = 9 + 28 * randint(0, 2, {20}, rng);
  return trained(
      nn::named_parameters(model),
      [&] { return model.loss(source, lengths, target, target, {.label_smoothing = 0.1}); }, steps);
}

std::vector<Tensor> train_bert(int steps) {
  Rng rng(9);
  const models::Bert model(
      {.vocab = 301, .dim = 78, .layers = 1, .heads = 3, .ffn = 150, .positions = 40}, rng);
  const Tensor tokens = randint(1, 301, {19, 37}, rng);
  return trained(
      nn::named_parameters(model),
      [&] {
        const models::Bert::Output y = model({.tokens = tokens});
        return cross_entropy(reshape(y.words, {19 * 37, 301}), reshape(tokens, 19 * 37)) +
               sum(square(y.next));
      },
      steps);
}

// Texts longer than a block of attention.
std::vector<Tensor> train_gpt(int steps) {
  Rng rng(10);
  const models::Gpt model({.vocab = 1031, .context = 170, .dim = 78, .layers = 1, .heads = 3}, rng);
  const Tensor tokens = randint(0, 1031, {4, 169}, rng);
  return trained(
      nn::named_parameters(model), [&] { return model.loss(tokens, tokens); }, steps);
}

// Grouped queries, and SwiGLU on 79,000 units.
std::vector<Tensor> train_llama(int steps) {
  Rng rng(11);
  const models::Gpt model(models::llama_form({.vocab = 257,
                                              .context = 70,
                                              .dim = 72,
                                              .layers = 1,
                                              .heads = 6,
                                              .kv_heads = 2,
                                              .ffn_dim = 115}),
                          rng);
  const Tensor tokens = randint(0, 257, {10, 69}, rng);
  return trained(
      nn::named_parameters(model), [&] { return model.loss(tokens, tokens); }, steps);
}

}  // namespace

const std::vector<SmallTraining>& small_trainings() {
  static const std::vector<SmallTraining> all = {
      {"gMLP", train_gmlp, 10894346045686204842u},
      {"ViT", train_vit, 8530276904605593263u},
      {"ResNet", train_resnet, 11197282666480749170u},
      {"NTM", train_ntm, 341417983483865229u},
      {"LSTM seq2seq", train_seq2seq, 8712726382773628239u},
      {"Bahdanau", train_bahdanau, 7383905163176851297u},
      {"Transformer", train_transformer, 15065670049390244885u},
      {"BERT", train_bert, 6279181398217386439u},
      {"GPT-2", train_gpt, 1670135206824424038u},
      {"Llama", train_llama, 3676636519936910062u},
  };
  return all;
}

uint64_t hash_of(const std::vector<Tensor>& tensors) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const Tensor& t : tensors)
    dispatch(t.dtype(), [&]<class T>() {
      const std::vector<T> values = t.to_vector<T>();
      const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
      for (size_t i = 0; i < values.size() * sizeof(T); ++i)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    });
  return hash;
}

}  // namespace tern::test
