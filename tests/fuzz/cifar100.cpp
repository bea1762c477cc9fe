// Fuzzes the reader of CIFAR-100 archives: accepted ones have valid labels and groups.
#include "tern/data/images/cifar100.h"

#include "tern/tests/fuzz/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const fuzz::File file(fuzz::archive_of(
      bytes, size,
      {"train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt", "file.txt~",
       "cifar-100-binary/train.bin", "cifar-100-binary/test.bin", "train.bin.gz"},
      3074));
  fuzz::may_refuse_file([&] {
    const datasets::Cifar100 set = datasets::load_cifar100(file.path());
    fuzz::require(set.class_names.size() == 100 && set.group_names.size() == 20);
    fuzz::require(set.train_groups.size() == set.train->images.size());
    fuzz::require(set.test_groups.size() == set.test->images.size());
    for (const auto* part : {set.train.get(), set.test.get()}) {
      fuzz::require(part->size() > 0);
      for (auto label : part->labels) fuzz::require(label < 100);
    }
    for (auto group : set.train_groups) fuzz::require(group < 20);
  });
  return 0;
}
