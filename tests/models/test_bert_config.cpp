// config.json of BERTs: every member is used, or harmless, or reported as unknown, or refused; and
// load_bert() with the config.json beside the weights.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tern/core/io/safetensors.h"
#include "tern/models/bert_config.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_bert_config {
namespace {

using models::Bert, models::BertFileOptions, models::BertOptions, models::bert_options_from_json;
using nlohmann::json;
using test::contains;

const std::string kConfig = R"({"model_type": "bert", "num_attention_heads": 4})";

std::string reference(const std::string& file) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/encoders/" + file;
}

/// The text of a configuration with one changed or added member; without it if the value is empty.
std::string with(const std::string& fine, const char* key, const std::string& value) {
  json changed = json::parse(fine);
  if (value.empty())
    changed.erase(key);
  else
    changed[key] = json::parse(value);
  return changed.dump();
}

}  // namespace

TEST_CASE("bert config: members that change the results are used or refused by name") {
  struct Row {
    const char *key, *value, *said;  // said: the error, "" for a member that is accepted
  };
  for (const Row& row :
       {Row{"hidden_act", "\"softsign\"", "hidden_act is softsign"},
        {"position_embedding_type", "\"relative_key\"", "only \"absolute\""},
        {"is_decoder", "true", "is_decoder: it is true"},
        {"layer_norm_eps", "-1", "layer_norm_eps -1"},
        {"model_type", "\"gpt2\"", "model_type is gpt2"},
        {"model_type", "", "there is no model_type, which says what the model is"},
        {"quantization_config", R"({"bits": 4})", "quantization_config: it is {\"bits\":4}"},
        {"token_shift", "1", "tern does not know token_shift"},
        {"hidden_act", "\"relu\"", ""},
        {"pooler_type", "\"first_token_transform\"", ""},
        {"id2label", R"({"0": "yes"})", ""}}) {
    CAPTURE(row.key);
    const std::string said =
        test::error_of([&] { bert_options_from_json(with(kConfig, row.key, row.value)); });
    CAPTURE(said);
    CHECK(said.empty() == std::string(row.said).empty());
    CHECK(contains(said, row.said));
  }
  std::vector<std::string> unknown;
  CHECK(bert_options_from_json(with(kConfig, "token_shift", "1"), &unknown).heads == 4);
  CHECK(unknown == std::vector<std::string>{"token_shift"});
}

TEST_CASE("bert config: what tern writes, it reads") {
  const BertOptions o{.vocab = 31,
                      .dim = 24,
                      .layers = 3,
                      .heads = 6,
                      .ffn = 40,
                      .positions = 17,
                      .segments = 3,
                      .dropout = 0.25,
                      .attention_dropout = 0.5,
                      .classifier_dropout = 0.75,
                      .activation = Activation::relu,
                      .eps = 1e-6,
                      .pad = 2};
  const BertOptions read = bert_options_from_json(models::bert_options_to_json(o));
  CHECK(read.vocab == 31);
  CHECK(read.dim == 24);
  CHECK(read.layers == 3);
  CHECK(read.heads == 6);
  CHECK(read.ffn == 40);
  CHECK(read.positions == 17);
  CHECK(read.segments == 3);
  CHECK(read.dropout == 0.25);
  CHECK(read.attention_dropout == 0.5);
  CHECK(read.classifier_dropout == 0.75);
  CHECK(read.activation == Activation::relu);
  CHECK(read.eps == 1e-6);
  CHECK(read.pad == 2);
}

TEST_CASE("bert config: errors about damaged files are in tern's words") {
  test::check_damaged(kConfig, "", 30,
                      [](const std::string& text) { bert_options_from_json(text); });
}

TEST_CASE("bert config: load_bert takes the heads from the file beside the weights, or refuses") {
  const test::TempDir dir;
  std::filesystem::copy_file(reference("minilm/model.safetensors"), dir / "model.safetensors");
  const std::string path = dir / "model.safetensors";
  const std::string config = test::read_file(reference("minilm/config.json"));
  auto load = [&](const BertFileOptions& rest = {}, models::BertFileReport* report = nullptr) {
    Rng rng(1);
    Bert model = load_bert(path, rng, rest, report);
    nn::set_training(model, false);
    return model;
  };
  auto check_right = [&](const Bert& model) {
    const SafeTensors want = load_safetensors(reference("minilm/answers.safetensors"));
    const Tensor lengths = want.find("lengths"), tokens = want.find("tokens");
    const Tensor real = lt(arange(0, tokens.size(1)), unsqueeze(lengths, 1));
    const Tensor hidden = model.bert({tokens, {}, nn::Mask::lengths(lengths)});
    CHECK(test::close(where(unsqueeze(real, 2), hidden, 0), want.find("hidden"), 1e-4, 1e-5));
  };
  auto refused = [&](const std::string& text, const char* said, const BertFileOptions& rest) {
    CAPTURE(said);
    test::write_file(dir / "config.json", text);
    CHECK_THROWS_WITH_AS(load(rest), doctest::Contains(said), IoError);
    CHECK_THROWS_WITH_AS(load(rest), doctest::Contains((dir / "config.json").c_str()), IoError);
  };
  // 16 channels, which other models split into 4 heads or 1.
  CHECK_THROWS_WITH_AS(load(), doctest::Contains("there is no config.json beside it"), IoError);
  CHECK_THROWS_WITH_AS(load({.dropout = 0}), doctest::Contains("there is no config.json beside it"),
                       IoError);
  check_right(load({.heads = 2}));

  test::write_file(dir / "config.json", config);
  const Bert model = load();
  CHECK(model.options.heads == 2);
  CHECK(model.options.dropout == 0.1);
  check_right(model);
  check_right(load({.heads = 2}));
  refused(config, "heads is 2, but the options say 4", {.heads = 4});
  refused(config, "eps is 1e-12, but", {.heads = 2, .eps = 1e-5});
  refused(config, "its activation is not", {.heads = 2, .activation = Activation::relu});

  // An option of the program does not change what the file says about the others.
  test::write_file(dir / "config.json",
                   with(with(config, "hidden_dropout_prob", "0.3"), "layer_norm_eps", "1e-5"));
  const BertOptions two = load({.heads = 2}).options;
  CHECK(two.dropout == 0.3);
  CHECK(two.eps == 1e-5);
  const BertOptions still = load({.dropout = 0}).options;
  CHECK(still.heads == 2);
  CHECK(still.dropout == 0);
  CHECK(still.attention_dropout == 0.1);
  CHECK(still.eps == 1e-5);

  const BertFileOptions all;
  refused(with(config, "num_attention_heads", "3"), "16 channels cannot be split into 3", all);
  refused(with(config, "num_attention_heads", "0"), "heads 0", all);
  refused(with(config, "hidden_size", "24"), "dim is 24, but the weights have 16", all);
  refused(with(config, "num_hidden_layers", "2"), "layers is 2, but", all);
  refused(with(config, "vocab_size", "22"), "vocab is 22, but", all);
  refused(with(config, "model_type", ""), "there is no model_type", all);
  refused("{", "not JSON", all);
  refused(with(config, "token_shift", "1"), "tern does not know token_shift", all);
  models::BertFileReport report;
  check_right(load(all, &report));
  CHECK(report.unknown == std::vector<std::string>{"token_shift"});
}

}  // namespace tern::test_bert_config
