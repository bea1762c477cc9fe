// The subject bert: word and next-sentence outputs of models::Bert.
#include "tern/models/bert.h"

#include "tern/core/ops/ops.h"
#include "tern/tests/parity/subjects.h"

namespace tern::parity {
namespace {

models::BertOptions options_of(const Reference& r) {
  const Tensor& words = r.param("bert.embeddings.word_embeddings.weight");
  return {.vocab = words.size(0),
          .dim = words.size(1),
          .layers = r.option("layers"),
          .heads = r.option("heads"),
          .ffn = r.param("bert.encoder.layer.0.intermediate.dense.weight").size(0),
          .positions = r.param("bert.embeddings.position_embeddings.weight").size(0)};
}

}  // namespace

std::optional<Subject> bert_subject(const Reference& r, Rng& rng) {
  if (r.name != "bert") return std::nullopt;
  auto m = std::make_shared<models::Bert>(options_of(r), rng);
  nn::load_state_dict(*m, r.parameters);
  nn::set_training(*m, false);
  Subject s{nn::named_parameters(*m), [m](const Inputs& x) {
              // The inputs are tokens, a mask of real tokens (1, padding 0), and segments.
              const auto y = (*m)({x[0], x[2], nn::Mask::keys(ne(x[1], 0))});
              return Inputs{y.words, y.next};
            }};
  s.loss = [](const Inputs& y, const Inputs& t) {
    return cross_entropy(flatten(y[0], 0, 1), flatten(t[0])) + cross_entropy(y[1], t[1]);
  };
  return s;
}

}  // namespace tern::parity
