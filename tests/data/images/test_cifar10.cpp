// CIFAR-10's files: folders, archives, class names, wrong sizes and damage, with small sets made
// here.
#include <doctest/doctest.h>

#include "tern/data/images/cifar10.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_cifar10 {
using namespace tern::datasets;
using namespace tern::test;

namespace {

constexpr size_t kRecord = 3073;

/// Pixel j of picture i, by a rule that shows a wrong order of planes, rows or records.
uint8_t pixel(int64_t i, int64_t j) { return static_cast<uint8_t>(i * 7 + j * j % 251); }

std::string record(int64_t i) {
  std::string r(1, static_cast<char>(i % 10));
  for (int64_t j = 0; j < 3072; ++j) r.push_back(static_cast<char>(pixel(i, j)));
  return r;
}

/// The bytes of a file with records first, first + 1, ...
std::string batch(int64_t first, int64_t count) {
  std::string bytes;
  for (int64_t i = first; i < first + count; ++i) bytes += record(i);
  return bytes;
}

std::string train_name(int k) { return fmt::format("data_batch_{}.bin", k + 1); }

const std::string kNames = "ant\nbee\ncat\ndog\neel\nfox\ngnu\nhen\nibis\njay\n";

/// Three records in each training file, four in the test file.
void write_small(const std::string& dir) {
  std::filesystem::create_directories(dir);
  for (int k = 0; k < 5; ++k) write_file(dir + "/" + train_name(k), batch(3 * k, 3));
  write_file(dir + "/test_batch.bin", batch(100, 4));
  write_file(dir + "/batches.meta.txt", kNames);
}

/// The same as an archive whose members come in another order.
std::string small_tar() {
  std::string tar = tar_member("x/", "", '5') + tar_member("x/readme.html", "<p>");
  tar += tar_member("x/test_batch.bin", batch(100, 4));
  for (int k = 4; k >= 0; --k) tar += tar_member("../x/" + train_name(k), batch(3 * k, 3));
  return tar + tar_member("x/batches.meta.txt", kNames) + kTarEnd;
}

bool holds(const ImageSet& set, int64_t first, int64_t count) {
  if (set.size() != count || std::ssize(set.labels) != count) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (set.labels[i] != (first + i) % 10) return false;
    for (int64_t j = 0; j < 3072; ++j)
      if (set.images[i][j] != pixel(first + i, j)) return false;
  }
  return true;
}

void check_small(const Cifar10& set) {
  CHECK(holds(*set.train, 0, 15));
  CHECK(holds(*set.test, 100, 4));
  REQUIRE(set.class_names.size() == 10);
  CHECK(set.class_names[0] == "ant");
  CHECK(set.class_names[9] == "jay");
}

std::string load_error(const std::string& path) {
  return io_error([&] { load_cifar10(path); });
}

}  // namespace

TEST_CASE("cifar10: reads the folder, its parent, an archive in a folder, or an archive by name") {
  TempDir dir;
  write_small(dir / "cifar-10-batches-bin");
  check_small(load_cifar10(dir / "cifar-10-batches-bin"));
  check_small(load_cifar10(dir.path()));
  TempDir other;
  write_file(other / "cifar-10-binary.tar.gz", gzip(small_tar()));
  check_small(load_cifar10(other.path()));
  check_small(load_cifar10(other / "cifar-10-binary.tar.gz"));
  check_small(load_cifar10(write_file(other / "plain.tar", small_tar())));
}

TEST_CASE("cifar10: a written set reads back the same") {
  TempDir dir;
  write_small(dir / "a");
  Cifar10 const set = load_cifar10(dir / "a");
  write_cifar10(dir / "new/b", set);
  check_small(load_cifar10(dir / "new/b"));
  for (int k = 0; k < 5; ++k)
    CHECK(read_file(dir / "a/" + train_name(k)) == read_file(dir / "new/b/" + train_name(k)));
  Cifar10 odd = set;
  odd.train = set.test;  // 4 pictures do not fill 5 files
  CHECK_THROWS_AS(write_cifar10(dir / "c", odd), Error);
}

TEST_CASE("cifar10: class names come from their file, else they are the official ones") {
  TempDir dir;
  write_small(dir.path());
  write_file(dir / "batches.meta.txt", "a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\r\nh\r\ni\r\nj\r\n\r\n");
  CHECK(load_cifar10(dir.path()).class_names[3] == "d");
  std::filesystem::remove(dir / "batches.meta.txt");
  CHECK(load_cifar10(dir.path()).class_names[9] == "truck");
  write_file(dir / "batches.meta.txt", "a\nb\n");
  CHECK(contains(load_error(dir.path()), "batches.meta.txt: names 2 classes"));
  write_file(dir / "batches.meta.txt", std::string(100000, 'a'));
  CHECK(contains(load_error(dir.path()), "100000 bytes are too many"));
  write_file(dir / "batches.meta.txt", "a\nb\nc\nd\ne\033[2J\nf\ng\nh\ni\nj\n");
  CHECK(contains(load_error(dir.path()), "control characters (at byte 8)"));
}

TEST_CASE("cifar10: the error of a wrong size gives both sizes") {
  TempDir dir;
  auto error_with = [&](const std::string& name, const std::string& bytes) {
    write_small(dir.path());
    write_file(dir / name, bytes);
    return load_error(dir.path());
  };
  std::string error = error_with("data_batch_2.bin", batch(3, 3).substr(0, 3 * kRecord - 1));
  CHECK(contains(error, "data_batch_2.bin: 9218 bytes, but 30730000 were expected"));
  CHECK(contains(error_with("test_batch.bin", batch(0, 1) + "x"), "test_batch.bin: 3074 bytes"));
  CHECK(contains(error_with("data_batch_5.bin", ""), "data_batch_5.bin: 0 bytes"));
  error = error_with("data_batch_4.bin", batch(0, 4));
  CHECK(contains(error, "data_batch_4.bin: 12292 bytes, but data_batch_1.bin has 9219"));
  std::filesystem::resize_file(dir / "data_batch_1.bin", 10001 * kRecord);
  CHECK(contains(load_error(dir.path()),
                 "data_batch_1.bin: 30733073 bytes, but 30730000 were expected"));
}

TEST_CASE("cifar10: full training files need a full test file") {
  TempDir dir;
  auto make = [&](const std::string& name, size_t records) {  // sparse files: black aeroplanes
    std::filesystem::resize_file(write_file(dir / name, ""), records * kRecord);
  };
  for (int k = 0; k < 5; ++k) make(train_name(k), 10000);
  make("test_batch.bin", 9999);
  CHECK(contains(load_error(dir.path()),
                 "test_batch.bin: 30726927 bytes, but 30730000 were expected"));
  make("test_batch.bin", 10000);
  CHECK(load_cifar10(dir.path()).train->size() == 50000);
}

TEST_CASE("cifar10: labels over 9, missing files and damaged archives are errors") {
  TempDir dir;
  write_small(dir.path());
  std::string bytes = batch(6, 3);
  bytes[2 * kRecord] = 10;
  write_file(dir / "data_batch_3.bin", bytes);
  CHECK(contains(load_error(dir.path()),
                 "data_batch_3.bin: record 2 (at byte 6146) has label 10, labels are 0 to 9"));
  std::filesystem::remove(dir / "data_batch_3.bin");
  CHECK(contains(load_error(dir.path()), "data_batch_3.bin is missing"));

  CHECK(contains(load_error(dir / "nowhere"), "nowhere: no such file or folder"));
  TempDir empty;
  CHECK(contains(load_error(empty.path()), "holds no CIFAR-10"));

  std::string const packed = gzip(small_tar());
  CHECK(contains(load_error(write_file(dir / "cut.tgz", packed.substr(0, packed.size() / 2))),
                 "cut.tgz: the gzip stream is truncated"));
  CHECK(contains(load_error(write_file(dir / "cut.tgz", packed.substr(0, packed.size() - 4))),
                 "cut.tgz: the gzip stream is truncated"));
  CHECK(contains(load_error(write_file(dir / "text", "hello")), "text: "));
  CHECK(contains(load_error(write_file(dir / "none.tar", kTarEnd)),
                 "none.tar: data_batch_1.bin is missing"));
  std::string const twice = tar_member("data_batch_1.bin", batch(0, 3)) + small_tar();
  CHECK(contains(load_error(write_file(dir / "twice.tar", twice)), "has this file twice"));
}

}  // namespace tern::test_cifar10
