// Limits on hostile files: depth, compression ratio and sizes are checked before memory is
// allocated.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "tern/core/base/allocator.h"
#include "tern/core/io/json_value.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/images/mnist.h"
#include "tern/data/loading/csv.h"
#include "tern/data/loading/gzip.h"
#include "tern/data/loading/npy.h"
#include "tern/data/text/bpe/byte_bpe.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/pairs/pairs.h"
#include "tern/data/text/tokenizer/tokenizer.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/heap_calls.h"

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
  return test::error_of([&] { parse_json(text, limits); });
}

/// `part` repeated, then compressed with gzip.
std::string packed(const std::string& part, size_t times) {
  return test::gzip(repeated(part, times));
}

/// One deflated array of zero bytes, as numpy.savez_compressed writes it.
std::string npz_of_zeros(size_t count) {
  const std::string about =
      fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", count);
  std::string array("\x93NUMPY\1\0\x76\0", 10);
  array += about + std::string(0x76 - 1 - about.size(), ' ') + "\n" + std::string(count, '\0');
  const std::string packed = test::gzip(array);
  const std::string deflated = packed.substr(10, packed.size() - 18);
  auto number = [](size_t v, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> 8 * i);
    return out;
  };
  const std::string crc = packed.substr(packed.size() - 8, 4);
  // Version 2.0, no flags, deflated, no time; checksum and sizes; lengths of name and extra field.
  const std::string member = number(20, 2) + number(0, 2) + number(8, 2) + number(0, 4) + crc +
                             number(deflated.size(), 4) + number(array.size(), 4) + number(5, 2) +
                             number(0, 2);
  const std::string local = "PK\3\4" + member + "a.npy" + deflated;
  const std::string central = "PK\1\2" + number(20, 2) + member + number(0, 14) + "a.npy";
  return local + central + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(central.size(), 4) + number(local.size(), 4) + number(0, 2);
}

}  // namespace

TEST_CASE("limits: JSON that is too deep or too long is refused, with the byte") {
  CHECK(parse_json(repeated("[", 64) + repeated("]", 64)).is_array());
  CHECK(json_error(repeated("[", 65) + repeated("]", 65)) ==
        "byte 64 of the JSON is 65 levels deep; the limit is 64");
  CHECK(contains(json_error(repeated("{\"a\":", 100000)), "byte 320 of the JSON is 65 levels"));
  // Brackets in strings do not count, and closed brackets add no depth.
  CHECK(parse_json("[\"" + repeated("[{\\\"", 200) + "\"]").size() == 1);
  CHECK(parse_json("[" + repeated("[],", 200) + "[]]").size() == 201);
  CHECK(json_error("[1,2,3]", {.values = 4}) == "");
  CHECK(json_error("[1,2,3,4]", {.values = 4}) == "the JSON has more than 4 values at byte 6");
  for (const char* wrong : {"[1,", "\"\\", "\"", ""}) CHECK_THROWS_AS(parse_json(wrong), Error);
}

TEST_CASE("limits: JSON numbers that are not 64-bit integers are refused as integers") {
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

TEST_CASE("limits: readers of JSON files refuse deep nesting") {
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

TEST_CASE("limits: gzip files that unpack to more than 100 times their size are refused") {
  TempDir dir;
  const std::string zeros = write_file(dir / "zeros", packed(std::string(1 << 20, 0), 40));
  CHECK(contains(io_error([&] { ByteReader(zeros).drain(); }), "unpacks to more than 100 times"));
  ByteReader allowed(zeros, {.max_ratio = 2000});
  allowed.drain();
  CHECK(allowed.position() == 40 << 20);
  CHECK_THROWS_AS(ByteReader(zeros, {.max_ratio = 0}), Error);
  // Less than 16 MiB of output is always allowed, and plain files have no ratio.
  ByteReader(write_file(dir / "few", packed(std::string(1 << 20, 0), 15))).drain();
  ByteReader(write_file(dir / "plain", std::string(20 << 20, 0))).drain();
}

TEST_CASE("limits: a safetensors file with too many tensors is refused before allocating them") {
  TempDir dir;
  constexpr int64_t kMany = 200'000;
  std::string header = "{";
  for (int64_t i = 0; i < kMany; ++i)
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                          i > 0 ? "," : "", i);
  header += "}";
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> 8 * i);
  const std::string path = write_file(dir / "many", bytes + header);
  const int64_t before = test::heap_calls;
  CHECK(contains(io_error([&] { load_safetensors(path); }),
                 "more than 100000 tensors; SafeTensorsLimits can allow more"));
  // Memory is taken only for names and positions of the first 100,000 tensors.
  CHECK(test::heap_calls - before < 10 * SafeTensorsLimits().tensors);
  CHECK(load_safetensors(path, {.tensors = kMany}).tensors.size() == kMany);
}

TEST_CASE("limits: arrays of an npz file take at most a given multiple of its size") {
  TempDir dir;
  const std::string path = write_file(dir / "zeros.npz", npz_of_zeros(80'000'000));
  REQUIRE(std::filesystem::file_size(path) < 200'000);
  trim_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  CHECK(contains(io_error([&] { load_npz(path); }),
                 "the arrays take more than 67108864 bytes, but the file has"));
  CHECK(contains(io_error([&] { load_npz(path); }), "NpzLimits::ratio can allow more"));
  CHECK(memory_stats().peak - before == 0);
  CHECK(load_npz(path, {.ratio = 2000}).at(0).second.numel() == 80'000'000);
  CHECK_THROWS_AS(load_npz(path, {.ratio = 0}), Error);
}

TEST_CASE("limits: an idx file that claims more than it can unpack to is refused") {
  TempDir dir;
  // The header claims 1.5 GiB. A gzip file of 2 MB could hold that in zeros, but this one does not.
  std::string bytes("\0\0\x08\1\x60\0\0\0", 8);
  std::mt19937 random(0);
  for (int i = 0; i < 2'000'000; ++i) bytes += static_cast<char>(random());
  const std::string path = write_file(dir / "claims.gz", test::gzip(bytes));
  trim_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  CHECK(contains(io_error([&] { load_idx(path); }),
                 "an array of shape (1610612736,) with 1 bytes per element"));
  CHECK(memory_stats().peak - before == 0);
}

TEST_CASE("limits: a table with too many columns is refused before allocating their names") {
  TempDir dir;
  std::string names = "a0";
  for (int i = 1; i < 1'000'000; ++i) names += fmt::format(",a{}", i);
  const std::string path = write_file(dir / "wide.csv", names + "\n");
  const int64_t before = test::heap_calls;
  CHECK(contains(io_error([&] { load_csv(path); }),
                 "line 1: more than 100000 fields; CsvOptions::max_columns can allow more"));
  CHECK(test::heap_calls - before < 1000);  // such short names need no heap memory
  CHECK(load_csv(path, {.max_columns = 1'000'000}).names.size() == 1'000'000);
  CHECK_THROWS_AS(load_csv(path, {.max_columns = 0}), Error);
}

TEST_CASE("limits: files of empty lines are refused before their lines fill memory") {
  TempDir dir;
  const std::string packed_ends = write_file(dir / "ends.gz", packed("\n", 15 << 20));
  CHECK(contains(io_error([&] { read_lines(packed_ends); }), "is this text?"));
  CHECK(contains(io_error([&] { read_pairs_tsv(packed_ends); }), "is this text?"));
  const std::string ends = write_file(dir / "ends", repeated("\n", 4 << 20));
  CHECK(contains(io_error([&] { read_lines(ends); }), "2097153 lines in"));
  // Short lines with some empty ones between them pass as text.
  const std::string letters = write_file(dir / "letters", repeated("a\nbc\n\n", 1 << 20));
  CHECK(read_lines(letters).size() == 3 << 20);
}

}  // namespace tern::test_limits
