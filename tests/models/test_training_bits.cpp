// Whole trainings: what computes the products and the number of threads change no bit. In bf16
// these are the ways of the processor, in f32 its vector units.
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/models/gpt.h"
#include "tern/models/transformer.h"
#include "tern/optim/adam.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_training_bits {
namespace {

/// FNV-1a of all bytes.
uint64_t hash_of(const std::vector<Tensor>& tensors) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const Tensor& t : tensors)
    for (float x : t.to_vector<float>())
      for (uint32_t bits = std::bit_cast<uint32_t>(x), i = 0; i < 4; ++i, bits >>= 8)
        hash = (hash ^ (bits & 255)) * 0x100000001b3;
  return hash;
}

void check_same_tensors(const std::vector<Tensor>& first, const std::vector<Tensor>& again) {
  REQUIRE(again.size() == first.size());
  for (size_t i = 0; i < first.size(); ++i) CHECK(test::same_bits(first[i], again[i]));
}

/// The losses of some steps, and the weights after them.
std::vector<Tensor> trained(const NamedTensors& parameters, const std::function<Tensor()>& loss,
                            int steps = 5) {
  optim::AdamW optimizer(parameters, {.lr = 1e-2});
  std::vector<Tensor> out;
  for (int step = 0; step < steps; ++step) {
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

// Fifty steps of a small model whose sums are longer than a register, with dropout.
uint64_t train_fifty_steps() {
  Rng rng(9);
  const models::Gpt model({.vocab = 101, .context = 40, .dim = 48, .layers = 2, .heads = 3}, rng);
  const Tensor tokens = randint(0, 101, {2, 37}, rng);
  return hash_of(trained(
      nn::named_parameters(model), [&] { return model.loss(tokens, tokens); }, 50));
}

}  // namespace

TEST_CASE("bf16: a training has the same bits by every way of products and on any threads") {
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
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
        check_same_tensors(first, train());
      }
    }
  }
  set_num_threads(before);
}

// Not with the C library of another system: powers of Adam's betas and the like are its doubles.
TEST_CASE("f32: a training has the bits that it has on other processors") {
  if (products_by_blas()) return;
  CHECK(train_fifty_steps() == 13984384793252409009u);
}

TEST_CASE("f32: a training has the same bits with AVX2 and AVX-512 and on any threads") {
  const int before = num_threads();
  for (const auto train : {train_transformer, train_gpt}) {
    const std::vector<Tensor> first = train();
    for (VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512})
      for (int threads : {1, 3}) {
        CAPTURE(to_string(level));
        CAPTURE(threads);
        const VectorLevelScope scope(level);
        set_num_threads(threads);
        check_same_tensors(first, train());
      }
  }
  set_num_threads(before);
}

}  // namespace tern::test_training_bits
