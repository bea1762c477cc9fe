// BERT's files: files of transformers (tests/reference/make_bert.py), older names, and files that
// do not fit.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/bert.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/model_checks.h"
#include "tern/tests/support/torch_archive.h"

namespace tern::test_bert_files {
namespace {

using models::Bert, models::BertFileOptions, models::BertOptions, models::load_bert,
    models::load_bert_weights;

constexpr BertFileOptions kThreeHeads = {.heads = 3};

std::string reference(const std::string& name) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/bert/" + name + ".safetensors";
}

Bert read(const std::string& path) {
  Rng rng(1);
  return load_bert(path, rng, kThreeHeads);  // in evaluation mode
}

/// Checks that our logits agree with those of transformers.
void check_answers(const Bert& model, const std::string& name) {
  const SafeTensors want = load_safetensors(reference(name + ".answers"));
  const Bert::Output y =
      model({want.find("tokens"), want.find("segments"), nn::Mask::keys(ne(want.find("mask"), 0))});
  int64_t compared = 0;
  for (const auto& head : {std::pair("words", y.words), {"next", y.next}, {"classes", y.classes}}) {
    const Tensor expected = want.find(head.first), &got = head.second;
    REQUIRE_MESSAGE(expected.defined() == got.defined(), name, " ", head.first);
    if (!got.defined()) continue;
    CHECK_MESSAGE(test::close(got, expected, 1e-4, 1e-5), name, " ", head.first);
    ++compared;
  }
  CHECK(compared > 0);
}

/// Writes the tensors of a file under other names, without those renamed to "".
template <class Rename>
std::string renamed(const std::string& from, const std::string& to, Rename rename) {
  SafeTensors file = load_safetensors(from), out;
  for (const auto& [name, t] : file.tensors)
    if (std::string other = rename(name); !other.empty()) out.tensors.emplace_back(other, t);
  save_safetensors(to, out);
  return to;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  if (size_t at = text.find(what); at != text.npos) text.replace(at, what.size(), by);
  return text;
}

}  // namespace

TEST_CASE("bert files: transformers' outputs, with the file's heads and sizes") {
  for (const char* name : {"masked_lm", "pretraining", "classifier"}) {
    const Bert model = read(reference(name));
    CHECK(model.options.vocab == 53);
    CHECK(model.options.dim == 12);
    CHECK(model.options.layers == 2);
    CHECK(model.options.ffn == 20);
    CHECK(model.options.positions == 11);
    CHECK(model.options.segments == 2);
    CHECK(model.options.classes == (name == std::string("classifier") ? 4 : 0));
    check_answers(model, name);
  }
}

TEST_CASE("bert files: older names, and files that repeat the decoder") {
  test::TempDir dir;
  const std::string now = reference("pretraining");
  const std::string old = renamed(now, dir / "old.safetensors", [](const std::string& name) {
    return replaced(replaced(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias",
                    "LayerNorm.beta");
  });
  SafeTensors file = load_safetensors(old);
  const Tensor words = file.find("bert.embeddings.word_embeddings.weight");
  file.tensors.emplace_back("bert.embeddings.position_ids", reshape(arange(0, 11), {1, 11}));
  file.tensors.emplace_back("cls.predictions.decoder.weight", words.clone());
  save_safetensors(old, file);
  check_answers(read(old), "pretraining");

  SafeTensors other = file;  // table and bias only under the decoder's names
  std::erase_if(other.tensors,
                [](const auto& t) { return t.first == "bert.embeddings.word_embeddings.weight"; });
  for (auto& [name, t] : other.tensors)
    if (name == "cls.predictions.bias") name = "cls.predictions.decoder.bias";
  save_safetensors(dir / "decoder.safetensors", other);
  check_answers(read(dir / "decoder.safetensors"), "pretraining");

  for (auto& [name, t] : file.tensors)
    if (name == "cls.predictions.decoder.weight") t = words + 1;
  save_safetensors(dir / "untied.safetensors", file);
  CHECK_THROWS_WITH_AS(read(dir / "untied.safetensors"), doctest::Contains("separate decoder"),
                       IoError);
}

TEST_CASE("bert files: PyTorch's form") {
  test::TempDir dir;
  const std::string path = test::torch::save(dir / "pytorch_model.bin",
                                             load_safetensors(reference("pretraining")).tensors);
  check_answers(read(path), "pretraining");
}

TEST_CASE("bert files: saved files load again, also into f64") {
  test::TempDir dir;
  const Bert model = read(reference("pretraining"));
  nn::save_weights(dir / "ours.safetensors", model);
  check_answers(read(dir / "ours.safetensors"), "pretraining");
  Rng rng(2);
  Bert wide(model.options, rng);
  nn::to(wide, DType::f64);
  nn::set_training(wide, false);
  const LoadStateReport report = load_bert_weights(dir / "ours.safetensors", wide);
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());
  const Tensor tokens = tensor<int64_t>({4, 5, 6}, {1, 3});
  CHECK(test::close(wide({tokens}).words.to(DType::f32), model({tokens}).words, 1e-4, 1e-5));
}

TEST_CASE("bert files: pre-trained weights load into other heads; unused heads are reported") {
  test::TempDir dir;
  const Bert pretrained = read(reference("pretraining"));
  BertOptions options = pretrained.options;
  options.masked_lm = options.next_sentence = false;
  options.classes = 3;
  Rng rng(2);
  Bert model(options, rng);
  const std::vector<double> before = model.classifier->weight.tensor().to_vector<double>();
  CHECK_THROWS_WITH_AS(load_bert_weights(reference("pretraining"), model),
                       doctest::Contains("classifier.weight"), IoError);
  const LoadStateReport report =
      load_bert_weights(reference("pretraining"), model, {.strict = false});
  CHECK(report.missing == std::vector<std::string>{"classifier.weight", "classifier.bias"});
  CHECK(report.unexpected.size() == 7);
  CHECK(std::count(report.unexpected.begin(), report.unexpected.end(),
                   "cls.seq_relationship.bias") == 1);
  CHECK(model.classifier->weight.tensor().to_vector<double>() == before);
  nn::set_training(model, false);
  const Tensor tokens = tensor<int64_t>({4, 5, 6}, {1, 3});
  CHECK(test::same(model.bert({tokens}), pretrained.bert({tokens})));

  // BertModel's own file has no "bert." prefix and no heads.
  const std::string bare =
      renamed(reference("masked_lm"), dir / "bare.safetensors", [](const std::string& name) {
        return name.starts_with("bert.") ? name.substr(5) : std::string();
      });
  const Bert headless = read(bare);
  CHECK_FALSE(headless.predictions.has_value());
  CHECK(test::same(headless.bert({tokens}), read(reference("masked_lm")).bert({tokens})));
}

TEST_CASE("bert files: files that do not fit are errors that name the file") {
  test::TempDir dir;
  auto refused = [&](const std::string& path, const char* text,
                     const BertFileOptions& rest = kThreeHeads) {
    Rng rng(1);
    CHECK_THROWS_WITH_AS(load_bert(path, rng, rest), doctest::Contains(path.c_str()), IoError);
    CHECK_THROWS_WITH_AS(load_bert(path, rng, rest), doctest::Contains(text), IoError);
  };
  const std::string whole = reference("pretraining");
  refused(whole, "there is no config.json beside it", {});
  refused(whole, "there is no config.json beside it", {.dropout = 0});
  auto without = [&](const std::string& part) {
    return renamed(whole, dir / "without.safetensors", [&](const std::string& name) {
      return name.find(part) == name.npos ? name : std::string();
    });
  };
  refused(without("word_embeddings"), "not a BERT or another encoder");
  refused(without("position_embeddings"), "position_embeddings");
  refused(without("layer.1.attention.self.key.bias"), "layer.1.attention.self.key.bias");
  refused(without("layer.0.intermediate"), "layer.0.intermediate.dense.weight");
  refused(without("layer.0."), "unexpected");
  SafeTensors file = load_safetensors(whole);
  for (int i = 2; i < 2000; ++i)
    file.tensors.emplace_back(fmt::format("bert.encoder.layer.{}.x", i), zeros({1}));
  save_safetensors(dir / "layers.safetensors", file);
  refused(dir / "layers.safetensors", "too few for 2000 layers");
  SafeTensors flat = load_safetensors(whole);
  for (auto& [name, t] : flat.tensors)
    if (name == "bert.embeddings.word_embeddings.weight") t = flatten(t);
  save_safetensors(dir / "flat.safetensors", flat);
  refused(dir / "flat.safetensors", "a matrix is needed");
}

}  // namespace tern::test_bert_files
