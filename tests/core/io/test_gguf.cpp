// GGUF files: those of llama.cpp's Python package (tests/reference/make_gguf.py) with the values
// that it reads, and damaged ones.
#include <doctest/doctest.h>

#include <functional>

#include "tern/core/io/gguf.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/gguf_bytes.h"
#include "tern/tests/support/heap_calls.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_gguf {
namespace {

using test::bytes_of;
using test::contains;
using test::GgufBytes;
using test::io_error;
using test::TempDir;
using test::write_file;

const std::string kReference = std::string(TERN_SOURCE_DIR) + "/tests/reference/gguf/";
constexpr uint64_t kHuge = uint64_t{1} << 63;

// Two tensors, (2, 3) of F32 and (32) of Q8_0.
GgufBytes small() {
  GgufBytes file;
  file.add("general.architecture", GgufBytes::kText, GgufBytes::text("llama"));
  file.tensor("a", {3, 2}, 0, 0).tensor("b", {32}, 8, 32);
  for (float x : {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}) file.data += bytes_of(x);
  file.data.resize(32);
  file.data += bytes_of(uint16_t{0x3800}) + std::string(32, '\2');  // 0.5 * 2
  return file;
}

std::string complaint(const std::string& bytes, const GgufLimits& limits = {}) {
  const TempDir dir;
  const std::string path = write_file(dir / "x.gguf", bytes);
  const std::string told = io_error([&] { GgufFile(path, limits); });
  if (!told.empty()) CHECK(told.starts_with(path + ": "));
  return told;
}

}  // namespace

TEST_CASE("gguf: every type of tensor has the values of llama.cpp's Python package") {
  const GgufFile file(kReference + "types.gguf");
  const SafeTensors expected = load_safetensors(kReference + "types.safetensors");
  CHECK(file.tensors().size() == 18);
  REQUIRE(file.tensors().size() == expected.tensors.size());
  for (const GgufTensor& t : file.tensors()) {
    CAPTURE(t.name);
    CHECK(t.type == t.name);
    const Tensor values = file.load(t.name);
    CHECK(t.shape == values.shape());
    CHECK(test::same_bits(values, expected.find(t.name)));
    const int64_t rows = t.shape[0];
    CHECK(test::same_bits(file.load_rows(t.name, 1, rows), slice(values, 0, 1, rows)));
  }
  CHECK(file.load("I8").dtype() == DType::i64);
  CHECK(file.load("F64").dtype() == DType::f64);
}

TEST_CASE("gguf: rows that a tensor does not have are refused") {
  const TempDir dir;
  const GgufFile file(write_file(dir / "x", small().bytes()));
  CHECK(test::same_bits(file.load("a"), tensor({{1, 2, 3}, {4, 5, 6}}).to(DType::f32)));
  CHECK(test::same_bits(file.load("b"), ones({32})));
  CHECK(test::same_bits(file.load_rows("a", 1, 2), tensor({{4, 5, 6}}).to(DType::f32)));
  CHECK(file.load_rows("a", 1, 1).shape() == Shape{0, 3});
  CHECK_THROWS_AS(file.load_rows("a", 1, 3), Error);
  CHECK_THROWS_AS(file.load_rows("a", -1, 1), Error);
  CHECK_THROWS_AS(file.load_rows("b", 0, 1), Error);
  CHECK(contains(io_error([&] { file.load("c"); }), "x: there is no tensor 'c'"));
  CHECK(file.find("c") == nullptr);
  CHECK(file.find("b")->type == "Q8_0");
}

TEST_CASE("gguf: metadata of every type") {
  GgufFile opened(kReference + "types.gguf");
  const GgufFile file = std::move(opened);
  CHECK(file.keys().front() == "general.architecture");
  CHECK(file.unread() == file.keys());
  CHECK(file.text("general.architecture") == "llama");
  CHECK(file.text("test.text") == "größer");
  const std::vector<std::pair<const char*, int64_t>> integers = {
      {"test.u8", 200},          {"test.i8", -100},        {"test.u16", 60000},
      {"test.i16", -30000},      {"test.u32", 4000000000}, {"test.i32", -2000000000},
      {"test.i64", -(1LL << 62)}};
  for (const auto& row : integers) {
    CAPTURE(row.first);
    CHECK(file.integer(row.first) == row.second);
    CHECK(file.number(row.first) == static_cast<double>(row.second));
  }
  CHECK(file.number("test.u64") == 0x1p63);
  CHECK(contains(io_error([&] { file.integer("test.u64"); }),
                 "test.u64: 9223372036854775808 is not"));
  CHECK(file.number("test.f32") == static_cast<double>(1e-5f));
  CHECK(file.number("test.f64") == 1e-300);
  CHECK(file.boolean("test.true"));
  CHECK_FALSE(file.boolean("test.false"));
  CHECK(file.texts("test.texts") == std::vector<std::string_view>{"a", "", "Ġb"});
  CHECK(file.unread() == std::vector<std::string>{"test.integers", "test.numbers"});
  CHECK(file.integers("test.integers") == std::vector<int64_t>{3, -4, 5});
  CHECK(file.numbers("test.integers") == std::vector<double>{3, -4, 5});
  CHECK(file.numbers("test.numbers") == std::vector<double>{.5, -2});
  CHECK(file.unread().empty());

  CHECK(file.get("test.u8", int64_t{1}) == 200);
  CHECK(file.get("test.none", int64_t{1}) == 1);
  CHECK(file.get("test.none", .5) == .5);
  CHECK(file.get("test.text", "none") == "größer");
  CHECK(file.get("test.none", true));
  CHECK_FALSE(file.has("test.none"));
}

TEST_CASE("gguf: errors of metadata name the key and both types") {
  const std::string path = kReference + "types.gguf";
  const GgufFile file(path);
  const std::vector<std::pair<std::string, std::function<void()>>> rows = {
      {"the metadata has no llama.block_count", [&] { file.integer("llama.block_count"); }},
      {"test.text: expected an integer, got text", [&] { file.integer("test.text"); }},
      {"test.f32: expected an integer, got f32", [&] { file.integer("test.f32"); }},
      {"test.true: expected an integer, got boolean", [&] { file.get("test.true", int64_t{1}); }},
      {"test.true: expected a number, got boolean", [&] { file.number("test.true"); }},
      {"test.integers: expected an integer, got a list of 3 i32",
       [&] { file.integer("test.integers"); }},
      {"test.u8: expected a text, got u8", [&] { file.text("test.u8"); }},
      {"test.texts: expected a text, got a list of 3 text", [&] { file.text("test.texts"); }},
      {"test.u8: expected true or false, got u8", [&] { file.boolean("test.u8"); }},
      {"test.text: expected a list of texts, got text", [&] { file.texts("test.text"); }},
      {"test.numbers: expected a list of texts, got", [&] { file.texts("test.numbers"); }},
      {"test.numbers: expected a list of integers, got", [&] { file.integers("test.numbers"); }},
      {"test.u8: expected a list of numbers, got u8", [&] { file.numbers("test.u8"); }},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    CHECK(contains(io_error(row.second), path + ": " + row.first));
  }
  const TempDir dir;
  const GgufFile odd(write_file(dir / "x", GgufBytes().add("k", GgufBytes::kBool, "\2").bytes()));
  CHECK(contains(io_error([&] { odd.boolean("k"); }), "k: neither true nor false"));
}

TEST_CASE("gguf: versions, alignment, empty tensors") {
  GgufBytes file = small();
  file.version = 2;
  CHECK(complaint(file.bytes()) == "");
  file.add("general.alignment", GgufBytes::kU32, bytes_of<uint32_t>(256));
  file.infos.pop_back();
  const TempDir dir;
  const GgufFile aligned(write_file(dir / "a", file.bytes(256)));
  CHECK(aligned.find("a")->offset % 256 == 0);
  CHECK(aligned.load("a").to_vector<float>()[5] == 6.f);
  GgufBytes empty;
  empty.tensor("none", {0, 5}, 12, 0).tensor("one", {}, 0, 0);
  empty.data = bytes_of(7.f);
  const GgufFile odd(write_file(dir / "b", empty.bytes()));
  CHECK(odd.load("none").shape() == Shape{5, 0});
  CHECK(odd.load("one").item() == 7);
  CHECK(odd.keys().empty());
  CHECK(complaint(GgufBytes().header()) == "");
}

TEST_CASE("gguf: damaged and foreign files are refused without large allocations") {
  const auto with = [](const std::function<void(GgufBytes&)>& change) {
    GgufBytes file = small();
    change(file);
    return file.bytes();
  };
  const auto text = GgufBytes::text;
  const auto entry = [&](const std::string& key, uint32_t kind, const std::string& value) {
    return with([&](GgufBytes& f) { f.add(key, kind, value); });
  };
  const auto info = [&](const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset = 0) {
    return with([&](GgufBytes& f) { f.tensor("t", sizes, type, offset); });
  };
  const std::string good = small().bytes();
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"not a GGUF file", ""},
      {"not a GGUF file", "GGU"},
      {"this is a zip archive, not a GGUF file", "PK\3\4GGUF"},
      {"4 bytes are needed here, but only 0 follow; the file is truncated or damaged (at byte 4)",
       "GGUF"},
      {"version 1; tern reads versions 2 and 3", with([](GgufBytes& f) { f.version = 1; })},
      {"version 4;", with([](GgufBytes& f) { f.version = 4; })},
      {"version 0;", with([](GgufBytes& f) { f.version = 0; })},
      {"the file is big-endian", with([](GgufBytes& f) { f.version = 0x03000000; })},
      {"tensors do not fit into", with([](GgufBytes& f) { f.more_tensors = kHuge; })},
      {"keys do not fit into", with([](GgufBytes& f) { f.more_entries = kHuge; })},
      {"a name of 0 bytes", with([](GgufBytes& f) { f.more_tensors = 1; })},
      {"'k' has the unknown type 13", entry("k", 13, "")},
      {"bytes are needed here, but only", entry("k", GgufBytes::kText, bytes_of(kHuge))},
      {"bytes are needed here, but only", entry("k", GgufBytes::kText, bytes_of(~uint64_t{0}))},
      {"elements do not fit into",
       entry("k", GgufBytes::kList, GgufBytes::list(GgufBytes::kText, kHuge, ""))},
      {"elements do not fit into",
       entry("k", GgufBytes::kList, GgufBytes::list(GgufBytes::kU8, ~uint64_t{0}, ""))},
      {"are needed here, but only",
       entry("k", GgufBytes::kList, GgufBytes::list(GgufBytes::kU64, 100, ""))},
      {"'k' is a list of lists",
       entry("k", GgufBytes::kList, GgufBytes::list(GgufBytes::kList, 1, ""))},
      {"the key 'general.architecture' appears twice",
       entry("general.architecture", GgufBytes::kU8, "\1")},
      {"a name of 0 bytes", entry("", GgufBytes::kU8, "\1")},
      {"a name of 2000 bytes", entry(std::string(2000, 'k'), GgufBytes::kU8, "\1")},
      {"it must be UTF-8", entry("\xff\xfe", GgufBytes::kU8, "\1")},
      {"general.alignment must be a power of two",
       entry("general.alignment", GgufBytes::kU32, bytes_of<uint32_t>(0))},
      {"general.alignment must be a power of two",
       entry("general.alignment", GgufBytes::kU32, bytes_of<uint32_t>(48))},
      {"general.alignment must be a power of two, as u32",
       entry("general.alignment", GgufBytes::kText, text("32"))},
      {"two tensors are called 'a'", with([](GgufBytes& f) { f.tensor("a", {1}, 0, 0); })},
      {"tensor 't' has 13 axes, at most 12", info(std::vector<uint64_t>(13, 1), 0)},
      {"tensor 't' has the unknown type 4", info({1}, 4)},
      {"tensor 't' has the unknown type 4294967295", info({1}, 0xffffffff)},
      {"tensor 't' has type IQ4_XS; tern reads F32", info({256}, 23)},
      {"tensor 't' has type MXFP4;", info({32}, 39)},
      {"tensor 't' of type Q4_0 has rows of 33, not a multiple of 32", info({33, 32}, 2)},
      {"tensor 't' of type Q4_K has rows of 32, not a multiple of 256", info({32, 8}, 12)},
      {"too large", info({kHuge}, 0)},
      {"too large", info({1ULL << 40, 1ULL << 40}, 0)},
      {"too large", info({1ULL << 31, 1ULL << 31}, 24)},
      {"too large", info({0, kHuge}, 0)},
      {"too large", info({0, 1ULL << 62, 4}, 0)},
      {"tensor 't' begins at 4, not at a multiple of 32", info({1}, 0, 4)},
      {"tensor 't' has 4 bytes from", info({1}, 0, 1 << 20)},
      {"tensor 't' has 4 bytes from", info({1}, 0, kHuge - 32)},
      {"tensor 't' begins at 9223372036854775808, behind the end", info({1}, 0, kHuge)},
      {"tensor 't' begins at 18446744073709551584, behind", info({1}, 0, ~uint64_t{31})},
      {"tensor 't' has 400 bytes from 0 on, but there are only 66; the file is truncated",
       info({100}, 0)},
      {"the tensors overlap", with([](GgufBytes& f) {
         for (int i = 0; i < 100; ++i) f.tensor("t" + std::to_string(i), {16}, 0, 0);
         f.data.resize(64);
         f.infos.erase(f.infos.begin(), f.infos.begin() + 2);
       })},
      {"the file is truncated", good.substr(0, good.size() - 1)},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    test::heap_largest = 0;
    const std::string told = complaint(row.second);
    CHECK_MESSAGE(contains(told, row.first), told);
    CHECK(test::heap_largest < 1 << 16);
  }
  for (size_t size = 0; size < good.size(); ++size) {  // every truncation
    CAPTURE(size);
    CHECK(complaint(good.substr(0, size)) != "");
  }
}

TEST_CASE("gguf: limits of the header") {
  const std::string good = small().bytes();
  CHECK(
      contains(complaint(good, {.header = 100}), "the header has more than 100 bytes; GgufLimits"));
  CHECK(contains(complaint(good, {.tensors = 1}), "2 tensors are over the limit of 1"));
  GgufBytes many;
  many.add("k", GgufBytes::kList,
           GgufBytes::list(GgufBytes::kU8, (1 << 20) + 1, std::string((1 << 20) + 1, 1)));
  CHECK(contains(complaint(many.bytes()), "1048577 elements are over the limit of 1048576"));
  GgufBytes keys;
  for (int i = 0; i <= 10'000; ++i) keys.add("k" + std::to_string(i), GgufBytes::kU8, "\1");
  CHECK(contains(complaint(keys.bytes()), "10001 keys are over the limit of 10000"));
}

TEST_CASE("gguf: a file that becomes shorter, or is no file, is an error") {
  const TempDir dir;
  const std::string path = write_file(dir / "x", small().bytes());
  const GgufFile file(path);
  std::filesystem::resize_file(path, 100);
  CHECK(contains(io_error([&] { file.load("b"); }), "bytes too early"));
  CHECK(contains(io_error([&] { GgufFile(dir.path()); }), dir.path() + ": is not a regular file"));
  CHECK(
      contains(io_error([&] { GgufFile(dir / "none"); }), "none: cannot be opened: No such file"));
}

}  // namespace tern::test_gguf
