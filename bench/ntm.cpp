// Training step of a Neural Turing Machine on the copy task: 16 sequences of 41 steps.
#include "tern/models/ntm.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::bench {
namespace {

// The paper's copy task with sequences of 20 vectors: 8 bits and a delimiter.
constexpr int64_t kBatch = 16, kSteps = 41, kBits = 8, kSlots = 128, kWidth = 20, kUnits = 100;

Workload make_ntm(nn::Recompute) {
  Rng rng(0);
  auto model = std::make_shared<models::Ntm>(models::NtmOptions{.inputs = kBits + 1,
                                                                .outputs = kBits,
                                                                .locations = kSlots,
                                                                .width = kWidth,
                                                                .hidden = kUnits,
                                                                .start = models::NtmStart::learned},
                                             rng);
  Tensor input = bernoulli({kBatch, kSteps, kBits + 1}, 0.5, rng);
  Tensor target = bernoulli({kBatch, kSteps, kBits}, 0.5, rng);
  return {nn::named_parameters(*model), [=] { return bce_with_logits((*model)(input), target); }};
}

}  // namespace

std::vector<Case> ntm_cases() { return {{"ntm-copy/b16xT41", kBatch, make_ntm}}; }

}  // namespace tern::bench
