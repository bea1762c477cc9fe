// lm with bert: training, model folders, filling of gaps, flags.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/lm/score.h"
#include "tern/apps/lm/training.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/torch_archive.h"

namespace tern::apps::lm::test_lm_bert {
namespace {

using nlohmann::json;
using test::contains;
using test::read_file;
using test::same_bits;
using test::TempDir;
using test::write_file;

/// Documents of three lines.
std::string some_text(const TempDir& dir, const std::string& name = "text", int documents = 24) {
  std::string text;
  for (int i = 0; i < documents; ++i)
    text += i % 2 == 0 ? "The cat sat on the mat.\nIt saw the dog.\nThe dog ran to the cat.\n\n"
                       : "A bird sang in a tree.\nIt flew over a roof.\nA fish heard the bird.\n\n";
  return write_file(dir / name, text);
}

// Everything with randomness and everything with a state is on.
TrainConfig busy_config(const std::string& text) {
  TrainConfig c;
  c.text = {text};
  c.hold_out = 0.2;
  c.vocab_size = 257;
  c.model.model = kBert;
  c.model.context = 20;
  c.model.layers = 2;
  c.model.dim = 16;
  c.model.heads = 4;
  c.model.dropout = 0.2;
  c.model.eps = 1e-12;
  c.epochs = 3;
  c.batch = 3;
  c.accumulate = 2;
  c.lr = 1e-2;
  c.warmup = 3;
  c.ema = 0.9;
  c.seed = 3;
  return c;
}

struct Setup {
  TrainConfig config;
  datasets::WordPiece pieces;
  BertCorpus corpus;

  explicit Setup(const TrainConfig& c) : Setup(c, read_texts(c)) {}
  Setup(const TrainConfig& c, const Texts& texts)
      : config(c), pieces(make_pieces(c, texts)), corpus(encode_documents(c, texts, pieces)) {
    config.model.vocab = pieces.size();
  }
  std::unique_ptr<BertTraining> training() const {
    Rng rng(config.seed);
    return std::make_unique<BertTraining>(config, corpus,
                                          models::Bert(bert_sizes(config, pieces.pad_id()), rng));
  }
};

LmFlags parse(const std::vector<std::string>& words) {
  return test::parsed(lm_program, "lm", words);
}

std::string trained_folder(const TempDir& dir, const TrainConfig& config,
                           const char* name = "run") {
  LmFlags o;
  o.config = config;
  o.train.out = dir / name;
  REQUIRE(train_lm(o) == 0);
  return o.train.out;
}

std::string filled(const std::string& folder, const std::string& text) {
  LmFlags o;
  o.model = folder;
  o.gaps = text;
  std::ostringstream out;
  fill_gaps(o, out);
  return out.str();
}

}  // namespace

TEST_CASE("lm bert: a small model learns its text and fills gaps") {
  TempDir dir;
  TrainConfig c = busy_config(some_text(dir, "text", 60));
  c.model.dim = 48;
  c.model.dropout = c.ema = 0;
  c.batch = 8;
  c.accumulate = 1;
  c.lr = 5e-3;
  c.epochs = 40;
  const std::string folder = trained_folder(dir, c);
  std::istringstream log(read_file(folder + "/log.jsonl"));
  nlohmann::json last;
  for (std::string line; std::getline(log, line);) last = nlohmann::json::parse(line);
  CHECK(last.at("valid_words").get<double>() > 0.6);
  CHECK(filled(folder, "The cat [MASK] on the mat.").starts_with("the cat sat on the mat."));
  CHECK(filled(folder, "a bird sang in a [MASK].").starts_with("a bird sang in a tree."));
}

TEST_CASE("lm bert: scores are means of the losses, and repeat exactly") {
  TempDir dir;
  const Setup setup(busy_config(some_text(dir)));
  auto t = setup.training();
  nn::set_training(t->model, false);
  auto batches = [&] {
    return datasets::bert_loader(setup.corpus.train, setup.pieces,
                                 {.batch = 4, .max_tokens = setup.config.model.context});
  };
  auto one = batches(), two = batches(), three = batches();
  const BertScore score = *score_batches(t->model, one), again = *score_batches(t->model, two);
  CHECK(score.masked_nats == again.masked_nats);
  double masked = 0, next = 0;
  int64_t words = 0, pairs = 0, right = 0;
  for (const datasets::BertBatch& b : three) {
    const models::BertLoss loss = models::pretraining_loss(t->model, input_of(b), targets_of(b));
    masked += loss.masked.item() * static_cast<double>(b.words.numel());
    next += loss.next.item() * static_cast<double>(b.next.numel());
    words += b.words.numel();
    pairs += b.next.numel();
    right += sum(eq(argmax(t->model(input_of(b)).next, -1), b.next)).item<int64_t>();
  }
  CHECK(score.masked == words);
  CHECK(score.pairs == pairs);
  CHECK(score.pairs_right == right);
  CHECK(score.masked_nats == doctest::Approx(masked).epsilon(1e-5));
  CHECK(score.next_nats == doctest::Approx(next).epsilon(1e-5));
  CHECK(score.loss() ==
        doctest::Approx(masked / static_cast<double>(words) + next / static_cast<double>(pairs)));
  int64_t seen = 0;
  auto four = batches();
  CHECK_FALSE(score_batches(t->model, four, [&](int64_t done) { return (seen = done) < 2; }));
  CHECK(seen == 2);
}

TEST_CASE("lm bert: a model folder: filling of gaps, evaluation, export, damage") {
  TempDir dir;
  const std::string folder = trained_folder(dir, busy_config(some_text(dir)));
  const std::string report = read_file(folder + "/report.html");
  for (const char* part : {"Loss of a pair", "Gaps", "[MASK]", "Self-attention", "head 4"})
    CHECK(report.find(part) != std::string::npos);

  LmFlags o = parse({"fill", "--model", folder, "[MASK] [MASK]", "--guesses", "3", "--attention",
                     dir / "attention.html"});
  std::ostringstream out;
  CHECK(fill_gaps(o, out) == 0);
  CHECK(std::ranges::count(out.str(), '%') == 6);
  CHECK(out.str().find("\n  gap 2\n") != std::string::npos);
  CHECK(read_file(o.attention).find("<svg") != std::string::npos);
  o.out = dir / "bert.onnx";
  CHECK(export_model(o) == 0);
  CHECK(test::OnnxFile(o.out).inputs[1].name == "lengths");
  o.caches = true;
  CHECK_THROWS_WITH_AS(export_model(o), doctest::Contains("--caches: a bert"), Error);
  o.attention = dir / "attention.txt";
  CHECK_THROWS_AS(fill_gaps(o, out), Error);
  CHECK_THROWS_WITH_AS(filled(folder, "no gap"), doctest::Contains("no [MASK]"), Error);
  std::string long_text = "[MASK]";
  for (int i = 0; i < 20; ++i) long_text += " a";
  CHECK_THROWS_WITH_AS(filled(folder, long_text), doctest::Contains("takes 20"), Error);

  o = {};
  o.model = folder;
  o.text = {dir / "text"};
  CHECK(evaluate_model(o) == 0);
  o.text = {write_file(dir / "line", "The cat sat on the mat.")};  // without pairs
  CHECK(evaluate_model(o) == 0);
  std::filesystem::create_directory(dir / "texts");  // as in training, its .txt and .gz
  write_file(dir / "texts/a.txt", "The cat sat on the mat.");
  o.text = {dir / "texts"};
  CHECK(evaluate_model(o) == 0);
  o.stride = 3;
  CHECK_THROWS_AS(evaluate_model(o), Error);
  std::istringstream in;
  CHECK_THROWS_WITH_AS(generate_text(o, in, out), doctest::Contains("lm fill"), IoError);

  for (const char* part : {"model.safetensors", "lm.json", "config.json", "vocab.txt"}) {
    const std::string bytes = read_file(folder + "/" + part);
    write_file(folder + "/" + part, bytes.substr(0, bytes.size() / 2));
    if (part != std::string("vocab.txt"))  // half of vocab.txt is still valid
      CHECK_THROWS_AS(load_bert_folder(folder), IoError);
    std::filesystem::remove(folder + "/" + part);
    if (part != std::string("lm.json"))
      CHECK_THROWS_WITH_AS(load_bert_folder(folder), doctest::Contains(part), IoError);
    write_file(folder + "/" + part, bytes);
  }
  CHECK_THROWS_AS(load_bert_folder(dir / "nowhere"), IoError);
}

TEST_CASE("lm bert: training starts from a model, cased or not, with or without pairs") {
  TempDir dir;
  TrainConfig c = busy_config(some_text(dir));
  c.cased = true;
  c.pairs = false;
  const std::string folder = trained_folder(dir, c);
  const LoadedBert before = load_bert_folder(folder);
  CHECK_FALSE(before.pieces.options().lower);
  CHECK_FALSE(before.model.options.next_sentence);
  LmFlags o;
  o.config.text = {dir / "text"};
  o.config.from = folder;
  o.config.lr = 1e-9;
  o.config.epochs = 1;
  o.given = {"lr"};
  o.train.out = dir / "more";
  CHECK(train_lm(o) == 0);
  const LoadedBert after = load_bert_folder(o.train.out);
  CHECK_FALSE(after.pieces.options().lower);
  const Tensor tokens = tensor<int64_t>({5, 6, 7}, {1, 3});
  const Tensor x = before.model({tokens}).words, y = after.model({tokens}).words;
  CHECK(all_close(x, y, 1e-4, 1e-4));
  CHECK_FALSE(same_bits(x, y));
  o.given = {};
  o.train.out = dir / "tuned";
  CHECK(train_lm(o) == 0);
  const TrainConfig tuned = load_config({o.train.out});
  CHECK(tuned.lr == kFineTuneRate);
  CHECK(tuned.model.dropout == c.model.dropout);
  CHECK(tuned.window_tokens() == 20);
  o.given = {"model.context"};
  o.config.model.context = 9;
  o.train.out = dir / "short";
  CHECK(train_lm(o) == 0);
  const TrainConfig shorter = load_config({o.train.out});
  CHECK(loader_options(shorter).max_tokens == 9);
  CHECK(encode_documents(shorter, read_texts(shorter), before.pieces).train->sentences() >
        encode_documents(tuned, read_texts(tuned), before.pieces).train->sentences());
  CHECK(load_bert_folder(o.train.out).model.options.positions == 20);
  o.config.model.context = 21;
  CHECK_THROWS_WITH_AS(train_lm(o), doctest::Contains("--context 21 is above the model's"), Error);
  const TrainConfig stories = parse({"train", "--from", folder}).config;
  CHECK(stories.epochs == 4);
  CHECK(stories.batch == 16);
  o.given = {"model.dropout"};
  o.config.model.dropout = 0.375;
  o.train.out = dir / "dropout";
  CHECK(train_lm(o) == 0);
  CHECK(load_config({o.train.out}).model.dropout == 0.375);
  o.train.out = dir / "parts";
  o.config.parts = 2;
  CHECK_THROWS_WITH_AS(train_lm(o), doctest::Contains("--parts"), Error);
}

TEST_CASE("lm bert: a model's dropout of attention stays, --dropout is everywhere") {
  TempDir dir;
  TrainConfig c = busy_config(some_text(dir));
  c.epochs = 1;
  const std::string folder = trained_folder(dir, c);
  json config = json::parse(read_file(folder + "/config.json"));
  config["attention_probs_dropout_prob"] = 0.0;
  write_file(folder + "/config.json", config.dump());
  LmFlags o;
  o.config.text = c.text;
  o.config.hold_out = c.hold_out;
  o.config.epochs = 1;
  const auto dropouts = [&](const std::string& from, const char* name) {
    o.config.from = from;
    o.train.out = dir / name;
    REQUIRE(train_lm(o) == 0);
    const models::BertOptions trained = bert_sizes(load_config({o.train.out}), 0),
                              saved = load_bert_folder(o.train.out).model.options;
    return std::vector<double>{trained.dropout, trained.attention_dropout, saved.dropout,
                               saved.attention_dropout};
  };
  CHECK(dropouts(folder, "tuned") == std::vector<double>{0.2, 0, 0.2, 0});
  CHECK(dropouts(dir / "tuned", "again") == std::vector<double>{0.2, 0, 0.2, 0});
  CHECK(contains(read_file(dir / "again/report.html"), "dropout 0.2 (0 in attention)"));
  o.given = {"model.dropout"};
  o.config.model.dropout = 0.2;
  CHECK(dropouts(folder, "all") == std::vector<double>{0.2, 0.2, 0.2, 0.2});
}

/// A tokenizer.json with BERT's tokenizer and these tokens; those in brackets are special.
json tokenizer_json(const std::vector<std::string>& tokens, const char* unknown) {
  json file = {{"version", "1.0"},
               {"added_tokens", json::array()},
               {"normalizer",
                {{"type", "BertNormalizer"},
                 {"clean_text", true},
                 {"handle_chinese_chars", true},
                 {"strip_accents", nullptr},
                 {"lowercase", false}}},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
               {"post_processor",
                {{"type", "RobertaProcessing"},
                 {"cls", {"<s>", 0}},
                 {"sep", {"</s>", 2}},
                 {"trim_offsets", true},
                 {"add_prefix_space", false}}},
               {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
               {"model",
                {{"type", "WordPiece"},
                 {"unk_token", unknown},
                 {"continuing_subword_prefix", "##"},
                 {"max_input_chars_per_word", 100}}}};
  for (size_t i = 0; i < tokens.size(); ++i) {
    file["model"]["vocab"][tokens[i]] = i;
    if (tokens[i][0] == '<' || tokens[i][0] == '[')
      file["added_tokens"].push_back({{"id", i},
                                      {"content", tokens[i]},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", true}});
  }
  return file;
}

TEST_CASE("lm fill: a RoBERTa, with its own tokenizer") {
  const TempDir dir;
  const std::string from = std::string(TERN_SOURCE_DIR) + "/tests/reference/encoders/roberta/";
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(from + name, dir / name);
  std::vector<std::string> tokens = {"<s>", "<pad>", "</s>", "<mask>", "<unk>"};
  for (int i = 5; i < 23; ++i) tokens.push_back(fmt::format("w{}", i));
  write_file(dir / "tokenizer.json", tokenizer_json(tokens, "<unk>").dump());
  Rng rng(0);
  models::Bert model = models::load_bert(dir / "model.safetensors", rng);
  nn::set_training(model, false);
  const auto words = softmax(model({tensor<int64_t>({0, 7, 3, 9, 2}, {1, 5})}).words, -1);
  const Tensor at_gap = reshape(words, {5, 23})[2];
  const auto [value, best] = max(at_gap, 0);
  const std::string out = filled(dir.path(), "w7 <mask> w9");
  CHECK(out.starts_with(fmt::format("w7 {} w9\n", tokens[static_cast<size_t>(best.item())])));
  CHECK(contains(out, fmt::format("{:6.2f} %", 100 * value.item())));
  CHECK_THROWS_WITH_AS(filled(dir.path(), "w7"), doctest::Contains("there is no <mask> in"), Error);
  tokens[3] = "gap";
  write_file(dir / "tokenizer.json", tokenizer_json(tokens, "<unk>").dump());
  CHECK_THROWS_WITH_AS(filled(dir.path(), "w7"), doctest::Contains("neither [MASK] nor"), IoError);
  tokens.resize(30, "more");
  for (size_t i = 23; i < 30; ++i) tokens[i] += fmt::format("{}", i);
  write_file(dir / "tokenizer.json", tokenizer_json(tokens, "<unk>").dump());
  CHECK_THROWS_WITH_AS(filled(dir.path(), "w7"), doctest::Contains("the model knows 23"), IoError);
}

TEST_CASE("lm bert: a folder written by transformers") {
  TempDir dir;
  const std::string from = std::string(TERN_SOURCE_DIR) + "/tests/reference/bert/pretraining";
  std::filesystem::copy_file(from + ".safetensors", dir / "model.safetensors");
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < 53; ++i) vocabulary += fmt::format("w{}\n", i);
  write_file(dir / "vocab.txt", vocabulary);
  const json config = {{"model_type", "bert"},
                       {"num_attention_heads", 3},
                       {"vocab_size", 53},
                       {"hidden_size", 12},
                       {"num_hidden_layers", 2},
                       {"intermediate_size", 20},
                       {"max_position_embeddings", 11}};
  write_file(dir / "config.json", config.dump());
  const LoadedBert bert = load_bert_folder(dir.path());
  const SafeTensors want = load_safetensors(from + ".answers.safetensors");
  const auto y = bert.model(
      {want.find("tokens"), want.find("segments"), nn::Mask::keys(ne(want.find("mask"), 0))});
  CHECK(all_close(y.words, want.find("words"), 1e-4, 1e-5));
  CHECK(filled(dir.path(), "W7 [MASK]").starts_with("w7 "));
  // Since version 5 it writes no vocab.txt.
  const datasets::WordPiece& pieces = bert.pieces;
  std::filesystem::rename(dir / "vocab.txt", dir / "other.txt");
  json published = tokenizer_json(pieces.pieces(), "[UNK]");
  published["post_processor"]["cls"] = {"[CLS]", 2};
  published["post_processor"]["sep"] = {"[SEP]", 3};
  write_file(dir / "tokenizer.json", published.dump());
  const datasets::WordPiece same = load_bert_folder(dir.path()).pieces;
  CHECK(same.pieces() == pieces.pieces());
  CHECK_FALSE(same.options().lower);
  CHECK(filled(dir.path(), "w7 [MASK]").starts_with("w7 "));
  json more = published;
  more["added_tokens"].push_back(more["added_tokens"][0]);
  more["added_tokens"].back().update({{"id", 53}, {"content", "[NEW]"}});
  write_file(dir / "tokenizer.json", more.dump());
  CHECK_THROWS_WITH_AS(load_bert_folder(dir.path()), doctest::Contains("it has 54 tokens"), Error);
  more = published;
  more["normalizer"]["unknown"] = 1;
  write_file(dir / "tokenizer.json", more.dump());
  CHECK_THROWS_WITH_AS(load_bert_folder(dir.path()), doctest::Contains("unknown"), Error);
  published["pre_tokenizer"]["type"] = "Whitespace";
  write_file(dir / "tokenizer.json", published.dump());
  CHECK_THROWS_WITH_AS(load_bert_folder(dir.path()),
                       doctest::Contains("pre_tokenizer.type: it is \"Whitespace\""), Error);
  std::filesystem::remove(dir / "tokenizer.json");
  std::filesystem::rename(dir / "other.txt", dir / "vocab.txt");
  write_file(dir / "tokenizer_config.json", R"({"do_lower_case": false})");
  CHECK(filled(dir.path(), "W7 [MASK]").starts_with("[UNK] "));
  auto refused = [&](const char* config, const char* text) {
    write_file(dir / "config.json", config);
    CHECK_THROWS_WITH_AS(load_bert_folder(dir.path()), doctest::Contains(text), IoError);
  };
  std::filesystem::remove(dir / "model.safetensors");
  test::torch::save(dir / "pytorch_model.bin", load_safetensors(from + ".safetensors").tensors);
  CHECK(filled(dir.path(), "W7 [MASK]").starts_with("[UNK] "));
  refused(R"({"model_type": "bert", "hidden_act": "softsign"})", "softsign");
  refused(R"({"model_type": "bert", "num_attention_heads": 5})", "heads");
  refused(R"({"model_type": "bert", "num_attention_heads": -1})", "heads");
  refused(R"({"model_type": "bert", "position_embedding_type": "relative_key"})", "absolute");
  refused(R"({"model_type": "gpt2"})", "not a BERT");
  refused(R"({"model_type": 3})", "config.json: model_type: expected a string, got 3");
  refused("{", "config.json: not JSON at line 1, column 2");
}

TEST_CASE("lm bert: documents without pairs of sentences") {
  TempDir dir;
  TrainConfig alone = busy_config(write_file(dir / "alone", "a b c\n\nd e f\n\ng h i\n"));
  alone.hold_out = 0;
  LmFlags o;
  o.config = alone;
  o.train.out = dir / "run";
  CHECK_THROWS_WITH_AS(train_lm(o), doctest::Contains("--no-pairs"), Error);
  CHECK_FALSE(std::filesystem::exists(o.train.out));
}

TEST_CASE("lm bert: the checksum of the data covers every id, also without validation") {
  TempDir dir;
  std::vector<std::string> checksums;
  std::optional<datasets::WordPiece> pieces;
  for (const char* text : {"a b\nb a\n", "b a\na b\n"}) {
    TrainConfig c = busy_config(write_file(dir / "text", text));
    c.hold_out = 0;
    const Texts texts = read_texts(c);
    if (!pieces) pieces = make_pieces(c, texts);
    checksums.push_back(encode_documents(c, texts, *pieces).checksum);
  }
  CHECK(checksums[0].starts_with("4 + 0 tokens, "));
  CHECK(checksums[0] != checksums[1]);
}

TEST_CASE("lm bert: flags") {
  const TrainConfig c =
      parse({"train", "--model", "bert", "--text", "a", "--cased", "--no-pairs"}).config;
  CHECK(c.cased);
  CHECK_FALSE(c.pairs);
  CHECK(c.model.eps == 1e-12);
  CHECK(parse({"train", "--model", "bert", "--text", "a", "--heads", "2"}).config.pairs);
  const TrainConfig stories = parse({"train", "--model", "bert", "--epochs", "3"}).config;
  CHECK(stories.epochs == 3);
  CHECK(stories.lr == 2e-3);
  CHECK(stories.batch == 16);
  // Brackets and commas do not make a list.
  CHECK(parse({"fill", "--model", "d", "[MASK] a, [MASK]"}).gaps == "[MASK] a, [MASK]");
  CHECK(parse({"generate", "--model", "d", "--stop", "[a,b]", "--stop", "c"}).generate.stop ==
        std::vector<std::string>{"[a,b]", "c"});
  const std::vector<std::vector<std::string>> wrong = {
      {"train", "--cased"},
      {"train", "--model", "llama", "--no-pairs"},
      {"train", "--model", "bert", "--kv-heads", "2"},
      {"train", "--model", "bert", "--tie"},
      {"train", "--model", "bert", "--parts", "2"},
      {"train", "--from", "d", "--cased"},
      {"train", "--from", "d", "--no-pairs"},
      {"fill", "--model", "d"},
      {"fill", "--model", "d", "a [MASK]", "b [MASK]"},
      {"fill", "the [MASK]"},
      {"fill", "--model", "d", "the [MASK]", "--guesses", "0"}};
  for (const auto& words : wrong) CHECK_THROWS_AS(parse(words), Error);
}

}  // namespace tern::apps::lm::test_lm_bert
