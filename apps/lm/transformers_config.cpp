// Reads and writes the tokenizer_config.json of BERTs, and refuses what would change results.
#include "tern/apps/lm/transformers_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/io/json_value.h"
#include "tern/data/text/pretrained/pretrained_tokenizer.h"
#include "tern/models/config_json.h"

namespace tern::apps::lm {
namespace {

using namespace models::config_json;
using nlohmann::json;

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
  return read_config_json(text, unknown, [](const JsonValue& j) {
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

namespace {

/// transformers finds an added token in a text before it cuts the text into words.
[[noreturn]] void refuse_added(const JsonValue& place, const std::string& content) {
  place.fail(fmt::format(
      "'{}' has another id in vocab.txt, or none: tokens that were added to the vocabulary are not "
      "known here. lm embed and lm fill know those of a tokenizer.json, which transformers writes: "
      "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
      content));
}

std::string content_of(const JsonValue& token) {
  return token.is_object() ? token.at("content").text() : token.text();
}

}  // namespace

bool refuse_added_pieces(const std::string& text, const datasets::WordPiece& pieces) {
  const JsonDocument file(text);
  const JsonValue root = file.root(), decoder = root.find("added_tokens_decoder");
  if (!decoder.is_null())
    for (const JsonMember& entry : decoder.members()) {
      const std::string content = content_of(entry.value);
      const auto id = pieces.find(content);
      if (!id || std::to_string(*id) != entry.name) refuse_added(entry.value, content);
    }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
    if (const JsonValue list = root.find(key); list.is_list())
      for (const JsonValue& token : list.elements())
        if (const std::string content = content_of(token); !pieces.find(content))
          refuse_added(token, content);
  return !decoder.is_null();
}

void refuse_added_ids(const std::string& text, const datasets::WordPiece& pieces) {
  const JsonDocument file(text);
  for (const JsonMember& entry : file.root().members())
    if (pieces.find(entry.name) != entry.value.integer()) refuse_added(entry.value, entry.name);
}

datasets::WordPiece pieces_of_tokenizer(const std::string& text) {
  const auto whole = datasets::PretrainedTokenizer::parse(text);  // refuses what it does not know
  const JsonDocument file(text);
  const JsonValue j = file.root(), model = j.at("model"), normalizer = j.at("normalizer");
  only(model, "type", "WordPiece");
  only(model, "unk_token", "[UNK]");
  only(model, "continuing_subword_prefix", "##");
  only(normalizer, "type", "BertNormalizer");
  only(normalizer, "clean_text", true);
  only(j.at("pre_tokenizer"), "type", "BertPreTokenizer");
  datasets::WordPieceOptions o;
  o.lower = normalizer.get("lowercase", true);
  if (const JsonValue strip = normalizer.find("strip_accents"); !strip.is_null())
    o.strip_accents = strip.boolean();
  o.split_cjk = normalizer.get("handle_chinese_chars", true);
  if (const JsonValue longest = model.find("max_input_chars_per_word"); !longest.is_null())
    o.longest_word = longest.integer(1, 1000);
  const std::vector<JsonMember> vocab = model.at("vocab").members();
  check(whole.size() == std::ssize(vocab),
        "it has {} tokens, but its vocabulary of pieces only {}: added tokens are not known here",
        whole.size(), vocab.size());
  std::vector<std::string> pieces(vocab.size());
  for (const JsonMember& piece : vocab)
    pieces[static_cast<size_t>(piece.value.integer(0, std::ssize(vocab) - 1))] = piece.name;
  return datasets::WordPiece(std::move(pieces), o);
}

namespace {

/// Whether transformers makes the normalizer of a tokenizer.json anew.
bool makes_normalizer(const std::string& kind, const std::string& model) {
  for (const std::string name : {"Bert", "DistilBert", "MobileBert", "Electra", "MPNet"})
    if (kind == name + "Tokenizer" || kind == name + "TokenizerFast") return true;
  for (const char* name : {"bert", "distilbert", "electra", "mpnet"})
    if (kind.empty() && model == name) return true;
  return false;
}

}  // namespace

void check_normalizer(const std::string& tokenizer_config, const std::string& model,
                      const std::string& tokenizer) {
  const JsonDocument config(tokenizer_config), sizes(model);
  const JsonValue keys = config.root();
  const std::string kind = keys.get("tokenizer_class", sizes.root().get("tokenizer_class", ""));
  if (!makes_normalizer(kind, sizes.root().get("model_type", ""))) return;
  const JsonDocument file(tokenizer);
  const JsonValue normalizer = file.root().find("normalizer");
  if (!normalizer.is_object() || normalizer.get("type", "") != "BertNormalizer") return;
  const auto agree = [&](const char* key, bool otherwise, const char* member, bool there) {
    if (!keys.has(key) && kind.empty()) return;
    const bool here = keys.get(key, otherwise);
    check(here == there,
          "{} is {}{}, but {} in tokenizer.json is {}: transformers follows the former; write the "
          "right value into both",
          key, here, keys.find(key).is_null() ? " (by default)" : "", member, there);
  };
  const bool lower = normalizer.get("lowercase", true);
  agree("do_lower_case", true, "lowercase", lower);
  agree("strip_accents", lower, "strip_accents", normalizer.get("strip_accents", lower));
  agree("tokenize_chinese_chars", true, "handle_chinese_chars",
        normalizer.get("handle_chinese_chars", true));
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
