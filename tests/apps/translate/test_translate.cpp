// translate: training, model folders, translations, flags.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tern/apps/translate/program.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/apps/translate/open_text.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::translate::test_translate {
namespace {

using test::read_file, test::TempDir, test::write_file;

// Everything with randomness and everything with a state is on.
TrainConfig busy_config(const std::string& model) {
  TrainConfig c;
  c.first = 40;
  c.hold_out = 6;
  c.tokens = "bpe";
  c.bpe = 60;
  c.bpe_dropout = 0.2;
  c.shared = true;
  c.model = {.model = model, .layers = 1, .dim = 16, .hidden = 12, .heads = 2, .ffn = 20};
  c.model.tie = "all";
  c.model.dropout = 0.2;
  c.epochs = 3;
  c.batch = 9;
  c.lr = 0.5;
  c.schedule = "noam";
  c.warmup = 5;
  c.label_smoothing = 0.1;
  c.ema = 0.9;
  c.accumulate = 2;
  c.optimizer = "adamw";
  c.weight_decay = 0.01;
  c.seed = 3;
  return c;
}

// A corpus and trainings on it.
struct Setup {
  TrainConfig config;
  Tokenizers tokenizers;
  Corpus corpus;

  explicit Setup(TrainConfig c) : config(std::move(c)) {
    const PairFiles files = read_pair_files(config);
    tokenizers = learn_tokenizers(config, files.train);
    config.model.source_vocab = tokenizers.source.size();
    config.model.target_vocab = tokenizers.target.size();
    corpus = encode_corpus(config, files, tokenizers);
  }
  std::unique_ptr<TranslationTraining> training() const {
    return std::make_unique<TranslationTraining>(config, corpus, tokenizers);
  }
};

void step(TranslationTraining& t) {
  if (t.loop.epoch_trained()) REQUIRE(t.loop.close_epoch());
  t.loop.step();
}

TranslateFlags parse(const std::vector<std::string>& words) {
  return test::parsed(translate_program, "translate", words);
}

// The model folder of a run with three short epochs.
std::string trained_folder(const TempDir& dir, const std::string& model) {
  TranslateFlags o;
  o.config = busy_config(model);
  o.train.out = dir / model;
  REQUIRE(train_translation(o) == 0);
  return o.train.out;
}

}  // namespace

TEST_CASE("translate: accumulated batches give the same step as one large batch") {
  TrainConfig small = busy_config("transformer");
  small.model.dropout = 0;
  small.batch = 4;
  small.accumulate = 100;  // all batches of the epoch
  TrainConfig large = small;
  large.batch = 34;
  const Setup a(small), b(large);
  auto x = a.training(), y = b.training();
  REQUIRE(x->loader.batches_per_epoch() > y->loader.batches_per_epoch());
  x->loop.step();
  y->loop.step();
  REQUIRE(x->loop.epoch_trained());
  REQUIRE(y->loop.epoch_trained());
  CHECK(x->loop.means().mean("loss") ==
        doctest::Approx(y->loop.means().mean("loss")).epsilon(1e-5));
  CHECK(x->loop.means().count("loss") == y->loop.means().count("loss"));
  const NamedTensors p = x->learner.weights(), q = y->learner.weights();
  for (size_t i = 0; i < p.size(); ++i) {
    CAPTURE(p[i].first);
    // A key's bias has only rounding as gradient, which Adam scales like any other gradient.
    if (p[i].first.ends_with("in_proj_bias")) continue;
    CHECK(max(abs(p[i].second - q[i].second)).item() < 1e-4);
  }
}

TEST_CASE("translate: R-Drop adds the divergence of two passes over the same pairs") {
  TrainConfig c = busy_config("transformer");
  c.bpe_dropout = 0;
  c.r_drop = 3;
  const Setup setup(c);
  datasets::Loader<datasets::PairBatch> loader = training_batches(setup.config, setup.corpus);
  const datasets::PairBatch b = loader.next().value();
  const int64_t pairs = b.target_out.size(0), tokens = b.target_out.size(1);
  REQUIRE(min(b.target_lengths).item() < static_cast<double>(tokens));  // there is padding

  const TranslationModel model(setup.config), same(setup.config);
  const double loss = training_loss(model, setup.config, b).item();
  const Tensor first = same.logits(b), second = same.logits(b);
  const auto log_probs = [](const Tensor& logits) {
    return log_softmax(cast(logits, DType::f64), -1);
  };
  const Tensor p = log_probs(first), q = log_probs(second);
  double cross = 0, apart = 0, counted = 0;
  const int64_t words = p.size(-1);
  for (int64_t i = 0; i < pairs; ++i)
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t word = b.target_out[i][t].item<int64_t>();
      if (word == datasets::kPadId) continue;
      ++counted;
      const std::vector<double> x = p[i][t].to_vector<double>(), y = q[i][t].to_vector<double>();
      for (const std::vector<double>& z : {x, y})
        for (int64_t k = 0; k < words; ++k)
          cross -= z[k] * (c.label_smoothing / static_cast<double>(words) +
                           (k == word ? 1 - c.label_smoothing : 0));
      for (int64_t k = 0; k < words; ++k)
        apart += std::exp(x[k]) * (x[k] - y[k]) + std::exp(y[k]) * (y[k] - x[k]);
    }
  REQUIRE(apart / counted > 1e-3);
  CHECK(loss == doctest::Approx((cross / 2 + c.r_drop / 4 * apart) / counted).epsilon(1e-5));

  c.model.dropout = 0;
  CHECK_THROWS_WITH(check_config(c), doctest::Contains("--r-drop 3 compares two passes"));
}

TEST_CASE("translate: with BPE dropout each epoch cuts the words of its pairs in other ways") {
  TrainConfig c = busy_config("transformer");
  c.batch = 1;
  const Setup setup(c);
  datasets::Loader<datasets::PairBatch> loader = training_batches(setup.config, setup.corpus);
  auto sources = [&] {
    std::vector<std::vector<int64_t>> found(setup.corpus.train.pairs->size());
    for (const datasets::PairBatch& b : loader)
      found[static_cast<size_t>(b.indices.item<int64_t>())] = b.source.to_vector<int64_t>();
    return found;
  };
  const auto first = sources(), second = sources();
  size_t usual = 0, same = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const std::vector<int64_t>& ids = (*setup.corpus.train.pairs)[i].source;
    const datasets::Tokenizer& t = setup.tokenizers.source;
    CHECK(t.decode(first[i]) == t.decode(ids));
    CHECK(t.decode(second[i]) == t.decode(ids));
    usual += first[i].size() == ids.size() + 1;
    same += first[i] == second[i];
  }
  CHECK(usual < first.size() / 2);
  CHECK(same < first.size() / 2);
}

TEST_CASE("translate: the optimizer when no name is given") {
  auto parsed = [](std::vector<std::string> words) {
    words.insert(words.begin(), "train");
    return parse(words).config.optimizer;
  };
  CHECK(parsed({}) == "adam");
  CHECK(parsed({"--preset", "multi30k-transformer"}) == "adam");
  CHECK(parsed({"--preset", "multi30k-best", "--weight-decay", "0.1"}) == "muon");
  CHECK(parsed({"--weight-decay", "0.1"}) == "adamw");
  CHECK(parsed({"--weight-decay", "0.1", "--optimizer", "adam"}) == "adam");
  CHECK(parsed({"--weight-decay", "0.1", "--optimizer", "sgd"}) == "sgd");
  CHECK_THROWS_WITH_AS(parsed({"--optimizer", "sgd", "--beta2", "0.9"}),
                       doctest::Contains("--beta2 would change nothing: sgd has none"), Error);
  TrainConfig c;
  c.model.source_vocab = c.model.target_vocab = 100;
  auto read = [&](double decay, bool named) {  // older files name none
    c.weight_decay = decay;
    nlohmann::json j = nlohmann::json::parse(to_json(c));
    if (!named) j.erase("optimizer");
    return config_from_json<TrainConfig>(j.dump()).optimizer;
  };
  CHECK(read(0, false) == "adam");
  CHECK(read(0.1, false) == "adamw");
  CHECK(read(0.1, true) == "adam");
}

TEST_CASE(
    "translate: a run of an older version keeps decaying all weights, a new one only matrices") {
  CHECK_FALSE(parse({"train", "--weight-decay", "0.1"}).config.decay_all);
  CHECK_THROWS_WITH_AS(parse({"train", "--decay-all"}), doctest::Contains("would change nothing"),
                       Error);
  TempDir dir;
  auto run = [&](const char* name, int64_t epochs, bool all) {
    TranslateFlags o;
    o.config = busy_config("bahdanau");
    o.config.epochs = epochs;
    o.config.decay_all = all;
    o.config.weight_decay = 0.5;
    o.train.out = dir / name;
    REQUIRE(train_translation(o) == 0);
    return o.train.out;
  };
  const std::string whole = run("whole", 2, true), part = run("part", 1, true);
  nlohmann::json j = nlohmann::json::parse(read_file(part + "/config.json"));
  j.erase("decay_all");
  write_file(part + "/config.json", j.dump());
  TranslateFlags more;
  more.train.resume = part;
  more.train.epochs = 2;
  REQUIRE(train_translation(more) == 0);
  CHECK(read_file(part + "/model.safetensors") == read_file(whole + "/model.safetensors"));
  CHECK(read_file(run("matrices", 2, false) + "/model.safetensors") !=
        read_file(whole + "/model.safetensors"));
}

TEST_CASE("translate: a small model learns the generated pairs") {
  TrainConfig c = busy_config("transformer");
  c.first = 24;
  c.hold_out = 0;
  c.tokens = "words";
  c.bpe_dropout = 0;
  c.shared = false;
  c.min_freq = 1;
  c.model = {.layers = 1, .dim = 32, .heads = 4, .ffn = 64};
  c.model.dropout = 0;
  c.lr = 5e-3;
  c.schedule = "constant";
  c.warmup = 0;
  c.label_smoothing = c.ema = c.weight_decay = 0;
  c.accumulate = 1;
  c.epochs = 60;
  const Setup setup(c);
  auto t = setup.training();
  while (!t->loop.finished()) {
    t->loop.step();
    if (t->loop.epoch_trained()) REQUIRE(t->loop.close_epoch());
  }
  const Sides sides = sides_of(read_pair_files(setup.config).train);
  std::vector<std::string> found;
  training::Learner::Evaluation scope(t->learner);
  for (auto& best : translate_lines(Search(t->model, {}), setup.tokenizers, sides.sources))
    found.push_back(best[0].text);
  const datasets::BleuOptions options{.lowercase = is_lowercase(setup.config)};
  CHECK(datasets::corpus_bleu(found, sides.references, options).score > 90);
}

TEST_CASE("translate: a model folder: translation, evaluation, export, damage") {
  TempDir dir;
  const std::string folder = trained_folder(dir, "transformer");
  TranslateFlags o;
  CHECK(read_file(folder + "/report.html").find("Cross attention") != std::string::npos);
  o.model = folder;
  const auto translate = [&](const std::string& lines, std::ostream& out) {
    return run_translations(o, test::OpenText(lines).descriptor(), out);
  };
  std::ostringstream out;
  CHECK(translate("A cat sleeps.\n\n\xff unseen \xf0\x9f\x90\xa6 words\n  \nThe end", out) == 0);
  const std::string text = out.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);
  CHECK(text.find("\n\n") != std::string::npos);  // the empty line

  std::ostringstream before;
  CHECK_THROWS_WITH_AS(translate("A cat sleeps.\n" + std::string((1 << 20) + 1, 'a'), before),
                       "line 2 is longer than 1048576 bytes; is this text?", IoError);
  const std::string first = before.str();
  CHECK(std::count(first.begin(), first.end(), '\n') == 1);  // the line before the long one

  o.search = {.beam = 3, .n_best = 2};
  std::ostringstream list;
  o.attention = dir / "attention.html";
  CHECK(translate("A cat sleeps.", list) == 0);
  const std::string listed = list.str();
  CHECK(listed.starts_with("1 ||| "));
  CHECK(std::count(listed.begin(), listed.end(), '\n') == 2);
  CHECK(read_file(o.attention).find("<svg") != std::string::npos);

  o.source = write_file(dir / "source", "A cat sleeps.\nA dog eats.\n");
  o.target = write_file(dir / "target", "Un chat dort.\nUn chien mange.\n");
  CHECK(evaluate_model(o) == 0);
  write_file(o.target, "Un chat dort.\n");
  CHECK_THROWS_WITH_AS(evaluate_model(o), doctest::Contains("2"), IoError);
  o.pairs = write_file(dir / "pairs", "A cat sleeps.\tUn chat dort.\nA dog eats.\t\n");
  o.source = o.target = "";
  CHECK(evaluate_model(o) == 0);
  write_file(o.pairs, "A cat sleeps.\t\n");
  CHECK_THROWS_WITH_AS(evaluate_model(o), doctest::Contains("there is no pair"), IoError);
  o.sentence = "A cat sleeps.";
  CHECK(plot_attention(o) == 0);
  o.out = dir / "exported/here";
  CHECK(export_model(o) == 0);
  const test::OnnxFile encoder(o.out + "/encoder.onnx"), decoder(o.out + "/decoder.onnx");
  CHECK(encoder.inputs[0].shape == std::vector<std::string>{"N", "S"});
  CHECK(encoder.outputs[0].name == "memory.0");
  CHECK(decoder.inputs.back().name.ends_with(".values"));
  CHECK(decoder.inputs.back().shape[2] == "P");
  CHECK(decoder.outputs.back().shape[2] == "P+1");
  CHECK(decoder.metadata == std::map<std::string, std::string>{{"begin", "2"}, {"end", "3"}});
  o.attention = dir / "attention.txt";
  CHECK_THROWS_WITH_AS(plot_attention(o), doctest::Contains(".html, .svg or .png"), Error);
  CHECK_FALSE(std::filesystem::exists(o.attention));
  o.attention = dir / "none/attention.svg";
  CHECK_THROWS_WITH_AS(plot_attention(o), doctest::Contains("there is no folder"), IoError);

  for (const char* part : {"model.safetensors", "config.json", "vocabulary.json"}) {
    const std::string bytes = read_file(folder + "/" + part);
    std::filesystem::remove(folder + "/" + part);
    CHECK_THROWS_WITH_AS(load_translator(folder), doctest::Contains(part), IoError);
    write_file(folder + "/" + part, bytes.substr(0, bytes.size() / 2));
    CHECK_THROWS_AS(load_translator(folder), IoError);
    write_file(folder + "/" + part, bytes);
  }
}

TEST_CASE("translate: lines give the same translations together or alone; loss per token") {
  for (const char* model : {"transformer", "bahdanau", "seq2seq"}) {
    CAPTURE(model);
    const Setup setup(busy_config(model));
    auto t = setup.training();
    for (int i = 0; i < 4; ++i) step(*t);
    std::vector<std::string> lines = sides_of(setup.corpus.valid_text).sources;
    lines.insert(lines.begin() + 2, "");
    training::Learner::Evaluation scope(t->learner);
    for (int64_t beam : {1, 3}) {
      const Search search(t->model, {.beam = beam});
      const auto all = translate_lines(search, setup.tokenizers, lines);
      REQUIRE(all.size() == lines.size());
      CHECK(all[2][0].text.empty());
      for (size_t i = 0; i < lines.size(); ++i) {
        const auto one = translate_lines(search, setup.tokenizers, {&lines[i], 1});
        CHECK(one[0][0].text == all[i][0].text);
        CHECK(one[0][0].log_prob == doctest::Approx(all[i][0].log_prob).epsilon(1e-4));
      }
    }
    // The mean over tokens depends neither on batches nor on earlier epochs.
    const auto loss_of = [&](const datasets::EncodedPairs& pairs) {
      const double first = *token_loss(t->model, pairs), second = *token_loss(t->model, pairs);
      CHECK((first == second || pairs.pairs->empty()));
      return second;
    };
    double sum = 0;
    int64_t tokens = 0;
    for (const datasets::EncodedPair& p : *setup.corpus.valid.pairs) {
      datasets::EncodedPairs one;
      one.pairs = std::make_shared<std::vector<datasets::EncodedPair>>(1, p);
      const int64_t n = std::ssize(p.target) + 1;
      sum += loss_of(one) * static_cast<double>(n);
      tokens += n;
    }
    datasets::EncodedPairs none;
    none.pairs = std::make_shared<std::vector<datasets::EncodedPair>>();
    CHECK(std::isnan(loss_of(none)));
    CHECK(loss_of(setup.corpus.valid) ==
          doctest::Approx(sum / static_cast<double>(tokens)).epsilon(1e-5));
  }
}

TEST_CASE("translate: flags and presets") {
  CHECK(parse({}).config.preset == "demo");
  CHECK(is_demo(parse({"train", "--epochs", "2"}).config));
  const TrainConfig best = parse({"train", "--preset", "multi30k-best", "--source", "a", "--target",
                                  "b", "--ema", "0.5"})
                               .config;
  CHECK(best.model.tie == "all");
  CHECK(best.ema == 0.5);
  CHECK(parse({"train", "--pairs", "p"}).config.preset == kOwn);
  CHECK(parse({"train", "--pairs", "p", "--preset", "multi30k-transformer"}).config.min_freq == 2);
  // Only a given --alpha takes the place of what `translate tune` found.
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{
           {"run"}, {"eval", "--pairs", "p"}, {"plot", "a sentence"}}) {
    words.insert(words.begin() + 1, {"--model", "m", "--beam", "5"});
    CHECK_FALSE(parse(words).alpha.has_value());
    words.insert(words.begin() + 1, {"--alpha", "1.5"});
    CHECK(parse(words).alpha == 1.5);
  }
  TrainConfig sized = best;
  sized.model.source_vocab = sized.model.target_vocab = 100;
  CHECK(to_json(config_from_json<TrainConfig>(to_json(sized))) == to_json(sized));
  auto senseless = [&](auto change) {
    TrainConfig c = sized;
    change(c);
    CHECK_THROWS_AS(config_from_json<TrainConfig>(to_json(c)), Error);
  };
  senseless([](TrainConfig& c) { c.label_smoothing = 1; });
  senseless([](TrainConfig& c) { c.lr = 0; });
  senseless([](TrainConfig& c) { c.accumulate = 0; });
  senseless([](TrainConfig& c) { c.batch = c.batch_tokens = 0; });
  const TrainConfig less = parse({"train", "--pairs", "p", "--clip", "0", "--step-in-backward",
                                  "--recompute", "selective", "--optimizer-bits", "8"})
                               .config;
  CHECK(less.memory_use.step_in_backward);
  CHECK(less.memory_use.recompute == "selective");
  sized.optimizer = "adam";  // Muon keeps 32 bits
  sized.memory_use = less.memory_use;
  sized.clip = 0;
  const TrainConfig again = config_from_json<TrainConfig>(to_json(sized));
  CHECK(again.memory_use == less.memory_use);
  sized.memory_use.optimizer_bits = 9;
  CHECK_THROWS_WITH_AS(config_from_json<TrainConfig>(to_json(sized)),
                       "optimizer_bits is 9; 32 or 8", Error);
  for (const std::string& name : preset_names()) {
    TrainConfig c;
    apply_preset(name, c);
    CHECK(c.preset == name);
    CHECK(c.model.dim % c.model.heads == 0);
  }
  const std::vector<std::vector<std::string>> wrong = {
      {"fly"},
      {"train", "--preset", "nothing"},
      {"train", "--pairs", "p", "--source", "a", "--target", "b"},
      {"train", "--source", "a"},
      {"train", "--batch", "0", "--batch-tokens", "0"},
      {"train", "--dim", "10", "--heads", "4"},
      {"train", "--tie", "all"},
      {"train", "--model", "bahdanau", "--heads", "2"},
      {"train", "--hidden", "5"},
      {"train", "--model", "bahdanau", "--recompute", "full"},
      {"train", "--bpe", "9"},
      {"train", "--bpe-dropout", "0.1"},
      {"train", "--pairs", "p", "--bpe-dropout", "1"},
      {"train", "--dropout", "1"},
      {"train", "--int8"},
      {"run"},
      {"run", "--model", "m", "--beam", "0"},
      {"run", "--model", "m", "--n-best", "2"},
      {"eval", "--model", "m", "--source", "a", "--target", "b", "--alpha", "1"},
      {"score", "--hypotheses", "h"},
      {"plot", "--model", "m"},
  };
  for (const auto& words : wrong) {
    CAPTURE(words.back());
    CHECK_THROWS_AS(parse(words), Error);
  }
  // Generated pairs are no data for the user's models and files.
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", "--from", "m"}, {"train", "--valid-source", "a", "--valid-target", "b"}})
    CHECK_THROWS_WITH_AS(parse(words), doctest::Contains(" needs pairs to train on; give --pairs"),
                         Error);
}

TEST_CASE("translate: sizes that do not match the weights are refused before any allocation") {
  TempDir dir;
  for (const char* model : {"transformer", "seq2seq"}) {
    const std::string folder = trained_folder(dir, model);
    TrainConfig c = load_config({folder});
    for (int64_t layers : {int64_t{1}, int64_t{20}}) {
      c.model.layers = layers;
      c.model.dim = c.model.hidden = 1 << 15;  // 12 GB per layer or more
      save_config(folder + "/config.json", settings_of(c));
      CHECK_THROWS_WITH_AS(load_translator(folder), doctest::Contains("mismatched"), IoError);
    }
    c.model.layers = 1000;  // exceeds the address space
    c.model.dim = c.model.hidden = 1 << 16;
    save_config(folder + "/config.json", settings_of(c));
    CHECK_THROWS_AS(load_translator(folder), IoError);
  }
}

TEST_CASE("translate: the error about files that do not fit says why") {
  TempDir dir;
  TrainConfig c;
  c.source = write_file(dir / "a", "one\ntwo\n");
  c.target = write_file(dir / "b", "un\n");
  CHECK_THROWS_WITH_AS(read_pair_files(c), doctest::Contains("2"), IoError);
  write_file(c.target, "un\n\xff\n");
  CHECK_THROWS_WITH_AS(read_pair_files(c), doctest::Contains("2"), IoError);
  write_file(c.target, "");
  CHECK_THROWS_AS(read_pair_files(c), IoError);
  write_file(c.target, "un\n\n");
  c.hold_out = 0;
  const PairFiles files = read_pair_files(c);
  CHECK(files.train == std::vector<datasets::SentencePair>{{"one", "un"}});
  REQUIRE(files.reports.size() == 1);
  CHECK(files.reports[0].find("1 of 2 pairs") != std::string::npos);
  c.source = c.target = "";
  c.pairs = write_file(dir / "table", "one\tun\n12\ttwo\t77\tdeux\n");
  CHECK(read_pair_files(c).reports ==
        std::vector{c.pairs + ": 2 of 2 pairs; only the first two columns are used: line 2 has 4"});
  TranslateFlags o;
  o.model = dir / "nowhere";
  CHECK_THROWS_WITH_AS(evaluate_model(o), doctest::Contains("no such folder"), IoError);
}

}  // namespace tern::apps::translate::test_translate
