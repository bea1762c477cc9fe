// Encoders of transformers (tests/reference/make_encoders.py) in models::Bert: BERT, RoBERTa,
// DistilBERT, ELECTRA and MPNet, with heads for other tasks.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tern/core/io/safetensors.h"
#include "tern/models/bert_config.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_encoders {
namespace {

using models::Bert, models::BertFileOptions, models::BertFileReport, models::BertOptions;

std::string folder_of(const std::string& name) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/encoders/" + name;
}

Bert load(const std::string& folder, bool heads = true, BertFileReport* report = nullptr,
          const BertFileOptions& rest = {}) {
  Rng rng(1);
  const std::string path = folder + "/model.safetensors";
  Bert model =
      heads ? load_bert(path, rng, rest, report) : load_bert_encoder(path, rng, rest, report);
  nn::set_training(model, false);
  return model;
}

struct Answers {
  explicit Answers(const std::string& name)
      : file(load_safetensors(folder_of(name) + "/answers.safetensors")),
        input{file.find("tokens"), {}, nn::Mask::lengths(file.find("lengths"))} {}
  /// 0 at the padding.
  Tensor real(const Tensor& x) const {
    const Tensor mask = lt(arange(0, x.size(1)), unsqueeze(file.find("lengths"), 1));
    return where(unsqueeze(mask, 2), x, 0);
  }
  SafeTensors file;
  models::BertInput input;
};

/// Compares with transformers. Returns the number of compared outputs.
int check_answers(const std::string& name, const Bert& model) {
  CAPTURE(name);
  const Answers answers(name);
  const Tensor hidden = model.bert(answers.input);
  CHECK(test::close(answers.real(hidden), answers.file.find("hidden"), 1e-4, 1e-5));
  const Bert::Output y = model.heads(hidden);
  int compared = 1;
  if (const Tensor words = answers.file.find("words"); words.defined() && model.predictions) {
    CHECK(test::close(answers.real(y.words), words, 1e-4, 1e-5));
    ++compared;
  }
  if (const Tensor classes = answers.file.find("classes"); classes.defined() && model.classifier) {
    CHECK(test::close(model.options.classes_of_tokens ? answers.real(y.classes) : y.classes,
                      classes, 1e-4, 1e-5));
    ++compared;
  }
  return compared;
}

}  // namespace

TEST_CASE("encoders: states and heads are transformers'; all weights count and have gradients") {
  for (const auto& row : {std::pair<std::string, int>("minilm", 1),
                          {"ner", 2},
                          {"roberta", 2},
                          {"roberta_classifier", 2},
                          {"xlm_roberta", 1},
                          {"distilbert", 2},
                          {"distilbert_classifier", 2},
                          {"electra", 2},
                          {"electra_classifier", 2},
                          {"mpnet", 1}}) {
    const std::string& name = row.first;
    const int outputs = row.second;
    CAPTURE(name);
    BertFileReport report;
    const Bert model = load(folder_of(name), true, &report);
    CHECK(check_answers(name, model) == outputs);
    CHECK(report.unknown.empty());
    // These files have a pooler, which no head needs.
    const bool pooler = outputs == 1;
    CHECK(report.unused.size() == (pooler ? 2 : 0));
    const Bert::Output y = model(Answers(name).input);
    Tensor loss = outputs == 1 ? sum(model.bert(Answers(name).input)) : zeros({});
    for (const Tensor& t : {y.words, y.classes})
      if (t.defined()) loss = loss + sum(square(t));
    test::check_leaves(loss, model);
    CHECK(check_answers(name, load(folder_of(name), /*heads=*/false)) == 1);
  }
}

TEST_CASE("encoders: what load_bert says about the models") {
  const BertOptions roberta = load(folder_of("roberta")).options;
  CHECK(roberta.pad == 1);
  CHECK(roberta.position_offset == 2);
  CHECK(roberta.positions == 11);
  CHECK(roberta.eps == 1e-5);
  CHECK(load(folder_of("distilbert")).options.segments == 0);
  CHECK(load(folder_of("distilbert_classifier")).options.pooler_activation == Activation::relu);
  CHECK(load(folder_of("distilbert_classifier")).options.classifier_dropout == 0.2);
  CHECK(load(folder_of("electra")).options.embedding_dim == 8);
  CHECK(load(folder_of("mpnet")).options.relative_buckets == 32);
  const Bert model = load(folder_of("distilbert"));
  const Tensor tokens = tensor<int64_t>({3, 4}, {1, 2});
  CHECK_THROWS_WITH_AS(model({tokens, zeros({1, 2}, DType::i64)}),
                       doctest::Contains("has no segments"), Error);
  CHECK_THROWS_WITH_AS(load(folder_of("roberta"))({zeros({1, 12}, DType::i64)}),
                       doctest::Contains("1 to 11"), Error);
}

TEST_CASE("encoders: other heads are refused, or left out and listed") {
  const std::string questions = folder_of("answers_to_questions");
  CHECK_THROWS_WITH_AS(load(questions), doctest::Contains("qa_outputs"), IoError);
  CHECK_THROWS_WITH_AS(load(questions), doctest::Contains("load_bert_encoder()"), IoError);
  BertFileReport report;
  check_answers("answers_to_questions", load(questions, false, &report));
  CHECK(report.unused == std::vector<std::string>{"qa_outputs.bias", "qa_outputs.weight"});
  const Bert encoder = load(folder_of("roberta"), false, &report);
  CHECK_FALSE(encoder.predictions.has_value());
  CHECK(report.unused.size() == 5);

  // Older files for classes of tokens have a pooler: config.json says that the classes are tokens'.
  const test::TempDir dir;
  SafeTensors file = load_safetensors(folder_of("ner") + "/model.safetensors");
  file.tensors.emplace_back("bert.pooler.dense.weight", zeros({12, 12}));
  file.tensors.emplace_back("bert.pooler.dense.bias", zeros({12}));
  save_safetensors(dir / "model.safetensors", file);
  std::filesystem::copy_file(folder_of("ner") + "/config.json", dir / "config.json");
  CHECK(check_answers("ner", load(dir.path(), true, &report)) == 2);
  CHECK(report.unused.size() == 2);
}

TEST_CASE("encoders: without config.json the options say what the weights do not show") {
  const test::TempDir dir;
  auto take = [&](const std::string& name) {
    std::filesystem::copy_file(folder_of(name) + "/model.safetensors", dir / "model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
  };
  BertFileOptions rest{.heads = 3};
  take("distilbert_classifier");
  CHECK(check_answers("distilbert_classifier", load(dir.path(), true, nullptr, rest)) == 2);
  take("electra_classifier");
  CHECK(check_answers("electra_classifier", load(dir.path(), true, nullptr, rest)) == 2);
  take("roberta");
  CHECK_THROWS_WITH_AS(load(dir.path(), true, nullptr, rest), doctest::Contains(".position_offset"),
                       IoError);
  rest.pad = 1;
  rest.position_offset = 2;
  rest.eps = 1e-5;
  CHECK(check_answers("roberta", load(dir.path(), true, nullptr, rest)) == 2);
  rest.position_offset = 13;
  CHECK_THROWS_WITH_AS(load(dir.path(), true, nullptr, rest), doctest::Contains("too few"),
                       IoError);
  // A file of XLM-RoBERTa without heads has BERT's names: config.json beside it is compared.
  CHECK_THROWS_WITH_AS(load(folder_of("xlm_roberta"), true, nullptr, {.heads = 3, .pad = 0}),
                       doctest::Contains("pad is 1, but the options say 0"), IoError);
  CHECK(load(folder_of("xlm_roberta"), true, nullptr, {.heads = 3}).options.pad == 1);
}

TEST_CASE("encoders: a model that tern saves loads again, and has BERT's names") {
  const test::TempDir dir;
  for (const std::string name : {"roberta_classifier", "distilbert", "electra", "mpnet"}) {
    const Bert model = load(folder_of(name));
    nn::save_weights(dir / "model.safetensors", model);
    Rng rng(2);
    Bert other(model.options, rng);
    const LoadStateReport report = load_bert_weights(dir / "model.safetensors", other);
    CHECK(report.missing.empty());
    CHECK(report.unexpected.empty());
    nn::set_training(other, false);
    check_answers(name, other);
  }
}

TEST_CASE("encoders: config.json of every family: options that change results are refused") {
  struct Row {
    const char *name, *key, *value, *said;
  };
  for (const Row& row :
       {Row{"roberta", "hidden_act", "\"relu\"", "hidden_act: it is \"relu\"; only \"gelu\""},
        {"roberta", "pad_token_id", "23", "pad_token_id"},
        {"roberta", "pad_token_id", "-1", "pad_token_id"},
        {"roberta", "max_position_embeddings", "2", "of which 2 are unused"},
        {"electra", "hidden_act", "\"relu\"", "only \"gelu\""},
        {"distilbert", "activation", "\"selu\"", "hidden_act is selu"},
        {"distilbert", "n_heads", "0", "heads 0"},
        {"mpnet", "relative_attention_num_buckets", "16", "only 32 is known"},
        {"mpnet", "is_decoder", "true", "is_decoder: it is true"},
        {"distilbert", "activation", "\"relu\"", ""},
        {"distilbert", "sinusoidal_pos_embds", "true", ""}}) {
    CAPTURE(row.name);
    CAPTURE(row.key);
    auto config = nlohmann::json::parse(test::read_file(folder_of(row.name) + "/config.json"));
    config[row.key] = nlohmann::json::parse(row.value);
    const std::string said = test::error_of([&] { models::bert_options_from_json(config.dump()); });
    CAPTURE(said);
    CHECK(said.empty() == std::string(row.said).empty());
    CHECK(test::contains(said, row.said));
  }
  for (const char* name : {"roberta", "distilbert", "electra", "mpnet"}) {
    test::check_damaged(test::read_file(folder_of(name) + "/config.json"), "", 100,
                        [](const std::string& text) { models::bert_options_from_json(text); });
    const BertOptions options =
        models::bert_options_from_json(test::read_file(folder_of(name) + "/config.json"));
    CHECK_THROWS_WITH_AS(models::bert_options_to_json(options),
                         doctest::Contains("another encoder"), Error);
  }
  const BertOptions tokens{.next_sentence = true, .classes = 5, .classes_of_tokens = true};
  CHECK_THROWS_WITH_AS(models::bert_options_to_json(tokens), doctest::Contains("classifies tokens"),
                       Error);
}

}  // namespace tern::test_encoders
