// lm with gpt, llama and gmlp: training, model folders, generation, chat and flags.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <streambuf>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/training.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/train/run_checks.h"

namespace tern::apps::lm::test_lm {
namespace {

using test::read_file, test::same_bits, test::TempDir, test::write_file;

const std::string kText =
    "the cat sat on the mat. the dog sat on the log.\nthe cat saw the dog, and the dog saw the "
    "cat.\n";

// Everything with randomness and everything with a state is on.
TrainConfig busy_config(const std::string& model, const std::string& text) {
  TrainConfig c;
  c.text = {text};
  c.hold_out = 0.2;
  c.vocab_size = 280;
  c.model.model = model;
  find_family(model).defaults(c.model);
  c.model.context = 12;
  c.model.layers = 2;
  c.model.dim = 16;
  if (model != "gmlp") c.model.heads = 4;
  c.model.kv_heads = model == "llama" ? 2 : 0;
  c.model.dropout = 0.2;
  c.epochs = 4;
  c.parts = 2;
  c.batch = 3;
  c.accumulate = 2;
  c.lr = 1e-2;
  c.warmup = 3;
  c.ema = 0.9;
  c.seed = 3;
  return c;
}

std::string some_text(const TempDir& dir, const std::string& name = "text") {
  std::string text;
  for (int i = 0; i < 12; ++i) text += kText;
  return write_file(dir / name, text);
}

// A corpus and trainings on it.
struct Setup {
  TrainConfig config;
  Texts texts;
  datasets::LanguageTokenizer tokenizer;
  Corpus corpus;

  explicit Setup(TrainConfig c) : config(std::move(c)), texts(read_texts(config)) {
    tokenizer = make_tokenizer(config, texts);
    config.model.vocab = tokenizer.size();
    corpus = encode_corpus(texts, tokenizer);
  }
  std::unique_ptr<LmTraining> training() const {
    return std::make_unique<LmTraining>(config, corpus, make_model(config));
  }
};

LmFlags parse(const std::vector<std::string>& words) {
  return test::parsed(lm_program, "lm", words);
}

std::string generated(const LmFlags& flags, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out;
  CHECK(generate_text(flags, in, out) == 0);
  return out.str();
}

// Gives lines one by one and records what was written before each.
class Typist : public std::streambuf {
 public:
  Typist(std::vector<std::string> lines, const std::ostringstream& written)
      : lines_(std::move(lines)), written_(written) {}
  std::vector<std::string> seen;

 private:
  int_type underflow() override {
    seen.push_back(written_.str());
    if (seen.size() > lines_.size()) return traits_type::eof();
    std::string& line = lines_[seen.size() - 1];
    setg(line.data(), line.data(), line.data() + line.size());
    return traits_type::to_int_type(line[0]);
  }
  std::vector<std::string> lines_;
  const std::ostringstream& written_;
};

// The model folder of a run with short epochs.
std::string trained_folder(const TempDir& dir, const std::string& model) {
  LmFlags o;
  o.config = busy_config(model, some_text(dir));
  o.train.out = dir / model;
  o.train.tensorboard = true;
  o.train.command_line = "lm train <x>";
  REQUIRE(train_lm(o) == 0);
  return o.train.out;
}

}  // namespace

TEST_CASE("lm: a small model learns its text, in bits per byte") {
  TempDir dir;
  for (const std::string& model : family_names()) {
    CAPTURE(model);
    TrainConfig c = busy_config(model, some_text(dir));
    c.parts = c.accumulate = 1;
    c.ema = c.model.dropout = 0;
    c.epochs = 60;
    const Setup setup(c);
    auto t = setup.training();
    while (!t->loop.finished()) {
      t->loop.step();
      if (t->loop.epoch_trained()) REQUIRE(t->loop.close_epoch());
    }
    const training::EpochRecord &first = t->loop.history().front(),
                                &last = t->loop.history().back();
    CHECK(first["valid_bits_per_byte"] > 1);
    CHECK(last["valid_bits_per_byte"] < 0.3);
    CHECK(last["train_bits_per_byte"] < 0.3);
    CHECK(last["valid_ppl"] == doctest::Approx(std::exp(last["valid_loss"])));
    training::Learner::Evaluation scope(t->learner);
    const Generated g =
        generate(t->model, setup.tokenizer, "the cat sat on", {.temperature = 0, .stop = {"\n"}});
    CHECK(g.text == " the mat. the dog sat on the log.");
  }
}

TEST_CASE("lm: a text shorter than a window is refused with a context that fits") {
  TempDir dir;
  LmFlags o;
  o.config = busy_config("gpt", write_file(dir / "text", "a cat"));
  o.config.hold_out = 0;
  o.config.parts = 1;
  o.train.out = dir / "run";
  CHECK_THROWS_WITH_AS(
      train_lm(o),
      doctest::Contains("6 tokens for training, too few for a window of 12 (--context)"
                        " and one more; give more text or --context 5"),
      Error);
  CHECK_FALSE(std::filesystem::exists(o.train.out));
  o.config.model.context = 5;
  CHECK(train_lm(o) == 0);
  LmFlags more;
  more.config = busy_config("gpt", dir / "text");
  more.config.from = o.train.out;
  more.config.text = {write_file(dir / "less", "cat")};
  more.config.hold_out = 0;
  CHECK(test::contains(test::error_of([&] { train_lm(more); }), "give more text or --context"));
}

TEST_CASE("lm: a picture of attention says how many tokens of a long text it shows") {
  TempDir dir;
  const Setup setup(busy_config("gpt", some_text(dir)));
  const auto t = setup.training();
  const AttentionSentence whole = explain(t->model, setup.tokenizer, "the cat"),
                          cut = explain(t->model, setup.tokenizer, kText);
  CHECK(whole.note.empty());
  CHECK(cut.groups.at(0).matrices.at(0).rows.size() == 12);
  CHECK(cut.note ==
        fmt::format("the first 12 of {} tokens", setup.tokenizer.encode_prompt(kText).size()));
}

TEST_CASE("lm: the samples at the end say which text they begin with") {
  TempDir dir;
  for (const bool held : {false, true}) {
    CAPTURE(held);
    TrainConfig c = busy_config("gpt", some_text(dir));
    c.hold_out = held ? 0.2 : 0;
    c.epochs = 1;
    GptProgram program(c);
    TrainFlags flags;
    flags.out = dir / (held ? "held" : "all");
    const int code = train(program, flags);
    REQUIRE(code == 0);
    const Ending end = GptKind::ending(program.config, program.corpus, program.training->loop, {});
    CHECK(end.samples.at(0).starts_with(held ? "Lines of the validation text;"
                                             : "Lines of the training text;"));
  }
}

TEST_CASE("lm: a model folder: generation, evaluation, export, damage") {
  TempDir dir;
  for (const std::string& model : family_names()) {
    CAPTURE(model);
    const std::string folder = trained_folder(dir, model);
    LmFlags o;
    const std::string report = read_file(folder + "/report.html");
    const bool gmlp = model == "gmlp";
    for (const char* part : {"Bits per byte", "Texts", gmlp ? "Spatial weights" : "Self-attention",
                             gmlp ? "before training" : "head 4"})
      CHECK(report.find(part) != std::string::npos);

    if (gmlp) test::check_run_files(folder, "lm train <x>", "Spatial weights/");
    CHECK(test::contains(report, "<h2 id=\"attention\">Attention</h2>") == !gmlp);

    o.model = folder;
    o.prompt = {"the \xFF cat"};
    o.generate.max_tokens = 30;
    if (!gmlp) o.attention = dir / "attention.html";
    CHECK(generated(o).starts_with("the \uFFFD cat"));
    // Without a prompt a trained model starts a new line.
    LmFlags begins = o, continues = o;
    begins.attention.clear(), continues.attention.clear();
    begins.prompt.clear(), continues.prompt = {"\n"};
    CHECK("\n" + generated(begins) == generated(continues));
    o.out = dir / (model + ".onnx");
    CHECK(export_model(o) == 0);
    CHECK(test::OnnxFile(o.out).inputs[0].shape == std::vector<std::string>{"N", "T"});
    o.caches = true;
    if (gmlp) {
      CHECK_THROWS_WITH_AS(export_model(o), doctest::Contains("--caches: a gmlp reads whole"),
                           Error);
    } else {
      CHECK(export_model(o) == 0);
      CHECK(test::OnnxFile(o.out).outputs[1].shape[2] == "T+P");
    }
    std::istringstream in;
    std::ostringstream nothing;
    LmFlags no_folder = o;
    no_folder.attention = dir / "none/attention.html";
    CHECK_THROWS_WITH_AS(generate_text(no_folder, in, nothing),
                         doctest::Contains("there is no folder"), IoError);
    CHECK(nothing.str().empty());
    if (gmlp) {
      o.attention = dir / "attention.html";
      CHECK_THROWS_WITH_AS(generate_text(o, in, nothing),
                           doctest::Contains("has no attention to show"), Error);
      CHECK(nothing.str().empty());  // refused before any work
    }
    CHECK((gmlp || read_file(o.attention).find("<svg") != std::string::npos));
    o.text = {dir / "text", dir / "./text"};
    CHECK_THROWS_WITH_AS(evaluate_model(o), doctest::Contains("twice"), Error);
    o.text.pop_back();
    CHECK(evaluate_model(o) == 0);
    // Packed weights, several prompts.
    o.int8 = true;
    o.attention.clear();
    test::write_file(dir / "prompts", "the cat\n\nthe dog\n");
    o.prompt.clear();
    o.prompts = dir / "prompts";
    if (gmlp) {
      CHECK_THROWS_WITH_AS(generate_text(o, in, nothing),
                           doctest::Contains("but the model is a gmlp"), Error);
      CHECK_THROWS_WITH_AS(evaluate_model(o), doctest::Contains("but the model is a gmlp"), Error);
      o.int8 = false;
    }
    const std::string all = generated(o);
    CHECK(all.starts_with("the cat"));
    CHECK(test::contains(all, "\n\nthe dog"));
    CHECK(evaluate_model(o) == 0);
    o.attention = dir / "attention.html";
    if (!gmlp)
      CHECK_THROWS_WITH_AS(generate_text(o, in, nothing), doctest::Contains("there are 3"), Error);
    o.stride = 13;
    CHECK_THROWS_WITH_AS(evaluate_model(o), doctest::Contains("context of 12"), Error);

    // Without lm.json the sizes come from transformers' config.json.
    CHECK(std::filesystem::exists(folder + "/config.json") == !gmlp);
    if (gmlp) continue;
    const LoadedModel ours = load_folder(folder);
    std::filesystem::rename(folder + "/lm.json", dir / "lm.json");
    const LoadedModel theirs = load_folder(folder);
    const Tensor tokens = tensor(std::vector<int64_t>{1, 2, 3}, {1, 3});
    CHECK(same_bits(ours.model(tokens), theirs.model(tokens)));
    std::filesystem::rename(dir / "lm.json", folder + "/lm.json");

    for (const char* part : {"model.safetensors", "lm.json", "vocab.json", "merges.txt"}) {
      const std::string bytes = read_file(folder + "/" + part);
      write_file(folder + "/" + part, bytes.substr(0, bytes.size() / 2));
      if (part != std::string("merges.txt"))  // half of merges.txt is still valid
        CHECK_THROWS_AS(load_folder(folder), IoError);
      std::filesystem::remove(folder + "/" + part);
      if (part != std::string("lm.json"))
        CHECK_THROWS_WITH_AS(load_folder(folder), doctest::Contains(part), IoError);
      write_file(folder + "/" + part, bytes);
    }
    // Sizes that the file cannot hold are refused before anything is allocated.
    TrainConfig large = load_config({folder});
    large.model.layers = 1000;
    large.model.dim = 1 << 16;
    apps::save_config(ModelFiles{folder}.config(), settings_of(large));
    CHECK_THROWS_WITH_AS(load_folder(folder), doctest::Contains("bytes can hold"), IoError);
    write_file(folder + "/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid");
    CHECK_THROWS_WITH_AS(load_folder(folder), doctest::Contains("git lfs pull"), IoError);
  }
}

TEST_CASE("lm: prompts from standard input and files, several samples, and a chat") {
  TempDir dir;
  LmFlags o;
  o.model = trained_folder(dir, "gpt");
  o.generate.max_tokens = 20;
  o.prompt = {"the cat"};
  const std::string want = generated(o);
  // One line end is removed, of either kind, and nothing else.
  for (const char* text : {"the cat", "the cat\n", "the cat\r\n"}) {
    o.prompt = {"-"};
    CHECK(generated(o, text) == want);
    o.prompt.clear();
    o.prompt_file = write_file(dir / "prompt", text);
    CHECK(generated(o) == want);
    o.prompt_file.clear();
  }
  o.prompt = {"-"};
  CHECK(generated(o, "the\ndog\n\n").starts_with("the\ndog\n"));
  std::ostringstream out;
  auto refused = [&](const std::string& input, const char* why) {
    std::istringstream in(input);
    CHECK_THROWS_WITH_AS(generate_text(o, in, out), doctest::Contains(why), IoError);
    CHECK(out.str().empty());
  };
  refused("", "standard input is empty");
  refused("a\xFF", "not valid UTF-8 (byte 2)");
  refused(std::string((1 << 24) + 1, 'a'), "more than 16777216 bytes");
  o.prompt_file = write_file(dir / "prompt", "");
  refused("", "empty");
  write_file(dir / "prompt", "a\xFF");
  refused("", "UTF-8");
  write_file(dir / "prompt", std::string((1 << 24) + 1, 'a'));
  refused("", "prompt");

  // The first sample is the text without --samples; results follow the order of the lines.
  o.prompt_file.clear();
  o.prompt.clear();
  o.prompts = write_file(dir / "prompts", "the cat\nthe dog\n");
  o.generate.samples = 3;
  const std::string all = generated(o);
  CHECK(all.starts_with(want.substr(0, want.size() - 1) + "\n\nthe cat"));
  CHECK(test::contains(all, "\n\nthe dog"));
  o.prompts.clear();
  o.prompt = {"-"};
  CHECK(all.starts_with(generated(o, "the cat").substr(0, want.size() + 20)));

  // Each line has its answer before the next one is read, in UTF-8 and in UTF-16.
  o.prompt.clear();
  o.prompt_file = write_file(dir / "prompt", "the cat sat\n");
  o.generate.samples = 1;
  const LoadedModel m = load_folder(o.model);
  Chat same(m.model, m.tokenizer, {.max_tokens = 20, .stop = {"\n"}});
  same.begin_with("the cat sat");
  std::string answers;
  for (const char* line : {"the cat", "", "the dog", "the"})
    answers += same.answer(line).text + "\n";
  const std::vector<std::string> lines = {"the cat\n", "\n", "the dog\r\n", "the"};
  std::vector<std::string> wide = {"\xFF\xFE", "", "", ""};
  for (size_t i = 0; i < 4; ++i)
    for (const char c : lines[i]) wide[i] += {c, '\0'};
  for (const auto& typed : {lines, wide}) {
    out.str("");
    Typist typist(typed, out);
    std::istream in(&typist);
    CHECK(complete_lines(o, in, out) == 0);
    CHECK(out.str() == answers);
    REQUIRE(typist.seen.size() == 5);
    for (size_t i = 0; i < 5; ++i) {
      const std::string& written = typist.seen[i];
      // The last line has no end, so another read comes before its answer.
      CHECK(std::count(written.begin(), written.end(), '\n') == std::min<int64_t>(i, 3));
      CHECK((i == 0 || written.ends_with('\n')));
    }
  }
}

TEST_CASE("lm: training starts from a model, with its tokenizer and sizes") {
  TempDir dir;
  const std::string folder = trained_folder(dir, "llama");
  LmFlags o;
  o.config = busy_config("gpt", dir / "text");
  o.config.from = folder;
  o.config.lr = 1e-9;
  o.given = {"lr"};
  o.config.ema = 0;
  o.config.epochs = 1;
  o.train.out = dir / "more";
  CHECK(train_lm(o) == 0);
  const LoadedModel before = load_folder(folder), after = load_folder(o.train.out);
  CHECK(after.model.config().model == "llama");
  const Tensor tokens = tensor(std::vector<int64_t>{5, 6, 7}, {1, 3});
  CHECK(all_close(before.model(tokens), after.model(tokens), 1e-4, 1e-4));
  CHECK_FALSE(same_bits(before.model(tokens), after.model(tokens)));
}

TEST_CASE("lm: flags") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"train"}}) {
    const TrainConfig stories = parse(words).config;
    CHECK(is_demo(stories));
    CHECK(stories.vocab_size == 512);
    CHECK(stories.lr == 3e-3);
    CHECK(stories.model.dropout == 0);
  }
  const TrainConfig given = parse({"train", "--lr", "0.5", "--dropout=0.25"}).config;
  CHECK(given.lr == 0.5);
  CHECK(given.model.dropout == 0.25);
  CHECK(given.batch == 4);
  for (const char* text : {"", "--text=a"}) {
    std::vector<std::string> words = {"train", "--optimizer", "muon"};
    if (*text) words.push_back(text);
    CHECK(parse(words).config.lr == kMuonRate);
    std::vector<std::string> bert = words;
    bert.insert(bert.end(), {"--model", "bert"});
    CHECK(parse(bert).config.lr == (*text ? kBertMuonRate : kMuonRate));
    words.insert(words.end(), {"--lr", "0.5"});
    CHECK(parse(words).config.lr == 0.5);
  }
  CHECK(parse({"train", "--text", "a"}).config.lr == 1e-3);
  CHECK(parse({"train", "--text", "a"}).config.batch == 16);
  CHECK(parse({"train", "--text", "a", "b"}).config.text == std::vector<std::string>{"a", "b"});
  const ModelConfig llama = parse({"train", "--text", "a", "--model", "llama"}).config.model;
  CHECK_FALSE(llama.tie);
  CHECK_FALSE(llama.bias);
  CHECK(parse({"train", "--text", "a", "--model=llama", "--tie"}).config.model.tie);
  TrainConfig sized = parse({"train", "--text", "a"}).config;
  sized.model.vocab = 100;
  CHECK(to_json(config_from_json<TrainConfig>(to_json(sized))) == to_json(sized));
  auto refused = [&](auto change) {
    TrainConfig c = sized;
    change(c.model);
    CHECK_THROWS_AS(config_from_json<TrainConfig>(to_json(c)), Error);
  };
  refused([](ModelConfig& m) { m.eps = 0; });
  refused([](ModelConfig& m) { m.vocab = 0; });
  const TrainConfig less =
      parse({"train", "--text", "a", "--recompute", "full", "--optimizer-bits", "8"}).config;
  CHECK(less.memory_use.recompute == "full");
  sized.memory_use = less.memory_use;
  CHECK(config_from_json<TrainConfig>(to_json(sized)).memory_use.recompute == "full");
  CHECK(config_from_json<TrainConfig>(to_json(sized)).memory_use.optimizer_bits == 8);
  auto senseless = [&](auto change) {
    TrainConfig c = sized;
    change(c);
    CHECK_THROWS_AS(config_from_json<TrainConfig>(to_json(c)), Error);
  };
  senseless([](TrainConfig& c) { c.ema = 1; });
  senseless([](TrainConfig& c) { c.epochs = 0; });
  senseless([](TrainConfig& c) { c.hold_out = 1; });
  const std::vector<std::vector<std::string>> wrong = {
      {"fly"},
      {"train", "--model", "oracle"},
      {"train", "--valid", "a"},
      {"train", "--hold-out", "0.1"},
      {"train", "--text", "a", "--valid", "b", "--hold-out", "0.1"},
      {"train", "--tokenizer", "d", "--vocab", "300"},
      {"train", "--from", "d", "--layers", "3"},
      {"train", "--text", "a", "--model", "gmlp", "--heads", "2"},
      {"train", "--text", "a", "--attention-dim", "8"},
      {"train", "--dim", "10", "--heads", "4"},
      {"train", "--heads", "4", "--kv-heads", "3"},
      {"train", "--vocab", "100"},
      {"train", "--dropout", "1"},
      {"generate"},
      {"generate", "--model", "m", "--temperature", "-1"},
      {"generate", "--model", "m", "--top-p", "0"},
      {"generate", "--model", "m", "--stop", ""},
      {"generate", "--model", "m", "--int8", "--precision", "bf16"},
      {"generate", "--model", "m", "--prompt", "a", "--prompts", "f"},
      {"generate", "--model", "m", "--prompt", "a", "--prompt-file", "f"},
      {"generate", "--model", "m", "--prompt", "-", "--prompt", "-"},
      {"generate", "--model", "m", "--samples", "2", "--temperature", "0"},
      {"generate", "--model", "m", "--samples", "2", "--top-k", "1"},
      {"generate", "--model", "m", "--min-p", "0.1", "--temperature", "0"},
      {"generate", "--model", "m", "--repetition-penalty", "0"},
      {"generate", "--model", "m", "--repetition-window", "9"},
      {"complete"},
      {"complete", "--model", "m", "--prompt", "a"},
      {"complete", "--model", "m", "--int8", "--precision", "bf16"},
      {"generate", "--model", "m", "--int4", "--precision", "bf16"},
      {"generate", "--model", "m", "--int4", "--int8"},
      {"eval", "--model", "m", "--text", "t", "--int8", "--precision", "bf16"},
      {"eval", "--model", "m"},
  };
  for (const auto& words : wrong) {
    CAPTURE(words.back());
    CHECK_THROWS_AS(parse(words), Error);
  }
}

}  // namespace tern::apps::lm::test_lm
