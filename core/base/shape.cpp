// Lists of sizes and axes: insertion, printing, element counts checked for overflow, axis numbers,
// and NumPy's broadcasting rule.
#include "tern/core/base/shape.h"

#include <algorithm>
#include <array>
#include <ostream>

namespace tern {

void Dims::insert(int at, int64_t v) {
  push_back(v);
  std::rotate(begin() + at, end() - 1, end());
}

void Dims::erase(int at) {
  std::rotate(begin() + at, begin() + at + 1, end());
  --n_;
}

bool Dims::contains(int64_t v) const { return std::find(begin(), end(), v) != end(); }

bool Dims::operator==(const Dims& o) const {
  return n_ == o.n_ && std::equal(begin(), end(), o.begin());
}

void Dims::fail_too_many() { fail(fmt::format("a tensor has at most {} axes", kMaxDims)); }

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t s : shape) {
    check(s >= 0, "shape {}: a size is negative", shape);
    empty |= s == 0;
    check(!__builtin_mul_overflow(n, std::max<int64_t>(s, 1), &n), "shape {}: too many elements",
          shape);
  }
  return empty ? 0 : n;
}

int64_t checked_product(const char* op, int64_t a, int64_t b) {
  int64_t product = 0;
  check(!__builtin_mul_overflow(a, b, &product), "{}: {} times {} does not fit 63 bits", op, a, b);
  return product;
}

int64_t checked_sum(const char* op, int64_t a, int64_t b) {
  int64_t sum = 0;
  check(!__builtin_add_overflow(a, b, &sum), "{}: {} plus {} does not fit 63 bits", op, a, b);
  return sum;
}

std::string to_string(const Dims& dims) {
  std::string s = "(";
  for (int i = 0; i < dims.size(); ++i) {
    if (i) s += ", ";
    s += std::to_string(dims[i]);
  }
  return s + (dims.size() == 1 ? ",)" : ")");
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }

int normalize_axis(const char* op, int64_t axis, int ndim) {
  check(axis >= -ndim && axis < ndim, "{}: axis {} is out of range for {} axes", op, axis, ndim);
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

Dims normalize_axes(const char* op, const Dims& axes, int ndim) {
  Dims out;
  if (axes.empty()) {
    for (int i = 0; i < ndim; ++i) out.push_back(i);
    return out;
  }
  std::array<bool, kMaxDims> named{};
  for (int64_t a : axes) {
    const auto n = static_cast<size_t>(normalize_axis(op, a, ndim));
    check(!named[n], "{}: axis {} appears twice in {}", op, a, axes);
    named[n] = true;
  }
  for (int i = 0; i < ndim; ++i)
    if (named[static_cast<size_t>(i)]) out.push_back(i);
  return out;
}

Dims position_of(int64_t index, const Shape& shape) {
  Dims at = Dims::filled(shape.size(), 0);
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    at[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return at;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  Shape out = Dims::filled(std::max(a.size(), b.size()), 1);
  for (int i = 1; i <= out.size(); ++i) {
    int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    check(x == y || x == 1 || y == 1, "{}: shapes {} and {} do not broadcast at axis {}: {} vs {}",
          op, a, b, -i, x, y);
    out[out.size() - i] = x == 1 ? y : x;
  }
  return out;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int added = to.size() - from.size();
  bool fits = added >= 0;
  for (int i = 0; fits && i < from.size(); ++i) fits = from[i] == 1 || from[i] == to[added + i];
  return fits;
}

}  // namespace tern
