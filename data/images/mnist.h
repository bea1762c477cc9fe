// MNIST and similar sets (Fashion-MNIST, KMNIST, EMNIST) in the idx format
// (http://yann.lecun.com/exdb/mnist): an array of numbers after its sizes, big-endian.
#pragma once

#include <string>

#include "tern/core/tensor/tensor.h"

namespace tern::datasets {

/// Loads an idx file, plain or gzip. u8, f32 and f64 stay; signed bytes and 16- and 32-bit integers
/// become i64. IoError, before allocating anything, if the sizes do not match the file. Memory: at
/// most eight times the array's bytes (signed bytes as i64), which the file really holds: a gzip
/// file is unpacked twice, first to count them.
Tensor load_idx(const std::string& path);

struct Mnist {
  Tensor train_images, test_images;  ///< (N, 28, 28) u8
  Tensor train_labels, test_labels;  ///< (N) i64
};

/// Reads the folder's train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte, each plain or with .gz, or with a dot before idx. IoError for files that
/// are missing or do not match each other.
Mnist load_mnist(const std::string& folder);

}  // namespace tern::datasets
