// config.json and tokenizer_config.json of transformers: every member is used, or harmless, or
// reported as unknown, or refused.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/apps/common/training/train_program.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/transformers_config.h"
#include "tern/core/base/error.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_foreign_config {
namespace {

using nlohmann::json;
using test::contains;

const std::string kLlama = R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 318})";
const std::string kGpt2 = R"({"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2})";
const std::string kBertConfig = R"({"model_type": "bert", "num_attention_heads": 4})";

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

TEST_CASE("foreign config: members that change a Llama's results are used or refused by name") {
  // Linear scaling given as `type` changes the loss in transformers 5.24 (6.780 instead of 6.715 on
  // one model), and so do the others.
  for (const Row& row : {
           Row{"rope_scaling", R"({"type": "linear", "factor": 4.0})",
               "rope_scaling.type: it is \"linear\"; only \"default\" is known"},
           {"rope_scaling", R"({"type": "dynamic", "factor": 2.0})",
            "rope_scaling.type: it is \"d"},
           {"rope_scaling", R"({"rope_type": "llama3", "factor": 8.0})", "rope_scaling.rope_type"},
           {"rope_scaling", R"({"factor": 4.0})",
            "it has rope_scaling.factor, which tern does not"},
           {"rope_scaling", R"({"rope_type": "default", "mscale": 1})", "rope_scaling.mscale"},
           {"rope_scaling", "7", "rope_scaling: expected an object, got 7"},
           {"rope_parameters", R"({"rope_type": "yarn"})", "rope_parameters.rope_type: it is"},
           {"rope_parameters", R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor: it is"},
           {"partial_rotary_factor", "0.25", "partial_rotary_factor: it is 0.25"},
           {"head_dim", "16", "head_dim: it is 16; only 8 is known"},
           {"hidden_act", "\"gelu\"", "hidden_act: it is \"gelu\"; only \"silu\" is known"},
           {"attention_bias", "true", "biases are everywhere or nowhere"},
           {"mlp_bias", "true", "biases are everywhere or nowhere"},
           {"sliding_window", "64", "sliding_window: attention to a part of the text"},
           {"layer_types", R"(["full_attention", "sliding_attention"])", "layer_types[1]: slid"},
           {"quantization_config", R"({"bits": 4})", "quantization_config: it is {\"bits\":4}"},
           {"pruned_heads", R"({"0": [1]})", "pruned_heads: it is"},
           {"is_encoder_decoder", "true", "is_encoder_decoder: it is true"},
           {"add_cross_attention", "true", "add_cross_attention: it is true"},
           {"num_attention_heads", "0", "num_attention_heads is 0"},
           {"rope_scaling", "null", ""},
           {"rope_scaling", R"({"type": "default"})", ""},
           {"rope_parameters", R"({"rope_type": "default", "rope_theta": 500000.0})", ""},
           {"head_dim", "8", ""},
           {"hidden_act", "\"swish\"", ""},
           {"sliding_window", "null", ""},
           {"sliding_window", "4096", ""},  // at least the context
           {"layer_types", R"(["full_attention"])", ""},
           {"pruned_heads", "{}", ""},
           {"pretraining_tp", "2", ""},  // only the order of computation
           {"tie_word_embeddings", "true", ""},
       }) {
    CAPTURE(row.key);
    CAPTURE(row.value);
    Unknown unknown;
    const std::string said = with(kLlama, row.key, row.value, sizes_from_transformers, &unknown);
    CAPTURE(said);
    CHECK(said.empty() == std::string(row.said).empty());
    CHECK(contains(said, row.said));
    CHECK(unknown.empty());
  }
  json tied = json::parse(kLlama);
  tied["tie_word_embeddings"] = true;
  tied["rope_scaling"] = {{"rope_theta", 7.0}};
  tied["rope_theta"] = 5.0;
  CHECK(sizes_from_transformers(tied.dump()).tie);
  CHECK(sizes_from_transformers(tied.dump()).rope_base == 7);
}

TEST_CASE(
    "foreign config: members that change a GPT-2's or BERT's results are used or refused by name") {
  for (const Row& row : {Row{"activation_function", "\"relu\"", "activation_function: it is"},
                         {"scale_attn_weights", "false", "scale_attn_weights: it is false"},
                         {"scale_attn_by_inverse_layer_idx", "true", "layer_idx: it is true"},
                         {"n_embd", "\"x\"", "n_embd: \"x\" is not an integer"},
                         {"activation_function", "\"gelu_pytorch_tanh\"", ""},
                         {"reorder_and_upcast_attn", "true", ""},
                         {"n_ctx", "1024", ""}}) {
    CAPTURE(row.key);
    const std::string said = with(kGpt2, row.key, row.value, sizes_from_transformers);
    CAPTURE(said);
    CHECK(said.empty() == std::string(row.said).empty());
    CHECK(contains(said, row.said));
  }
  for (const Row& row : {Row{"hidden_act", "\"softsign\"", "hidden_act is softsign"},
                         {"position_embedding_type", "\"relative_key\"", "only \"absolute\""},
                         {"is_decoder", "true", "is_decoder: it is true"},
                         {"layer_norm_eps", "-1", "layer_norm_eps -1"},
                         {"hidden_act", "\"relu\"", ""},
                         {"pooler_type", "\"first_token_transform\"", ""},
                         {"id2label", R"({"0": "yes"})", ""}}) {
    CAPTURE(row.key);
    const std::string said = with(kBertConfig, row.key, row.value, bert_from_transformers);
    CAPTURE(said);
    CHECK(said.empty() == std::string(row.said).empty());
    CHECK(contains(said, row.said));
  }
}

TEST_CASE("foreign config: unknown members are named, harmless ones are not") {
  Unknown unknown;
  CHECK(with(kLlama, "embd_scale", "2.0", sizes_from_transformers, &unknown).empty());
  CHECK(unknown == Unknown{"embd_scale"});
  CHECK(with(kGpt2, "parallel_residual", "true", sizes_from_transformers, &unknown).empty());
  CHECK(unknown == Unknown{"parallel_residual"});
  CHECK(with(kBertConfig, "token_shift", "1", bert_from_transformers, &unknown).empty());
  CHECK(unknown == Unknown{"token_shift"});
  // Configurations that transformers wrote.
  const std::string folder = std::string(TERN_SOURCE_DIR) + "/tests/reference/gpt/";
  for (const std::string name : {"gpt2", "llama", "llama_tied"}) {
    sizes_from_transformers(test::read_file(folder + name + "/config.json"), &unknown);
    CHECK(unknown.empty());
  }
  // Configurations that tern wrote.
  TrainConfig c;
  c.model.vocab = 300;
  for (const char* model : {"gpt", "llama"}) {
    c.model.model = model;
    sizes_from_transformers(*sizes_to_transformers(c.model, 3), &unknown);
    CHECK(unknown.empty());
  }
  bert_from_transformers(bert_to_transformers(bert_sizes(c, 0)), &unknown);
  CHECK(unknown.empty());
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

TEST_CASE("foreign config: errors about damaged files are in tern's words") {
  auto read = [](const std::string& text) { sizes_from_transformers(text); };
  test::check_damaged(kLlama, "", 50, read);
  test::check_damaged(
      R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "rope_parameters":
          {"rope_type": "default", "rope_theta": 1e4}, "layer_types": ["full_attention"]})",
      "", 50, read);
  test::check_damaged(kGpt2, "", 40, read);
  test::check_damaged(kBertConfig, "", 30,
                      [](const std::string& text) { bert_from_transformers(text); });
  test::check_damaged(
      R"({"do_lower_case": true, "strip_accents": false, "unk_token": {"content": "[UNK]"}})", "",
      20, [](const std::string& text) { pieces_from_transformers(text); });
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
