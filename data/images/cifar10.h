// CIFAR-10 in its official binary form (https://www.cs.toronto.edu/~kriz/cifar.html): 32x32 colour
// images of ten classes. Six files, data_batch_1.bin ... data_batch_5.bin and test_batch.bin, have
// up to 10,000 records each. A record has 3073 bytes: the label (0-9), then the red, the green and
// the blue plane, each row by row from the top.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/data/images/image.h"

namespace tern::datasets {

/// Images and their labels, as bytes.
struct ImageSet {
  std::vector<Image> images;    ///< (N, 3, 32, 32)
  std::vector<uint8_t> labels;  ///< (N), less than the number of classes
  int64_t size() const { return std::ssize(images); }
};

struct Cifar10 {
  std::shared_ptr<const ImageSet> train;  ///< the five training files in order
  std::shared_ptr<const ImageSet> test;
  std::vector<std::string> class_names;  ///< ten
};

/// Reads all of it from a folder (with the files, with a folder cifar-10-batches-bin, or with
/// cifar-10-binary.tar.gz) or directly from such an archive, without unpacking it to disk. Smaller
/// sets work if the five training files have the same size; if these have 10,000 records, the test
/// file needs as many. Class names come from batches.meta.txt, else they are the official ones.
/// IoError: a missing file, a size that is not a whole number of records, a label over 9 (with
/// file, record, value), a damaged archive.
Cifar10 load_cifar10(const std::string& path);

/// Writes a set in the same form to the folder `dir`, creating it if needed. The number of training
/// images must be a multiple of 5; each file has 1 to 10,000 records.
void write_cifar10(const std::string& dir, const Cifar10& set);

}  // namespace tern::datasets
