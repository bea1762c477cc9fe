// Weights in several safetensors files with an index, and the error for weights that are missing.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tern/core/io/safetensors.h"
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
