// Loading of weights with transformers' names: old buffers, tied heads, and the names and stacked
// matrices of Phi-3 and GPT-NeoX.
#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "tern/core/base/reading.h"
#include "tern/core/io/tensor_file.h"
#include "tern/models/gpt.h"
#include "tern/nn/unfilled.h"

namespace tern::models {
namespace {

/// Fixed tables that old versions of transformers saved too.
bool is_old_buffer(const std::string& name, const Tensor& t) {
  const bool attention =
      name.find(".attn.") != std::string::npos || name.find(".attention.") != std::string::npos;
  const bool mask = attention && name.ends_with(".bias") && t.ndim() == 4;
  return mask || (attention && name.ends_with(".masked_bias")) ||
         name.ends_with(".rotary_emb.inv_freq");
}

/// Replaces the first `from` in the name.
bool replace(std::string& name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  if (at == std::string::npos) return false;
  name.replace(at, from.size(), to);
  return true;
}

/// A name of GPT-NeoX, or of its layers, as Llama's.
std::string from_neox(std::string name) {
  replace(name, "gpt_neox.", "");
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"embed_in.", "embed_tokens."},           {"embed_out.", "lm_head."},
      {"final_layer_norm.", "norm."},           {".attention.dense.", ".self_attn.o_proj."},
      {".mlp.dense_h_to_4h.", ".mlp.up_proj."}, {".mlp.dense_4h_to_h.", ".mlp.down_proj."},
  };
  for (const auto& [from, to] : kNames)
    if (replace(name, from, to)) break;
  return name;
}

/// Several layers in one matrix or bias: their names in place of `joint`, and how many rows each
/// has. The rows lie below each other, or for each head the rows of all layers follow each other.
struct Stack {
  std::string_view joint;
  std::vector<std::string_view> parts;
  std::vector<int64_t> rows;
  int64_t heads = 1;
};

/// Appends the layers of a stack to `out`, in memory of their own. False if the name or the shape
/// is another one.
bool unstack(const Stack& s, const std::string& name, const Tensor& t, NamedTensors& out) {
  const int64_t all = std::accumulate(s.rows.begin(), s.rows.end(), int64_t{0});
  if (name.find(s.joint) == std::string::npos || t.ndim() < 1 || t.size(0) != all) return false;
  const Tensor heads = unflatten(t, 0, {s.heads, -1});
  int64_t first = 0;
  for (size_t i = 0; i < s.parts.size(); ++i) {
    std::string part = name;
    replace(part, s.joint, s.parts[i]);
    const int64_t rows = s.rows[i] / s.heads;
    out.emplace_back(part, flatten(narrow(heads, 1, first, rows), 0, 1).clone());
    first += rows;
  }
  return true;
}

/// Phi-3's and GPT-NeoX's stacks.
std::vector<Stack> stacks_of(const GptOptions& o) {
  const int64_t q = o.heads * o.head_channels();
  const int64_t kv = (o.kv_heads ? o.kv_heads : o.heads) * o.head_channels();
  const int64_t ffn = o.ffn_dim ? o.ffn_dim : 4 * o.dim;
  return {{".qkv_proj.", {".q_proj.", ".k_proj.", ".v_proj."}, {q, kv, kv}},
          {".gate_up_proj.", {".gate_proj.", ".up_proj."}, {ffn, ffn}},
          {".attention.query_key_value.",
           {".self_attn.q_proj.", ".self_attn.k_proj.", ".self_attn.v_proj."},
           {q, q, q},
           o.heads}};
}

/// The state with the model's names.
NamedTensors named_as(const GptOptions& o, NamedTensors state) {
  const bool gpt2 = o.names == GptNames::gpt2;
  const std::string prefix = gpt2 ? "transformer." : "model.";
  const bool neox = !gpt2 && std::ranges::any_of(state, [](const auto& entry) {
    return entry.first.find(".attention.query_key_value.") != std::string::npos ||
           entry.first.find("embed_in.") != std::string::npos;
  });
  const std::vector<Stack> stacks = gpt2 ? std::vector<Stack>{} : stacks_of(o);
  NamedTensors out;
  for (auto& [name, taken] : state) {
    const Tensor t = std::move(taken);  // a stack is freed as soon as it is split
    if (is_old_buffer(name, t)) continue;
    const std::string today = neox ? from_neox(name) : name;
    const bool whole = today.starts_with(prefix) || today.starts_with("lm_head.");
    const std::string full = whole ? today : prefix + today;
    const bool stacked =
        std::ranges::any_of(stacks, [&](const Stack& s) { return unstack(s, full, t, out); });
    if (!stacked) out.emplace_back(full, t);
  }
  return out;
}

/// Removes the head if it equals the table; otherwise refuses the file.
void drop_tied_head(NamedTensors& state) {
  auto find = [&](bool (*is)(std::string_view)) {
    return std::ranges::find_if(state, [=](const auto& entry) { return is(entry.first); });
  };
  const auto head = find(is_gpt_head), table = find(is_gpt_table);
  if (head == state.end() || table == state.end()) return;
  check_tied(table->second, head->second);
  state.erase(head);
}

}  // namespace

void load_gpt_state(NamedTensors state, Gpt& model) {
  NamedTensors named = named_as(model.options, std::move(state));
  if (model.options.tie_head) drop_tied_head(named);
  nn::load_state_dict(model, named, {.take = true});
}

bool is_gpt_table(std::string_view name) {
  return name.ends_with("wte.weight") || name.ends_with("embed_tokens.weight") ||
         name.ends_with("embed_in.weight");
}

bool is_gpt_head(std::string_view name) {
  return name.ends_with("lm_head.weight") || name.ends_with("embed_out.weight");
}

void check_tied(const Tensor& table, const Tensor& head) {
  check(
      head.shape() == table.shape() && all_close(head, table, 0, 0),
      "load_gpt_weights: lm_head.weight differs from the embeddings, but the model uses one table "
      "for both; make it with .tie_head = false");
}

int64_t gpt_layer_of(std::string_view name) {
  for (const std::string_view list : {"layers.", "h."}) {
    size_t at = name.find(list);
    if (at == name.npos || (at > 0 && name[at - 1] != '.')) continue;
    at += list.size();
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), layer);
    if (error == std::errc() && end != name.data() + name.size() && *end == '.' && layer >= 0)
      return layer;
  }
  return -1;
}

void load_gpt_layer(NamedTensors state, Gpt& model, int64_t layer) {
  const bool gpt2 = model.options.names == GptNames::gpt2;
  const std::string prefix = fmt::format("{}.{}.", gpt2 ? "transformer.h" : "model.layers", layer);
  NamedTensors named = named_as(model.options, std::move(state));
  for (auto& [name, t] : named)
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  nn::load_state_dict(model.body.blocks.at(static_cast<size_t>(layer)), named, {.take = true});
}

Gpt gpt_from(const GptOptions& options, NamedTensors state) {
  Rng rng(0);
  Gpt model = nn::unfilled([&] { return Gpt(options, rng); });
  load_gpt_state(std::move(state), model);
  nn::set_training(model, false);
  return model;
}

void load_gpt_weights(const std::string& path, Gpt& model) {
  SafeTensors file = load_tensors(path);
  reading(path, [&] { load_gpt_state(std::move(file.tensors), model); });
}

}  // namespace tern::models
