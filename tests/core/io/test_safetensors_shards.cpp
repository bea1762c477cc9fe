// Weights in several safetensors files with an index, and the error for weights that are missing.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tern/core/io/tensor_file.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_safetensors_shards {
namespace {

using test::contains;
using test::io_error;
using test::read_file;
using test::TempDir;
using test::write_file;

const std::string kFirst = "model-00001-of-00002.safetensors",
                  kSecond = "model-00002-of-00002.safetensors";

// Two shards and the index that transformers writes:
// {"metadata": ..., "weight_map": {tensor: file}}.
std::string write_shards(const TempDir& dir) {
  save_safetensors(dir / kFirst, {{{"a", arange(0, 6)}, {"b", ones({2, 3})}}, {{"format", "pt"}}});
  save_safetensors(dir / kSecond, {{{"c", full({4}, 7.0)}}, {{"format", "pt"}}});
  const nlohmann::json index = {{"metadata", {{"total_size", 64}}},
                                {"weight_map", {{"a", kFirst}, {"b", kFirst}, {"c", kSecond}}}};
  write_file(dir / "model.safetensors.index.json", index.dump(2));
  return dir / "model.safetensors";
}

std::string said_of(const std::string& path) {
  return io_error([&] { load_safetensors(path); });
}

}  // namespace

TEST_CASE("safetensors: shards with an index are read like one file") {
  const TempDir dir;
  const std::string path = write_shards(dir);
  const SafeTensors all = load_safetensors(path);
  CHECK(all.tensors.size() == 3);
  CHECK(test::same_bits(all.find("a"), arange(0, 6)));
  CHECK(test::same_bits(all.find("b"), ones({2, 3})));
  CHECK(test::same_bits(all.find("c"), full({4}, 7.0)));
  CHECK(all.metadata.at("format") == "pt");
  CHECK(contains(io_error([&] { load_safetensors(path, {.tensors = 2}); }), "more than"));
  CHECK(safetensors_bytes(path) == static_cast<int64_t>(std::filesystem::file_size(dir / kFirst) +
                                                        std::filesystem::file_size(dir / kSecond)));
  // A single file takes precedence over shards, as in transformers.
  save_safetensors(path, {{{"a", ones({1})}}, {}});
  CHECK(load_safetensors(path).tensors.size() == 1);
  CHECK(safetensors_bytes(path) == static_cast<int64_t>(std::filesystem::file_size(path)));
  CHECK_THROWS_AS(safetensors_bytes(dir / "none"), IoError);
}

TEST_CASE("safetensors: an open file reads single tensors, also out of shards") {
  const TempDir dir;
  const std::string path = write_shards(dir);
  SafeTensorsFile file(path);
  CHECK(file.names() == std::vector<std::string>{"a", "b", "c"});
  CHECK(file.metadata().at("format") == "pt");
  CHECK(test::same_bits(file.load("c"), full({4}, 7.0)));
  CHECK(test::same_bits(file.load("a"), arange(0, 6)));
  CHECK(contains(io_error([&] { static_cast<void>(file.load("d")); }), "there is no tensor 'd'"));
  const SafeTensorsFile moved = std::move(file);
  CHECK(test::same_bits(moved.load("b"), ones({2, 3})));
  // The file became shorter after its header was checked.
  std::filesystem::resize_file(dir / kFirst, std::filesystem::file_size(dir / kFirst) - 1);
  CHECK_THROWS_AS(static_cast<void>(moved.load("b")), IoError);
  CHECK_THROWS_AS(SafeTensorsFile{path}, IoError);
}

TEST_CASE("safetensors: an open file reads rows of single tensors") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  // Two bytes an element: the rows (1, 2), (3, 4), (-1, -2); bf16, f16, i16.
  const std::string bf16{"\x80\x3f\x00\x40\x40\x40\x80\x40\x80\xbf\x00\xc0", 12},
      f16{"\x00\x3c\x00\x40\x00\x42\x00\x44\x00\xbc\x00\xc0", 12},
      i16{"\x01\x00\x02\x00\x03\x00\x04\x00\xff\xff\xfe\xff", 12};
  const std::string header = R"({"b":{"dtype":"BF16","shape":[3,2],"data_offsets":[0,12]},)"
                             R"("h":{"dtype":"F16","shape":[3,2],"data_offsets":[12,24]},)"
                             R"("i":{"dtype":"I16","shape":[3,2],"data_offsets":[24,36]},)"
                             R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[36,40]},)"
                             R"("empty":{"dtype":"F32","shape":[0,5],"data_offsets":[40,40]},)"
                             R"("thin":{"dtype":"F32","shape":[4,0],"data_offsets":[40,40]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size() % 256);
  length[1] = static_cast<char>(header.size() / 256);
  test::write_file(path, length + header + bf16 + f16 + i16 + std::string("\0\0\0\0", 4));
  const SafeTensorsFile file(path);
  const Tensor want = tensor({{3, 4}, {-1, -2}});
  for (const char* name : {"b", "h", "i"}) {
    CAPTURE(name);
    CHECK(file.shape(name) == Shape{3, 2});
    const DType dtype = name[0] == 'i' ? DType::i64 : DType::f32;
    CHECK(test::same_bits(file.load_rows(name, 1, 3), want.to(dtype)));
    CHECK(test::same_bits(file.load_rows(name, 0, 3), file.load(name)));
    CHECK(test::same_bits(file.load_rows(name, 3, 3), zeros({0, 2}, dtype)));
  }
  CHECK(file.load_rows("empty", 0, 0).shape() == Shape{0, 5});
  CHECK(file.load_rows("thin", 1, 3).shape() == Shape{2, 0});
  for (const auto& [begin, end] : {std::pair{-1, 1}, {0, 4}, {2, 1}, {4, 4}})
    CHECK_THROWS_WITH_AS(file.load_rows("b", begin, end), doctest::Contains("of 'b', which has 3"),
                         Error);
  CHECK_THROWS_WITH_AS(file.load_rows("empty", 0, 1), doctest::Contains("which has 0"), Error);
  CHECK_THROWS_WITH_AS(file.load_rows("scalar", 0, 1), doctest::Contains("'scalar' is a scalar"),
                       Error);
  CHECK_THROWS_WITH_AS(file.load_rows("c", 0, 1), doctest::Contains("there is no tensor 'c'"),
                       IoError);
  CHECK_THROWS_WITH_AS(file.shape("c"), doctest::Contains("there is no tensor 'c'"), IoError);

  // Rows out of shards, and of files of PyTorch's through the same struct.
  const TempDir shards;
  const TensorSource source = open_tensors(write_shards(shards));
  CHECK(source.tensors.size() == 3);
  CHECK(source.tensors[1] == std::pair<std::string, Shape>("b", Shape{2, 3}));
  CHECK(test::same_bits(source.load_rows("b", 1, 2), ones({1, 3})));
  CHECK(test::same_bits(source.load("a"), arange(0, 6)));
}

TEST_CASE("safetensors: an index and its shards must agree on every tensor") {
  const TempDir dir;
  const std::string path = write_shards(dir), index = dir / "model.safetensors.index.json";
  auto with = [&](const char* tensor, const nlohmann::json& file) {
    nlohmann::json changed = nlohmann::json::parse(read_file(index));
    changed["weight_map"][tensor] = file;
    const TempDir other;
    write_shards(other);
    write_file(other / "model.safetensors.index.json", changed.dump());
    return said_of(other / "model.safetensors");
  };
  CHECK(contains(with("d", kSecond), kSecond + " has no tensor 'd'"));
  CHECK(contains(with("c", kFirst), kFirst + " has no tensor 'c'"));
  CHECK(contains(with("a", kSecond), kFirst + ": it holds the tensor 'a', but"));
  CHECK(contains(with("a", "../" + kFirst),
                 "weight_map.a: '../" + kFirst + "' is not a .safetensors"));
  CHECK(contains(with("a", "model.gguf"), "is not a .safetensors or .bin file in this folder"));
  CHECK(contains(with("a", 7), "weight_map.a: expected a string, got 7"));
  std::filesystem::remove(dir / kSecond);
  CHECK(contains(said_of(path), kSecond + ": No such file or directory"));
  test::check_damaged(read_file(index), "model", 50, [&](const std::string& text) {
    const TempDir other;
    write_shards(other);
    write_file(other / "model.safetensors.index.json", text);
    load_safetensors(other / "model.safetensors");
  });
}

TEST_CASE("safetensors: the error for missing weights lists the weights beside them") {
  const TempDir dir;
  const std::string path = dir / "model.safetensors";
  CHECK(said_of(path).ends_with("model.safetensors: No such file or directory"));
  write_file(dir / "config.json", "{}");
  CHECK(said_of(path).ends_with("model.safetensors: No such file or directory"));
  write_file(dir / "pytorch_model.bin", "\x80\2\x8a\n");
  const std::string torch = said_of(path);
  CHECK(contains(torch, "; beside it: pytorch_model.bin: this is a PyTorch file of before"));
  CHECK(contains(torch, "python3 -c"));
  CHECK(torch.ends_with(path));  // the command writes the missing file
  write_file(dir / "model.gguf", "GGUF");
  CHECK(said_of(path).ends_with(
      "No such file or directory; beside it: model.gguf, pytorch_model.bin"));
  for (int i = 0; i < 9; ++i) write_file(dir / fmt::format("shard-{}.safetensors", i), "");
  CHECK(contains(said_of(path), "shard-2.safetensors and 6 more"));
}

}  // namespace tern::test_safetensors_shards
