// Translates the metadata and tensors of GGUF files to those of transformers. llama.cpp's
// convert_hf_to_gguf.py made them; this is the way back.
#include "tern/pretrained/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/parse_number.h"
#include "tern/core/base/reading.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/unfilled.h"

namespace tern::pretrained {
namespace {

using nlohmann::json;

struct Architecture {
  std::string_view name;
  bool turned;  // llama.cpp stores pairs of rotary channels side by side
};
constexpr Architecture kArchitectures[] = {{"gemma3", false}, {"gpt2", false},  {"llama", true},
                                           {"phi3", false},   {"qwen2", false}, {"qwen3", false},
                                           {"smollm3", true}};

const Architecture& architecture_of(const GgufFile& file) {
  const std::string name = file.text("general.architecture");
  for (const Architecture& a : kArchitectures)
    if (a.name == name) return a;
  fail(
      fmt::format("general.architecture is {}; gemma3, gpt2, llama, phi3, qwen2, qwen3 and smollm3 "
                  "are known",
                  name));
}

struct GgufName {
  std::string_view ggml, transformers;
};

// Names outside of blocks; the ending .weight or .bias stays.
constexpr GgufName kOuter[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr GgufName kOuterGpt2[] = {{"token_embd", "transformer.wte"},
                                   {"position_embd", "transformer.wpe"},
                                   {"output_norm", "transformer.ln_f"},
                                   {"output", "lm_head"}};
// Names in blocks, after "blk.N." and "model.layers.N.".
constexpr GgufName kInner[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
// In place of those above.
constexpr GgufName kInnerGemma3[] = {{"post_attention_norm", "post_attention_layernorm"},
                                     {"ffn_norm", "pre_feedforward_layernorm"},
                                     {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr GgufName kInnerPhi3[] = {
    {"attn_norm", "input_layernorm"},    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},      {"ffn_down", "mlp.down_proj"}};
constexpr GgufName kInnerGpt2[] = {{"attn_norm", "ln_1"},          {"attn_qkv", "attn.c_attn"},
                                   {"attn_output", "attn.c_proj"}, {"ffn_norm", "ln_2"},
                                   {"ffn_up", "mlp.c_fc"},         {"ffn_down", "mlp.c_proj"}};

template <size_t kCount>
std::string_view find_name(const GgufName (&names)[kCount], std::string_view ggml) {
  for (const GgufName& n : names)
    if (n.ggml == ggml) return n.transformers;
  return {};
}

bool is_rotary_table(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
         name == "rope_factors_short.weight";
}

/// "blk.12.attn_q.weight": block "12", part "attn_q", ending ".weight".
struct TensorName {
  std::string_view block, part, ending;
};

TensorName split_name(std::string_view name) {
  TensorName out;
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return out;
  out.ending = name.substr(dot);
  out.part = name.substr(0, dot);
  if (!out.part.starts_with("blk.")) return out;
  out.part.remove_prefix(4);
  const size_t end = out.part.find('.');
  out.block = out.part.substr(0, end);
  out.part = end == out.part.npos ? "" : out.part.substr(end + 1);
  return out;
}

/// GgufFacts of the metadata, whose keys begin with the architecture.
class GgufFacts {
 public:
  explicit GgufFacts(const GgufFile& file)
      : file_(file), prefix_(file.text("general.architecture") + '.') {}
  std::string key(std::string_view member) const { return prefix_ + std::string(member); }
  bool has(std::string_view member) const { return file_.has(key(member)); }
  int64_t integer(std::string_view member) const { return file_.integer(key(member)); }
  int64_t integer(std::string_view member, int64_t otherwise) const {
    return file_.get(key(member), otherwise);
  }
  std::string text(std::string_view member) const { return file_.get(key(member), ""); }
  double number(std::string_view member) const {
    // The shortest decimal of the f32, as config.json has it.
    const std::string text = fmt::format("{}", static_cast<float>(file_.number(key(member))));
    double value = 0;
    tern::detail::parse_number(text.data(), text.data() + text.size(), value);
    return value;
  }
  /// Error if members of this architecture were not read.
  void refuse_unread() const {
    for (const std::string& name : file_.unread())
      check(!name.starts_with(prefix_),
            "it has {}, which tern does not know; it may change what the model computes", name);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

int64_t head_channels(const GgufFacts& m) {
  const int64_t heads = m.integer("attention.head_count");
  check(heads > 0, "{} is {}", m.key("attention.head_count"), heads);
  return m.integer("attention.key_length", m.integer("embedding_length") / heads);
}

/// The factors by which Llama 3 divides the frequencies of rotary positions.
std::vector<float> llama3_factors(double base, int64_t channels, double factor) {
  constexpr double kContext = 8192, kLow = 1, kHigh = 4;  // of all published Llamas
  std::vector<float> factors;
  for (int64_t i = 0; i < channels; i += 2) {
    const double turn = static_cast<double>(i) / static_cast<double>(channels);
    const double length = 2 * std::numbers::pi * std::pow(base, turn);
    const double smooth = (kContext / length - kLow) / (kHigh - kLow);
    const double blended = 1 / ((1 - smooth) / factor + smooth);
    factors.push_back(static_cast<float>(smooth > 1 ? 1 : smooth < 0 ? factor : blended));
  }
  return factors;
}

/// Llama 3's scaling, if it gives the file's table.
json llama3_scaling(const GgufFile& file, double base, int64_t channels) {
  const std::vector<float> table = file.load("rope_freqs.weight").to_vector<float>();
  const double factor = table.empty() ? 1 : table.back();
  const bool same =
      std::ssize(table) == channels / 2 &&  // before memory is taken by `channels`
      std::equal(table.begin(), table.end(), llama3_factors(base, channels, factor).begin(),
                 [](float a, float b) { return std::abs(a - b) <= 1e-4f * b; });
  check(same, "rope_freqs.weight is not the table of a Llama 3: scaled positions are not known");
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 8192}};
}

void add_rotary(const GgufFile& file, const GgufFacts& m, json& config) {
  const double base = m.has("rope.freq_base") ? m.number("rope.freq_base") : 1e4;
  const int64_t channels = head_channels(m), turned = m.integer("rope.dimension_count", channels);
  config["rope_theta"] = base;
  if (turned != channels)
    config["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(channels);
  const std::string type = m.text("rope.scaling.type");
  m.has("rope.scaling.finetuned");  // changes nothing
  if (file.find("rope_freqs.weight")) {
    config["rope_scaling"] = llama3_scaling(file, base, turned);
  } else if (file.find("rope_factors_long.weight")) {
    m.has("rope.scaling.factor");  // the context's share of the original one says the same
    config["rope_scaling"] = {
        {"rope_type", "longrope"},
        {"long_factor", file.load("rope_factors_long.weight").to_vector<float>()},
        {"short_factor", file.load("rope_factors_short.weight").to_vector<float>()}};
  } else if (!type.empty() && type != "none") {
    check(type == "linear" || type == "yarn", "{} is {}", m.key("rope.scaling.type"), type);
    config["rope_scaling"] = {{"rope_type", type}, {"factor", m.number("rope.scaling.factor")}};
  }
  if (m.has("rope.scaling.attn_factor")) {
    const double given = m.number("rope.scaling.attn_factor");
    const std::string scaled = config.value(json::json_pointer("/rope_scaling/rope_type"), "");
    const bool known = scaled == "yarn" || scaled == "longrope";
    check(known || given == 1, "{} is {}; tern has this factor for yarn and longrope alone",
          m.key("rope.scaling.attn_factor"), given);
    // llama.cpp multiplies yarn's own factor by it.
    const double own = scaled == "yarn" ? 1 + std::log(m.number("rope.scaling.factor")) / 10 : 1;
    if (known) config["rope_scaling"]["attention_factor"] = given * own;
  }
  if (!m.has("rope.scaling.original_context_length")) return;
  json& place = config.contains("rope_scaling") ? config["rope_scaling"] : config;
  place["original_max_position_embeddings"] = m.integer("rope.scaling.original_context_length");
}

/// What distinguishes the config.json of a Gemma 3 from a Llama's.
void add_gemma(const GgufFacts& m, json& config) {
  constexpr int64_t kLayers27b = 62;
  config["model_type"] = "gemma3_text";
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config.erase("hidden_act");
  // As in llama.cpp, the largest model divides scores by another number.
  const int64_t dim = m.integer("embedding_length"), heads = m.integer("attention.head_count");
  config["query_pre_attn_scalar"] =
      m.integer("block_count") == kLayers27b ? dim / heads : head_channels(m);
  if (m.has("rope.freq_base_swa")) config["rope_local_base_freq"] = m.number("rope.freq_base_swa");
  if (m.has("attention.sliding_window_pattern"))
    config["sliding_window_pattern"] = m.integer("attention.sliding_window_pattern");
}

json llama_config(const GgufFile& file, const GgufFacts& m, std::string_view architecture) {
  json config = {{"model_type", architecture},
                 {"max_position_embeddings", m.integer("context_length")},
                 {"hidden_size", m.integer("embedding_length")},
                 {"num_hidden_layers", m.integer("block_count")},
                 {"intermediate_size", m.integer("feed_forward_length")},
                 {"num_attention_heads", m.integer("attention.head_count")},
                 {"rms_norm_eps", m.number("attention.layer_norm_rms_epsilon")},
                 {"head_dim", head_channels(m)},
                 {"hidden_act", "silu"}};
  config["num_key_value_heads"] =
      m.integer("attention.head_count_kv", m.integer("attention.head_count"));
  check(m.integer("attention.value_length", head_channels(m)) == head_channels(m),
        "{} differs from the length of keys", m.key("attention.value_length"));
  check(m.integer("expert_count", 0) == 0, "it is a mixture of experts");
  add_rotary(file, m, config);
  if (architecture == "gemma3") add_gemma(m, config);
  if (const int64_t window = m.integer("attention.sliding_window", 0); window > 0) {
    if (architecture == "llama") config["model_type"] = "mistral";
    config["sliding_window"] = window;
  }
  // A Qwen 2 has biases of queries, keys and values, which this member does not mean.
  config["attention_bias"] = file.find("blk.0.attn_output.bias") != nullptr;
  config["mlp_bias"] = file.find("blk.0.ffn_up.bias") != nullptr;
  return config;
}

json gpt2_config(const GgufFacts& m) {
  return {{"model_type", "gpt2"},
          {"n_positions", m.integer("context_length")},
          {"n_embd", m.integer("embedding_length")},
          {"n_layer", m.integer("block_count")},
          {"n_head", m.integer("attention.head_count")},
          {"n_inner", m.integer("feed_forward_length")},
          {"layer_norm_epsilon", m.number("attention.layer_norm_epsilon")},
          {"activation_function", "gelu_new"}};
}

// Tokens at which llama.cpp ends an answer too, by their texts and of any type (llama-vocab.cpp).
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",    "<|im_end|>",      "<|end|>",
                                          "<|return|>",    "<|call|>",        "<end_of_turn>",
                                          "<|endoftext|>", "<|eom_id|>",      "<EOT>",
                                          "_<EOT>",        "<|end_of_text|>", "<end_of_utterance>"};

/// The tokens that end a text or a turn. Many files name only the former.
void add_tokens(const GgufFile& file, json& config) {
  std::vector<int64_t> ends;
  const auto add = [&](int64_t id) {
    if (id >= 0 && std::ranges::count(ends, id) == 0) ends.push_back(id);
  };
  for (const char* key : {"eos", "eot", "eom"})
    add(file.get(fmt::format("tokenizer.ggml.{}_token_id", key), int64_t{-1}));
  if (const char* key = "tokenizer.ggml.tokens"; file.has(key)) {
    const std::vector<std::string_view> tokens = file.texts(key);
    for (int64_t id = 0; id < std::ssize(tokens); ++id)
      if (std::ranges::count(kEndTexts, tokens[static_cast<size_t>(id)]) > 0) add(id);
  }
  if (!ends.empty()) config["eos_token_id"] = ends.size() == 1 ? json(ends[0]) : json(ends);
  if (file.has("tokenizer.ggml.bos_token_id"))
    config["bos_token_id"] = file.integer("tokenizer.ggml.bos_token_id");
}

/// Rows of queries or keys: pairs (2 i, 2 i + 1) of each head back to halves (i, i + size / 2).
Tensor to_halves(const Tensor& x, int64_t heads) {
  const int64_t rows = x.ndim() > 0 ? x.size(0) : 0;
  check(0 < heads && heads <= rows && rows % (2 * heads) == 0, "{} rows are not {} heads", rows,
        heads);
  const Tensor pairs = reshape(x, {heads, rows / heads / 2, 2, x.numel() / rows});
  return reshape(transpose(pairs, 1, 2), x.shape()).contiguous();
}

}  // namespace

std::string gguf_config(const GgufFile& file) {
  return reading(file.path(), [&] {
    const Architecture& architecture = architecture_of(file);
    const GgufFacts m(file);
    json config =
        architecture.name == "gpt2" ? gpt2_config(m) : llama_config(file, m, architecture.name);
    const GgufTensor* embedding = file.find("token_embd.weight");
    check(embedding && embedding->shape.size() == 2, "it has no matrix token_embd.weight");
    config["vocab_size"] = embedding->shape[0];
    config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
    add_tokens(file, config);
    for (const char* harmless : {"vocab_size", "tensor_data_layout", "expert_used_count"})
      m.has(harmless);
    m.refuse_unread();
    return config.dump();
  });
}

std::string gguf_weight_name(const GgufFile& file, const std::string& name) {
  return reading(file.path(), [&]() -> std::string {
    if (is_rotary_table(name)) return "";
    const std::string_view architecture = architecture_of(file).name;
    const bool gpt2 = architecture == "gpt2", gemma = architecture == "gemma3";
    const TensorName parts = split_name(name);
    const bool inner = !parts.block.empty();
    const std::string_view part =
        gpt2     ? (inner ? find_name(kInnerGpt2, parts.part) : find_name(kOuterGpt2, parts.part))
        : !inner ? find_name(kOuter, parts.part)
        : architecture == "phi3" ? find_name(kInnerPhi3, parts.part)
        : gemma && !find_name(kInnerGemma3, parts.part).empty()
            ? find_name(kInnerGemma3, parts.part)
            : find_name(kInner, parts.part);
    check(!part.empty() && (parts.ending == ".weight" || parts.ending == ".bias"),
          "it has the tensor '{}', which tern does not know in a {}", name, architecture);
    if (!inner) return fmt::format("{}{}", part, parts.ending);
    return fmt::format("{}{}.{}{}", gpt2 ? "transformer.h." : "model.layers.", parts.block, part,
                       parts.ending);
  });
}

Tensor load_gguf_weight(const GgufFile& file, const std::string& name) {
  return reading(file.path(), [&] {
    const Architecture& architecture = architecture_of(file);
    const Tensor x = file.load(name);
    const TensorName parts = split_name(name);
    // llama.cpp stores what the normalised numbers are multiplied by; transformers 1 less.
    if (architecture.name == "gemma3" && name.ends_with("norm.weight")) return x - 1;
    if (parts.block.empty()) return x;
    const GgufFacts m(file);
    if (architecture.turned && parts.part == "attn_q")
      return to_halves(x, m.integer("attention.head_count"));
    if (architecture.turned && parts.part == "attn_k")
      return to_halves(x, m.integer("attention.head_count_kv", m.integer("attention.head_count")));
    if (architecture.name == "gpt2" && x.ndim() == 2) return transpose(x, 0, 1).contiguous();
    return x;
  });
}

TensorSource open_gguf_weights(std::shared_ptr<const GgufFile> file) {
  TensorSource out;
  std::unordered_map<std::string, std::string> names;  // in the file
  for (const GgufTensor& t : file->tensors())
    if (const std::string name = gguf_weight_name(*file, t.name); !name.empty()) {
      out.tensors.emplace_back(
          name, nn::unfilled([&] { return load_gguf_weight(*file, t.name).shape(); }));
      names.emplace(name, t.name);
    }
  out.load = [file, names](const std::string& name) {
    return load_gguf_weight(*file, names.at(name));
  };
  out.load_rows = [file, names](const std::string& name, int64_t begin, int64_t end) {
    // Matrices outside of blocks are stored as transformers has them.
    const std::string& stored = names.at(name);
    if (split_name(stored).block.empty()) return file->load_rows(stored, begin, end);
    return narrow(load_gguf_weight(*file, stored), 0, begin, end - begin);
  };
  return out;
}

NamedTensors load_gguf_weights(const GgufFile& file) {
  NamedTensors weights;
  for (const GgufTensor& t : file.tensors())
    if (std::string name = gguf_weight_name(file, t.name); !name.empty())
      weights.emplace_back(std::move(name), load_gguf_weight(file, t.name));
  return weights;
}

}  // namespace tern::pretrained
