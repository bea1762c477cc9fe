// Files of other formats given to load_safetensors: the error names the format and, where Python
// can read it, a command that converts it.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/errors.h"

namespace fs = std::filesystem;
namespace tern::test_foreign_file {
namespace {

using namespace std::string_literals;

using test::contains;

// The error of load_safetensors for a file of these bytes; "" if it accepts them.
std::string complaint(const std::string& name, const std::string& bytes) {
  const fs::path path =
      fs::temp_directory_path() / ("tern_foreign_" + std::to_string(::getpid())) / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  std::string told;
  try {
    load_safetensors(path.string());
  } catch (const IoError& e) {
    told = e.what();
    CHECK(told.starts_with("load_safetensors: " + path.string() + ": "));
  }
  fs::remove_all(path.parent_path());
  return told;
}

// The first bytes of files written by torch 2, numpy, llama.cpp, h5py and onnx.
const std::string kZip = "PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\x12\0"s;

TEST_CASE("the error for a foreign file names its format") {
  struct Row {
    std::string bytes, name;
  };
  for (const Row& row :
       {Row{kZip + "archive/data.pklFB", "a PyTorch file, which load_tensors() reads"},
        {"\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3."s, "a PyTorch file of before"},
        {"\x80\5\x95\x0b\0\0\0\0\0\0\0}"s, "a PyTorch file of before"},
        {"PK\3\4-\0\0\0\0\0\0\0!\0n\x99\xb2(\xff\xff\xff\xff\5\0\x14\0a.npy\1\0"s,
         "a NumPy npz file"},
        {kZip + "notes.txt", "a zip archive;"},
        {"GGUF\3\0\0\0\x23\1\0\0\0\0\0\0"s, "a llama.cpp GGUF file (GgufFile reads it)"},
        {"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0"s, "an HDF5 file"},
        {"\x93NUMPY\1\0v\0{'descr'"s, "a NumPy npy file"},
        {"\x08\x07\x12\x07pytorch\x1a\x05"s, "an ONNX file"},
        {"\x1f\x8b\x08\0\0\0\0\0\0\3"s, "a gzip file"},
        {"version https://git-lfs.github.com/spec/v1\noid", "a Git LFS pointer"},
        {"{\"metadata\": {}}", "a JSON file"}}) {
    const std::string told = complaint("w.bin", row.bytes);
    CAPTURE(told);
    CHECK(contains(told, ": this is "));
    CHECK(contains(told, row.name));
    CHECK((contains(told, "tern reads safetensors and PyTorch files") ||
           contains(told, "load_tensors() reads")));
  }
}

TEST_CASE("the error for files that Python reads gives a command that converts them") {
  const std::string torch = complaint("it's one.pt", "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."s);
  CHECK(contains(torch, "\n  python3 -c '"));
  CHECK(contains(torch, "weights_only=True"));
  CHECK(torch.ends_with("it'\\''s one.safetensors'"));
  CHECK(contains(complaint("a.npz", kZip + "x.npy"), "numpy.load"));
  CHECK_FALSE(contains(complaint("a.gguf", "GGUF\3\0\0\0\0\0\0\0"s), "python3"));
}

TEST_CASE("a safetensors file is not taken for another format because of its length") {
  // A header of 0x04034B50 bytes begins like a zip archive, one of 0x120708 bytes like ONNX.
  for (const uint64_t length : {uint64_t{0x04034B50}, uint64_t{0x120708}}) {
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> 8 * i);
    CHECK(contains(complaint("x", bytes + "{}"), "truncated"));
    bytes += "{}";
    bytes.resize(8 + length, ' ');
    CHECK(complaint("x", bytes) == "");
  }
  for (const std::string& bytes : {""s, "P"s, "\x80"s, "12345678"s, "\0\0\0\0\0\0\0\0"s})
    CHECK_FALSE(contains(complaint("x", bytes), ": this is "));
}

}  // namespace
}  // namespace tern::test_foreign_file
