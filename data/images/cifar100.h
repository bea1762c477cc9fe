// CIFAR-100 in its official binary form (https://www.cs.toronto.edu/~kriz/cifar.html): 32x32 colour
// images of a hundred classes in twenty groups. Two files, train.bin and test.bin; a record has
// 3074 bytes: the group (0-19), the class (0-99), then the planes as in CIFAR-10.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tern/data/images/cifar10.h"

namespace tern::datasets {

struct Cifar100 {
  std::shared_ptr<const ImageSet> train, test;        ///< labelled by class
  std::vector<uint8_t> train_groups, test_groups;     ///< the coarse labels
  std::vector<std::string> class_names, group_names;  ///< 100 and 20 names
};

/// Reads all of it from a folder (with the files, with a folder cifar-100-binary, or with
/// cifar-100-binary.tar.gz) or directly from such an archive. Names come from fine_label_names.txt
/// and coarse_label_names.txt, else they are numbers. Smaller sets work. IoError with file and
/// record: a missing file, a wrong size, a label out of range.
Cifar100 load_cifar100(const std::string& path);

}  // namespace tern::datasets
