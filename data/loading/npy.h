// NumPy's array files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html),
// versions 1 to 3, and npz, zip archives of them. Files are not trusted: types, shapes and sizes
// are checked before anything is allocated. IoError names the file, the array and the byte.
//
// Memory: at most eight times the array's bytes (bytes as i64), and twice that while an array in
// Fortran order is copied. An npy file is as large as its array; NpzLimits bounds an npz file.
//
//   Tensor x = datasets::load_npy("x.npy");
//   datasets::save_npz("batch.npz", {{"images", images}, {"labels", labels}});
//
// Reading: f4, f8, i8 and u1 become f32, f64, i64 and u8; bool becomes u8, f2 becomes f32, smaller
// integers become i64. Both byte orders; C and Fortran order. Other types (complex numbers,
// strings, objects, records, uint64) are refused by name. Writing: little-endian, version 1.
#pragma once

#include <string>

#include "tern/core/io/state.h"

namespace tern::datasets {

Tensor load_npy(const std::string& path);

struct NpyOptions {
  bool fortran_order = false;  ///< the first axis varies fastest in the file
};
/// Writes completely or not at all.
void save_npy(const std::string& path, const Tensor& x, const NpyOptions& options = {});

struct NpzLimits {
  /// Limit of the arrays' bytes as a multiple of the file's size. Deflate packs zeros to a
  /// thousandth of their size. 64 MiB are always allowed, more than 64 GiB never.
  int64_t ratio = 100;
};
/// Reads stored or deflated arrays, in archive order; their names lose ".npy". Smaller integers
/// take up to eight times their size as i64.
NamedTensors load_npz(const std::string& path, const NpzLimits& limits = {});

/// Writes as numpy.savez, without compression. Names must be distinct and nonempty, without control
/// characters. Writes completely or not at all.
void save_npz(const std::string& path, const NamedTensors& arrays, const NpyOptions& options = {});

}  // namespace tern::datasets
