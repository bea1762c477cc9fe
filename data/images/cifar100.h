// CIFAR-100 in its official binary form (https://www.cs.toronto.edu/~kriz/cifar.html): 32x32 colour
// pictures of a hundred classes in twenty groups. Two files, train.bin and test.bin; a record is
// 3074 bytes: the group (0-19), the class (0-99), then the planes as in CIFAR-10.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tern/data/images/cifar10.h"

namespace tern::data {

struct Cifar100 {
  std::shared_ptr<const ImageSet> train, test;        ///< labelled by class
  std::vector<uint8_t> train_groups, test_groups;     ///< the coarse labels
  std::vector<std::string> class_names, group_names;  ///< a hundred and twenty
};

/// Reads all of it from a folder (which holds the files, or cifar-100-binary with the files, or
/// cifar-100-binary.tar.gz) or straight from such an archive. Names come from
/// fine_label_names.txt and coarse_label_names.txt; without them they are the numbers. Sets with
/// fewer records are fine. IoError for what is missing, of another size, or labelled out of range,
/// with file and record.
Cifar100 load_cifar100(const std::string& path);

}  // namespace tern::data
