// The subjects, one file per family. A family returns none for a name that it does not know.
#pragma once

#include <memory>

#include "tern/core/base/rng.h"
#include "tern/nn/module.h"
#include "tern/tests/parity/parity.h"

namespace tern::parity {

using Inputs = std::vector<Tensor>;

/// Makes a subject from a model and loads the file's weights; names and shapes must agree.
/// call(model, inputs) returns the output.
template <class M, class Call>
Subject make(const Reference& r, M model, Call call) {
  auto m = std::make_shared<M>(std::move(model));
  nn::load_state_dict(*m, r.parameters);
  nn::set_training(*m, false);
  return {nn::named_parameters(*m), [m, call](const Inputs& x) { return Inputs{call(*m, x)}; }};
}

template <class M>
Subject make(const Reference& r, M model) {
  return make(r, std::move(model), [](const M& m, const Inputs& x) { return m(x[0]); });
}

std::optional<Subject> layer_subject(const Reference& reference, Rng& rng);
std::optional<Subject> recurrent_subject(const Reference& reference, Rng& rng);
std::optional<Subject> attention_subject(const Reference& reference, Rng& rng);
std::optional<Subject> gpt_subject(const Reference& reference, Rng& rng);
std::optional<Subject> bert_subject(const Reference& reference, Rng& rng);

/// Cross entropy of logits (B, T, V) against tokens (B, T), with the file's label smoothing and
/// ignored token.
std::function<Tensor(const Inputs&, const Inputs&)> token_loss(const Reference& reference);

}  // namespace tern::parity
