// CIFAR-10 in its official binary form (https://www.cs.toronto.edu/~kriz/cifar.html): 32x32 colour
// pictures of ten classes. Six files, data_batch_1.bin ... data_batch_5.bin and test_batch.bin, of
// up to 10,000 records each. A record is 3073 bytes: the label (0-9), then the red, the green and
// the blue plane, each by rows from the top.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/data/images/image.h"

namespace tern::data {

/// Pictures and their labels, as bytes.
struct ImageSet {
  std::vector<Image> images;    ///< (N, 3, 32, 32)
  std::vector<uint8_t> labels;  ///< (N), below the number of classes
  int64_t size() const { return std::ssize(images); }
};

struct Cifar10 {
  std::shared_ptr<const ImageSet> train;  ///< the five training files in order
  std::shared_ptr<const ImageSet> test;
  std::vector<std::string> class_names;  ///< ten
};

/// Reads all of it from a folder (which holds the files, or cifar-10-batches-bin with the files,
/// or cifar-10-binary.tar.gz) or straight from an archive such as cifar-10-binary.tar.gz, which is
/// not unpacked to the disk. Sets with fewer records are fine if the five training files are of
/// one size; beside training files of 10,000 records the test file must have as many.
/// Class names come from batches.meta.txt; without that file they are the official ones.
/// Throws IoError for a missing file, a size that is no such number of records, a label over 9
/// (with file, record, value), or a damaged archive.
Cifar10 load_cifar10(const std::string& path);

/// Writes a set in the same form into the folder `dir`, which is made if need be. The number of
/// training pictures is a multiple of 5; each file has 1 to 10,000 records.
void write_cifar10(const std::string& dir, const Cifar10& set);

}  // namespace tern::data
