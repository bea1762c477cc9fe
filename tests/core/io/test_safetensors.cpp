// The safetensors format: round trips, widening of narrow types, refusal of malformed, truncated
// and damaged files, and atomic writing.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tern/core/io/atomic_file.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/errors.h"

namespace fs = std::filesystem;
namespace tern::test_safetensors {

namespace {

using test::contains;

// A folder for one test case, removed at its end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("tern_safetensors_" + std::to_string(::getpid()));
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), {}));
  }
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string file_of(const std::string& json, const std::string& data) {
  uint64_t length = json.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + json + data;
}

// The error of load_safetensors for a file of these bytes; "" if it accepts them.
std::string complaint(const Folder& folder, const std::string& bytes) {
  std::string path = folder / "x.safetensors";
  spill(path, bytes);
  try {
    load_safetensors(path);
  } catch (const IoError& e) {
    CHECK(std::string(e.what()).find(path) != std::string::npos);
    return e.what();
  }
  return "";
}

const std::string kEight(8, 'x');

}  // namespace

TEST_CASE("safetensors: a round trip keeps names, order, types, shapes, bits and metadata") {
  Folder folder;
  std::string path = folder / "a.safetensors";
  SafeTensors out;
  out.metadata = {{"config", "{\"a\": \"q\\n\"}"}, {"", "empty key"}};
  out.tensors.emplace_back("u8", tensor<uint8_t>({1, 2, 255}, {3}));
  out.tensors.emplace_back("layer.0.weight",
                           tensor<float>({1, -0.0f, NAN, INFINITY, 5, 6}, {2, 3}));
  out.tensors.emplace_back("scalar", tensor<double>({0.1}, {}));
  out.tensors.emplace_back("none", empty({0, 7}));
  out.tensors.emplace_back("i64", tensor<int64_t>({-1, int64_t{1} << 62}, {2, 1}));
  out.tensors.emplace_back("naïve \"名\"\\", tensor<float>({3}, {1}));
  save_safetensors(path, out);
  SafeTensors in = load_safetensors(path);
  CHECK(in.metadata == out.metadata);
  REQUIRE(in.tensors.size() == out.tensors.size());
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    const Tensor &a = in.tensors[i].second, &b = out.tensors[i].second;
    CHECK(in.tensors[i].first == out.tensors[i].first);
    CHECK(a.shape() == b.shape());
    REQUIRE(a.dtype() == b.dtype());
    dispatch(a.dtype(), [&]<class T>() {
      auto size = static_cast<size_t>(a.numel()) * sizeof(T);
      CHECK(std::memcmp(a.data<T>(), b.data<T>(), size) == 0);
    });
  }
  CHECK(in.find("scalar").item<double>() == 0.1);
  CHECK_FALSE(in.find("other").defined());
  CHECK(folder.files() == 1);
}

TEST_CASE("safetensors: data starts at a multiple of 8 and of its own size") {
  Folder folder;
  std::string path = folder / "a.safetensors";
  save_safetensors(path,
                   {{{"a", tensor<uint8_t>({7, 8, 9}, {3})}, {"b", tensor<double>({2}, {})}}, {}});
  std::string bytes = slurp(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK((8 + length) % 8 == 0);
  double b = 0;
  std::memcpy(&b, bytes.data() + 8 + length, 8);
  CHECK(b == 2);
  CHECK(bytes.substr(8 + length + 8) == std::string("\x07\x08\x09"));
}

TEST_CASE("safetensors: half floats, booleans and small integers are widened") {
  Folder folder;
  std::string path = folder / "a.safetensors";
  const uint16_t halves[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x7c00, 0x7e00};
  const uint16_t brains[] = {0x3f80, 0xc2f7};
  const int32_t ints[] = {-5, 2147483647};
  const int8_t small[] = {-128, 127};
  std::string data;
  auto put = [&](const auto& values) {
    data.append(reinterpret_cast<const char*>(values), sizeof(values));
  };
  put(halves), put(brains), put(ints), put(small);
  data += std::string("\x00\x01\x02", 3);
  spill(path, file_of(R"({"h":{"dtype":"F16","shape":[7],"data_offsets":[0,14]},
      "b":{"dtype":"BF16","shape":[2],"data_offsets":[14,18]},
      "i":{"dtype":"I32","shape":[2],"data_offsets":[18,26]},
      "s":{"dtype":"I8","shape":[2],"data_offsets":[26,28]},
      "t":{"dtype":"BOOL","shape":[3],"data_offsets":[28,31]}})",
                      data));
  SafeTensors in = load_safetensors(path);
  auto h = in.find("h").to_vector<float>();
  CHECK(h[0] == 1.0f);
  CHECK(h[1] == -2.0f);
  CHECK(h[2] == 65504.0f);
  CHECK(h[3] == 0x1p-24f);
  CHECK((h[4] == 0 && std::signbit(h[4])));
  CHECK((std::isinf(h[5]) && h[5] > 0));
  CHECK(std::isnan(h[6]));
  CHECK(in.find("b").to_vector<float>() == std::vector<float>{1.0f, -123.5f});
  CHECK(in.find("i").to_vector<int64_t>() == std::vector<int64_t>{-5, 2147483647});
  CHECK(in.find("s").to_vector<int64_t>() == std::vector<int64_t>{-128, 127});
  CHECK(in.find("t").to_vector<int64_t>() == std::vector<int64_t>{0, 1, 1});
  CHECK(in.find("t").dtype() == DType::u8);
}

TEST_CASE("safetensors: malformed files are refused, with the reason") {
  Folder folder;
  auto one = [](const std::string& fields) { return file_of("{\"a\":{" + fields + "}}", kEight); };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  CHECK(complaint(folder, one(good)) == "");
  CHECK(complaint(folder, file_of("{}", "")) == "");
  CHECK(complaint(folder, file_of("{\"__metadata__\":{}}   ", "")) == "");
  // Version 0.8.0 of the safetensors package reads only the files with a third text, which says why
  // tern does not read them.
  struct Case {
    std::string bytes, reason, package_reads = {};
  };
  const std::string huge(8, '\x7f');
  const std::vector<Case> cases = {
      {"", "only 0 bytes"},
      {"short", "only 5 bytes"},
      {huge + "{}", "over the limit"},
      {file_of("{}", "").substr(0, 9), "truncated"},
      {file_of("", ""), "start with '{'"},
      {file_of(" {}", ""), "start with '{'", "the format's own text wants that, as a signature"},
      {file_of("[]", ""), "start with '{'"},
      {file_of(std::string("{}\0", 3), ""),
       "the header is not JSON at line 1, column 3: a zero byte"},
      {file_of("{\"a\"", ""), "the header is not JSON at line 1"},
      {file_of("{} {}", ""), "the header is not JSON at line 1"},
      {file_of("{\"a\xff\":{}}", ""), "the header is not JSON at line 1"},
      {file_of("{" + std::string(100000, '['), ""), "the header is not JSON at line 1"},
      {file_of("{\"a\":" + std::string(100000, '['), ""), "unexpected list"},
      {file_of("{\"a\":1}", ""), "unexpected number"},
      {file_of("{\"a\":{}}", ""), "needs dtype"},
      {file_of("{\"a\":{\"dtype\":{}}}", ""), "unexpected object"},
      {file_of("{\"__metadata__\":{\"a\":1}}", ""), "unexpected number"},
      {file_of("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", ""), "twice",
       "one of the values is lost, and the format forbids it"},
      {file_of("{\"a\":{" + good + "},\"a\":{" + good + "}}", kEight), "twice: a", "the same"},
      {one(good + ",\"dtype\":\"F32\""), "twice: dtype"},
      {one(good + ",\"more\":1"), "unknown key: more", "it may say how to read the bytes"},
      {one(R"("dtype":"F32","shape":[2])"), "needs dtype"},
      {one(R"("dtype":"Q4","shape":[2],"data_offsets":[0,8])"), "unknown type 'Q4'"},
      {one(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), "unexpected number"},
      {one(R"("dtype":"F32","shape":"2","data_offsets":[0,8])"), "unexpected string"},
      {one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "negative"},
      {one(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"), "not an integer"},
      {one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "unexpected list"},
      {one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"), "too long",
       "tensors have at most 12 axes"},
      {one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "needs 12 bytes"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), "needs 4 bytes"},
      {one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"), "too large"},
      {one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"), "too large"},
      {one(R"("dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0])"), "too large"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "before they begin"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), "truncated"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "two numbers"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), "two numbers"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "4 bytes follow"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "a hole"},
      {file_of("{\"a\":{" + good + "},\"b\":{" + good + "}}", kEight), "an overlap"},
  };
  for (const Case& c : cases) {
    std::string said = complaint(folder, c.bytes);
    CHECK_MESSAGE(contains(said, c.reason), "wanted: ", c.reason, ", got: ", said);
  }
  CHECK_THROWS_AS(load_safetensors(folder / "missing"), IoError);
  CHECK_THROWS_AS(load_safetensors(folder.path.string()), IoError);
}

TEST_CASE("safetensors: every truncation is refused") {
  Folder folder;
  std::string path = folder / "a.safetensors";
  save_safetensors(
      path, {{{"w", tensor<float>({1, 2, 3}, {3})}, {"b", tensor<double>({2}, {})}}, {{"k", "v"}}});
  const std::string whole = slurp(path);
  for (size_t n = 0; n < whole.size(); ++n) CHECK(complaint(folder, whole.substr(0, n)) != "");
  CHECK(complaint(folder, whole) == "");
  CHECK(complaint(folder, whole + "x") != "");
}

TEST_CASE("safetensors: a damaged byte gives a valid file or an IoError, nothing else") {
  Folder folder;
  std::string path = folder / "a.safetensors";
  save_safetensors(path, {{{"weight", tensor<float>({1, 2, 3, 4}, {2, 2})},
                           {"n", tensor<int64_t>({7}, {})},
                           {"e", empty({0, 3}, DType::u8)}},
                          {{"config", "{}"}}});
  const std::string whole = slurp(path);
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (unsigned flip : {0x01u, 0x02u, 0x04u, 0x10u, 0x20u, 0x40u, 0x80u, 0xffu}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ flip);
      refused += complaint(folder, bytes) != "";
    }
  }
  CHECK(refused > 500);
  // Two bytes at once, chosen by a fixed linear congruential generator.
  uint32_t state = 1;
  auto next = [&](size_t n) { return (state = state * 1664525u + 1013904223u, (state >> 8) % n); };
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    for (int k = 0; k < 2; ++k) bytes[next(bytes.size())] = "{}[]\":,0129\\ \0n\xff"[next(16)];
    complaint(folder, bytes);
  }
}

TEST_CASE("safetensors: a failed save leaves the old file as it was") {
  Folder folder;
  std::string path = folder / "a.safetensors";
  save_safetensors(path, {{{"a", tensor<float>({1}, {1})}}, {}});
  const std::string before = slurp(path);
  Tensor t = tensor<float>({2}, {1});
  CHECK_THROWS_WITH_AS(save_safetensors(path, {{{"a", t}, {"a", t}}, {}}),
                       "save_safetensors: two tensors are called 'a'", Error);
  CHECK_THROWS_AS(save_safetensors(path, {{{"__metadata__", t}}, {}}), Error);
  CHECK_THROWS_AS(save_safetensors(path, {{{"a", Tensor()}}, {}}), Error);
  CHECK_THROWS_AS(save_safetensors(path, {{{"\xff", t}}, {}}), Error);
  CHECK_THROWS_AS(save_safetensors(folder / "no/such/folder", {{{"a", t}}, {}}), IoError);
  CHECK_THROWS_AS(save_safetensors(folder.path.string(), {{{"a", t}}, {}}), IoError);
  {
    AtomicFile abandoned(path);
    abandoned.write("half of it");
  }
  CHECK(slurp(path) == before);
  CHECK(folder.files() == 1);
}

TEST_CASE("write_file_atomically replaces the whole content") {
  Folder folder;
  std::string path = folder / "log";
  write_file_atomically(path, "a long first version");
  write_file_atomically(path, std::string_view("b\0c", 3));
  CHECK(slurp(path) == std::string("b\0c", 3));
  CHECK(folder.files() == 1);
}

}  // namespace tern::test_safetensors
