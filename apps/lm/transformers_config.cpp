#include "tern/apps/lm/transformers_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tern/apps/lm/family.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"

namespace tern::apps::lm {
namespace {

using nlohmann::json;

/// use(the JSON of the text).
template <class Use>
auto read_json(const std::string& text, Use use) {
  try {
    return use(parse_json(text));
  } catch (const json::exception& e) {
    fail(fmt::format("it cannot be read: {}", e.what()));
  }
}

/// The value of a key; `otherwise` where it is missing or null.
template <class T>
T value_or(const json& object, const char* key, const T& otherwise) {
  if constexpr (std::is_same_v<T, int64_t>) return whole_number_or(object, key, otherwise);
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->template get<T>();
}

std::string kind_of(const json& j) { return value_or<std::string>(j, "model_type", "none"); }

/// Error unless a key is missing or has this value.
template <class T>
void only(const json& j, const char* key, const T& wanted) {
  const T value = value_or(j, key, wanted);
  check(value == wanted, "{} is {}; only {} is known", key, json(value).dump(),
        json(wanted).dump());
}

// The members that are ours under another name, each with transformers' default.
void gpt2_members(auto& c, auto&& visit) {
  visit("vocab_size", c.vocab, 50257);
  visit("n_positions", c.context, 1024);
  visit("n_embd", c.dim, 768);
  visit("n_layer", c.layers, 12);
  visit("n_head", c.heads, 12);
  visit("resid_pdrop", c.dropout, 0.1);
  visit("layer_norm_epsilon", c.eps, 1e-5);
  visit("tie_word_embeddings", c.tie, true);
}

void llama_members(auto& c, auto&& visit) {
  visit("vocab_size", c.vocab, 32000);
  visit("max_position_embeddings", c.context, 2048);
  visit("hidden_size", c.dim, 4096);
  visit("num_hidden_layers", c.layers, 32);
  visit("num_attention_heads", c.heads, 32);
  visit("num_key_value_heads", c.kv_heads, 0);
  visit("intermediate_size", c.ffn, 11008);
  visit("attention_dropout", c.dropout, 0.0);
  visit("rms_norm_eps", c.eps, 1e-6);
  visit("tie_word_embeddings", c.tie, false);
  visit("attention_bias", c.bias, false);
}

void bert_members(auto& o, auto&& visit) {
  visit("num_attention_heads", o.heads, 12);
  visit("hidden_dropout_prob", o.dropout, 0.1);
  visit("attention_probs_dropout_prob", o.attention_dropout, 0.1);
  visit("layer_norm_eps", o.eps, 1e-12);
  visit("pad_token_id", o.pad, 0);
}

auto reader(const json& j) {
  return [&j]<class T>(const char* key, T& value, auto otherwise) {
    value = value_or<T>(j, key, static_cast<T>(otherwise));
  };
}

auto writer(json& j) {
  return [&j](const char* key, const auto& value, auto) { j[key] = value; };
}

ModelConfig from_gpt2(const json& j) {
  only(j, "scale_attn_weights", true);
  only(j, "scale_attn_by_inverse_layer_idx", false);
  only(j, "add_cross_attention", false);
  const auto activation = value_or<std::string>(j, "activation_function", "gelu_new");
  check(activation == "gelu_new" || activation == "gelu_pytorch_tanh",
        "activation_function is {}; only gelu_new is known", activation);
  ModelConfig c;
  c.model = "gpt";
  gpt2_members(c, reader(j));
  c.ffn = value_or<int64_t>(j, "n_inner", 0);
  return c;
}

double rope_base(const json& j) {
  json rope = value_or<json>(j, "rope_parameters", json::object());
  if (rope.empty()) rope = value_or<json>(j, "rope_scaling", json::object());
  const auto kind = value_or<std::string>(rope, "rope_type", "default");
  check(kind == "default", "rope_type is {}; only default is known", kind);
  return value_or<double>(rope, "rope_theta", value_or<double>(j, "rope_theta", 1e4));
}

ModelConfig from_llama(const json& j) {
  only<std::string>(j, "hidden_act", "silu");
  ModelConfig c;
  c.model = "llama";
  llama_members(c, reader(j));
  check(value_or<bool>(j, "mlp_bias", false) == c.bias,
        "attention_bias is {} and mlp_bias is not; biases are everywhere or nowhere", c.bias);
  c.rope_base = rope_base(j);
  check(c.heads > 0, "num_attention_heads is {}", c.heads);
  only(j, "head_dim", c.dim / c.heads);
  return c;
}

json to_gpt2(const ModelConfig& c) {
  json j = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"activation_function", "gelu_new"},
            {"n_inner", c.ffn ? json(c.ffn) : json()},
            {"embd_pdrop", c.dropout},
            {"attn_pdrop", c.dropout}};
  gpt2_members(c, writer(j));
  return j;
}

json to_llama(const ModelConfig& c) {
  json j = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"hidden_act", "silu"},
            {"mlp_bias", c.bias},
            {"rope_theta", c.rope_base},
            {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", c.rope_base}}}};
  llama_members(c, writer(j));
  if (c.kv_heads == 0) j["num_key_value_heads"] = c.heads;
  return j;
}

Activation activation_named(const std::string& name) {
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  fail(fmt::format("hidden_act is {}; gelu, gelu_new, relu and silu are known", name));
}

models::BertOptions from_bert(const json& j) {
  const std::string kind = kind_of(j);
  check(kind == kBert, "model_type is {}; a {} is needed", kind, kBert);
  only<std::string>(j, "position_embedding_type", "absolute");
  only(j, "is_decoder", false);
  models::BertOptions o;
  o.activation = activation_named(value_or<std::string>(j, "hidden_act", "gelu"));
  bert_members(o, reader(j));
  check(o.heads > 0 && o.dropout >= 0 && o.dropout < 1 && o.attention_dropout >= 0 &&
            o.attention_dropout < 1 && o.eps > 0 && o.pad >= 0,
        "heads {}, dropouts {} and {}, layer_norm_eps {}, pad_token_id {} cannot be", o.heads,
        o.dropout, o.attention_dropout, o.eps, o.pad);
  return o;
}

}  // namespace

std::string transformers_model(const std::string& text) { return read_json(text, kind_of); }

ModelConfig sizes_from_transformers(const std::string& text) {
  return read_json(text, [](const json& j) {
    const std::string kind = kind_of(j);
    check(kind == "gpt2" || kind == "llama", "model_type is {}; gpt2 and llama are known", kind);
    ModelConfig c = kind == "gpt2" ? from_gpt2(j) : from_llama(j);
    check_sizes(c);
    return c;
  });
}

std::optional<std::string> sizes_to_transformers(const ModelConfig& c, std::optional<int64_t> end) {
  // GPT-2 has as many heads of keys as of queries there.
  const bool gpt2 = c.model == "gpt" && (c.kv_heads == 0 || c.kv_heads == c.heads);
  if (!gpt2 && c.model != "llama") return std::nullopt;
  json j = gpt2 ? to_gpt2(c) : to_llama(c);
  j["dtype"] = "float32";
  if (end) j["bos_token_id"] = j["eos_token_id"] = *end;
  return j.dump(2) + "\n";
}

models::BertOptions bert_from_transformers(const std::string& text) {
  return read_json(text, from_bert);
}

std::string bert_to_transformers(const models::BertOptions& o) {
  json j = {{"architectures", {o.next_sentence ? "BertForPreTraining" : "BertForMaskedLM"}},
            {"model_type", kBert},
            {"dtype", "float32"},
            {"vocab_size", o.vocab},
            {"hidden_size", o.dim},
            {"num_hidden_layers", o.layers},
            {"intermediate_size", o.ffn},
            {"hidden_act", "gelu"},
            {"max_position_embeddings", o.positions},
            {"type_vocab_size", o.segments}};
  bert_members(o, writer(j));
  return j.dump(2) + "\n";
}

datasets::WordPieceOptions pieces_from_transformers(const std::string& text) {
  return read_json(text, [](const json& j) {
    datasets::WordPieceOptions o;
    o.lower = value_or(j, "do_lower_case", true);
    if (const auto strip = j.find("strip_accents"); strip != j.end() && !strip->is_null())
      o.strip_accents = strip->get<bool>();
    o.split_cjk = value_or(j, "tokenize_chinese_chars", true);
    return o;
  });
}

std::string pieces_to_transformers(const datasets::WordPieceOptions& o, int64_t context) {
  const json j = {{"tokenizer_class", "BertTokenizer"},
                  {"do_lower_case", o.lower},
                  {"strip_accents", o.strip_accents ? json(*o.strip_accents) : json()},
                  {"tokenize_chinese_chars", o.split_cjk},
                  {"model_max_length", context}};
  return j.dump(2) + "\n";
}

}  // namespace tern::apps::lm
