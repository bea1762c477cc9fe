// MNIST's idx files and CIFAR-100's binary files: every type, plain, gzip and tar, and damaged
// files.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/core/ops/ops.h"
#include "tern/data/images/cifar100.h"
#include "tern/data/images/labelled_pictures.h"
#include "tern/data/images/mnist.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_mnist_cifar100 {
namespace {

namespace fs = std::filesystem;

std::string number(uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}
std::string idx(char type, const std::vector<uint32_t>& sizes, const std::string& bytes) {
  std::string s = {0, 0, type, static_cast<char>(sizes.size())};
  for (uint32_t size : sizes) s += number(size);
  return s + bytes;
}
std::string ramp(size_t n) {
  std::string s;
  for (size_t i = 0; i < n; ++i) s.push_back(static_cast<char>(i * 7));
  return s;
}

std::string record(int group, int label, int shade) {
  return std::string{static_cast<char>(group), static_cast<char>(label)} +
         std::string(datasets::kImageBytes, static_cast<char>(shade));
}
std::string names(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("name {}\r\n", i);
  return text;
}

}  // namespace

TEST_CASE("idx: every type, plain and gzip; sizes are checked first") {
  TempDir dir;
  auto load = [&](const std::string& bytes) {
    return datasets::load_idx(write_file(dir / "x", bytes));
  };
  CHECK(load(idx(8, {2, 3}, std::string("\0\1\2\xff\4\5", 6))).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 1, 2, 255, 4, 5});
  const Tensor i16 = load(gzip(idx(0x0b, {2}, std::string("\xff\xfe\x01\x00", 4))));
  CHECK(i16.dtype() == DType::i64);
  CHECK(i16.to_vector<int64_t>() == std::vector<int64_t>{-2, 256});
  CHECK(load(idx(9, {1}, "\xff")).item<int64_t>() == -1);
  CHECK(load(idx(0x0c, {1}, number(70000))).item<int64_t>() == 70000);
  CHECK(load(idx(0x0d, {1}, number(0x3fc00000))).item() == 1.5);
  CHECK(load(idx(0x0e, {}, number(0x40040000) + number(0))).item() == 2.5);
  CHECK(load(idx(8, {0, 9}, "")).shape() == Shape{0, 9});

  auto refused = [&](const std::string& bytes) { return io_error([&] { return load(bytes); }); };
  CHECK(contains(refused(idx(7, {1}, "x")), "is not an idx file"));
  CHECK(contains(refused("xx"), "ends 2 bytes too early"));
  CHECK(contains(refused(idx(8, {3}, "xx")), "does not fit in the file"));
  CHECK(contains(refused(idx(8, {3}, "xxxx")), "something follows"));
  CHECK(contains(refused(gzip(idx(8, {3}, "xx"))), "x: "));
  CHECK(contains(refused(gzip(idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, "xx"))),
                 "does not fit in the file"));
  CHECK(contains(refused(idx(8, std::vector<uint32_t>(13, 1), "x")), "has 13 axes"));
  for (const std::vector<uint32_t>& sizes :
       {std::vector<uint32_t>{~0U, ~0U, ~0U, 0}, {0, ~0U, ~0U, ~0U}, {~0U, 0, ~0U, ~0U}}) {
    const std::string error = refused(idx(8, sizes, ""));
    CHECK(contains(error, dir / "x: "));
    CHECK(contains(error, "does not fit in the file"));
  }
}

TEST_CASE("mnist: the four files may be plain or gzip, with a dash or a dot before idx") {
  TempDir dir;
  write_file(dir / "train-images-idx3-ubyte.gz", gzip(idx(8, {3, 28, 28}, ramp(3 * 784))));
  write_file(dir / "train-labels.idx1-ubyte", idx(8, {3}, std::string("\3\0\1", 3)));
  write_file(dir / "t10k-images.idx3-ubyte.gz", gzip(idx(8, {2, 28, 28}, ramp(2 * 784))));
  CHECK(contains(io_error([&] { datasets::load_mnist(dir.path()); }), "t10k-labels-idx1-ubyte"));
  write_file(dir / "t10k-labels-idx1-ubyte", idx(8, {2}, "\1\2"));
  const datasets::Mnist set = datasets::load_mnist(dir.path());
  CHECK(set.train_images.shape() == Shape{3, 28, 28});
  CHECK(set.train_images[2][1][5].item<uint8_t>() == static_cast<uint8_t>((2 * 784 + 33) * 7));
  CHECK(set.train_labels.to_vector<int64_t>() == std::vector<int64_t>{3, 0, 1});
  CHECK(set.test_images.shape() == Shape{2, 28, 28});
  CHECK(set.test_labels.dtype() == DType::i64);
  write_file(dir / "t10k-images.idx3-ubyte.gz", gzip(idx(8, {0, 28, 28}, "")));
  write_file(dir / "t10k-labels-idx1-ubyte", idx(8, {0}, ""));
  CHECK(contains(io_error([&] { datasets::load_labelled_pictures(dir.path(), 28); }),
                 "has 3 training and 0 test pictures; both are needed"));
  write_file(dir / "t10k-images.idx3-ubyte.gz", gzip(idx(8, {2, 28, 28}, ramp(2 * 784))));
  write_file(dir / "t10k-labels-idx1-ubyte", idx(8, {3}, "\1\2\3"));
  CHECK(contains(io_error([&] { datasets::load_mnist(dir.path()); }),
                 "one for each of the 2 pictures"));
  CHECK(contains(io_error([&] { datasets::load_mnist(dir / "no"); }), "no such folder"));
}

TEST_CASE("cifar-100: a folder and an archive give groups, classes and names") {
  TempDir dir;
  const std::string train = record(3, 99, 5) + record(0, 1, 250), test = record(19, 42, 7);
  fs::create_directories(dir / "cifar-100-binary");
  write_file(dir / "cifar-100-binary/train.bin", train);
  CHECK(contains(io_error([&] { datasets::load_cifar100(dir.path()); }), "test.bin is missing"));
  write_file(dir / "cifar-100-binary/test.bin", test);
  CHECK(datasets::load_cifar100(dir.path()).class_names[42] == "42");
  const std::string base = "cifar-100-binary/";
  const std::string archive = tar_member(base + "coarse_label_names.txt", names(20)) +
                              tar_member(base + "train.bin", train) +
                              tar_member(base + "fine_label_names.txt", names(100)) +
                              tar_member(base + "test.bin", test) + kTarEnd;
  write_file(dir / "c.tar.gz", gzip(archive));
  for (const std::string& path : {dir.path(), dir / "c.tar.gz"}) {
    const datasets::Cifar100 set = datasets::load_cifar100(path);
    CHECK(set.train->size() == 2);
    CHECK(set.train->labels == std::vector<uint8_t>{99, 1});
    CHECK(set.train_groups == std::vector<uint8_t>{3, 0});
    CHECK(set.train->images[1][700] == 250);
    CHECK(set.test->images[0][3071] == 7);
    CHECK(set.test_groups == std::vector<uint8_t>{19});
  }
  CHECK(datasets::load_cifar100(dir / "c.tar.gz").class_names[42] == "name 42");
  CHECK(datasets::load_cifar100(dir / "c.tar.gz").group_names[19] == "name 19");

  auto refused = [&](const std::string& bytes) {
    write_file(dir / "cifar-100-binary/test.bin", bytes);
    return io_error([&] { datasets::load_cifar100(dir.path()); });
  };
  CHECK(contains(refused(test + "x"), "3075 bytes, but 1 to 50000 records"));
  CHECK(
      contains(refused(test + record(1, 100, 0)), "record 1 (at byte 3074) has group 1 and class"));
  CHECK(contains(refused(record(20, 0, 0)), "has group 20"));
  CHECK(contains(refused(""), "0 bytes"));
  CHECK(contains(refused(gzip(test)), "is packed by gzip"));
  write_file(dir / "d.tar",
             tar_member("train.bin", train) + tar_member("train.bin", train) + kTarEnd);
  CHECK(contains(io_error([&] { datasets::load_cifar100(dir / "d.tar"); }), "has this file twice"));
  write_file(dir / "d.tar", tar_member("fine_label_names.txt", names(99)) + kTarEnd);
  CHECK(contains(io_error([&] { datasets::load_cifar100(dir / "d.tar"); }), "has 99 names"));
  CHECK(contains(io_error([&] { datasets::load_cifar100(dir / "no"); }), "no such file"));
}

}  // namespace tern::test::test_mnist_cifar100
