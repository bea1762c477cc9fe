#include "tern/models/bahdanau.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 64, kSteps = 24, kVocab = 8000, kHidden = 256;  // embeddings too

// Multiplications of the forward pass; each product has two more of its size in the backward.
double bahdanau_gflop() {
  double b = kBatch, t = kSteps, v = kVocab, h = kHidden, rows = b * t;
  double encoder = 2 * rows * 3 * h * (h + h) + b * 2 * h * h;
  double attention = rows * h * h + rows * 2 * h * h + rows * t * (h + 2 * h);
  double decoder = rows * 3 * h * (3 * h + h) + rows * 4 * h * v;
  return 3 * 2 * (encoder + attention + decoder) / 1e9;
}

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
  return {{"bahdanau-h256/b64x24", kBatch * kSteps, bahdanau_gflop(), make_bahdanau}};
}

}  // namespace tern::bench
