// Byte-level BPE against the `tokenizers` package (tests/reference/byte_bpe), and merging against a
// naive loop.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/data/text/bpe/bpe_table.h"
#include "tern/data/text/bpe/byte_bpe.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/heap_calls.h"

namespace tern::test_byte_bpe {
using namespace tern::datasets;
using nlohmann::json;
using test::TempDir, test::contains;
using Ids = std::vector<int64_t>;

namespace {

const std::string kReference = std::string(TERN_SOURCE_DIR) + "/tests/reference/byte_bpe/";

ByteBpe reference() { return ByteBpe::load(kReference + "vocab.json", kReference + "merges.txt"); }

json cases() { return json::parse(test::read_file(kReference + "cases.json")); }

/// The tokens of a text, for display.
std::string shown(const ByteBpe& bpe, const std::string& text) {
  std::string out;
  for (int64_t id : bpe.encode(text)) out += (out.empty() ? "" : "|") + bpe.piece(id);
  return out;
}

/// The message of the IoError that loading these files gives.
std::string error_of(const TempDir& dir, const std::string& vocabulary, const std::string& merges) {
  return test::io_error([&] {
    return ByteBpe::load(test::write_file(dir / "v.json", vocabulary),
                         test::write_file(dir / "m.txt", merges));
  });
}

}  // namespace

TEST_CASE("byte BPE: ids equal those of the tokenizers package; decoding is exact") {
  const ByteBpe bpe = reference();
  CHECK(bpe.size() == 700);
  const json all = cases();
  REQUIRE(all["strings"].size() > 500);
  for (const json& one : all["strings"]) {
    const auto text = one[0].get<std::string>();
    INFO(text);
    const Ids ids = bpe.encode(text);
    CHECK(ids == one[1].get<Ids>());
    CHECK(bpe.decode(ids) == text);
  }
}

TEST_CASE("byte BPE: learned merges and written files equal those of tokenizers") {
  const auto texts = cases()["texts"].get<std::vector<std::string>>();
  const ByteBpe bpe = ByteBpe::learn(texts, {.size = 700, .specials = {}});
  TempDir dir;
  bpe.save(dir / "vocab.json", dir / "merges.txt");
  CHECK(test::read_file(dir / "merges.txt") == test::read_file(kReference + "merges.txt"));
  CHECK(json::parse(test::read_file(dir / "vocab.json")) ==
        json::parse(test::read_file(kReference + "vocab.json")));
  const ByteBpe again = ByteBpe::load(dir / "vocab.json", dir / "merges.txt");
  CHECK(again.encode(texts[0]) == bpe.encode(texts[0]));
  CHECK(ByteBpe::learn(texts, {.size = 256, .specials = {}}).encode("az é").size() == 5);
}

TEST_CASE("byte BPE: any bytes decode exactly, on several threads; chunks are GPT-2's") {
  const ByteBpe bpe = reference(), bytes;
  CHECK(bytes.size() == 256);
  CHECK(bytes.encode("! ").front() == 0);
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 3; ++seed)
    threads.emplace_back([&, seed] {
      Rng rng(seed);
      for (int i = 0; i < 200; ++i) {
        std::string text;
        for (int64_t n = rng.below(40); n > 0; --n) text += static_cast<char>(rng.below(256));
        if (bpe.decode(bpe.encode(text)) != text) throw 1;
        if (bytes.decode(bytes.encode(text)) != text) throw 1;
      }
    });
  for (std::thread& t : threads) t.join();
  const std::vector<std::string> words(3, "we'll we'LL  x12 12");
  const ByteBpe whole = ByteBpe::learn(words, {.size = 400});
  CHECK(shown(whole, words[0]) == "we|'ll|▁we|'|LL|▁|▁x|12|▁12");
}

TEST_CASE("byte BPE: the time for a long run is not quadratic") {
  const ByteBpe bpe = reference();
  const std::string run(200'000, 'a');
  CHECK(bpe.decode(bpe.encode(run)) == run);
}

TEST_CASE("byte BPE: no allocation for an uncut run exceeds the size of its ids") {
  constexpr int64_t kBytes = 1 << 18;
  for (const char* unit : {"\n", "ab", "\r\n\n"}) {
    std::vector<std::string> run(1);
    while (std::ssize(run[0]) < kBytes) run[0] += unit;
    test::heap_largest = 0;
    const ByteBpe bpe = ByteBpe::learn(run, {.size = 300});
    const std::vector<int64_t> ids = bpe.encode(run[0]);
    CHECK(test::heap_largest <= 8 * std::ssize(run[0]));  // an id is 8 bytes
    CHECK(std::ssize(ids) < 20);
    CHECK(bpe.decode(ids) == run[0]);
  }
}

TEST_CASE("byte BPE: merges by priority, and among equals from the left") {
  Rng rng(3);
  for (int round = 0; round < 400; ++round) {
    const bool ordered = round % 2 == 0;  // no pair has an id that a later one makes
    datasets::detail::MergeTable table;
    std::map<std::pair<int64_t, int64_t>, std::pair<int, int64_t>> naive;  // rank, id
    for (int64_t made = 3; made < 9; ++made) {
      const int64_t left = rng.below(ordered ? made : 9), right = rng.below(ordered ? made : 9);
      if (!table.add(left, right, made)) continue;
      naive[{left, right}] = {static_cast<int>(naive.size()), made};
    }
    std::vector<int64_t> ids;
    const int64_t letters = 1 + rng.below(3);
    for (int64_t i = rng.below(round % 4 < 2 ? 40 : 600); i > 0; --i)
      ids.push_back(rng.below(letters));
    std::vector<int64_t> left = ids;
    for (;;) {
      size_t place = left.size();
      int best = 1000;
      for (size_t i = 0; i + 1 < left.size(); ++i) {
        const auto found = naive.find({left[i], left[i + 1]});
        if (found == naive.end() || found->second.first >= best) continue;
        best = found->second.first;
        place = i;
      }
      if (place == left.size()) break;
      left[place] = naive[{left[place], left[place + 1]}].second;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    CHECK(table.merge(ids) == left);
  }
}

TEST_CASE("byte BPE: special tokens have ids, but encode never returns them") {
  const std::vector<std::string> texts(5, "low lower <|endoftext|>");
  const ByteBpe bpe =
      ByteBpe::learn(texts, {.size = 300, .specials = {"<|endoftext|>", "<pad> ü"}});
  const int64_t end = bpe.id("<|endoftext|>").value();
  CHECK(end == bpe.size() - 2);
  CHECK(bpe.specials() == std::vector<std::string>{"<|endoftext|>", "<pad> ü"});
  CHECK(bpe.piece(end) == "<|endoftext|>");
  CHECK(bpe.decode(Ids{end, bpe.id("<pad> ü").value()}) == "<|endoftext|><pad> ü");
  for (int64_t id : bpe.encode(texts[0])) CHECK(id < end);
  CHECK(bpe.id(" lower").has_value());
  CHECK(!bpe.id("higher").has_value());
  TempDir dir;
  bpe.save(dir / "v.json", dir / "m.txt");
  const ByteBpe again = ByteBpe::load(dir / "v.json", dir / "m.txt");
  CHECK(again.specials() == bpe.specials());
  CHECK(again.id("<|endoftext|>") == end);
  CHECK_THROWS_AS(bpe.decode(Ids{bpe.size()}), Error);
  CHECK_THROWS_AS(bpe.piece(-1), Error);
  CHECK_THROWS_WITH_AS(ByteBpe::learn(texts, {.size = 256}),
                       doctest::Contains("at least 256 larger"), Error);
  CHECK_THROWS_WITH_AS(ByteBpe::learn(texts, {.specials = {"lower", "a"}}),
                       doctest::Contains("'a'"), Error);
}

TEST_CASE("byte BPE: files that do not match are IoErrors that say where") {
  TempDir dir;
  const std::string vocabulary = test::read_file(kReference + "vocab.json");
  const std::string merges = test::read_file(kReference + "merges.txt");
  CHECK(error_of(dir, vocabulary, merges) == "");
  CHECK(error_of(dir, vocabulary, "") != "");  // most likely cut off
  CHECK(contains(error_of(dir, vocabulary, "#version: 0.2\nĠ t\nĠt"), "m.txt: line 3"));
  CHECK(contains(error_of(dir, vocabulary, "Ġ t\nĠ t"), "'Ġ t' appears twice"));
  CHECK(contains(error_of(dir, vocabulary, "Ġ t\nq q"), "merge 2 is 'q q', but there is no token"));
  CHECK(contains(error_of(dir, "{\"a\": 0}", merges), "byte 00"));
  CHECK(contains(error_of(dir, "[1]", merges), "not a JSON object"));
  CHECK(contains(error_of(dir, "{", merges), "v.json: "));
  CHECK(contains(error_of(dir, R"({"a": 0, "b": 0})", merges), "the same id, 0"));
  CHECK(contains(error_of(dir, R"({"a": -1})", merges), "-1"));
  CHECK(contains(error_of(dir, R"({"a": 1e3})", merges), "not an integer"));
  CHECK(contains(error_of(dir, R"({"a": 99999999999})", merges), "from 0 to"));
  CHECK(contains(error_of(dir, R"({"a": 16777215})", merges), "from 0 to"));  // 512 MB of holes
  CHECK_THROWS_AS(ByteBpe::load(dir / "none", dir / "m.txt"), IoError);
  for (size_t i = 0; i < vocabulary.size() - 1; i += 97)
    CHECK(error_of(dir, vocabulary.substr(0, i), merges) != "");
}

}  // namespace tern::test_byte_bpe
