// Training step of GPT-2 (124 million weights) on 4 texts of 64 tokens, as llm.c times it.
#include "tern/models/gpt.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 4, kTokens = 64;

// Without dropout, as in llm.c.
models::GptOptions gpt2(nn::Recompute recompute) {
  models::GptOptions o = models::gpt_options("gpt2");
  o.dropout = 0;
  o.recompute = recompute;
  return o;
}

Workload make_gpt(nn::Recompute recompute) {
  Rng rng(0);
  auto model = std::make_shared<models::Gpt>(gpt2(recompute), rng);
  const Tensor tokens = randint(0, model->options.vocab, {kBatch, kTokens}, rng);
  const Tensor targets = randint(0, model->options.vocab, {kBatch, kTokens}, rng);
  return {nn::named_parameters(*model), [=] { return model->loss(tokens, targets); }};
}

}  // namespace

std::vector<Case> gpt_cases() { return {{"gpt2-124m/b4x64", kBatch * kTokens, make_gpt, true}}; }

}  // namespace tern::bench
