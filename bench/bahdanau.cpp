// Training step of an attention-based RNN translator (Bahdanau et al. 2014): 64 pairs of 24 tokens.
#include "tern/models/bahdanau.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 64, kSteps = 24, kVocab = 8000, kHidden = 256;  // also the embeddings

Workload make_bahdanau(nn::Recompute) {
  Rng rng(0);
  auto model = std::make_shared<models::Bahdanau>(
      models::BahdanauOptions{
          .source_vocab = kVocab, .target_vocab = kVocab, .embed = kHidden, .hidden = kHidden},
      rng);
  Tensor source = randint(4, kVocab, {kBatch, kSteps}, rng);
  Tensor target = randint(4, kVocab, {kBatch, kSteps}, rng);
  return {nn::named_parameters(*model),
          [=] { return model->loss(source, {}, target, target, {.label_smoothing = 0.1}); }};
}

}  // namespace

std::vector<Case> bahdanau_cases() {
  return {{"bahdanau-h256/b64x24", kBatch * kSteps, make_bahdanau}};
}

}  // namespace tern::bench
