// npy and npz: files that NumPy wrote (tests/reference/npy/make_npy.py), files that we write,
// damage.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/data/loading/npy.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test::test_npy {
namespace {

const std::string kFolder = TERN_SOURCE_DIR "/tests/reference/npy/";

const SafeTensors& reference() {
  static const SafeTensors kFile = load_safetensors(kFolder + "npy.safetensors");
  return kFile;
}

void check_same(const std::string& what, const Tensor& got, const Tensor& want) {
  CHECK_MESSAGE(got.dtype() == want.dtype(), what);
  REQUIRE_MESSAGE(got.shape() == want.shape(), what);
  CHECK_MESSAGE(got.to_vector<double>() == want.to_vector<double>(), what);
}

/// Loads a file of these bytes. Returns the text of the IoError, the only exception it may throw.
std::string damage(const std::string& path, const std::string& bytes, bool zip) {
  write_file(path, bytes);
  return io_error([&] {
    if (zip)
      datasets::load_npz(path);
    else
      static_cast<void>(datasets::load_npy(path));
  });
}

std::string npy_of(const std::string& dictionary) {
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes += {static_cast<char>(dictionary.size()), static_cast<char>(dictionary.size() >> 8)};
  return bytes + dictionary;
}

}  // namespace

TEST_CASE("npy: every type, order and version that NumPy writes is read") {
  for (const auto& [name, want] : reference().tensors)
    check_same(name, datasets::load_npy(kFolder + name + ".npy"), want);
  CHECK(reference().tensors.size() == 22);
  for (const char* file : {"stored.npz", "packed.npz"}) {
    const NamedTensors arrays = datasets::load_npz(kFolder + file);
    CHECK(arrays.size() == (file[0] == 's' ? 5 : 6));
    for (const auto& [name, x] : arrays)
      check_same(name, x, name == "zeros" ? zeros({50, 40}, DType::f64) : reference().find(name));
  }
  for (const char* name : {"complex", "text", "u8"})
    CHECK(
        contains(io_error([&] { return datasets::load_npy(kFolder + "refused_" + name + ".npy"); }),
                 "convert them with .astype()"));
  CHECK(contains(io_error([&] { return datasets::load_npy(kFolder + "refused_record.npy"); }),
                 "records of several fields"));
}

TEST_CASE("npy: written arrays read back the same, and the files equal NumPy's") {
  TempDir dir;
  Rng rng(1);
  NamedTensors all;
  for (DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8})
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{2, 0, 4}, Shape{3, 1, 4, 2}})
      all.emplace_back(fmt::format("{}.{}", all.size(), name(dtype)),
                       (randn(shape, rng, DType::f64) * 50 + 100).to(dtype));
  all.emplace_back("strided", transpose(randn({5, 7}, rng), 0, 1));
  for (bool fortran : {false, true}) {
    for (const auto& [name, x] : all) {
      datasets::save_npy(dir / "x.npy", x, {.fortran_order = fortran});
      check_same(name, datasets::load_npy(dir / "x.npy"), x);
    }
    datasets::save_npz(dir / "x.npz", all, {.fortran_order = fortran});
    const NamedTensors back = datasets::load_npz(dir / "x.npz");
    REQUIRE(back.size() == all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      CHECK(back[i].first == all[i].first);
      check_same(all[i].first, back[i].second, all[i].second);
    }
  }
  // The files equal NumPy's, byte for byte.
  for (const char* name : {"f4", "f8", "i8", "u1", "scalar", "one_axis", "empty"}) {
    datasets::save_npy(dir / "y.npy", reference().find(name));
    CHECK_MESSAGE(read_file(dir / "y.npy") == read_file(kFolder + name + ".npy"), name);
  }
  datasets::save_npy(dir / "y.npy", reference().find("fortran"), {.fortran_order = true});
  CHECK(read_file(dir / "y.npy") == read_file(kFolder + "fortran.npy"));
  datasets::save_npz(dir / "none.npz", {});
  CHECK(datasets::load_npz(dir / "none.npz").empty());
  CHECK_THROWS_AS(datasets::save_npz(dir / "z.npz", {{"a", ones({1})}, {"a", ones({1})}}), Error);
  CHECK_THROWS_AS(datasets::save_npz(dir / "z.npz", {{"", ones({1})}}), Error);
  CHECK_THROWS_AS(datasets::save_npz(dir / "z.npz", {{"a\nb", ones({1})}}), Error);
  CHECK_THROWS_AS(datasets::save_npy(dir / "z.npy", Tensor()), Error);
  CHECK_FALSE(std::filesystem::exists(dir / "z.npz"));
}

TEST_CASE("npy: damage is an IoError with file and byte, and takes no memory") {
  TempDir dir;
  const std::string path = dir / "x.npy";
  auto text = [&](const std::string& dictionary) {
    return damage(path, npy_of(dictionary) + "12345678", false);
  };
  // NumPy 2.4 refuses and reads the same files, except where a comment says otherwise.
  const std::string whole = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n";
  CHECK(text(whole) == "");
  CHECK(contains(text("{'descr': '<f8', 'shape': (1,), }"), "fortran_order or shape is missing"));
  CHECK(contains(text("{'descr': '<f8', 'descr': '<f8', }"), "a repeated or an unknown entry"));
  CHECK(contains(text("{'x': 1}"), "a repeated or an unknown entry"));
  CHECK(contains(text("{'descr': '<f8', 'fortran_order': 1, 'shape': (1,)}"), "True or False"));
  CHECK(
      contains(text("{'descr': '<f8', 'fortran_order': True, 'shape': (-1,)}"), "expected a size"));
  CHECK(contains(text("{'descr': '<f8', 'fortran_order': True, 'shape': (1,)} x"),
                 "follows its end"));
  CHECK(contains(text("{'descr': '<f8"), "a string has no end"));
  const std::string many = "1,1,1,1,1,1,1,1,1,1,1,1,1";  // NumPy reads 64 axes
  CHECK(contains(text("{'descr': '<f8', 'fortran_order': True, 'shape': (" + many + ")}"),
                 "more than 12 axes"));
  const std::string huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (";
  // NumPy reads (0, 5) and ignores the bytes behind it, which show that the shape is wrong.
  for (const char* shape : {"4611686018427387904, 4)}",
                            "9223372036854775807, 9223372036854775807)}", "2,)}", "0, 5)}", ")}, "})
    CHECK(contains(text(huge + shape), "x.npy: "));
  CHECK(text(huge + ")}").empty());  // a single number
  // Arrays without elements. NumPy, too, refuses those with axes that no array can have.
  const auto empty = [&](const std::string& shape) {
    return damage(path, npy_of(huge + shape + "), }"), false);
  };
  CHECK(empty("4294967296, 0").empty());
  for (const char* shape : {"4294967296, 4294967296, 0", "0, 4294967296, 4294967296",
                            "4294967296, 0, 4294967296", "4611686018427387904, 0"})
    CHECK_MESSAGE(contains(empty(shape), "x.npy: an array of shape ("), shape);
  CHECK(contains(damage(path, "short", false), "too short"));
  CHECK(contains(damage(path, "not a npy file", false), "is not an npy file"));
  CHECK(
      contains(damage(path, std::string("\x93NUMPY\x04\0\x10\0", 10) + "123", false), "version 4"));
  CHECK(contains(damage(path, std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12), false),
                 "the header claims 2147483647 bytes"));
  CHECK(contains(io_error([] { return datasets::load_npy("/nowhere.npy"); }), "/nowhere.npy"));
  CHECK(contains(io_error([&] { return datasets::load_npy(dir.path()); }), "not a regular file"));

  Rng rng(2);
  for (const char* name : {"f4.npy", "stored.npz", "packed.npz"}) {
    const bool zip = std::string(name).ends_with("z");
    const std::string bytes = read_file(kFolder + name);
    for (size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 50)
      CHECK_MESSAGE(contains(damage(path, bytes.substr(0, length), zip), path), name, length);
    for (int round = 0; round < 400; ++round) {
      std::string broken = bytes;
      for (int k = 0; k < 2; ++k)
        broken[static_cast<size_t>(rng.below(std::ssize(broken)))] =
            static_cast<char>(rng.below(256));
      damage(path, broken, zip);  // an IoError or arrays, nothing else
    }
  }
}

// NumPy 2.4 refuses these, too, except where a comment says otherwise.
TEST_CASE("npz: checksums, members that overlap or claim too much, and foreign members") {
  TempDir dir;
  const std::string path = dir / "x.npz";
  datasets::save_npz(path, {{"a", arange(0, 100)}, {"b", ones({3})}});
  const std::string whole = read_file(path);
  std::string broken = whole;
  const size_t element = whole.find(std::string("\x63\0\0\0\0\0\0\0", 8));  // 99
  REQUIRE(element != whole.npos);
  broken[element] = 'x';
  CHECK(contains(damage(path, broken, true), "its checksum is wrong"));
  broken = whole;
  broken.replace(whole.find("b.npy"), 5, "b.txt");
  const size_t second = broken.rfind("b.npy");
  broken.replace(second, 5, "b.txt");
  // NumPy returns the bytes of such a member instead of an array.
  CHECK(contains(damage(path, broken, true), "\"b.txt\" is not an npy file"));
  broken = whole;
  broken.replace(broken.rfind("b.npy"), 5, "a.npy");
  CHECK(contains(damage(path, broken, true), "the archive has \"a.npy\" twice"));
  CHECK(contains(damage(path, "PK", true), "is not a zip archive"));
  CHECK(contains(damage(path, std::string(100, 'x'), true), "end record is missing"));
  // The directory claims a huge size for the first member, as a zip bomb does. NumPy ignores this
  // size, and allocates by the shape.
  broken = whole;
  const size_t central = broken.find("PK\x01\x02");
  const size_t size = broken.find(std::string("\x01\0\x18\0", 4), central) + 4;
  broken.replace(size, 8, std::string("\0\0\0\0\0\x01\0\0", 8));
  CHECK(contains(damage(path, broken, true), "claims that 1099511627776 bytes are packed into"));
}

}  // namespace tern::test::test_npy
