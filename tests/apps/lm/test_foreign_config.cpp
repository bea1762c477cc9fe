// config.json of GPT-2 and Llama, and tokenizer_config.json of transformers: every member is used,
// or harmless, or reported as unknown, or refused. BERTs: tests/models/test_bert_config.cpp.
#include <doctest/doctest.h>

#include "tern/apps/common/training/train_program.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/transformers_config.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_foreign_config {
namespace {

using nlohmann::json;
using test::contains;

// The error for the configuration with one changed or added member. `unknown` collects members that
// tern does not know.
template <class Read>
std::string with(const std::string& fine, const char* key, const char* value, Read read,
                 Unknown* unknown = nullptr) {
  json changed = json::parse(fine);
  changed[key] = json::parse(value);
  return test::error_of([&] { read(changed.dump(), unknown); });
}

struct Row {
  const char *key, *value, *said;  // said: the error, "" for a member that is accepted
};

}  // namespace

TEST_CASE("foreign config: a tokenizer's members that tern writes are known to it") {
  Unknown unknown;
  pieces_from_transformers(pieces_to_transformers({}, 128), &unknown);
  CHECK(unknown.empty());
}

TEST_CASE("foreign config: a tokenizer that differs from BERT's is refused") {
  const std::string fine = R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false,
    "unk_token": "[UNK]", "cls_token": {"content": "[CLS]", "__type": "AddedToken"},
    "model_max_length": 1000000000000000019884624838656, "strip_accents": null})";
  Unknown unknown;
  CHECK_FALSE(pieces_from_transformers(fine, &unknown).lower);
  CHECK(unknown.empty());
  for (const Row& row :
       {Row{"tokenizer_class", "\"BertJapaneseTokenizer\"", "tokenizer_class is BertJapaneseTok"},
        {"tokenizer_class", "\"GPT2Tokenizer\"", "only BertTokenizer is known"},
        {"unk_token", "\"<unk>\"", "unk_token: it is \"<unk>\""},
        {"mask_token", R"({"content": "<mask>"})", "mask_token.content: it is"},
        {"mask_token", R"({"content": "[MASK]", "trim": true})", "it has mask_token.trim"},
        {"do_basic_tokenize", "false", "do_basic_tokenize: it is false"},
        {"wordpieces_prefix", "\"@@\"", "wordpieces_prefix"},
        {"tokenizer_class", "\"BertTokenizerFast\"", ""},
        {"tokenizer_class", "\"DistilBertTokenizer\"", ""}}) {
    CAPTURE(row.value);
    const std::string said = with(fine, row.key, row.value, pieces_from_transformers);
    CAPTURE(said);
    CHECK(said.empty() == std::string(row.said).empty());
    CHECK(contains(said, row.said));
  }
}

TEST_CASE("foreign config: tokens that are added to vocab.txt are refused by name") {
  const test::TempDir dir;
  const auto put = [&](const char* name, const std::string& text) {
    test::write_file(dir / name, text);
  };
  const auto said = [&] { return test::io_error([&] { load_pieces({dir.path()}); }); };
  put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  put("tokenizer_config.json", R"({"added_tokens_decoder":
      {"0": {"content": "[PAD]", "special": true}, "1": {"content": "[UNK]", "special": true},
       "2": {"content": "[CLS]", "special": true}, "3": {"content": "[SEP]", "special": true},
       "4": {"content": "[MASK]", "lstrip": true}}, "additional_special_tokens": ["[CLS]"]})");
  put("added_tokens.json", R"({"<e>": 7})");  // does not count beside an added_tokens_decoder
  CHECK(said() == "");
  // transformers gives <e> the id 7 in each of these.
  for (const char* config :
       {R"({"added_tokens_decoder": {"7": {"content": "<e>"}}})",
        R"({"added_tokens_decoder": {"5": {"content": "<e>"}}})",
        R"({"additional_special_tokens": ["<e>"]})", R"({"extra_special_tokens": ["<e>"]})"}) {
    CAPTURE(config);
    put("tokenizer_config.json", config);
    CHECK(contains(said(), "tokenizer_config.json: "));
    CHECK(contains(said(), "'<e>' has another id in vocab.txt, or none: tokens that were added"));
  }
  put("tokenizer_config.json", R"({"added_tokens_decoder": {"6": {"content": "a"}}})");
  CHECK(contains(said(), "added_tokens_decoder.6: 'a' has another id in vocab.txt"));
  put("tokenizer_config.json", "{}");
  CHECK(contains(said(), "added_tokens.json: <e>: '<e>' has another id"));
  put("added_tokens.json", R"({"[CLS]": 2})");
  CHECK(said() == "");
}

TEST_CASE("foreign config: a tokenizer_config.json that contradicts tokenizer.json is refused") {
  // The error for these keys, config.json, and the values of lowercase, strip_accents and
  // handle_chinese_chars in tokenizer.json. In transformers 5.24 AutoTokenizer has another
  // normalizer than tokenizer.json in the refused cases.
  const auto said = [](const char* keys, const json& normal, const char* model = "bert") {
    const json tokenizer = {{"normalizer",
                             {{"type", "BertNormalizer"},
                              {"clean_text", true},
                              {"lowercase", normal[0]},
                              {"strip_accents", normal[1]},
                              {"handle_chinese_chars", normal[2]}}}};
    return test::error_of([&] {
      check_normalizer(keys, json{{"model_type", model}}.dump(), tokenizer.dump());
    });
  };
  const json lower = {true, nullptr, true}, cased = {false, nullptr, true};
  const char *none = "{}", *bert = R"({"tokenizer_class": "BertTokenizer"})",
             *fast = R"({"tokenizer_class": "BertTokenizerFast", "do_lower_case": false})",
             *other = R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false,
                          "strip_accents": true, "tokenize_chinese_chars": false})";
  CHECK(contains(said(R"({"do_lower_case": false})", lower),
                 "do_lower_case is false, but lowercase in tokenizer.json is true: transformers"));
  CHECK(contains(said(fast, lower), "do_lower_case is false, but"));
  CHECK(contains(said(bert, cased), "do_lower_case is true (by default), but lowercase in"));
  for (const char* model : {"distilbert", "electra", "mpnet"})
    CHECK(contains(said(R"({"do_lower_case": true})", cased, model), "do_lower_case is true, but"));
  CHECK(contains(said(R"({"strip_accents": false})", lower),
                 "strip_accents is false, but strip_accents in tokenizer.json is true"));
  CHECK(
      contains(said(R"({"strip_accents": null})", {true, false, true}),
               "strip_accents is true (by default), but strip_accents in tokenizer.json is false"));
  CHECK(contains(said(R"({"tokenize_chinese_chars": false})", lower),
                 "tokenize_chinese_chars is false, but handle_chinese_chars in tokenizer.json is"));
  CHECK(
      contains(said(bert, {true, nullptr, false}), "tokenize_chinese_chars is true (by default)"));
  // They agree, or say nothing, or transformers does not follow the keys.
  CHECK(said(bert, lower) == "");
  CHECK(said(fast, cased) == "");
  CHECK(said(R"({"do_lower_case": true, "strip_accents": true, "tokenize_chinese_chars": true})",
             lower) == "");
  CHECK(said(R"({"strip_accents": null})", {false, false, true}) == "");
  CHECK(said(none, cased) == "");
  CHECK(said(other, lower) == "");
  CHECK(said(R"({"do_lower_case": false})", lower, "xlm-roberta") == "");
  CHECK(test::error_of([&] {
          check_normalizer(fast, "{}", R"({"normalizer": {"type": "Lowercase"}})");
        }) == "");
  CHECK(test::error_of([&] { check_normalizer(fast, "{}", R"({"normalizer": null})"); }) == "");
  // The class may stand in config.json.
  CHECK(test::error_of([&] {
          check_normalizer(R"({"do_lower_case": false})",
                           R"({"model_type": "bert", "tokenizer_class": "TokenizersBackend"})",
                           R"({"normalizer": {"type": "BertNormalizer", "lowercase": true}})");
        }) == "");
}

TEST_CASE("foreign config: errors about damaged files are in tern's words") {
  test::check_damaged(
      R"({"do_lower_case": true, "strip_accents": false, "unk_token": {"content": "[UNK]"}})", "",
      20, [](const std::string& text) { pieces_from_transformers(text); });
  const datasets::WordPiece pieces({"[UNK]", "a"});
  test::check_damaged(R"({"added_tokens_decoder": {"1": {"content": "a"}},
                          "additional_special_tokens": ["[UNK]"]})",
                      "", 20, [&](const std::string& text) { refuse_added_pieces(text, pieces); });
  test::check_damaged(
      R"({"do_lower_case": true, "strip_accents": false, "tokenizer_class": "BertTokenizer"})", "",
      20, [](const std::string& text) {
        check_normalizer(text, R"({"model_type": "bert"})",
                         R"({"normalizer": {"type": "BertNormalizer", "strip_accents": false}})");
      });
  test::check_damaged(R"({"a": 1})", "", 20,
                      [&](const std::string& text) { refuse_added_ids(text, pieces); });
}

TEST_CASE("foreign config: errors about a damaged configuration of tern are in tern's words") {
  const test::TempDir dir;
  const ModelFiles files{dir.path()};
  TrainConfig config;
  config.model.vocab = 300;
  apps::save_config(files.config(), settings_of(config));
  test::check_damaged(test::read_file(files.config()), files.config(), 500,
                      [&](const std::string& text) {
                        test::write_file(files.config(), text);
                        load_config(files);
                      });
}

}  // namespace tern::apps::lm::test_foreign_config
