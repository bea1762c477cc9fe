// gzip and tar files: plain, packed and chained, headers of every kind, and damage byte by byte.
#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "tern/data/loading/gzip.h"
#include "tern/data/loading/tar.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_tar {
using namespace tern::datasets;
using namespace tern::test;

namespace {

/// Bytes that deflate cannot shrink much, so that streams have many blocks.
std::string noise(size_t n, uint32_t seed = 1) {
  std::string s(n, '\0');
  for (char& c : s) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return s;
}

std::string read_all(const std::string& path, int64_t piece = 1000, int64_t max = 1 << 30) {
  ByteReader reader(path, {.max_bytes = max});
  std::string out, part(static_cast<size_t>(piece), '\0');
  while (int64_t got = reader.read(part.data(), piece)) out.append(part, 0, got);
  return out;
}

std::map<std::string, std::string> members(const std::string& path) {
  TarReader tar(path, {.max_bytes = 1 << 24});
  std::map<std::string, std::string> out;
  while (auto m = tar.next()) {
    std::string content(static_cast<size_t>(m->size), '\0');
    if (m->is_file) tar.read_exactly(content.data(), m->size);
    out[m->name] = m->is_file ? content : "(no file)";
  }
  return out;
}

std::string pax(const std::string& key, const std::string& value) {
  std::string line = " " + key + "=" + value + "\n";
  size_t n = line.size() + 1;
  while (std::to_string(n).size() + line.size() != n) ++n;
  return std::to_string(n) + line;
}

using Members = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("gzip: plain, packed and chained files give their bytes") {
  TempDir dir;
  std::string const text = noise(700000) + std::string(300000, 'a');
  CHECK(read_all(write_file(dir / "plain", text)) == text);
  CHECK(read_all(write_file(dir / "gz", gzip(text))) == text);
  CHECK(read_all(dir / "gz", 700001) == text);
  CHECK(read_all(dir / "gz", 1 << 22) == text);
  CHECK(read_all(write_file(dir / "stored", gzip(text, 0))) == text);
  CHECK(read_all(write_file(dir / "chain", gzip("one") + gzip("") + gzip("two"))) == "onetwo");
  CHECK(read_all(write_file(dir / "zeros", gzip("one") + std::string(5000, '\0'))) == "one");
  CHECK(read_all(write_file(dir / "empty", "")) == "");
  CHECK(read_all(write_file(dir / "empty.gz", gzip(""))) == "");
  CHECK(read_all(write_file(dir / "one byte", "\x1f")) == "\x1f");
}

TEST_CASE("gzip: every truncation and every damaged trailer is an IoError with the file") {
  TempDir dir;
  std::string const packed = gzip(noise(3000) + std::string(3000, 'b'));
  for (size_t n = 2; n < packed.size(); ++n) {
    std::string const error =
        io_error([&] { read_all(write_file(dir / "cut.gz", packed.substr(0, n))); });
    CHECK_MESSAGE(contains(error, "truncated"), n, " ", error);
  }
  for (size_t i = packed.size() - 8; i < packed.size(); ++i) {
    std::string bad = packed;
    bad[i] ^= 1;
    std::string const error = io_error([&] { read_all(write_file(dir / "bad.gz", bad)); });
    CHECK(contains(error, "bad.gz: the gzip stream is damaged: incorrect"));
    CHECK(contains(error, "at byte"));
  }
  CHECK(contains(io_error([&] { read_all(write_file(dir / "t.gz", packed + "junk")); }),
                 "follows the end"));
  CHECK(contains(io_error([&] { read_all(write_file(dir / "h.gz", "\x1f\x8b what is this?")); }),
                 "damaged"));
}

TEST_CASE("gzip: flipping any byte of the stream is noticed or changes nothing") {
  TempDir dir;
  std::string const text = noise(500) + std::string(500, 'c');
  std::string const packed = gzip(text);
  for (size_t i = 2; i < packed.size(); ++i) {
    std::string bad = packed;
    bad[i] ^= 0x10;
    std::string got;
    if (io_error([&] { got = read_all(write_file(dir / "x.gz", bad)); }).empty())
      CHECK(got == text);
  }
}

TEST_CASE("gzip: limits, missing files, folders and early ends are errors") {
  TempDir dir;
  std::string const bomb = gzip(std::string(20000000, '\0'), 9);
  CHECK(bomb.size() < 20000);
  std::string const error =
      io_error([&] { read_all(write_file(dir / "bomb.gz", bomb), 1000, 1000000); });
  CHECK(contains(error, "bomb.gz: holds more than the limit of 1000000 bytes"));
  CHECK(contains(io_error([&] { ByteReader r(dir / "nothing"); }), "cannot be opened"));
  CHECK(contains(io_error([&] { ByteReader r(dir.path()); }), "not a regular file"));
  CHECK(contains(io_error([&] { ByteReader r("/dev/zero"); }), "not a regular file"));

  ByteReader reader(write_file(dir / "ten", "0123456789"));
  char four[4];
  reader.read_exactly(four, 4);
  CHECK(reader.position() == 4);
  CHECK(*reader.remaining() == 6);
  reader.skip(3);
  CHECK(contains(io_error([&] { reader.read_exactly(four, 4); }), "ends 1 bytes too early"));
}

TEST_CASE("tar: members of plain and packed archives") {
  TempDir dir;
  std::string const big = noise(100000);
  std::string const tar = tar_member("d/", "", '5') + tar_member("d/one", "first") +
                          tar_member("empty", "") + tar_member("d/big", big) +
                          tar_member("d/block", std::string(512, 'x')) + kTarEnd;
  Members const expected = {{"d/", "(no file)"},
                            {"d/one", "first"},
                            {"empty", ""},
                            {"d/big", big},
                            {"d/block", std::string(512, 'x')}};
  CHECK(members(write_file(dir / "a.tar", tar)) == expected);
  CHECK(members(write_file(dir / "a.tar.gz", gzip(tar))) == expected);
  CHECK(members(write_file(dir / "none.tar", kTarEnd)).empty());

  TarReader reader(dir / "a.tar");  // unread content is skipped
  std::vector<std::string> names;
  while (auto m = reader.next()) names.push_back(m->name);
  CHECK(names == std::vector<std::string>{"d/", "d/one", "empty", "d/big", "d/block"});
  CHECK(!reader.next());
}

TEST_CASE("tar: GNU long names, pax headers, links, prefixes, binary sizes") {
  TempDir dir;
  std::string const longer(300, 'n');
  std::string tar = tar_member("././@LongLink", longer + std::string(1, '\0'), 'L') +
                    tar_member(longer.substr(0, 100), "gnu");
  tar += tar_member("pax", pax("mtime", "1.5") + pax("path", longer + "=p\nq"), 'x') +
         tar_member("short", "pax");
  tar += tar_member("global", pax("comment", "for all"), 'g') + tar_member("after", "plain");
  tar +=
      tar_header("link", 5, '2') + tar_header("hard", 7, '1') + tar_member("old", "type 0", '\0');
  tar += tar_member("pax", pax("size", "4"), 'x') + tar_header("sized", 0) + padded("four");

  std::string split = tar_header("name", 3);
  split.replace(345, 3, "a/b");
  std::string binary = tar_header("binary", 0);
  binary.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12));
  for (std::string* h : {&split, &binary}) {
    h->replace(148, 8, "        ");
    unsigned sum = 0;
    for (unsigned char c : *h) sum += c;
    h->replace(148, 6, fmt::format("{:06o}", sum));
  }
  tar += split + padded("abc") + binary + padded("xyz") + kTarEnd;
  CHECK(members(write_file(dir / "a.tar", tar)) == Members{{longer, "gnu"},
                                                           {longer + "=p\nq", "pax"},
                                                           {"after", "plain"},
                                                           {"link", "(no file)"},
                                                           {"hard", "(no file)"},
                                                           {"old", "type 0"},
                                                           {"sized", "four"},
                                                           {"a/b/name", "abc"},
                                                           {"binary", "xyz"}});
}

TEST_CASE("tar: damage is an IoError with file and position") {
  TempDir dir;
  auto error = [&](const std::string& bytes) {
    return io_error([&] { members(write_file(dir / "x.tar", bytes)); });
  };
  std::string const tar = tar_member("one", "first") + tar_member("two", noise(2000)) + kTarEnd;
  CHECK(error(tar) == "");

  std::string bad = tar;
  bad[1024 + 3] ^= 1;
  CHECK(contains(error(bad), "x.tar: not a tar header, or its checksum is wrong (at byte 1536)"));
  CHECK(contains(error(noise(3000)), "not a tar header"));
  for (size_t n : {0, 1, 511, 512, 600, 1024, 1300, 1536, 3000})
    CHECK_MESSAGE(error(tar.substr(0, n)) != "", n);
  for (size_t n : {100, 600, 1024, 1300, 2000}) {  // packed: the size is not known beforehand
    std::string const cut = gzip(tar.substr(0, n));
    CHECK_MESSAGE(error(cut) != "", n);
  }
  std::string crc = gzip(tar);
  crc[crc.size() - 6] ^= 1;
  CHECK(contains(error(crc), "incorrect data check"));

  CHECK(contains(error(tar_header("huge", 0777777777) + tar), "gives it 134217727 bytes"));
  CHECK(contains(error(gzip(tar_header("huge", 077777777777) + tar)), "at most 16776704 can"));
  CHECK(contains(error(gzip(tar_header("large", 1000000) + tar)), "too early"));
  CHECK(contains(error(tar_member("l", std::string(2 << 20, 'n'), 'L') + tar), "long name claims"));
  for (const char* text :
       {"5", "9999 path=x\n", "x path=x\n", "8 path=x", "10 pathxxx\n", "0 a=b\n", "11 size=-4\n",
        "11 size=4x\n", "30 size=99999999999999999999\n"})
    CHECK_MESSAGE(contains(error(tar_member("p", text, 'x') + tar), "pax"), text);

  CHECK(contains(error(tar_header("s", 0, 'S') + tar), "\"s\" is stored sparse"));
  const std::string sparse = pax("GNU.sparse.name", "real") + pax("path", "GNUSparseFile.0/real");
  CHECK(contains(error(tar_member("p", sparse, 'x') + tar_header("s", 0) + tar),
                 "\"real\" is stored sparse"));

  std::string negative = tar_header("negative", 0);
  negative.replace(124, 12, std::string(12, '\xff'));
  negative.replace(148, 8, "        ");
  unsigned sum = 0;
  for (unsigned char c : negative) sum += c;
  negative.replace(148, 6, fmt::format("{:06o}", sum));
  CHECK(contains(error(negative + tar), "gives it -1 bytes"));
}

TEST_CASE("tar: reading beyond the end of a member is an error") {
  TempDir dir;
  TarReader tar(write_file(dir / "a.tar", tar_member("m", "12345") + kTarEnd));
  tar.next();
  char to[8];
  CHECK(tar.read(to, 8) == 5);
  CHECK(contains(io_error([&] { tar.read_exactly(to, 1); }), "m of the archive ends 1 bytes"));
}

}  // namespace tern::test_tar
