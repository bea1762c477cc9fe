// Corpora encoded piece by piece into a file, against whole texts in memory: same ids, same
// training. Changed texts are refused.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/lm/training.h"
#include "tern/core/base/rng.h"
#include "tern/data/text/lines/lines.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/train/run_checks.h"

namespace tern::apps::lm::test_lm_corpus {
namespace {

namespace fs = std::filesystem;
using test::io_error, test::read_file;
using test::TempDir;
using test::write_file;

/// Words of many kinds, with line ends of all kinds.
std::string some_text(size_t size, uint64_t seed, bool end = true) {
  const std::string words[] = {"the ", "cat's ", "Größe ",  "1984, ", "猫が好き。", "🙂🙂 ",
                               "\n",   "\r\n",   "they've", "  ",     "\n\n",       "a "};
  std::string text;
  for (Rng rng(seed); text.size() < size;) text += words[rng.below(12)];
  return text + (end ? "\n" : "x");
}

TrainConfig small_config(std::vector<std::string> text) {
  TrainConfig c;
  c.text = std::move(text);
  c.hold_out = 0.2;
  c.vocab_size = 300;
  c.model.context = 16;
  c.model.layers = 1;
  c.model.dim = 16;
  c.model.heads = 2;
  c.batch = 4;
  c.parts = 3;
  c.epochs = 6;
  c.warmup = 2;
  c.seed = 5;
  return c;
}

/// The naive corpus: whole texts in memory.
struct Naive {
  std::vector<std::string> train, valid;
  datasets::ByteBpe bpe;
  Corpus corpus;

  Naive(const TrainConfig& c, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      auto at = static_cast<size_t>(static_cast<double>(text.size()) * (1 - c.hold_out));
      const size_t line = text.rfind('\n', at);
      if (line != std::string::npos && line + 1 > at - at / 10)
        at = line + 1;
      else
        while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
      train.push_back(text.substr(0, at));
      valid.push_back(text.substr(at));
    }
    bpe = datasets::ByteBpe::learn(train, {.size = c.vocab_size, .specials = {kEndOfText}});
    corpus.tokenizer = bpe;
    corpus.train = encoded(train);
    corpus.valid = encoded(valid);
    corpus.bytes_per_token =
        static_cast<double>(corpus.train.bytes) / static_cast<double>(corpus.train.tokens);
  }
  EncodedTexts encoded(const std::vector<std::string>& texts) const {
    std::vector<int64_t> all;
    EncodedTexts out;
    for (const std::string& text : texts) {
      if (text.empty()) continue;
      all.push_back(bpe.id(kEndOfText).value());
      for (int64_t id : bpe.encode(text)) all.push_back(id);
      out.ends.push_back(std::ssize(all));
      out.bytes += std::ssize(text);
      out.tokens = std::ssize(all) - std::ssize(out.ends);
    }
    out.ids = all;
    return out;
  }
};

void check_same(const EncodedTexts& a, const EncodedTexts& b) {
  CHECK(a.ends == b.ends);
  CHECK(a.bytes == b.bytes);
  CHECK(a.tokens == b.tokens);
  REQUIRE(a.ids.size() == b.ids.size());
  CHECK(a.ids.read(0, a.ids.size()) == b.ids.read(0, b.ids.size()));
}

/// Makes a folder of texts, with other files among them. Returns the texts in order of their names.
std::vector<std::string> make_texts(const TempDir& dir) {
  fs::create_directories(dir / "texts/sub");
  const std::vector<std::string> texts = {some_text(9000, 1), some_text(700, 2, false),
                                          some_text(4000, 3), "x"};
  write_file(dir / "texts/a.txt", texts[0]);
  write_file(dir / "texts/b.txt.gz", test::gzip(texts[1]));
  write_file(dir / "texts/readme.md", "not text");
  write_file(dir / "texts/sub/c.txt", "\xEF\xBB\xBF" + texts[2]);
  write_file(dir / "texts/z.txt", texts[3]);
  return texts;
}

void step(LmTraining& t) {
  if (t.loop.epoch_trained()) REQUIRE(t.loop.close_epoch());
  t.loop.step();
}

}  // namespace

TEST_CASE("lm corpus: a folder read in pieces trains as whole texts in memory do, bit for bit") {
  TempDir dir;
  const std::vector<std::string> texts = make_texts(dir);
  TrainConfig c = small_config({dir / "texts"});
  const Naive naive(c, texts);
  const Texts read = read_texts(c);
  CHECK(whole_texts(read.train) == naive.train);
  const datasets::LanguageTokenizer bpe = make_tokenizer(c, read);
  c.model.vocab = bpe.size();
  const Corpus corpus = encode_corpus(read, bpe, dir.path());
  check_same(corpus.train, naive.corpus.train);
  check_same(corpus.valid, naive.corpus.valid);
  CHECK(corpus.bytes_per_token == naive.corpus.bytes_per_token);
  corpus.file.keep(dir / "tokens.bin");
  const Corpus later = open_corpus(c, dir / "tokens.bin", bpe).value();
  check_same(later.train, corpus.train);
  check_same(later.valid, corpus.valid);
  CHECK(later.checksum == corpus.checksum);
  CHECK(later.bytes_per_token == corpus.bytes_per_token);

  // Losses and weights, past the end of an epoch; also stopped in mid-epoch and resumed from the
  // file.
  Corpus in_memory = naive.corpus;
  in_memory.checksum = corpus.checksum;
  LmTraining plain(c, in_memory, make_model(c)), streamed(c, corpus, make_model(c));
  const auto steps = static_cast<int>(plain.loader.batches_per_epoch() + 5);
  REQUIRE(steps > 12);
  for (int i = 0; i < steps; ++i) {
    step(plain);
    step(streamed);
    CHECK(plain.loop.means().mean("loss") == streamed.loop.means().mean("loss"));
    if (i != 3) continue;
    streamed.loop.checkpoint().save(dir / "c");
  }
  REQUIRE(plain.loop.history().size() == 1);
  CHECK(plain.loop.history()[0]["valid_loss"] == streamed.loop.history()[0]["valid_loss"]);
  LmTraining resumed(c, later, make_model(c));
  resumed.loop.load_state(training::load_checkpoint(dir / "c"), "c");
  for (int i = 4; i < steps; ++i) step(resumed);
  test::check_same(plain.loop.state(), streamed.loop.state());
  test::check_same(plain.loop.state(), resumed.loop.state());
}

TEST_CASE("lm corpus: texts of several pieces, and of one line; lines are recovered from the ids") {
  TempDir dir;
  const std::string text = some_text(3 << 20, 4, false);
  std::string line;
  while (line.size() < 3 << 19) line += "ein Wort ohne Zeilenende – ";
  TrainConfig c = small_config({write_file(dir / "a", text), write_file(dir / "b", line)});
  c.hold_out = 0.37;
  const Naive naive(c, {text, line});
  const Corpus corpus = encode_corpus(read_texts(c), naive.bpe, dir.path());
  check_same(corpus.train, naive.corpus.train);
  check_same(corpus.valid, naive.corpus.valid);
  std::vector<std::string> lines, shown;
  for (const std::string& part : naive.train)
    datasets::for_each_line(part, [&](std::string_view l) {
      if (!l.empty()) lines.emplace_back(l.substr(0, 64 << 10));
    });
  for_each_line(corpus.train, naive.bpe, [&](const std::string& l) {
    if (!l.empty()) shown.push_back(l);
  });
  CHECK(shown == lines);
}

TEST_CASE("lm corpus: validation files; without <|endoftext|> the first token is only context") {
  TempDir dir;
  const std::string a = some_text(2000, 1), b = some_text(1000, 2);
  TrainConfig c = small_config({write_file(dir / "a", a)});
  c.valid = {write_file(dir / "b", b), dir / "a"};
  const Corpus corpus = encode_corpus(read_texts(c), datasets::ByteBpe(), dir.path());
  CHECK(corpus.train.bytes == std::ssize(a) - 1);
  CHECK(corpus.train.ids.size() == std::ssize(a));
  CHECK(corpus.valid.ends == std::vector<int64_t>{std::ssize(b), std::ssize(a + b)});
  CHECK(corpus.valid.tokens == std::ssize(a + b) - 2);
  corpus.file.keep(dir / "tokens.bin");
  check_same(open_corpus(c, dir / "tokens.bin", datasets::ByteBpe())->valid, corpus.valid);
  std::string told = io_error([&] {
    open_corpus(c, dir / "tokens.bin", datasets::ByteBpe::learn(std::vector<std::string>{a}));
  });
  CHECK(told.find("of a different tokenizer") != std::string::npos);
}

TEST_CASE("lm corpus: a changed text is refused, whatever changed in it") {
  TempDir dir;
  make_texts(dir);
  const TrainConfig c = small_config({dir / "texts"});
  const datasets::ByteBpe bpe;
  encode_corpus(read_texts(c), bpe, dir.path()).file.keep(dir / "tokens.bin");
  auto told = [&] { return io_error([&] { open_corpus(c, dir / "tokens.bin", bpe); }); };
  CHECK(told() == "");
  const std::string path = dir / "texts/a.txt", text = read_file(path);
  auto later = [&] {
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  };
  later();  // only the time changes, as for a copy
  CHECK(told() == "");
  write_file(path, text + "!");
  CHECK(told().find("a.txt: has changed since the run began: it had 9") != std::string::npos);
  std::string other = text;
  other[text.size() / 2] = other[text.size() / 2] == 'a' ? 'b' : 'a';
  other.resize(text.size());
  write_file(path, other);
  later();
  CHECK(told().find("a.txt: ") != std::string::npos);
  write_file(path, text);
  write_file(dir / "texts/new.txt", "new");
  CHECK(told().find("new.txt: was not there when the run began") != std::string::npos);
  fs::remove(dir / "texts/new.txt");
  CHECK(told() == "");
  fs::remove(dir / "texts/sub/c.txt");
  CHECK(told().find("sub/c.txt: was removed after the run began") != std::string::npos);
}

TEST_CASE("lm corpus: files that are not text, and folders without text") {
  TempDir dir;
  fs::create_directories(dir / "empty");
  auto told = [&](const std::string& text) {
    return io_error([&] { read_texts(small_config({text})); });
  };
  CHECK(told(dir / "empty") == dir / "empty: there is no .txt or .gz file in this folder");
  CHECK(told(write_file(dir / "e.txt", "")) == dir / "e.txt: the file is empty");
  CHECK(told(dir.path()) == dir / "e.txt: the file is empty");
  CHECK(told(write_file(dir / "b", std::string(1 << 20, 'a') + "\xFF")) ==
        dir /
            "b: byte 1048577 is not valid UTF-8; convert the file, for example with iconv -f "
            "latin1 -t utf-8");
  CHECK(told(dir / "none") != "");
  // A text with no place where it could be divided into tokens.
  const TrainConfig c = small_config({write_file(dir / "w", std::string(6 << 20, 'a'))});
  CHECK(io_error([&] { encode_corpus(read_texts(c), datasets::ByteBpe(), dir.path()); }) ==
        dir / "w: a word of more than 4194304 bytes; is this text?");
}

TEST_CASE("lm corpus: a validation file inside a folder of texts is not trained on") {
  TempDir dir;
  fs::create_directories(dir / "texts/held");
  write_file(dir / "texts/a.txt", "train\n");
  const std::string one = write_file(dir / "texts/b.txt", "valid one\n");
  write_file(dir / "texts/held/c.txt", "valid two\n");
  TrainConfig c = small_config({dir / "texts"});
  auto parts = [](const std::vector<TextPart>& texts) {
    std::string all;
    for (const TextPart& part : texts) all += part.whole();
    return all;
  };
  c.valid = {dir / "texts/../texts/b.txt", dir / "texts/held/"};
  const Texts texts = read_texts(c);
  CHECK(parts(texts.train) == "train\n");
  CHECK(parts(texts.valid) == "valid one\nvalid two\n");
  CHECK(remarks_on_files(c).empty());
  const datasets::ByteBpe bpe;
  encode_corpus(texts, bpe, dir.path()).file.keep(dir / "tokens.bin");
  // The first byte is only context.
  CHECK(open_corpus(c, dir / "tokens.bin", bpe)->train.bytes == std::ssize(parts(texts.train)) - 1);
  c.valid = {dir / "texts"};
  CHECK(io_error([&] { read_texts(c); }) == dir / "texts: --valid takes all texts of this folder");
  // A file that both flags name is in both, and a remark says so.
  c.text = c.valid = {one};
  CHECK(remarks_on_files(c) ==
        std::vector{one + ": trains and validates, so no score is that of a new text"});
  CHECK(parts(read_texts(c).train) == parts(read_texts(c).valid));
}

TEST_CASE("lm corpus: a file that a flag names twice is refused") {
  TempDir dir;
  make_texts(dir);
  const std::string a = dir / "texts/a.txt";
  fs::create_symlink(a, dir / "link");
  LmFlags f;
  f.train.out = dir / "run";
  const auto told = [&](std::vector<std::string> text, std::vector<std::string> valid = {}) {
    f.config = small_config(std::move(text));
    f.config.valid = std::move(valid);
    return test::error_of([&] { train_lm(f); });
  };
  CHECK(told({dir / "texts", a}) == "--text names " + a + " twice; once is enough");
  CHECK(told({a, dir / "link"}) ==
        "--text names " + (dir / "link") + " twice, also as " + a + "; once is enough");
  CHECK(told({dir / "texts/z.txt"}, {dir / "texts/sub", dir / "texts/sub/c.txt"})
            .starts_with("--valid names "));
  CHECK_FALSE(fs::exists(f.train.out));
}

TEST_CASE("lm corpus: a large text is learned from in pieces from everywhere, not as a whole") {
  std::string piece;
  for (int i = 0; piece.size() < 1 << 20; ++i) piece += fmt::format("line {}\n", i);
  // The parts share one text: only the pieces that are learned from are copied.
  const TextPart part(piece);
  const int64_t limit = 64 << 20;
  for (const int64_t count : {3, 63, 65, 200}) {
    int64_t size = 0;
    const std::vector<TextPart> parts(static_cast<size_t>(count), part);
    for (const std::string& text : texts_to_learn_from(parts)) size += std::ssize(text);
    if (count * part.size() <= limit)
      CHECK(size == count * part.size());
    else
      CHECK((size <= limit + part.size() && 3 * size > limit));
  }
}

TEST_CASE(
    "lm corpus: a run keeps its ids, resumes with them, and makes them again if they are missing") {
  TempDir dir;
  make_texts(dir);
  auto run = [&](const std::string& name, auto between) {
    LmFlags f;
    f.config = small_config({dir / "texts"});
    f.config.schedule = "constant";
    f.config.epochs = 1;
    f.train.out = dir / name;
    REQUIRE(train_lm(f) == 0);
    between(f.train.out);
    LmFlags more;
    more.train.resume = f.train.out;
    more.train.epochs = 2;
    REQUIRE(train_lm(more) == 0);
    return training::load_checkpoint(f.train.out + "/checkpoint.safetensors");
  };
  const SafeTensors kept = run("a", [](const std::string&) {});
  const std::string tokens = read_file(dir / "a/tokens.bin");
  SafeTensors made = run("b", [](const std::string& f) { fs::remove(f + "/tokens.bin"); });
  made.metadata = kept.metadata;  // contains times
  test::check_same(kept, made);
  CHECK(read_file(dir / "b/tokens.bin") == tokens);
  // The error about a damaged file says how to recover.
  write_file(dir / "a/tokens.bin", tokens.substr(0, tokens.size() - 1));
  LmFlags again;
  again.train.resume = dir / "a";
  again.train.epochs = 3;
  CHECK(io_error([&] { train_lm(again); }).find("remove it, and the program will make it again") !=
        std::string::npos);
}

}  // namespace tern::apps::lm::test_lm_corpus
