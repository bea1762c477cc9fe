// Marks between the documents of a text: how they are found, encoded and held out. Also: files in
// folders that are not text.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tern/apps/lm/document_marks.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/generate.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/lm/training.h"
#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_lm_documents {
namespace {

using test::contains;
using test::TempDir;
using test::write_file;
using Texts = std::vector<std::string>;

/// The naive documents: the text between marks, without the line end after a mark.
Texts naive_documents(std::string text, const std::string& mark) {
  Texts out;
  for (size_t at; (at = text.find(mark)) != text.npos;) {
    if (at > 0) out.push_back(text.substr(0, at));
    text.erase(0, at + mark.size());
    for (const char* end : {"\r\n", "\n", "\r"})
      if (text.starts_with(end)) {
        text.erase(0, std::string_view(end).size());
        break;
      }
  }
  if (!text.empty()) out.push_back(text);
  return out;
}

Texts found_in_pieces(const std::string& text, const std::string& mark, size_t piece,
                      int64_t& bytes) {
  Texts out;
  std::string document;
  bytes = 0;
  const auto end = [&] {
    if (!document.empty()) out.push_back(std::exchange(document, ""));
  };
  MarkFinder finder(
      mark,
      [&](std::string_view part) {
        document += part;
        bytes += std::ssize(part);
      },
      [&](int64_t size) {
        end();
        bytes += size;
      });
  for (size_t at = 0; at < text.size(); at += piece) finder.add(text.substr(at, piece));
  finder.finish();
  end();
  return out;
}

TrainConfig small_config(const std::string& text) {
  TrainConfig c;
  c.text = {text};
  c.hold_out = 0;
  c.vocab_size = 280;
  c.model.context = 16;
  c.model.layers = 1;
  c.model.dim = 16;
  c.model.heads = 2;
  c.warmup = 0;
  return c;
}

/// Short stories with a mark between them, as in TinyStories.
std::string stories(int count, const std::string& mark) {
  const char* names[] = {"Anna", "Ben", "Cleo", "Dan"};
  std::string text;
  Rng rng(3);
  for (int i = 0; i < count; ++i)
    text += (i > 0 ? mark + "\n" : "") + names[rng.below(4)] + " found a ball.\n" +
            names[rng.below(4)] + " lost it.\n";
  return text;
}

}  // namespace

TEST_CASE("lm documents: marks are found wherever a text is cut into pieces") {
  Rng rng(1);
  for (const std::string& mark : {std::string("<|e|>"), std::string("<<<"), std::string("#")})
    for (int round = 0; round < 200; ++round) {
      const std::string words[] = {mark, "<", "<|", "a", "\n", "\r", "\r\n", mark + "\n", "e|>"};
      std::string text;
      for (int64_t i = rng.below(12); i > 0; --i) text += words[rng.below(9)];
      const Texts expected = naive_documents(text, mark);
      CAPTURE(text);
      CHECK(cut_documents({text}, mark) == expected);
      for (size_t piece : {1, 2, 3, 7}) {
        int64_t bytes = 0;
        CHECK(found_in_pieces(text, mark, piece, bytes) == expected);
        CHECK(bytes == std::ssize(text));
      }
    }
  int64_t marks = 0;
  CHECK(cut_documents({"a#b#", "#c"}, "#", &marks) == Texts{"a", "b", "c"});
  CHECK(marks == 3);
  CHECK(cut_documents({"a#b"}, "") == Texts{"a#b"});
}

TEST_CASE("lm documents: one token separates them; no learned token has letters of the mark") {
  TempDir dir;
  for (const std::string& mark : {std::string(kEndOfText), std::string("----")}) {
    const std::string text = stories(40'000, mark);  // more than one piece of 1 MiB
    TrainConfig c = small_config(write_file(dir / "stories.txt", text));
    c.documents = mark;
    const lm::Texts read = read_texts(c);
    const datasets::LanguageTokenizer bpe = make_tokenizer(c, read);
    const int64_t end = *bpe.id(kEndOfText);
    for (int64_t id = 0; id < bpe.size(); ++id)
      if (id != end) CHECK(!contains(bpe.decode(std::span(&id, 1)), mark.substr(0, 2)));
    const Corpus corpus = encode_corpus(read, bpe, dir.path());
    std::vector<int64_t> expected;
    const Texts documents = naive_documents(text, mark);
    for (const std::string& document : documents) {
      expected.push_back(end);
      for (int64_t id : bpe.encode(document)) expected.push_back(id);
    }
    CHECK(corpus.train.ids.read(0, corpus.train.ids.size()) == expected);
    CHECK(corpus.train.ends == std::vector<int64_t>{std::ssize(expected)});
    CHECK(corpus.train.documents == 40'000);
    CHECK(corpus.train.marks == 39'999);
    CHECK(corpus.train.tokens == std::ssize(expected) - 1);
    CHECK(corpus.train.bytes == std::ssize(text));  // bits per byte count the bytes of the file
    note_documents(c, corpus.train.documents, corpus.train.marks);
    CHECK(GptKind::documents(c, corpus) == "40,000 documents, separated by " + mark);
    // The same results from the run's file, and from texts in memory.
    corpus.file.keep(dir / "tokens.bin");
    const Corpus later = open_corpus(c, dir / "tokens.bin", bpe).value();
    CHECK(GptKind::documents(c, later) == GptKind::documents(c, corpus));
    const EncodedTexts whole = encode_texts({text}, bpe, mark);
    CHECK(whole.ids.read(0, whole.ids.size()) == expected);
    CHECK(whole.bytes == corpus.train.bytes);
    // Lines end at marks too, also without a line end before the mark.
    Texts lines;
    for_each_line(encode_texts({"one" + mark + "two\n" + mark + "three"}, bpe, mark), bpe,
                  [&](const std::string& line) { lines.push_back(line); });
    CHECK(lines == Texts{"one", "two", "three"});
  }
}

TEST_CASE("lm documents: held-out text begins with a document") {
  TempDir dir;
  TrainConfig c = small_config(write_file(dir / "x.txt", stories(100, kEndOfText)));
  c.hold_out = 0.3;
  const lm::Texts texts = read_texts(c);
  REQUIRE(texts.valid.size() == 1);
  CHECK(texts.train[0].whole().ends_with(std::string(kEndOfText) + "\n"));
  const Corpus corpus = encode_corpus(texts, datasets::ByteBpe(), dir.path());
  CHECK(corpus.train.documents + corpus.valid.documents == 100);
  CHECK(texts.cut_documents == 0);
  // A file without marks is one document, and a part of it is held out.
  std::filesystem::remove(dir / "x.txt");
  write_file(dir / "y.txt", stories(50, "---"));
  write_file(dir / "z.txt", stories(50, "---"));
  LmFlags o;
  o.config = small_config(dir.path());
  o.config.hold_out = 0.3;
  o.config.epochs = 1;
  CHECK(read_texts(o.config).cut_documents == 2);
  o.train.out = dir / "run";
  REQUIRE(train_lm(o) == 0);
  CHECK(contains(test::read_file(dir / "run/report.html"), "2 documents, one per file"));
}

TEST_CASE("lm documents: each file is a document; a given mark must occur in the text") {
  TempDir dir;
  TrainConfig c = small_config(dir.path());
  write_file(dir / "a.txt", "one");
  write_file(dir / "b.txt", "two");
  const datasets::ByteBpe bpe;
  const Corpus corpus = encode_corpus(read_texts(c), bpe, dir.path());
  note_documents(c, corpus.train.documents, corpus.train.marks);
  CHECK(GptKind::documents(c, corpus) == "2 documents, one per file");
  c.documents = "###";
  CHECK_THROWS_WITH_AS(note_documents(c, 2, 0), "--documents: '###' does not occur in the text",
                       Error);
  // Marks at both ends of a file, or next to each other, count as one.
  const datasets::ByteBpe known =
      datasets::ByteBpe::learn(Texts{"abc"}, {.size = 257, .specials = {kEndOfText}});
  const std::string mark = kEndOfText;
  const EncodedTexts texts =
      encode_texts({mark + "a" + mark + "\n" + mark + "b" + mark, "c"}, known);
  const int64_t end = *known.id(kEndOfText);
  CHECK(texts.documents == 3);
  CHECK(texts.ids.read(0, texts.ids.size()) == std::vector<int64_t>{end, known.encode("a")[0], end,
                                                                    known.encode("b")[0], end,
                                                                    known.encode("c")[0]});
  CHECK(texts.bytes == 2 + std::ssize(mark) * 2 + 1 + 1);
}

TEST_CASE("lm documents: a bert's documents end at marks too") {
  TempDir dir;
  TrainConfig c = small_config(write_file(dir / "x.txt", stories(50, kEndOfText)));
  c.model.model = kBert;
  c.vocab_size = 200;
  const lm::Texts texts = read_texts(c);
  const datasets::WordPiece pieces = make_pieces(c, texts);
  for (int64_t i = 0; i < pieces.size(); ++i) CHECK(!contains(pieces.piece(i), "endo"));
  const BertCorpus corpus = encode_documents(c, texts, pieces);
  CHECK(corpus.train->size() == 50);
  CHECK(corpus.train->sentences() == 100);
  note_documents(c, corpus.documents, corpus.marks);
  CHECK(BertKind::documents(c, corpus) ==
        "50 documents, separated by <|endoftext|> and blank lines");
}

TEST_CASE("lm documents: a run from an earlier version has no mark, a new one keeps it") {
  TrainConfig c;
  c.model.vocab = 300;
  c.documents = "##";
  c.documents_found = 7;
  const std::string json = to_json(c);
  CHECK(config_from_json<TrainConfig>(json).documents == "##");
  CHECK(config_from_json<TrainConfig>(json).documents_found == 7);
  std::string old = json;
  for (const char* member : {"\"documents\"", "\"documents_found\""}) {
    const size_t at = old.find(member);
    REQUIRE(at != old.npos);
    old.erase(at, old.find(',', at) + 1 - at);
  }
  CHECK(config_from_json<TrainConfig>(old).documents.empty());
}

TEST_CASE("lm documents: a model that has learned the ends of documents stops there") {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::string(i > 0 ? kEndOfText : "") + "abcd";
  LmFlags o;
  o.config = small_config(write_file(dir / "x.txt", text));
  o.config.epochs = 30;
  o.config.batch = 4;
  o.config.lr = 1e-2;
  o.config.model.dropout = 0;
  o.train.out = dir / "run";
  REQUIRE(train_lm(o) == 0);
  CHECK(load_config({dir / "run"}).documents_found == 300);
  CHECK(contains(test::read_file(dir / "run/report.html"),
                 "300 documents, separated by &lt;|endoftext|&gt;"));
  const auto check_stops = [&](const std::string& run) {
    const LoadedModel m = load_folder(run);
    for (const char* prompt : {"abcd", ""}) {
      const Generated g =
          generate(m.model, m.tokenizer, prompt, {.max_tokens = 40, .temperature = 0});
      CHECK(prompt + g.text == "abcd");
      CHECK(!g.limited);
    }
  };
  check_stops(dir / "run");

  // Also a published model whose own texts end by another token; transformers is told.
  const auto json_of = [&](const std::string& name) {
    return nlohmann::json::parse(test::read_file(dir / name));
  };
  const int64_t end = *load_folder(dir / "run").tokenizer.id(kEndOfText);
  const std::vector<int64_t> both = {7, end};
  std::filesystem::remove(dir / "run/lm.json");
  nlohmann::json config = json_of("run/config.json");
  config["eos_token_id"] = 7;
  write_file(dir / "run/config.json", config.dump());
  o.config.epochs = 1;
  o.config.lr = 1e-9;
  o.given = {"lr"};
  const auto tune = [&](const char* from, const char* to) {
    o.config.from = dir / from;
    o.train.out = dir / to;
    REQUIRE(train_lm(o) == 0);
    check_stops(dir / to);
  };
  tune("run", "tuned");
  CHECK(json_of("tuned/config.json")["eos_token_id"] == both);
  tune("tuned", "again");
  CHECK(json_of("again/config.json")["eos_token_id"] == both);
  write_file(dir / "run/generation_config.json", R"({"eos_token_id": 7, "max_length": 9})");
  tune("run", "other");
  CHECK(json_of("other/generation_config.json") ==
        nlohmann::json{{"eos_token_id", both}, {"max_length", 9}});
}

TEST_CASE("lm texts: files in a folder that are not text are counted by ending") {
  TempDir dir;
  std::filesystem::create_directories(dir / "t/sub/.git");
  std::filesystem::create_directories(dir / "t/__MACOSX");
  for (const char* name : {"a.txt", "sub/B.TXT", "c.en.gz"}) write_file(dir / "t/" + name, "text");
  for (const char* name : {"README", "sub/x.md", "y.MD", "z.jsonl", "w.tar.gz", "._a.txt",
                           "sub/.git/d.txt", "__MACOSX/a.txt"})
    write_file(dir / "t/" + name, "no");
  TrainConfig c;
  c.text = {dir / "t", dir / "t/README"};
  CHECK(text_paths(c) ==
        Texts{dir / "t/a.txt", dir / "t/c.en.gz", dir / "t/sub/B.TXT", dir / "t/README"});
  REQUIRE(remarks_on_files(c).size() == 1);
  CHECK(remarks_on_files(c)[0] == dir /
                                      "t: 5 of 8 files are not used: 2 .md, 1 .jsonl, 1 .tar.gz, 1 "
                                      "hidden; --text takes files of any name");
  c.text = {dir / "t"};
  CHECK(contains(remarks_on_files(c)[0], "t: 6 of 9 files are not used: "));
  CHECK(contains(remarks_on_files(c)[0], ", 1 without an ending; "));
  c.text = {dir / "t/a.txt"};
  CHECK(remarks_on_files(c).empty());
  std::filesystem::create_directories(dir / "u");
  write_file(dir / "u/x.md", "text");
  c.text = {dir / "u"};
  CHECK(
      test::io_error([&] { text_paths(c); }) ==
      dir / "u: there is no .txt or .gz file in this folder, only 1 .md; --text takes files of any "
            "name: --text " +
          (dir / "u") + "/*");
}

}  // namespace tern::apps::lm::test_lm_documents
