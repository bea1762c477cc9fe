// What files may cost: depth, ratio and size are looked at before memory is taken.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tern/core/io/json_value.h"
#include "tern/data/loading/gzip.h"
#include "tern/data/text/byte_bpe.h"
#include "tern/data/text/lines.h"
#include "tern/data/text/pairs.h"
#include "tern/data/text/tokenizer.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_limits {
using namespace tern::datasets;
using test::contains;
using test::io_error;
using test::TempDir;
using test::write_file;

namespace {

std::string repeated(const std::string& part, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

std::string json_error(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, limits);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// Any number of bytes, packed, without the memory for them.
std::string packed(const std::string& part, size_t times) {
  return test::gzip(repeated(part, times));
}

}  // namespace

TEST_CASE("limits: JSON is refused where it is too deep or too long, at that byte") {
  CHECK(parse_json(repeated("[", 64) + repeated("]", 64)).is_array());
  CHECK(json_error(repeated("[", 65) + repeated("]", 65)) ==
        "byte 64 of the JSON is 65 levels deep; at most 64");
  CHECK(contains(json_error(repeated("{\"a\":", 100000)), "byte 320 of the JSON is 65 levels"));
  // What stands in strings is no bracket; what is closed is not deep.
  CHECK(parse_json("[\"" + repeated("[{\\\"", 200) + "\"]").size() == 1);
  CHECK(parse_json("[" + repeated("[],", 200) + "[]]").size() == 201);
  CHECK(json_error("[1,2,3]", {.values = 4}) == "");
  CHECK(json_error("[1,2,3,4]", {.values = 4}) == "the JSON has more than 4 values at byte 6");
  for (const char* wrong : {"[1,", "\"\\", "\"", ""}) CHECK_THROWS_AS(parse_json(wrong), Error);
}

TEST_CASE("limits: numbers of JSON that are no whole numbers of 64 bits are refused") {
  const JsonDocument whole("[-7, 9223372036854775807]");
  CHECK(whole.root().integers() == std::vector<int64_t>{-7, INT64_MAX});
  for (const char* wrong : {"9223372036854775808", "1e77", "-1e77", "1.5", "2.0", "true", "\"3\"",
                            "null", "[3]", "{}"}) {
    CAPTURE(wrong);
    const JsonDocument file("[0, " + std::string(wrong) + "]");
    CHECK_THROWS_AS(file.root().at(1).integer(), Error);
    CHECK_THROWS_AS(file.root().integers(), Error);
  }
}

TEST_CASE("limits: readers of JSON refuse what is deep") {
  TempDir dir;
  const std::string deep = "{\"format\":\"tern-tokenizer\",\"version\":1,\"crc32\":0,\"content\":" +
                           repeated("[", 100000) + repeated("]", 100000) + "}";
  write_file(dir / "deep", deep);
  CHECK(contains(io_error([&] { Tokenizer::load(dir / "deep"); }), "levels deep"));
  write_file(dir / "merges", "a b\n");
  CHECK(contains(io_error([&] { ByteBpe::load(dir / "deep", dir / "merges"); }), "levels deep"));
  write_file(dir / "deep.gz", packed("[", 50 << 20));
  CHECK(contains(io_error([&] { Tokenizer::load(dir / "deep.gz"); }), "times its size"));
}

TEST_CASE("limits: gzip files that unpack to far more than text does are refused") {
  TempDir dir;
  const std::string zeros = write_file(dir / "zeros", packed(std::string(1 << 20, 0), 40));
  CHECK(contains(io_error([&] { ByteReader(zeros).drain(); }), "unpacks to more than 100 times"));
  ByteReader allowed(zeros, {.max_ratio = 2000});
  allowed.drain();
  CHECK(allowed.position() == 40 << 20);
  CHECK_THROWS_AS(ByteReader(zeros, {.max_ratio = 0}), Error);
  // Below 16 MiB anything goes, and what is no gzip stands for itself.
  ByteReader(write_file(dir / "few", packed(std::string(1 << 20, 0), 15))).drain();
  ByteReader(write_file(dir / "plain", std::string(20 << 20, 0))).drain();
}

TEST_CASE("limits: files of line ends are refused before their lines fill memory") {
  TempDir dir;
  const std::string packed_ends = write_file(dir / "ends.gz", packed("\n", 15 << 20));
  CHECK(contains(io_error([&] { read_lines(packed_ends); }), "is this text?"));
  CHECK(contains(io_error([&] { read_pairs_tsv(packed_ends); }), "is this text?"));
  const std::string ends = write_file(dir / "ends", repeated("\n", 4 << 20));
  CHECK(contains(io_error([&] { read_lines(ends); }), "2097153 lines in"));
  // Short lines of letters, and some blank ones, are text.
  const std::string letters = write_file(dir / "letters", repeated("a\nbc\n\n", 1 << 20));
  CHECK(read_lines(letters).size() == 3 << 20);
}

}  // namespace tern::test_limits
