// Reads and writes the config.json of BERTs and of other encoders, and refuses every option that
// would change results.
#include "tern/models/bert_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/models/config_json.h"

namespace tern::models {
namespace {

using namespace config_json;

// Members that have another name in tern, each with transformers' default. DistilBERT's are apart.
void bert_members(auto& o, auto&& visit) {
  visit("vocab_size", o.vocab, 30522);
  visit("hidden_size", o.dim, 768);
  visit("num_hidden_layers", o.layers, 12);
  visit("num_attention_heads", o.heads, 12);
  visit("intermediate_size", o.ffn, 3072);
  visit("max_position_embeddings", o.positions, 512);
  visit("hidden_dropout_prob", o.dropout, 0.1);
  visit("attention_probs_dropout_prob", o.attention_dropout, 0.1);
  visit("layer_norm_eps", o.eps, 1e-12);
}

void distilbert_members(auto& o, auto&& visit) {
  visit("vocab_size", o.vocab, 30522);
  visit("dim", o.dim, 768);
  visit("n_layers", o.layers, 6);
  visit("n_heads", o.heads, 12);
  visit("hidden_dim", o.ffn, 3072);
  visit("max_position_embeddings", o.positions, 512);
  visit("dropout", o.dropout, 0.1);
  visit("attention_dropout", o.attention_dropout, 0.1);
}

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"gelu", Activation::gelu}, {"gelu_new", Activation::gelu_tanh},
    {"relu", Activation::relu}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"silu", Activation::silu}, {"swish", Activation::silu}};

Activation activation_named(const std::string& name) {
  for (const auto& [known, activation] : kActivations)
    if (name == known) return activation;
  fail(fmt::format("hidden_act is {}; gelu, gelu_new, relu and silu are known", name));
}

const char* name_of(Activation activation) {
  for (const auto& [name, known] : kActivations)
    if (activation == known) return name;
  fail("transformers' BERT has no such activation");
}

int64_t pad_of(const JsonValue& j, const BertOptions& o, int64_t otherwise) {
  const JsonValue pad = j.find("pad_token_id");
  return pad.is_null() ? otherwise : pad.integer(0, o.vocab - 1);
}

BertOptions from_bert(const JsonValue& j) {
  j.ignore(
      "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
      "pooler_size_per_head pooler_type");
  BertOptions o;
  o.activation = activation_named(j.get("hidden_act", "gelu"));
  bert_members(o, member_reader(j));
  o.segments = j.get("type_vocab_size", int64_t{2});
  o.pad = pad_of(j, o, 0);
  return o;
}

// Positions of RoBERTa and MPNet begin behind the row of padding. Their heads, and ELECTRA's, have
// GELU, whatever the layers have.
BertOptions from_roberta(const JsonValue& j) {
  only(j, "hidden_act", "gelu");
  BertOptions o;
  bert_members(o, member_reader(j));
  o.segments = j.get("type_vocab_size", int64_t{2});
  o.pad = pad_of(j, o, 1);
  o.position_offset = o.pad + 1;
  check(o.positions > o.position_offset, "max_position_embeddings is {}, of which {} are unused",
        o.positions, o.position_offset);
  o.positions -= o.position_offset;
  return o;
}

BertOptions from_mpnet(const JsonValue& j) {
  BertOptions o = from_roberta(j);
  o.segments = 0;
  o.relative_buckets = 32;
  only(j, "relative_attention_num_buckets", o.relative_buckets);
  return o;
}

bool has_classes_of_tokens(const JsonValue& j) {
  const JsonValue names = j.find("architectures");
  if (names.is_null()) return false;
  for (const JsonValue& name : names.elements())
    if (name.text().ends_with("ForTokenClassification")) return true;
  return false;
}

BertOptions from_distilbert(const JsonValue& j) {
  // The table of positions is in the file, also if it began with sines.
  j.ignore("qa_dropout sinusoidal_pos_embds tie_weights_");
  BertOptions o;
  const double classifier_dropout = j.get("seq_classif_dropout", 0.2);
  if (!has_classes_of_tokens(j)) o.classifier_dropout = classifier_dropout;
  o.activation = activation_named(j.get("activation", "gelu"));
  distilbert_members(o, member_reader(j));
  o.segments = 0;
  o.pad = pad_of(j, o, 0);
  return o;
}

BertOptions from_electra(const JsonValue& j) {
  j.ignore("summary_activation summary_last_dropout summary_type summary_use_proj");
  only(j, "hidden_act", "gelu");
  BertOptions o = from_bert(j);
  o.embedding_dim = j.get("embedding_size", int64_t{128});
  if (o.embedding_dim == o.dim) o.embedding_dim = 0;
  return o;
}

using Reader = BertOptions (*)(const JsonValue&);
constexpr std::pair<const char*, Reader> kReaders[] = {
    {"bert", from_bert},         {"roberta", from_roberta},       {"xlm-roberta", from_roberta},
    {"camembert", from_roberta}, {"distilbert", from_distilbert}, {"electra", from_electra},
    {"mpnet", from_mpnet}};

Reader reader_of(const std::string& kind) {
  std::string known;
  for (const auto& [name, reader] : kReaders) {
    if (kind == name) return reader;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  check(!kind.empty(), "there is no model_type, which says what the model is; add it: {} are known",
        known);
  fail(fmt::format("model_type is {}; {} are known", kind, known));
}

BertOptions from_any(const JsonValue& j) {
  const Reader reader = reader_of(j.get("model_type", ""));
  ignore_harmless(j);
  j.ignore("tie_word_embeddings");
  only(j, "position_embedding_type", "absolute");
  only(j, "is_decoder", false);
  BertOptions o = reader(j);
  o.classes_of_tokens = has_classes_of_tokens(j);
  if (const JsonValue p = j.find("classifier_dropout"); !p.is_null())
    o.classifier_dropout = p.number();
  check(o.heads > 0 && o.dropout >= 0 && o.dropout < 1 && o.attention_dropout >= 0 &&
            o.attention_dropout < 1 && o.eps > 0,
        "heads {}, dropouts {} and {}, layer_norm_eps {} cannot be", o.heads, o.dropout,
        o.attention_dropout, o.eps);
  return o;
}

}  // namespace

bool is_encoder_type(const std::string& model_type) {
  return std::ranges::any_of(kReaders, [&](const auto& row) { return model_type == row.first; });
}

BertOptions bert_options_from_json(const std::string& text, std::vector<std::string>* unknown) {
  std::vector<std::string> names;
  BertOptions o = read_config_json(text, &names, from_any);
  check(unknown || names.empty(), "tern does not know {}, which may change what the model computes",
        fmt::join(names, ", "));
  if (unknown) *unknown = names;
  return o;
}

std::string bert_options_to_json(const BertOptions& o) {
  check(o.segments > 0 && o.position_offset == 0 && o.embedding_dim == 0 &&
            o.relative_buckets == 0 && o.pooler_activation == Activation::tanh,
        "bert_options_to_json: the model is not a BERT, but another encoder");
  check(!o.classes_of_tokens || (!o.next_sentence && !o.masked_lm),
        "bert_options_to_json: config.json cannot say that a model with the heads of pre-training "
        "classifies tokens");
  nlohmann::json j = {
      {"architectures", {o.next_sentence ? "BertForPreTraining" : "BertForMaskedLM"}},
      {"model_type", "bert"},
      {"dtype", "float32"},
      {"hidden_act", name_of(o.activation)},
      {"type_vocab_size", o.segments},
      {"pad_token_id", o.pad}};
  bert_members(o, member_writer(j));
  if (o.classifier_dropout) j["classifier_dropout"] = *o.classifier_dropout;
  return j.dump(2) + "\n";
}

}  // namespace tern::models
