// Fuzzes the reader of CIFAR-10 archives: accepted ones have ten class names and valid labels.
#include "tern/data/images/cifar10.h"
#include "tern/tests/fuzz/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const fuzz::File file(fuzz::archive_of(
      bytes, size,
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
       "data_batch_5.bin", "test_batch.bin", "batches.meta.txt", "readme.html"},
      3073));
  fuzz::may_refuse_file([&] {
    const datasets::Cifar10 set = datasets::load_cifar10(file.path());
    fuzz::require(set.train->size() > 0 && set.test->size() > 0 && set.class_names.size() == 10);
    for (const auto* part : {set.train.get(), set.test.get()})
      for (auto label : part->labels) fuzz::require(label < 10);
  });
  return 0;
}
