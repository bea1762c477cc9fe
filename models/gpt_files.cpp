// Named configurations of GPT-2 and Llama, their numbers of weights, and loading of transformers'
// files.
#include <algorithm>

#include "tern/core/base/reading.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/gpt.h"

namespace tern::models {
namespace {

GptOptions smollm() {
  GptOptions o = llama_form({.vocab = 49152,
                             .context = 2048,
                             .dim = 576,
                             .layers = 30,
                             .heads = 9,
                             .kv_heads = 3,
                             .ffn_dim = 1536});
  o.tie_head = true;
  o.eps = 1e-5;
  return o;
}

GptOptions tinyllama() {
  GptOptions o = llama_form({.vocab = 32000,
                             .context = 2048,
                             .dim = 2048,
                             .layers = 22,
                             .heads = 32,
                             .kv_heads = 4,
                             .ffn_dim = 5632});
  o.eps = 1e-5;
  return o;
}

using Configurations = std::vector<std::pair<std::string, GptOptions>>;

const Configurations& known_gpts() {
  static const Configurations kConfigurations = {
      {"gpt2", {}},
      {"gpt2-medium", {.dim = 1024, .layers = 24, .heads = 16}},
      {"gpt2-large", {.dim = 1280, .layers = 36, .heads = 20}},
      {"gpt2-xl", {.dim = 1600, .layers = 48, .heads = 25}},
      {"smollm-135m", smollm()},
      {"tinyllama-1.1b", tinyllama()},
      {"llama-7b", llama_form({.vocab = 32000,
                               .context = 2048,
                               .dim = 4096,
                               .layers = 32,
                               .heads = 32,
                               .ffn_dim = 11008})},
  };
  return kConfigurations;
}

/// Fixed tables that old versions of transformers saved too.
bool is_old_buffer(const std::string& name, const Tensor& t) {
  const bool mask = name.ends_with(".attn.bias") && t.ndim() == 4;
  return mask || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

/// The file's weights with the model's names.
NamedTensors named_as(const GptOptions& o, const SafeTensors& file) {
  const std::string prefix = o.names == GptNames::gpt2 ? "transformer." : "model.";
  NamedTensors out;
  for (const auto& [name, t] : file.tensors) {
    if (is_old_buffer(name, t)) continue;
    const bool whole = name.starts_with(prefix) || name.starts_with("lm_head.");
    out.emplace_back(whole ? name : prefix + name, t);
  }
  return out;
}

/// Removes the head if it equals the table; otherwise refuses the file.
void drop_tied_head(const GptOptions& o, NamedTensors& state) {
  auto find = [&](const std::string& end) {
    return std::find_if(state.begin(), state.end(),
                        [&](const auto& entry) { return entry.first.ends_with(end); });
  };
  const auto head = find("lm_head.weight");
  const auto table = find(o.names == GptNames::gpt2 ? ".wte.weight" : ".embed_tokens.weight");
  if (head == state.end() || table == state.end()) return;
  check(
      head->second.shape() == table->second.shape() && all_close(head->second, table->second, 0, 0),
      "load_gpt_weights: lm_head.weight differs from the embeddings, but the model uses one table "
      "for both; make it with .tie_head = false");
  state.erase(head);
}

}  // namespace

GptOptions gpt_options(const std::string& name) {
  std::string known;
  for (const auto& [n, options] : known_gpts()) {
    if (n == name) return options;
    known += (known.empty() ? "" : ", ") + n;
  }
  fail(fmt::format("gpt: no configuration '{}'; there are {}", name, known));
}

std::vector<std::string> gpt_names() {
  std::vector<std::string> names;
  for (const auto& [name, options] : known_gpts()) names.push_back(name);
  return names;
}

GptOptions llama_form(GptOptions o) {
  o.names = GptNames::llama;
  o.positions = GptPositions::rotary;
  o.norm = GptNorm::rms;
  o.ffn = GptFfn::swiglu;
  o.bias = nn::Bias::no;
  o.tie_head = false;
  o.dropout = 0;
  o.eps = 1e-6;
  return o;
}

int64_t gpt_weights(const GptOptions& o) {
  const int64_t dim = o.dim, ffn = o.ffn_dim ? o.ffn_dim : 4 * dim;
  const int64_t kv = (o.kv_heads ? o.kv_heads : o.heads) * (dim / o.heads);
  const int64_t biased = o.bias == nn::Bias::yes, gated = o.ffn == GptFfn::swiglu;
  auto matrix = [&](int64_t in, int64_t out) { return (in + biased) * out; };
  const int64_t norm = o.norm == GptNorm::rms ? dim : (1 + biased) * dim;
  const int64_t attention = matrix(dim, dim + 2 * kv) + matrix(dim, dim);
  const int64_t mlp = (1 + gated) * matrix(dim, ffn) + matrix(ffn, dim);
  const int64_t tables =
      o.vocab + (o.tie_head ? 0 : o.vocab) + (o.positions == GptPositions::learned ? o.context : 0);
  return tables * dim + o.layers * (2 * norm + attention + mlp) + norm;
}

void load_gpt_weights(const std::string& path, Gpt& model) {
  NamedTensors state = named_as(model.options, load_safetensors(path));
  reading(path, [&] {
    if (model.options.tie_head) drop_tied_head(model.options, state);
    nn::load_state_dict(model, state, {.take = true});
  });
}

}  // namespace tern::models
