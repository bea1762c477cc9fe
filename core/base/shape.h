// Shapes, strides and lists of axes: short lists of integers, stored without heap memory.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <string>

#include "tern/core/base/error.h"

namespace tern {

/// The largest number of axes of a tensor.
constexpr int kMaxDims = 12;

/// Up to kMaxDims integers, used for shapes, strides (in elements) and axes. A single integer
/// converts: write `sum(x, -1)` or `sum(x, {0, 1})`.
class Dims {
 public:
  Dims() = default;
  template <std::integral Int>
  requires(!std::same_as<Int, bool>) Dims(Int v) : n_(1) {  // NOLINT: implicit on purpose
    v_[0] = static_cast<int64_t>(v);
  }
  template <std::same_as<bool> Truth>
  Dims(Truth) = delete;  // sum(x, true): which axes? keepdim comes after them
  /// One integer in braces. Takes any integer type, so that a size_t is not a narrowing conversion.
  struct Item {
    template <class Int>
    requires(std::convertible_to<Int, int64_t> && !std::floating_point<Int> &&
             !std::same_as<Int, bool>) constexpr Item(Int v)  // NOLINT
        : value(static_cast<int64_t>(v)) {}
    template <std::same_as<bool> Truth>
    Item(Truth) = delete;
    constexpr operator int64_t() const { return value; }  // NOLINT: implicit on purpose
    int64_t value;
  };
  Dims(std::initializer_list<Item> list) : Dims(list.begin(), list.end()) {}
  template <std::input_iterator It>
  Dims(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  static Dims filled(int n, int64_t value) {
    Dims d;
    d.resize(n, value);
    return d;
  }

  int size() const { return n_; }
  bool empty() const { return n_ == 0; }
  int64_t& operator[](int i) { return v_[i]; }
  int64_t operator[](int i) const { return v_[i]; }
  int64_t* begin() { return v_.data(); }
  int64_t* end() { return v_.data() + n_; }
  const int64_t* begin() const { return v_.data(); }
  const int64_t* end() const { return v_.data() + n_; }
  int64_t back() const { return v_[n_ - 1]; }
  void push_back(int64_t v) {
    if (n_ == kMaxDims) fail_too_many();
    v_[n_++] = v;
  }
  void resize(int n, int64_t value = 0) {
    if (n > kMaxDims) fail_too_many();
    for (int i = n_; i < n; ++i) v_[i] = value;
    n_ = n;
  }
  void insert(int at, int64_t v);
  void erase(int at);
  bool contains(int64_t v) const;
  bool operator==(const Dims& o) const;
  /// Writes to_string(dims).
  friend std::ostream& operator<<(std::ostream& out, const Dims& dims);

 private:
  [[noreturn]] static void fail_too_many();
  std::array<int64_t, kMaxDims> v_{};
  int n_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// The number of elements. Error if a size is negative, or if the product of the nonzero sizes
/// exceeds 63 bits. So strides and partial products fit too, even for empty shapes.
int64_t numel(const Shape& shape);

/// a * b and a + b. If the result exceeds 63 bits, the error names `op`.
int64_t checked_product(const char* op, int64_t a, int64_t b);
int64_t checked_sum(const char* op, int64_t a, int64_t b);

/// The position of element `index` of a tensor of shape `shape`, counted in row-major order.
Dims position_of(int64_t index, const Shape& shape);

/// "(2, 3)".
std::string to_string(const Dims& dims);

/// Converts an axis in [-ndim, ndim) to [0, ndim); errors name `op`.
int normalize_axis(const char* op, int64_t axis, int ndim);

/// Distinct axes in [0, ndim), ascending. An empty list means all axes, as in PyTorch.
Dims normalize_axes(const char* op, const Dims& axes, int ndim);

/// The common shape by NumPy's broadcasting rule: aligned at the right, sizes of 1 expand.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// Whether `from` expands to `to` by that rule.
bool broadcasts_to(const Shape& from, const Shape& to);

}  // namespace tern

template <>
struct fmt::formatter<tern::Dims> {
  constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
  auto format(const tern::Dims& d, fmt::format_context& ctx) const {
    std::string s = tern::to_string(d);
    return std::copy(s.begin(), s.end(), ctx.out());
  }
};
