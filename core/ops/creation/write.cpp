// Numbers as elements of a dtype, copies between layouts and types, and the checks that every
// in-place op makes.
#include "tern/core/ops/creation/write.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tern/core/kernels/creation/copy.h"
#include "tern/core/ops/kernel_inputs.h"
#include "tern/core/tape/autograd.h"

namespace tern::detail {

namespace {

const char* range(DType type) {
  switch (type) {
    case DType::u8:
      return "0 to 255 (and -255 to -1, which become 1 to 255); ask for DType::i64";
    case DType::i64:
      return "-2^63 to 2^63 - 1; ask for DType::f32";
    case DType::f32:
      return "up to 3.4e38; ask for DType::f64";
    case DType::f64:
      return "all finite numbers";
  }
  fail_unhandled("DType", type);
}

/// The address of the element `at` places behind the one at index 0, 0, ...
const char* address(const Tensor& x, int64_t at) {
  return static_cast<const char*>(x.ref()->storage->data()) +
         (x.layout().offset + at) * item_size(x.dtype());
}

}  // namespace

bool holds(DType type, Scalar value) {
  return dispatch(type, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      return !std::isfinite(value.value) || std::abs(value.value) <= std::numeric_limits<T>::max();
    else if constexpr (std::is_signed_v<T>)
      return value.is_integer || (value.value >= -0x1p63 && value.value < 0x1p63);
    else if (value.is_integer)
      return value.integer >= -255 && value.integer <= 255;
    else
      return value.value >= 0 && value.value < 256;
  });
}

std::array<char, 8> element(const char* op, Scalar value, DType type) {
  check(holds(type, value), "{}: {} does not fit {}, which holds {}", op, to_string(value), type,
        range(type));
  return wrapped_element(value, type);
}

std::array<char, 8> wrapped_element(Scalar value, DType type) {
  std::array<char, 8> bytes{};
  dispatch(type, [&]<class T>() {
    T v = value.is_integer ? kernels::convert<T>(value.integer) : kernels::convert<T>(value.value);
    std::memcpy(bytes.data(), &v, sizeof v);
  });
  return bytes;
}

void write(const char* op, const Fresh& to, const Tensor& from) {
  if (to.numel() == 0) return;
  kernels::Input in = input_of(from);
  kernels::copy(plan(op, to.layout(), {&from, 1}), address_of(to), to.dtype(), in.data, in.type);
}

void check_operand(const char* op, const Tensor& x, const Tensor& operand) {
  check_defined(op, x, operand);
  check(!grad_enabled() || !operand.requires_grad(),
        "{}: the operand of shape {} requires a gradient, but in-place ops are not recorded; "
        "compute a new tensor instead (by stack, cat, where or index_put), or give its detach()",
        op, operand.shape());
}

Fresh writable(const char* op, const Tensor& x) {
  check_defined(op, x);
  check(!may_overlap(x.layout()),
        "{}: elements of the tensor of shape {} share memory (its strides are {}); write to a "
        "clone() instead",
        op, x.shape(), x.strides());
  x.begin_write(op);
  return Fresh::adopt(x);
}

Tensor safe_source(const Tensor& to, const Tensor& from) {
  const Layout &t = to.layout(), &f = from.layout();
  if (address(to, 0) == address(from, 0) && t.strides == f.strides && t.shape == f.shape &&
      to.dtype() == from.dtype())
    return from;
  const Extent a = extent(t), b = extent(f);  // relative to the storage
  const bool apart = address(to, a.last - t.offset + 1) <= address(from, b.first - f.offset) ||
                     address(from, b.last - f.offset + 1) <= address(to, a.first - t.offset);
  return apart ? from : from.clone();
}

}  // namespace tern::detail
