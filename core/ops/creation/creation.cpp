// New tensors that depend on no other tensor. Random ones: random.cpp.
#include <cmath>
#include <cstring>

#include "tern/core/kernels/creation/copy.h"
#include "tern/core/kernels/creation/create.h"
#include "tern/core/ops/creation/write.h"
#include "tern/core/ops/elementwise.h"

namespace tern {

namespace {

void check_count(int64_t values, const Shape& shape) {
  check(values == numel(shape), "tensor: {} values for shape {}, which has {} elements", values,
        shape, numel(shape));
}

}  // namespace

Tensor detail::tensor_of(std::span<const Scalar> numbers, const Shape& shape, DType dtype) {
  Op op("tensor");
  check_count(std::ssize(numbers), shape);
  Fresh y(shape, dtype);
  auto* to = static_cast<char*>(y.ref()->storage->data());
  for (const Scalar& number : numbers) {
    const std::array<char, 8> bytes = is_float(dtype) ? detail::wrapped_element(number, dtype)
                                                      : detail::element("tensor", number, dtype);
    std::memcpy(to, bytes.data(), static_cast<size_t>(item_size(dtype)));
    to += item_size(dtype);
  }
  return op.not_differentiable(y);
}

template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape) {
  Op op("tensor");
  check_count(std::ssize(values), shape);
  Fresh y(shape, dtype_of<T>);
  if (!values.empty()) std::memcpy(y.data<T>(), values.data(), values.size_bytes());
  return op.not_differentiable(y);
}

void detail::check_index_fits(uint64_t value) {
  check(value <= uint64_t{INT64_MAX}, "tensor: {} does not fit i64", value);
}

template Tensor tensor(std::span<const float>, const Shape&);
template Tensor tensor(std::span<const double>, const Shape&);
template Tensor tensor(std::span<const int64_t>, const Shape&);
template Tensor tensor(std::span<const uint8_t>, const Shape&);

namespace {

// Turns 3.0 into the integer 3. Keeps fractions and numbers outside of i64.
Scalar as_integer(Scalar s) {
  const bool whole = s.value == std::floor(s.value) && detail::holds(DType::i64, s);
  return s.is_integer || !whole ? s : Scalar(static_cast<int64_t>(s.value));
}

}  // namespace

Tensor tensor(std::initializer_list<Scalar> values, const Shape& shape, DType dtype) {
  return detail::tensor_of(std::span<const Scalar>(values.begin(), values.size()), shape, dtype);
}

NestedNumbers::NestedNumbers(std::initializer_list<NestedNumbers> list) : dtype_(DType::f32) {
  shape_.push_back(static_cast<int64_t>(list.size()));
  const Shape part = list.size() ? list.begin()->shape_ : Shape();
  bool floating = list.size() == 0, integer = false;
  for (const NestedNumbers& n : list) {
    check(n.shape_ == part,
          "tensor: lists in braces must have equal lengths: one part has the shape {}, another {}; "
          "pad_sequence joins tensors of different lengths",
          part, n.shape_);
    floating = floating || n.dtype_ == DType::f32;
    integer = integer || n.dtype_ == DType::i64;
    numbers_.insert(numbers_.end(), n.numbers_.begin(), n.numbers_.end());
  }
  for (int64_t size : part) shape_.push_back(size);
  dtype_ = floating ? DType::f32 : integer ? DType::i64 : DType::u8;
}

Tensor tensor(std::initializer_list<NestedNumbers> values) {
  const NestedNumbers all(values);
  return detail::tensor_of(all, all.dtype());
}

Tensor detail::tensor_of(const NestedNumbers& values, DType dtype) {
  return tensor_of(values.numbers(), values.shape(), dtype);
}

Tensor scalar(Scalar value, DType dtype) {
  Op op("scalar");
  Fresh y({}, dtype);
  const bool floating = is_float(dtype);  // floats: too large numbers become infinite
  std::array<char, 8> bytes =
      floating ? detail::wrapped_element(value, dtype) : detail::element("scalar", value, dtype);
  std::memcpy(y.ref()->storage->data(), bytes.data(), static_cast<size_t>(item_size(dtype)));
  return op.not_differentiable(y);
}

Tensor empty(const Shape& shape, DType dtype) {
  Op op("empty");
  return op.not_differentiable(Fresh(shape, dtype));
}

Tensor full(const Shape& shape, Scalar value, DType dtype) {
  Op op("full");
  op.note("value", value.value);
  if (value.is_integer) op.note("value", value.integer);
  Fresh y(shape, dtype);
  kernels::fill(y.ref()->storage->data(), dtype, detail::element("full", value, dtype).data(),
                y.numel());
  return op.not_differentiable(y);
}

Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), x.dtype()); }
Tensor full_like(const Tensor& x, Scalar value) {
  check_defined("full_like", x);
  return full(x.shape(), value, x.dtype());
}
Tensor new_full(const Tensor& x, const Shape& shape, Scalar value) {
  check_defined("new_full", x);
  return full(shape, value, x.dtype());
}

namespace {

// The number of elements start, start + step, ... before end.
int64_t count(double start, double end, double step) {
  double n = std::ceil((end - start) / step);
  check(n < 0x1p62, "arange: from {} to {} by {} gives no finite number of elements", start, end,
        step);
  return static_cast<int64_t>(std::max(n, 0.0));
}

// Exact: f64 cannot hold every i64, and the difference may overflow 63 bits.
int64_t count(int64_t start, int64_t end, int64_t step) {
  if (step > 0 ? start >= end : start <= end) return 0;
  auto distance = [](int64_t a, int64_t b) {
    return static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
  };
  uint64_t span = step > 0 ? distance(start, end) : distance(end, start);
  uint64_t n = (span - 1) / (step > 0 ? distance(0, step) : distance(step, 0)) + 1;
  check(n < uint64_t{1} << 62, "arange: from {} to {} by {} gives too many elements", start, end,
        step);
  return static_cast<int64_t>(n);
}

}  // namespace

Tensor arange(Scalar start, Scalar end, Scalar step, DType dtype) {
  Op op("arange");
  if (!is_float(dtype))
    for (Scalar* s : {&start, &end, &step}) {
      *s = as_integer(*s);
      check(s->is_integer, "arange: {} is not an integer that fits {}; ask for DType::f32 or f64",
            detail::to_string(*s), dtype);
    }
  const bool whole = start.is_integer && end.is_integer && step.is_integer;
  check(step.value != 0, "arange: the step must not be 0");
  if (whole) op.note("start", start.integer, "end", end.integer, "step", step.integer);
  Fresh y(Shape{whole ? count(start.integer, end.integer, step.integer)
                      : count(start.value, end.value, step.value)},
          dtype);
  if (!is_float(dtype) && y.numel() > 0) {
    detail::element("arange", start, dtype);
    // The last element may fit i64 although its distance from `start` does not. So it is computed
    // modulo 2^64, as in the kernel.
    const uint64_t way = static_cast<uint64_t>(y.numel() - 1) * static_cast<uint64_t>(step.integer);
    detail::element("arange", static_cast<int64_t>(static_cast<uint64_t>(start.integer) + way),
                    dtype);
  }
  dispatch(dtype, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      kernels::arange(y.data<T>(), y.numel(), start.value, step.value);
    else
      kernels::arange(y.data<T>(), y.numel(), start.integer, step.integer);
  });
  return op.not_differentiable(y);
}

Tensor linspace(double start, double end, int64_t steps, DType dtype) {
  Op op("linspace");
  check(steps >= 0, "linspace: the number of steps is {}, less than 0", steps);
  if (!is_float(dtype))
    for (double bound : {start, end}) detail::element("linspace", bound, dtype);
  Fresh y(Shape{steps}, dtype);
  dispatch(dtype, [&]<class T>() { kernels::linspace(y.data<T>(), steps, start, end); });
  return op.not_differentiable(y);
}

Tensor eye(int64_t n, int64_t m, DType dtype) {
  Op op("eye");
  Fresh y({n, m < 0 ? n : m}, dtype);
  dispatch(dtype, [&]<class T>() { kernels::eye(y.data<T>(), y.shape()[0], y.shape()[1]); });
  return op.not_differentiable(y);
}

Tensor one_hot(const Tensor& index, int64_t classes, DType dtype) {
  Op op("one_hot");
  check_defined("one_hot", index);
  check(index.dtype() == DType::i64,
        "one_hot: the index must be i64, got {}; convert with "
        ".to(DType::i64)",
        index.dtype());
  op.note("index", index, "classes", classes);
  Tensor i = index.contiguous();
  int64_t bad = kernels::find_outside(i.data<int64_t>(), i.numel(), classes);
  check(bad == i.numel(), "one_hot: element {} is {}, outside [0, {})", bad,
        bad < i.numel() ? i.data<int64_t>()[bad] : 0, classes);
  Shape shape = i.shape();
  shape.push_back(classes);
  Fresh y(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    kernels::one_hot(y.data<T>(), i.data<int64_t>(), i.numel(), classes);
  });
  return op.not_differentiable(y);
}

}  // namespace tern
