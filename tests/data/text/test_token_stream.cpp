// Files of token ids against ids in memory, and texts in pieces against whole texts.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/data/text/bpe/byte_bpe.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/lines/text_reader.h"
#include "tern/data/text/stream/token_stream.h"
#include "tern/data/text/stream/window_loader.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_token_stream {
using namespace tern::datasets;

namespace {

using test::read_file;
using test::TempDir;
using test::write_file;
using Ids = std::vector<int64_t>;

Ids drawn(int64_t count, int64_t vocabulary) {
  Ids ids;
  Rng rng(7);
  for (int64_t i = 0; i < count; ++i) ids.push_back(rng.below(vocabulary));
  return ids;
}

TokenStream in_file(const Ids& ids, int64_t vocabulary, const std::string& notes = "") {
  TokenWriter writer(".", vocabulary);
  writer.add(std::span(ids).first(ids.size() / 3));
  writer.add(std::span(ids).subspan(ids.size() / 3));
  return writer.finish(notes);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

/// Tokens and targets of all batches from here to the end of the epoch.
std::vector<Ids> rest_of_epoch(Loader<WindowBatch>& loader) {
  std::vector<Ids> out;
  for (WindowBatch& b : loader) {
    out.push_back(b.tokens.to_vector<int64_t>());
    out.push_back(b.targets.to_vector<int64_t>());
  }
  return out;
}

}  // namespace

TEST_CASE("token stream: a file gives the ids that were written, from any position") {
  TempDir dir;
  // Two and four bytes per id; 2046 and 1023 of them fill a page.
  for (const int64_t vocabulary : {3, 65'536, 65'537, 1 << 24})
    for (const int64_t count : {0, 1, 1022, 1023, 1024, 2046, 2047, 140'000}) {
      CAPTURE(vocabulary);
      CAPTURE(count);
      const Ids ids = drawn(count, vocabulary);
      const TokenStream written = in_file(ids, vocabulary, "some notes");
      written.keep(dir / "ids");
      const int64_t pages = (count * (vocabulary > 65'536 ? 2 : 1) + 2045) / 2046;
      CHECK(std::filesystem::file_size(dir / "ids") == pages * 4096 + 10 + 32);
      for (const TokenStream& s : {written, TokenStream::open(dir / "ids"), TokenStream(ids)}) {
        REQUIRE(s.size() == count);
        CHECK(s.read(0, count) == ids);
        for (const int64_t first : {count / 2, count / 5, count})
          for (const int64_t end : {first, std::min(count, first + 3000), count}) {
            const Ids want(ids.begin() + first, ids.begin() + end);
            CHECK(s.read(first, end - first) == want);
            const TokenStream part = s.part(first, end);
            CHECK(part.size() == end - first);
            CHECK(part.read(0, end - first) == want);
            CHECK_THROWS_AS(part.read(0, end - first + 1), Error);
          }
        CHECK_THROWS_AS(s.read(-1, 1), Error);
        CHECK_THROWS_AS(s.read(count, 1), Error);
        CHECK_THROWS_AS(s.part(1, 0), Error);
      }
      CHECK(written.notes() == "some notes");
      CHECK(TokenStream::open(dir / "ids").vocabulary() == vocabulary);
    }
  CHECK_THROWS_WITH_AS(in_file({5}, 5), doctest::Contains("id 5 is outside the vocabulary of 5"),
                       Error);
  CHECK_THROWS_AS(in_file({-1}, 5), Error);
}

TEST_CASE("token stream: a file has no name until it is kept") {
  TempDir dir;
  {
    TokenWriter writer(dir / "not/there/yet", 300);
    writer.add(drawn(5000, 300));
    CHECK(names_in(dir.path()).empty());
    const TokenStream stream = writer.finish("");
    CHECK(names_in(dir.path()).empty());
  }
  CHECK(names_in(dir.path()).empty());
  write_file(dir / "ids", "an old file");
  const Ids ids = drawn(5000, 300);
  const TokenStream stream = in_file(ids, 300);
  stream.keep(dir / "ids");
  stream.keep(dir / "ids");  // it is there already
  stream.keep(dir / "more");
  CHECK(names_in(dir.path()).size() == 2);
  for (const char* name : {"ids", "more"})
    CHECK(TokenStream::open(dir / name).read(0, 5000) == ids);
  // On another file system it is copied. One of these folders is usually on another.
  for (const std::string folder : {"/dev/shm", "/var/tmp"}) {
    if (!std::filesystem::is_directory(folder)) continue;
    const std::string kept = folder + dir.path().substr(dir.path().rfind('/')) + "-kept";
    stream.keep(kept);
    CHECK(read_file(kept) == read_file(dir / "ids"));
    std::filesystem::remove(kept);
  }
  CHECK_THROWS_AS(stream.keep(dir / "none/ids"), IoError);
}

TEST_CASE("token stream: damaged, short and foreign files are refused, at the latest when read") {
  TempDir dir;
  const Ids ids = drawn(5000, 300);  // three pages
  in_file(ids, 300, "notes").keep(dir / "good");
  const std::string good = read_file(dir / "good");
  auto refused = [&](const std::string& bytes) {
    const std::string path = write_file(dir / "bad", bytes);
    try {
      const TokenStream stream = TokenStream::open(path);
      stream.read(0, stream.size());
    } catch (const IoError& e) {
      return std::string(e.what()).starts_with(path);
    }
    return false;
  };
  CHECK_FALSE(refused(good));
  for (size_t at = 0; at < good.size(); at += at < good.size() - 100 ? 397 : 1) {
    CAPTURE(at);
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    CHECK(refused(bad));
    CHECK(refused(good.substr(0, at)));
  }
  CHECK(refused(good + "x"));
  CHECK(refused(good.substr(4096)));
  // Two pages swapped.
  CHECK(refused(good.substr(4096, 4096) + good.substr(0, 4096) + good.substr(8192)));
  // Undamaged pages can be read, and the error gives the place of the damage.
  std::string bad = good;
  bad[4096 + 7] ^= 1;
  const TokenStream stream = TokenStream::open(write_file(dir / "bad", bad));
  CHECK(stream.read(0, 2046) == Ids(ids.begin(), ids.begin() + 2046));
  CHECK_THROWS_WITH_AS(
      stream.read(2045, 2),
      doctest::Contains("bad: the file is damaged: a checksum differs (at byte 4096"), IoError);
  // A claim of many ids takes no memory.
  std::string many = good;
  many.replace(many.size() - 24, 8, 8, '\x7f');
  CHECK(refused(many));
  CHECK_THROWS_AS(TokenStream::open(dir / "none"), IoError);
  CHECK_THROWS_AS(TokenStream::open(dir.path()), IoError);
}

TEST_CASE("token stream: windows of a file equal those of memory, also in blocks and resumed") {
  const Ids ids = drawn(10'007, 1000);
  const TokenStream file = in_file(ids, 1000);
  WindowLoaderOptions o{.batch = 6, .window = 50, .parts = 2, .seed = 5, .workers = 1};
  for (const int epoch : {0, 1, 3}) {
    auto plain = window_loader(ids, o);
    plain.seek({epoch, 5});
    const NamedTensors position = plain.state_dict();
    const std::vector<Ids> want = rest_of_epoch(plain);
    REQUIRE(want.size() > 10);
    for (const int workers : {0, 2}) {
      WindowLoaderOptions other = o;
      other.workers = workers;
      auto streamed = window_loader(file, other);
      streamed.load_state_dict(position);
      CHECK(rest_of_epoch(streamed) == want);
      // Three ranks with blocks 0 to 1, 2 and 3: together they have every window.
      std::vector<Ids> joined(want.size());
      for (const auto& [first, end] : {std::pair(0, 2), std::pair(2, 3), std::pair(3, 4)}) {
        auto rank = window_loader(file, other);
        rank.cut(4, first, end);
        rank.load_state_dict(position);
        for (size_t batch = 0; batch < want.size(); batch += 2) {
          const auto blocks = rank.next_blocks().value();
          for (const auto& block : blocks)
            if (block)
              for (const auto& [to, from] :
                   {std::pair(batch, block->tokens), std::pair(batch + 1, block->targets)}) {
                const Ids more = from.to_vector<int64_t>();
                joined[to].insert(joined[to].end(), more.begin(), more.end());
              }
        }
        CHECK_FALSE(rank.next_blocks());
      }
      CHECK(joined == want);
    }
  }
}

TEST_CASE("text reader: pieces join to the text, from any position after skip()") {
  TempDir dir;
  const std::string character[] = {"a", "\n", "é", "€", "🙂", "\r\n"};
  std::string text;
  Rng rng(1);
  while (text.size() < (3 << 19)) text += character[rng.below(6)];
  for (const std::string& bytes : {text, "\xEF\xBB\xBF" + text, test::gzip(text)}) {
    const std::string path = write_file(dir / "text", bytes);
    CHECK(read_text(path) == text);
    for (const size_t from : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, text.size() / 2 + 1,
                              text.size() / 2 + 2, text.size() - 1, text.size()}) {
      TextReader reader(path);
      reader.skip(static_cast<int64_t>(from));
      size_t begin = from;
      while (from > 0 && begin < text.size() && (text[begin] & 0xC0) == 0x80) ++begin;
      CHECK(reader.position() == static_cast<int64_t>(begin));
      std::string rest, piece;
      for (; reader.read(piece); piece.clear()) {
        CHECK(piece.size() <= (1 << 20) + 3);
        CHECK_FALSE(find_invalid_utf8(piece));
        rest += piece;
      }
      CHECK(rest == text.substr(begin));
    }
  }
  // A cut or invalid character, at both ends of a piece.
  for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{1} << 20, text.size()})
    for (const char* wrong : {"\xE2\x82", "\xFF", "\xC0\x80", "\xF0\x9F\x99", "\x80"}) {
      std::string bad = std::string(at, 'x') + wrong;
      if (at < text.size()) bad += "y";
      const std::string path = write_file(dir / "bad", bad);
      CHECK_THROWS_WITH_AS(read_text(path),
                           doctest::Contains(fmt::format("byte {} is not", at + 1).c_str()),
                           IoError);
    }
}

TEST_CASE("byte BPE: a text in pieces has the ids of the whole text") {
  // Parts that make chunks depend on what follows: contractions, runs of spaces, long characters.
  const std::string part[] = {"'",    "s",      "re",     "ll",   "'ve", " ",     "  ",
                              "\n",   "\r\n",   "\t",     "word", "9",   "1½",    "é",
                              "🙂", "\u00A0", "\u3000", "!",    "...", "\u2028"};
  Rng rng(3);
  auto some_text = [&](int64_t parts) {
    std::string text;
    for (; parts > 0; --parts) text += part[rng.below(20)];
    return text;
  };
  // Enough merges that a chunk that is cut elsewhere has other ids.
  const ByteBpe bpe = ByteBpe::learn(std::vector<std::string>{some_text(5000)}, {.size = 2000});
  for (int round = 0; round < 60; ++round) {
    const std::string text = some_text(rng.below(120));
    for (const int64_t longest : {1, 3, 17, 64}) {
      Ids ids;
      std::string rest;
      for (size_t at = 0; at < text.size();) {
        const size_t count = static_cast<size_t>(1 + rng.below(longest));
        rest += text.substr(at, count);
        at += count;
        rest.erase(0, bpe.encode_beginning(rest, ids));
      }
      const Ids last = bpe.encode(rest);
      ids.insert(ids.end(), last.begin(), last.end());
      CHECK(ids == bpe.encode(text));
    }
  }
  // Memory stays small: only a little of a long text is left to encode.
  Ids ids;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "some words ";
  CHECK(text.size() - bpe.encode_beginning(text, ids) < 40);
}

}  // namespace tern::test_token_stream
