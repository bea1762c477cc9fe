// The header of an npy file: a Python dictionary with three entries. Inside of data only.
#pragma once

#include <functional>
#include <string>

#include "tern/core/io/element_types.h"

namespace tern::datasets::detail {

constexpr int64_t kMaxNpyHeader = 1 << 20;

struct NpyHeader {
  const tern::detail::ElementType* type;
  bool swapped, fortran_order;
  Shape shape;
  int64_t size = 0;  ///< bytes before the elements
};

/// fail(at, what) must throw; `at` is a position in the text.
NpyHeader parse_npy_header(const std::string& text,
                           const std::function<void(int64_t, const std::string&)>& fail);
/// Includes the magic bytes of version 1; a multiple of 64 bytes.
std::string make_npy_header(DType dtype, const Shape& shape, bool fortran_order);

}  // namespace tern::datasets::detail
