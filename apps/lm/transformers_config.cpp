#include "tern/apps/lm/transformers_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tern/apps/common/json_config.h"
#include "tern/apps/lm/family.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"

namespace tern::apps::lm {
namespace {

using nlohmann::json;

/// Error unless a key is missing or has this value.
template <class T>
void only(const json& j, const char* key, const T& wanted) {
  const T value = value_or(j, key, wanted);
  check(value == wanted, "{} is {}; only {} is known", key, json(value).dump(),
        json(wanted).dump());
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
  c.vocab = value_or<int64_t>(j, "vocab_size", 50257);
  c.context = value_or<int64_t>(j, "n_positions", 1024);
  c.dim = value_or<int64_t>(j, "n_embd", 768);
  c.layers = value_or<int64_t>(j, "n_layer", 12);
  c.heads = value_or<int64_t>(j, "n_head", 12);
  c.ffn = value_or<int64_t>(j, "n_inner", 0);
  c.dropout = value_or<double>(j, "resid_pdrop", 0.1);
  c.eps = value_or<double>(j, "layer_norm_epsilon", 1e-5);
  c.tie = value_or<bool>(j, "tie_word_embeddings", true);
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
  c.vocab = value_or<int64_t>(j, "vocab_size", 32000);
  c.context = value_or<int64_t>(j, "max_position_embeddings", 2048);
  c.dim = value_or<int64_t>(j, "hidden_size", 4096);
  c.layers = value_or<int64_t>(j, "num_hidden_layers", 32);
  c.heads = value_or<int64_t>(j, "num_attention_heads", 32);
  c.kv_heads = value_or<int64_t>(j, "num_key_value_heads", 0);
  c.ffn = value_or<int64_t>(j, "intermediate_size", 11008);
  c.dropout = value_or<double>(j, "attention_dropout", 0);
  c.eps = value_or<double>(j, "rms_norm_eps", 1e-6);
  c.tie = value_or<bool>(j, "tie_word_embeddings", false);
  c.bias = value_or<bool>(j, "attention_bias", false);
  check(value_or<bool>(j, "mlp_bias", false) == c.bias,
        "attention_bias is {} and mlp_bias is not; biases are everywhere or nowhere", c.bias);
  c.rope_base = rope_base(j);
  check(c.heads > 0, "num_attention_heads is {}", c.heads);
  only(j, "head_dim", c.dim / c.heads);
  return c;
}

json to_gpt2(const ModelConfig& c) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"vocab_size", c.vocab},
          {"n_positions", c.context},
          {"n_embd", c.dim},
          {"n_layer", c.layers},
          {"n_head", c.heads},
          {"n_inner", c.ffn ? json(c.ffn) : json()},
          {"embd_pdrop", c.dropout},
          {"attn_pdrop", c.dropout},
          {"resid_pdrop", c.dropout},
          {"layer_norm_epsilon", c.eps},
          {"tie_word_embeddings", c.tie}};
}

json to_llama(const ModelConfig& c) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_act", "silu"},
          {"vocab_size", c.vocab},
          {"max_position_embeddings", c.context},
          {"hidden_size", c.dim},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads ? c.kv_heads : c.heads},
          {"intermediate_size", c.ffn},
          {"attention_dropout", c.dropout},
          {"rms_norm_eps", c.eps},
          {"tie_word_embeddings", c.tie},
          {"attention_bias", c.bias},
          {"mlp_bias", c.bias},
          {"rope_theta", c.rope_base},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", c.rope_base}}}};
}

}  // namespace

ModelConfig sizes_from_transformers(const std::string& text) {
  try {
    const json j = parse_json(text);
    const auto kind = value_or<std::string>(j, "model_type", "none");
    check(kind == "gpt2" || kind == "llama", "model_type is {}; gpt2 and llama are known", kind);
    ModelConfig c = kind == "gpt2" ? from_gpt2(j) : from_llama(j);
    check_sizes(c);
    return c;
  } catch (const json::exception& e) {
    fail(fmt::format("it cannot be read: {}", e.what()));
  }
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

}  // namespace tern::apps::lm
