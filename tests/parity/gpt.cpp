// The subjects gpt2, llama and llama_tied: models::Gpt in two forms.
#include "tern/models/gpt.h"

#include "tern/tests/parity/subjects.h"

namespace tern::parity {
namespace {

models::GptOptions gpt2_options(const Reference& r) {
  const Tensor& embed = r.param("transformer.wte.weight");
  return {.vocab = embed.size(0),
          .context = r.option("positions"),
          .dim = embed.size(1),
          .layers = r.option("layers"),
          .heads = r.option("heads")};
}

models::GptOptions llama_options(const Reference& r) {
  const Tensor& embed = r.param("model.embed_tokens.weight");
  models::GptOptions o =
      models::llama_form({.vocab = embed.size(0),
                          .context = r.option("context"),
                          .dim = embed.size(1),
                          .layers = r.option("layers"),
                          .heads = r.option("heads"),
                          .kv_heads = r.option("kv_heads"),
                          .ffn_dim = r.param("model.layers.0.mlp.gate_proj.weight").size(0)});
  o.tie_head = r.config.at("tied").get<bool>();
  o.eps = r.config.at("eps").get<double>();
  o.rope_base = r.config.at("rope_base").get<double>();
  return o;
}

}  // namespace

std::optional<Subject> gpt_subject(const Reference& r, Rng& rng) {
  const bool llama = r.name == "llama" || r.name == "llama_tied";
  if (!llama && r.name != "gpt2") return std::nullopt;
  Subject s = make(r, models::Gpt(llama ? llama_options(r) : gpt2_options(r), rng));
  s.loss = token_loss(r);
  return s;
}

}  // namespace tern::parity
