// Training steps of two translation Transformers: a small one for Multi30k, and the paper's base.
#include "tern/models/transformer.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::bench {
namespace {

struct Sizes {
  int64_t batch, tokens, vocab;
  models::TransformerOptions options;
};

// One embedding table for both languages, a separate generator, no dropout on embeddings.
Sizes sizes(int64_t batch, int64_t tokens, int64_t vocab, const char* preset) {
  models::TransformerOptions o = models::transformer_options(preset);
  o.source_vocab = o.target_vocab = vocab;
  o.tie_source_target = true;
  o.embed_dropout = 0;
  return {batch, tokens, vocab, o};
}

Workload make_transformer(Sizes s, nn::Recompute recompute) {
  Rng rng(0);
  s.options.layer.recompute = recompute;
  auto model = std::make_shared<models::Transformer>(s.options, rng);
  Tensor source = randint(4, s.vocab, {s.batch, s.tokens}, rng);
  Tensor target = randint(4, s.vocab, {s.batch, s.tokens}, rng);
  return {nn::named_parameters(*model),
          [=] { return model->loss(source, {}, target, target, {.label_smoothing = 0.1}); }};
}

Case transformer_case(const char* name, const Sizes& s) {
  return {name, s.batch * s.tokens, [s](nn::Recompute r) { return make_transformer(s, r); }};
}

}  // namespace

std::vector<Case> transformer_cases() {
  return {transformer_case("transformer-d256-l3/b64x24", sizes(64, 24, 8000, "multi30k")),
          transformer_case("transformer-base/b32x32", sizes(32, 32, 10000, "base"))};
}

}  // namespace tern::bench
