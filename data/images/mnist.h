// MNIST and its kin (Fashion-MNIST, KMNIST, EMNIST) in the idx format
// (http://yann.lecun.com/exdb/mnist): an array of numbers with its sizes in front, big-endian.
#pragma once

#include <string>

#include "tern/core/tensor/tensor.h"

namespace tern::data {

/// An idx file, plain or gzip: u8 stays, signed bytes and integers of 16 and 32 bits become i64,
/// f32 and f64 stay. IoError, before anything is allocated, for sizes that are not the file's.
Tensor load_idx(const std::string& path);

struct Mnist {
  Tensor train_images, test_images;  ///< (N, 28, 28) u8
  Tensor train_labels, test_labels;  ///< (N) i64
};

/// Of the folder's train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte, each plain or with .gz, also with a dot before idx. IoError for files
/// that are missing or do not belong together.
Mnist load_mnist(const std::string& folder);

}  // namespace tern::data
