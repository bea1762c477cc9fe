// Reads and writes the JSON of transformers, and refuses every option that would change results.
#include "tern/apps/lm/transformers_config.h"

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "tern/apps/lm/family.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_value.h"

namespace tern::apps::lm {
namespace {

using nlohmann::json;

/// Calls use(root of the JSON). Top-level members that `use` does not read go to `unknown`; unread
/// members of inner objects are errors.
template <class Use>
auto read_json(const std::string& text, Unknown* unknown, Use use) {
  const JsonDocument file(text);
  auto result = use(file.root());
  const Unknown names = file.refuse_unread_inside();
  if (unknown) *unknown = names;
  return result;
}

std::string kind_of(const JsonValue& j) { return j.get("model_type", "none"); }

/// Error unless a member is missing, null or has this value.
template <class T>
void only(const JsonValue& j, const char* key, const T& wanted) {
  if (j.get(key, wanted) != wanted)
    j.find(key).fail(
        fmt::format("it is {}; only {} is known", j.find(key).shown(), json(wanted).dump()));
}
void only(const JsonValue& j, const char* key, const char* wanted) {
  only<std::string>(j, key, wanted);
}

/// Error unless these members are missing, null or empty.
void only_empty(const JsonValue& j, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const JsonValue v = j.find(key); !v.is_null() && v.size() > 0)
      v.fail(fmt::format("it is {}; tern has no such model", v.shown()));
}

// Ignores members that do not change a model's results: names, special tokens, settings of
// generation and training, heads for other tasks, and sizes that the weights show.
void ignore_harmless(const JsonValue& j) {
  j.ignore(
      "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path "
      "architectures bos_token_id cls_token_id decoder_start_token_id dtype eos_token_id "
      "mask_token_id model_type name_or_path pad_token_id prefix sep_token_id "
      "tokenizer_class torch_dtype transformers_version unk_token_id");
  j.ignore(
      "bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping "
      "encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id "
      "forced_eos_token_id length_penalty max_length max_new_tokens min_length "
      "no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions "
      "output_hidden_states output_past output_scores remove_invalid_values "
      "repetition_penalty return_dict return_dict_in_generate suppress_tokens temperature "
      "top_k top_p typical_p use_cache");
  j.ignore(
      "classifier_dropout finetuning_task gradient_checkpointing id2label initializer_range "
      "label2id num_labels problem_type task_specific_params tf_legacy_loss torchscript "
      "use_bfloat16");
  // These change only the order of computation, or belong to a model of several files.
  j.ignore(
      "chunk_size_feed_forward cross_attention_hidden_size pretraining_tp "
      "reorder_and_upcast_attn tie_encoder_decoder");
  only(j, "is_encoder_decoder", false);
  only(j, "add_cross_attention", false);
  only_empty(j, {"pruned_heads", "quantization_config"});
}

// Members that have another name in tern, each with transformers' default.
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

auto reader(const JsonValue& j) {
  return [&j]<class T>(const char* key, T& value, auto otherwise) {
    value = j.get(key, static_cast<T>(otherwise));
  };
}

auto writer(json& j) {
  return [&j](const char* key, const auto& value, auto) { j[key] = value; };
}

ModelConfig from_gpt2(const JsonValue& j) {
  ignore_harmless(j);
  // n_ctx is the old name of n_positions; transformers does not read it.
  j.ignore(
      "attn_pdrop embd_pdrop is_decoder n_ctx summary_activation summary_first_dropout "
      "summary_proj_to_labels summary_type summary_use_proj");
  only(j, "scale_attn_weights", true);
  only(j, "scale_attn_by_inverse_layer_idx", false);
  if (j.get("activation_function", "") != "gelu_pytorch_tanh")
    only(j, "activation_function", "gelu_new");
  ModelConfig c;
  c.model = "gpt";
  gpt2_members(c, reader(j));
  c.ffn = j.get("n_inner", int64_t{0});
  return c;
}

// transformers 5 writes rope_parameters, earlier versions rope_scaling. Until 2024 the member
// rope_type was called type.
double rope_base(const JsonValue& j) {
  double base = j.get("rope_theta", 1e4);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const JsonValue rope = j.find(key);
    if (rope.is_null()) continue;
    only(rope, "type", "default");
    only(rope, "rope_type", "default");
    only(rope, "partial_rotary_factor", 1.0);
    base = rope.get("rope_theta", base);
  }
  return base;
}

// Refuses sliding windows: every layer must attend to the whole text.
void refuse_windows(const JsonValue& j, int64_t context) {
  const bool used = j.get("use_sliding_window", true);
  if (used && j.get("sliding_window", context) < context)
    j.find("sliding_window").fail("attention to a part of the text is not known");
  const JsonValue types = j.find("layer_types");
  if (types.is_null()) return;
  for (const JsonValue& type : types.elements())
    if (type.text() != "full_attention") type.fail(type.text() + " is not known");
}

ModelConfig from_llama(const JsonValue& j) {
  ignore_harmless(j);
  if (j.get("hidden_act", "") != "swish") only(j, "hidden_act", "silu");
  only(j, "partial_rotary_factor", 1.0);
  ModelConfig c;
  c.model = "llama";
  llama_members(c, reader(j));
  refuse_windows(j, c.context);
  check(j.get("mlp_bias", false) == c.bias,
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

models::BertOptions from_bert(const JsonValue& j) {
  const std::string kind = kind_of(j);
  check(kind == kBert, "model_type is {}; a {} is needed", kind, kBert);
  ignore_harmless(j);
  j.ignore(
      "directionality hidden_size intermediate_size max_position_embeddings "
      "num_hidden_layers pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
      "pooler_size_per_head pooler_type tie_word_embeddings type_vocab_size vocab_size");
  only(j, "position_embedding_type", "absolute");
  only(j, "is_decoder", false);
  models::BertOptions o;
  o.activation = activation_named(j.get("hidden_act", "gelu"));
  bert_members(o, reader(j));
  check(o.heads > 0 && o.dropout >= 0 && o.dropout < 1 && o.attention_dropout >= 0 &&
            o.attention_dropout < 1 && o.eps > 0 && o.pad >= 0,
        "heads {}, dropouts {} and {}, layer_norm_eps {}, pad_token_id {} cannot be", o.heads,
        o.dropout, o.attention_dropout, o.eps, o.pad);
  return o;
}

}  // namespace

std::string transformers_model(const std::string& text) {
  return kind_of(JsonDocument(text).root());
}

ModelConfig sizes_from_transformers(const std::string& text, Unknown* unknown) {
  return read_json(text, unknown, [](const JsonValue& j) {
    const std::string kind = kind_of(j);
    check(kind == "gpt2" || kind == "llama", "model_type is {}; gpt2 and llama are known", kind);
    ModelConfig c = kind == "gpt2" ? from_gpt2(j) : from_llama(j);
    check_sizes(c);
    return c;
  });
}

std::optional<std::string> sizes_to_transformers(const ModelConfig& c, std::optional<int64_t> end) {
  // In transformers, GPT-2 has the same number of heads for keys as for queries.
  const bool gpt2 = c.model == "gpt" && (c.kv_heads == 0 || c.kv_heads == c.heads);
  if (!gpt2 && c.model != "llama") return std::nullopt;
  json j = gpt2 ? to_gpt2(c) : to_llama(c);
  j["dtype"] = "float32";
  if (end) j["bos_token_id"] = j["eos_token_id"] = *end;
  return j.dump(2) + "\n";
}

models::BertOptions bert_from_transformers(const std::string& text, Unknown* unknown) {
  return read_json(text, unknown, from_bert);
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

namespace {

// Refuses tokenizer classes other than BERT's, because vocab.txt is read by the rules of that one.
void refuse_other_pieces(const JsonValue& j) {
  const std::string kind = j.get("tokenizer_class", "BertTokenizer");
  for (const std::string model : {"Bert", "DistilBert", "MobileBert", "Electra"})
    if (kind == model + "Tokenizer" || kind == model + "TokenizerFast") return;
  check(kind == "PreTrainedTokenizerFast" || kind == "TokenizersBackend",
        "tokenizer_class is {}; only BertTokenizer is known", kind);
}

}  // namespace

datasets::WordPieceOptions pieces_from_transformers(const std::string& text, Unknown* unknown) {
  return read_json(text, unknown, [](const JsonValue& j) {
    j.ignore(
        "added_tokens_decoder additional_special_tokens backend clean_up_tokenization_spaces "
        "do_word_tokenize extra_special_tokens is_local max_len max_length model_input_names "
        "model_max_length name_or_path never_split pad_to_multiple_of pad_token_type_id "
        "padding_side processor_class special_tokens_map_file stride tokenizer_file "
        "truncation_side truncation_strategy");
    refuse_other_pieces(j);
    only(j, "do_basic_tokenize", true);
    only(j, "wordpieces_prefix", "##");
    for (const auto& [key, name] : {std::pair("unk_token", "[UNK]"),
                                    {"sep_token", "[SEP]"},
                                    {"pad_token", "[PAD]"},
                                    {"cls_token", "[CLS]"},
                                    {"mask_token", "[MASK]"}}) {
      const JsonValue token = j.find(key);
      if (!token.is_object()) {
        only(j, key, name);
        continue;
      }
      only(token, "content", name);
      token.ignore("__type lstrip normalized rstrip single_word special");
    }
    datasets::WordPieceOptions o;
    o.lower = j.get("do_lower_case", true);
    if (const JsonValue strip = j.find("strip_accents"); !strip.is_null())
      o.strip_accents = strip.boolean();
    o.split_cjk = j.get("tokenize_chinese_chars", true);
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
