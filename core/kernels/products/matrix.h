// Inputs and outputs of matrix products: matrices, a product of two, panels of a result.
// Inside of core only.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>

namespace tern::kernels {

/// The largest size or stride to pass to BLAS, which counts in 32 bits.
constexpr int64_t kMaxInt = int64_t{1} << 30;

/// Element (i, j) of a matrix is at data[i * row + j * col].
struct MatrixStrides {
  int64_t row = 0, col = 0;
};

/// An operand of an f32 product: f32 numbers or, for bf16 products only, bfloat16 numbers.
struct Bf16 {
  uint16_t bits;  ///< the upper half of an f32
};
struct Factor {
  const void* data = nullptr;
  bool bf16 = false;

  Factor() = default;
  Factor(const float* x) : data(x) {}             // NOLINT: implicit on purpose
  Factor(const Bf16* x) : data(x), bf16(true) {}  // NOLINT
  Factor at(int64_t offset) const {
    if (bf16) return static_cast<const Bf16*>(data) + offset;
    return static_cast<const float*>(data) + offset;
  }
  /// Calls fn(pointer) with the actual type.
  template <class Fn>
  void visit(Fn fn) const {
    if (bf16)
      fn(static_cast<const Bf16*>(data));
    else
      fn(static_cast<const float*>(data));
  }
};

/// A pointer to an operand's elements. f32 elements may be stored as bfloat16.
template <class T>
using Elements = std::conditional_t<std::is_same_v<T, float>, Factor, const T*>;

inline Factor moved(const Factor& x, int64_t offset) { return x.at(offset); }
template <class T>
const T* moved(const T* x, int64_t offset) {
  return x + offset;
}
/// REQUIRES: the elements are not bfloat16.
inline const float* numbers(const Factor& x) { return static_cast<const float*>(x.data); }
template <class T>
const T* numbers(const T* x) {
  return x;
}

/// A matrix that a product reads.
template <class T>
struct Matrix {
  Elements<T> data = {};
  MatrixStrides strides = {};
  Matrix transposed() const { return {data, {strides.col, strides.row}}; }
};

struct ConvFactors;  // conv_windows.h

/// C = A B + beta C with A (m, k), B (k, n) and C (m, n). Rows of C are contiguous and ldc apart.
/// All kernels for products take this.
template <class T>
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Matrix<T> a = {}, b = {};
  T* c = nullptr;
  int64_t ldc = 0;
  T beta = 0;  ///< 0: ignores the old C
  /// If not null, B is the windows of a convolution (conv_windows.h), and `conv` gives the places
  /// of columns of A and C. Only tiles take such products.
  const ConvFactors* conv = nullptr;
};

/// Whether BLAS can read a rows x cols matrix in place: one stride is 1 and the other at least the
/// length of that axis (strides of axes of size 1 do not count). Copy any other matrix first.
bool blas_takes(int64_t rows, int64_t cols, MatrixStrides strides);

/// A finished part of C: `rows` contiguous runs of `cols` elements, `stride` apart, from C +
/// offset. For a convolution the offset counts as if C's columns were contiguous.
struct Panel {
  int64_t offset, rows, cols, stride;
};

/// Called on each panel of C as soon as its sums are complete, while it is in the cache. Several
/// threads may call it at the same time. Panels cover every element of C once.
using PanelDone = std::function<void(const Panel&)>;

}  // namespace tern::kernels
