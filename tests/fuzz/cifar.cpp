#include <array>

#include "tern/data/images/cifar10.h"
#include "tern/tests/data_files.h"
#include "tern/tests/fuzz/fuzz.h"

// An archive made of the input, byte for byte: which file, how many records it has, what is wrong
// with it, what is in it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  constexpr size_t kRecord = 3073;
  const std::array<std::string, 8> names = {
      "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
      "data_batch_5.bin", "test_batch.bin",   "batches.meta.txt", "readme.html"};
  std::string archive;
  for (size_t at = 0; at + 2 < size && archive.size() < 1 << 20;) {
    const uint8_t which = bytes[at], records = bytes[at + 1], fill = bytes[at + 2];
    at += 3;
    std::string content;
    if (which & 8) {
      const size_t n = std::min<size_t>(records, size - at);
      content = fuzz::text_of(bytes + at, n);
      at += n;
    } else {
      content.assign(records % 4 * kRecord + (which & 16 ? fill : 0), static_cast<char>(fill));
    }
    const std::string name = (which & 32 ? "folder/" : "") + names[which % 8];
    const size_t claimed = content.size() + (which & 64 ? fill : 0);
    archive += test::tar_header(name, claimed) + test::padded(content);
  }
  if (size % 5 != 0) archive += test::kTarEnd;
  const fuzz::File file(archive);
  fuzz::may_refuse_file([&] {
    const data::Cifar10 set = data::load_cifar10(file.path());
    fuzz::require(set.train->size() > 0 && set.test->size() > 0 && set.class_names.size() == 10);
    for (const auto* part : {set.train.get(), set.test.get()})
      for (auto label : part->labels) fuzz::require(label < 10);
  });
  return 0;
}
