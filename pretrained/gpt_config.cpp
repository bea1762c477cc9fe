// Reads and writes config.json of causal language models, and refuses every option that would
// change results.
#include "tern/pretrained/gpt_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"
#include "tern/core/io/json_value.h"
#include "tern/models/config_json.h"

namespace tern::pretrained {
namespace {

using models::GptOptions, models::RopeScaling;
using nlohmann::json;
using namespace models::config_json;

/// Calls visit(member, value, default of transformers) for members that have another name in tern.
void gpt2_members(auto& o, auto&& visit) {
  visit("vocab_size", o.vocab, 50257);
  visit("n_positions", o.context, 1024);
  visit("n_embd", o.dim, 768);
  visit("n_layer", o.layers, 12);
  visit("n_head", o.heads, 12);
  visit("resid_pdrop", o.dropout, 0.1);
  visit("layer_norm_epsilon", o.eps, 1e-5);
  visit("tie_word_embeddings", o.tie_head, true);
}

/// The same for models that have Llama's form, with the defaults of one of them.
struct LlamaDefaults {
  const char* family;
  int64_t vocab, context, dim, layers, heads, kv_heads, ffn;
  double eps = 1e-6;
  bool qkv_bias = false, qk_norm = false;
  int64_t head_dim = 0, window = 0;
  bool tie_head = false;
  double rope_base = 1e4;
};
constexpr LlamaDefaults kLlama[] = {
    {"gemma3_text", 262208, 131072, 2304, 26, 8, 4, 9216, 1e-6, false, true, 256, 4096, true, 1e6},
    {"llama", 32000, 2048, 4096, 32, 32, 0, 11008},
    {"mistral", 32000, 131072, 4096, 32, 32, 8, 14336, 1e-6, false, false, 0, 4096},
    {"phi3", 32064, 4096, 3072, 32, 32, 0, 8192, 1e-5},
    {"qwen2", 151936, 32768, 4096, 32, 32, 32, 22016, 1e-6, true, false, 0, 4096},
    {"qwen3", 151936, 32768, 4096, 32, 32, 32, 22016, 1e-6, false, true, 128, 4096},
    {"smollm3", 128256, 32768, 2048, 36, 16, 4, 11008, 1e-6, false, false, 0, 0, true, 2e6},
};

void llama_members(auto& o, const LlamaDefaults& d, auto&& visit) {
  visit("vocab_size", o.vocab, d.vocab);
  visit("max_position_embeddings", o.context, d.context);
  visit("hidden_size", o.dim, d.dim);
  visit("num_hidden_layers", o.layers, d.layers);
  visit("num_attention_heads", o.heads, d.heads);
  visit("num_key_value_heads", o.kv_heads, d.kv_heads);
  visit("intermediate_size", o.ffn_dim, d.ffn);
  visit("rms_norm_eps", o.eps, d.eps);
  visit("tie_word_embeddings", o.tie_head, d.tie_head);
}

bool is_gemma(const LlamaDefaults& d) { return d.family == std::string_view("gemma3_text"); }

nn::Bias bias_of(bool yes) { return yes ? nn::Bias::yes : nn::Bias::no; }

/// Where dropout stands that is not attention's. Of transformers' models in Llama's form only Phi-3
/// has it. tern's own have it too, under names that transformers and others ignore.
struct DropoutNames {
  const char *residual, *embedding;
};
DropoutNames dropout_names(const LlamaDefaults& d) {
  if (d.family == std::string_view("phi3")) return {"resid_pdrop", "embd_pdrop"};
  return {"tern_resid_pdrop", "tern_embd_pdrop"};
}

/// Left to `dropout` where they are the same: who changes it later means all.
void set_dropouts(GptOptions& o, double residual, double embed, double attention) {
  o.dropout = residual;
  if (embed != residual) o.embed_dropout = embed;
  if (attention != residual) o.attention_dropout = attention;
}

GptOptions from_gpt2(const JsonValue& j) {
  // n_ctx is the old name of n_positions; transformers does not read it.
  j.ignore(
      "is_decoder n_ctx summary_activation summary_first_dropout summary_proj_to_labels "
      "summary_type summary_use_proj");
  only(j, "scale_attn_weights", true);
  only(j, "scale_attn_by_inverse_layer_idx", false);
  if (j.get("activation_function", "") != "gelu_pytorch_tanh")
    only(j, "activation_function", "gelu_new");
  GptOptions o;
  gpt2_members(o, member_reader(j));
  set_dropouts(o, o.dropout, j.get("embd_pdrop", 0.1), j.get("attn_pdrop", 0.1));
  o.ffn_dim = j.get("n_inner", int64_t{0});
  return o;
}

using Scaling = RopeScaling::Kind;
constexpr std::pair<const char*, Scaling> kScalings[] = {
    {"default", Scaling::none},      {"linear", Scaling::linear},
    {"llama3", Scaling::llama3},     {"yarn", Scaling::yarn},
    {"longrope", Scaling::longrope}, {"su", Scaling::longrope}};  // of 2024

std::vector<double> numbers(const JsonValue& list) {
  std::vector<double> out;
  for (const JsonValue& v : list.elements()) out.push_back(v.number());
  return out;
}

/// Scaled rotary positions. Until 2024 the member rope_type was called type. `original` is the
/// original context if it stands outside of `rope`, or 0.
RopeScaling scaling_of(const JsonValue& rope, int64_t original, const GptOptions& o) {
  const std::string type = rope.get("rope_type", rope.get("type", "default"));
  if (rope.has("rope_type")) rope.ignore("type");
  RopeScaling s;
  const auto* known = std::ranges::find(kScalings, type, [](const auto& k) { return k.first; });
  if (known == std::end(kScalings))
    rope.find(rope.has("rope_type") ? "rope_type" : "type")
        .fail(fmt::format("it is \"{}\"; default, linear, llama3, yarn and longrope are known",
                          type));
  s.kind = known->second;
  if (s.kind == Scaling::none) return s;
  if (s.kind != Scaling::linear) {
    const JsonValue inside = rope.find("original_max_position_embeddings");
    s.original_context = original ? original : inside.is_null() ? o.context : inside.integer(1);
  }
  const bool computed = s.kind == Scaling::yarn || s.kind == Scaling::longrope;
  s.factor = computed && !rope.has("factor")
                 ? static_cast<double>(o.context) / static_cast<double>(s.original_context)
                 : rope.at("factor").number();
  if (s.kind == Scaling::llama3) {
    s.low_freq_factor = rope.at("low_freq_factor").number();
    s.high_freq_factor = rope.at("high_freq_factor").number();
  } else if (s.kind == Scaling::yarn) {
    s.beta_fast = rope.get("beta_fast", s.beta_fast);
    s.beta_slow = rope.get("beta_slow", s.beta_slow);
    s.truncate = rope.get("truncate", true);
  } else if (s.kind == Scaling::longrope) {
    s.shorter = numbers(rope.at("short_factor"));
    s.longer = numbers(rope.at("long_factor"));
  }
  if (const JsonValue given = rope.find("attention_factor"); computed && !given.is_null())
    s.attention_factor = given.number();
  return s;
}

/// The number of the member, which must not contradict `before`, that of an older name.
double renamed(const JsonValue& j, const char* old, const char* name, double otherwise) {
  const double before = j.get(old, otherwise), now = j.get(name, before);
  if (now != before && j.has(old)) j.find(name).fail(fmt::format("it contradicts {}", old));
  return now;
}

/// transformers 5 writes rope_parameters, earlier versions rope_theta and rope_scaling. GPT-NeoX
/// has other names for two members; transformers 4.47 writes both. If layers with a window have
/// positions of their own, rope_parameters has two sets.
void read_rope(const JsonValue& j, const char* base, const char* share, GptOptions& o) {
  o.rope_base = renamed(j, base, "rope_theta", o.rope_base);
  o.rotary_share = renamed(j, share, "partial_rotary_factor", o.rotary_share);
  const int64_t original = j.get("original_max_position_embeddings", int64_t{0});  // Phi-3's place
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    JsonValue rope = j.find(key);
    if (rope.is_null()) continue;
    if (o.window_rope_base > 0 && rope.has("sliding_attention")) {
      const JsonValue windowed = rope.find("sliding_attention");
      only(windowed, "rope_type", "default");
      o.window_rope_base = windowed.get("rope_theta", o.window_rope_base);
      rope = rope.at("full_attention");
    }
    o.rope_scaling = scaling_of(rope, original, o);
    o.rotary_share = rope.get("partial_rotary_factor", o.rotary_share);
    o.rope_base = rope.get("rope_theta", o.rope_base);
  }
}

/// Whether a layer attends only to a window.
bool is_windowed(const JsonValue& type) {
  const std::string& text = type.text();
  if (text != "full_attention" && text != "sliding_attention") type.fail(text + " is not known");
  return text == "sliding_attention";
}

/// Sliding windows of all layers; in a Qwen only of the layers from max_window_layers on, in a
/// Gemma of all but every sixth one, in a SmolLM3 of those without rotary positions.
void read_window(const JsonValue& j, const LlamaDefaults& d, GptOptions& o) {
  const bool qwen = std::string_view(d.family).starts_with("qwen");
  const JsonValue given = j.find("sliding_window");
  // Qwens have the member, but use it only on request, as SmolLM3. A null means no window.
  const bool used = j.get("use_sliding_window", !qwen && d.family != std::string_view("smollm3"));
  const int64_t size =
      given.is_null() ? (j.has("sliding_window") ? 0 : d.window) : given.integer(1);
  const int64_t first = j.get("max_window_layers", qwen ? int64_t{28} : int64_t{0});
  const int64_t cycle = is_gemma(d) ? j.get("sliding_window_pattern", int64_t{6}) : o.layers + 1;
  check(cycle > 0, "sliding_window_pattern is {}", cycle);
  const JsonValue types = j.find("layer_types");
  // A window of the whole context still decides the positions of a Gemma's layer.
  if (!used || size == 0 || (size >= o.context && !is_gemma(d))) {
    if (!types.is_null())
      for (const JsonValue& type : types.elements())
        if (is_windowed(type) && size < o.context) type.fail("there is no window");
    o.window_rope_base = 0;
    return;
  }
  if (d.family == std::string_view("llama"))
    given.fail("transformers' Llama ignores it; write null, or the model_type mistral");
  o.window = size;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    const auto i = static_cast<size_t>(layer);
    const bool usual =
        o.rotary_layers.empty() ? layer >= first && (layer + 1) % cycle != 0 : !o.rotary_layers[i];
    o.window_layers.push_back(types.is_null() ? usual : is_windowed(types.at(i)));
  }
}

/// Layers without rotary positions: the members with 0 of a list; by default every fourth layer.
void read_unturned_layers(const JsonValue& j, GptOptions& o) {
  const JsonValue turned = j.find("no_rope_layers");
  const int64_t interval = j.get("no_rope_layer_interval", int64_t{4});
  check(interval > 0, "no_rope_layer_interval is {}", interval);
  for (int64_t layer = 0; layer < o.layers; ++layer)
    o.rotary_layers.push_back(turned.is_null()
                                  ? (layer + 1) % interval != 0
                                  : turned.at(static_cast<size_t>(layer)).integer(0, 1) == 1);
}

/// What distinguishes a Gemma 3 from the others; see models/gpt.h.
void read_gemma(const JsonValue& j, GptOptions& o) {
  only(j, "hidden_activation", "gelu_pytorch_tanh");
  only(j, "use_bidirectional_attention", false);
  only_empty(j, {"attn_logit_softcapping", "final_logit_softcapping"});
  j.ignore("_sliding_window_pattern");  // transformers writes it beside layer_types
  o.ffn = models::GptFfn::geglu;
  o.post_norms = true;
  o.norm_offset = 1;
  o.embed_scale = std::sqrt(static_cast<double>(o.dim));
  o.window_rope_base = j.get("rope_local_base_freq", 1e4);
}

GptOptions from_llama(const JsonValue& j, const LlamaDefaults& d) {
  GptOptions o = models::llama_form();
  llama_members(o, d, member_reader(j));
  o.rope_base = d.rope_base;
  if (is_gemma(d))
    read_gemma(j, o);
  else if (j.get("hidden_act", "") != "swish")
    only(j, "hidden_act", "silu");
  o.bias = bias_of(j.get("mlp_bias", false));
  const bool attention = j.get("attention_bias", false);
  o.qkv_bias = bias_of(attention || d.qkv_bias);
  o.out_bias = bias_of(attention);
  o.qk_norm = d.qk_norm;
  o.head_dim = j.get("head_dim", d.head_dim);
  if (is_gemma(d) && j.get("query_pre_attn_scalar", 256.0) != static_cast<double>(o.head_dim))
    j.find("query_pre_attn_scalar").fail(fmt::format("only head_dim, {}, is known", o.head_dim));
  if (o.heads > 0 && o.head_dim == o.dim / o.heads) o.head_dim = 0;
  const DropoutNames names = dropout_names(d);
  set_dropouts(o, j.get(names.residual, 0.0), j.get(names.embedding, 0.0),
               j.get("attention_dropout", 0.0));
  if (d.family == std::string_view("smollm3")) read_unturned_layers(j, o);
  read_rope(j, "rope_theta", "partial_rotary_factor", o);
  read_window(j, d, o);
  return o;
}

GptOptions from_neox(const JsonValue& j) {
  GptOptions o = models::llama_form();
  o.norm = models::GptNorm::layer;
  o.vocab = j.get("vocab_size", int64_t{50432});
  o.context = j.get("max_position_embeddings", int64_t{2048});
  o.dim = j.get("hidden_size", int64_t{6144});
  o.layers = j.get("num_hidden_layers", int64_t{44});
  o.heads = j.get("num_attention_heads", int64_t{64});
  o.ffn_dim = j.get("intermediate_size", int64_t{24576});
  o.dropout = j.get("hidden_dropout", 0.0);
  o.attention_dropout = j.get("attention_dropout", 0.0);
  o.eps = j.get("layer_norm_eps", 1e-5);
  o.tie_head = j.get("tie_word_embeddings", false);
  o.parallel = j.get("use_parallel_residual", true);
  const std::string act = j.get("hidden_act", "gelu");
  const bool tanh = act == "gelu_new" || act == "gelu_pytorch_tanh" || act == "gelu_fast";
  if (!tanh) only(j, "hidden_act", "gelu");
  o.ffn = tanh ? models::GptFfn::gelu : models::GptFfn::gelu_erf;
  o.bias = nn::Bias::yes;
  o.qkv_bias = o.out_bias = bias_of(j.get("attention_bias", true));
  j.ignore("is_decoder");
  o.rotary_share = 0.25;
  read_rope(j, "rotary_emb_base", "rotary_pct", o);
  return o;
}

const LlamaDefaults* find_llama(const std::string& family) {
  for (const LlamaDefaults& d : kLlama)
    if (family == d.family) return &d;
  return nullptr;
}

json to_gpt2(const GptOptions& o) {
  json j = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"activation_function", "gelu_new"},
            {"n_inner", o.ffn_dim ? json(o.ffn_dim) : json()},
            {"embd_pdrop", o.embed_dropout.value_or(o.dropout)},
            {"attn_pdrop", o.attention_dropout.value_or(o.dropout)}};
  gpt2_members(o, member_writer(j));
  return j;
}

json rope_of(const GptOptions& o) {
  json rope = {{"rope_type", "default"}, {"rope_theta", o.rope_base}};
  const RopeScaling& s = o.rope_scaling;
  if (s.kind == Scaling::none) return rope;
  rope["rope_type"] =
      std::ranges::find(kScalings, s.kind, [](const auto& known) { return known.second; })->first;
  rope["factor"] = s.factor;
  if (s.kind == Scaling::linear) return rope;
  rope["original_max_position_embeddings"] = s.original_context;
  if (s.attention_factor) rope["attention_factor"] = *s.attention_factor;
  if (s.kind == Scaling::llama3)
    rope.update({{"low_freq_factor", s.low_freq_factor}, {"high_freq_factor", s.high_freq_factor}});
  else if (s.kind == Scaling::yarn)
    rope.update({{"beta_fast", s.beta_fast}, {"beta_slow", s.beta_slow}, {"truncate", s.truncate}});
  else
    rope.update({{"short_factor", s.shorter}, {"long_factor", s.longer}});
  return rope;
}

/// Of the families that are written, the only one that may have these options; its architecture.
std::pair<std::string, std::string> llama_kind(const GptOptions& o) {
  const bool every = std::ranges::count(o.window_layers, false) == 0;
  if (o.ffn == models::GptFfn::geglu) return {"gemma3_text", "Gemma3ForCausalLM"};
  if (o.qk_norm) return {"qwen3", "Qwen3ForCausalLM"};
  if (o.qkv_bias.value_or(o.bias) != o.out_bias.value_or(o.bias) || !every)
    return {"qwen2", "Qwen2ForCausalLM"};
  if (o.window > 0) return {"mistral", "MistralForCausalLM"};
  return {"llama", "LlamaForCausalLM"};
}

json to_llama(const GptOptions& o, const std::pair<std::string, std::string>& kind) {
  const auto& [family, architecture] = kind;
  json j = {{"architectures", {architecture}},
            {"model_type", family},
            {"rope_theta", o.rope_base},
            {"rope_parameters", rope_of(o)}};
  const LlamaDefaults& d = *find_llama(family);
  llama_members(o, d, member_writer(j));
  j["attention_dropout"] = o.attention_dropout.value_or(o.dropout);
  if (const double embed = o.embed_dropout.value_or(o.dropout); o.dropout != 0 || embed != 0) {
    const DropoutNames names = dropout_names(d);
    j[names.residual] = o.dropout;
    j[names.embedding] = embed;
  }
  j["intermediate_size"] = o.ffn_dim ? o.ffn_dim : 4 * o.dim;
  if (o.kv_heads == 0) j["num_key_value_heads"] = o.heads;
  if (o.head_dim || d.head_dim) j["head_dim"] = o.head_channels();
  if (o.rope_scaling.kind != Scaling::none) j["rope_scaling"] = rope_of(o);
  if (family == "llama") j["mlp_bias"] = o.bias == nn::Bias::yes;
  if (is_gemma(d)) {
    j["hidden_activation"] = "gelu_pytorch_tanh";
    j["query_pre_attn_scalar"] = o.head_channels();
    j["rope_local_base_freq"] = o.window_rope_base;
    j["rope_parameters"] = {
        {"full_attention", rope_of(o)},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", o.window_rope_base}}}};
  } else {
    j["hidden_act"] = "silu";
  }
  if (family == "llama" || family == "qwen3" || is_gemma(d))
    j["attention_bias"] = o.out_bias.value_or(o.bias) == nn::Bias::yes;
  if (o.window == 0) return j;
  j["sliding_window"] = o.window;
  if (family == "mistral") return j;
  if (!is_gemma(d)) j["use_sliding_window"] = true;
  j["layer_types"] = json::array();
  for (int64_t i = 0; i < o.layers; ++i)
    j["layer_types"].push_back(o.window_layers.empty() || o.window_layers[i] ? "sliding_attention"
                                                                             : "full_attention");
  return j;
}

/// All that decides what a model computes, in training too: equal for options of the same model.
auto meaning(const GptOptions& o) {
  std::vector<std::tuple<bool, int64_t, double>> layers;  // whether turned, window, base
  for (size_t i = 0; i < static_cast<size_t>(o.layers); ++i) {
    const bool turned = o.rotary_layers.empty() || o.rotary_layers[i];
    const bool windowed = o.window > 0 && (o.window_layers.empty() || o.window_layers[i]);
    layers.emplace_back(turned, windowed ? std::min(o.window, o.context) : o.context,
                        windowed ? o.window_rope_base : 0);
  }
  return std::tuple(o.vocab, o.context, o.dim, o.heads, o.kv_heads ? o.kv_heads : o.heads,
                    o.head_channels(), o.ffn_dim ? o.ffn_dim : 4 * o.dim, o.dropout,
                    o.embed_dropout.value_or(o.dropout), o.attention_dropout.value_or(o.dropout),
                    o.names, o.positions, o.norm, o.ffn, o.bias, o.qkv_bias.value_or(o.bias),
                    o.out_bias.value_or(o.bias), o.tie_head, o.eps, o.norm_offset, o.qk_norm,
                    o.parallel, o.post_norms, o.embed_scale, rope_of(o), o.rotary_share, layers);
}

}  // namespace

std::vector<int64_t> end_tokens(const std::string& text) {
  const JsonDocument file(text);
  const JsonValue end = file.root().find("eos_token_id");
  if (end.is_null()) return {};
  return end.is_list() ? end.integers() : std::vector<int64_t>{end.integer()};
}

std::vector<std::string> generation_settings(const std::string& text) {
  // clang-format off
  static const std::set<std::string_view> kHarmless = {"_commit_hash", "_from_model_config",
      "bos_token_id", "cache_config", "cache_implementation", "compile_config",
      "decoder_start_token_id", "disable_compile", "do_sample", "early_stopping", "eos_token_id",
      "is_assistant", "length_penalty", "low_memory", "max_cache_len", "max_length",
      "max_new_tokens", "max_time", "num_return_sequences", "output_attentions",
      "output_hidden_states", "output_logits", "output_scores", "pad_token_id",
      "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values",
      "renormalize_logits", "return_dict_in_generate", "transformers_version", "use_cache",
      "use_mtp"};
  // clang-format on
  // Without do_sample transformers does not use them.
  static const std::set<std::string_view> kSampling = {"temperature",    "top_k",     "top_p",
                                                       "min_p",          "top_h",     "typical_p",
                                                       "epsilon_cutoff", "eta_cutoff"};
  // A 1 of these members changes nothing; of all others 0, false and an empty list.
  static const std::set<std::string_view> kFactors = {
      "repetition_penalty", "encoder_repetition_penalty",
      "guidance_scale",     "num_beams",
      "num_beam_groups",    "top_p",
      "typical_p"};
  const json j = parse_json(text);
  check(j.is_object(), "expected an object");
  const bool samples = j.value("do_sample", json()) == json(true);
  std::vector<std::string> settings;
  for (const auto& member : j.items()) {
    const auto& [name, value] =
        std::pair<std::string_view, const json&>(member.key(), member.value());
    const bool unused = kHarmless.contains(name) || (kSampling.contains(name) && !samples) ||
                        name.starts_with("assistant_") || name.starts_with("num_assistant_");
    const bool nothing = value.is_null() || value == json(false) || value == json::array() ||
                         (value.is_number() && value == json(kFactors.contains(name) ? 1 : 0));
    if (!unused && !nothing)
      settings.push_back(fmt::format("{} {}", name, value.dump().substr(0, 60)));
  }
  return settings;
}

std::string model_type(const std::string& text) {
  return JsonDocument(text).root().get("model_type", "none");
}

GptConfig read_gpt_config(const std::string& text) {
  const JsonDocument file(text);
  const JsonValue j = file.root();
  GptConfig c;
  c.family = j.get("model_type", "none");
  c.ends = end_tokens(text);
  ignore_harmless(j);
  if (c.family == "gpt2")
    c.options = from_gpt2(j);
  else if (c.family == "gpt_neox")
    c.options = from_neox(j);
  else if (const LlamaDefaults* d = find_llama(c.family))
    c.options = from_llama(j, *d);
  else
    fail(fmt::format(
        "model_type is {}; gemma3_text, gpt2, gpt_neox, llama, mistral, phi3, qwen2, qwen3 and "
        "smollm3 are known",
        c.family));
  models::check_options(c.options);
  c.unknown = file.refuse_unread_inside();
  return c;
}

std::string with_dropout(const std::string& text, double dropout) {
  json j = parse_json(text);
  const std::string family = model_type(text);
  std::vector<const char*> names = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
  if (family == "gpt_neox")
    names = {"hidden_dropout", "attention_dropout"};
  else if (const LlamaDefaults* d = find_llama(family))
    names = {dropout_names(*d).residual, dropout_names(*d).embedding, "attention_dropout"};
  for (const char* name : names) j[name] = dropout;
  return j.dump(2) + "\n";
}

std::string with_ends(const std::string& text, const std::vector<int64_t>& ends) {
  json j = parse_json(text);
  j["eos_token_id"] = ends;
  return j.dump(2) + "\n";
}

std::optional<std::string> write_gpt_config(const GptOptions& o, std::optional<int64_t> end) {
  models::check_options(o);
  json j = o.names == models::GptNames::gpt2 ? to_gpt2(o) : to_llama(o, llama_kind(o));
  j["dtype"] = "float32";
  if (end) j["bos_token_id"] = j["eos_token_id"] = *end;
  std::string text = j.dump(2) + "\n";
  try {  // what no family has may not even be readable
    if (meaning(read_gpt_config(text).options) != meaning(o)) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  return text;
}

}  // namespace tern::pretrained
