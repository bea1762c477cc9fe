// cast, clone, copy_, fill_ and the in-place arithmetic: add_, mul_, +=, -=, *=, /=.
#include "tern/core/kernels/creation/copy.h"

#include <cmath>

#include "tern/core/kernels/elementwise/arithmetic.h"
#include "tern/core/ops/creation/write.h"
#include "tern/core/ops/elementwise.h"

namespace tern {

using detail::map;

Tensor Tensor::to(DType type) const { return type == dtype() ? *this : cast(*this, type); }

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : tern::clone(*this); }

Tensor Tensor::clone() const { return tern::clone(*this); }

Tensor cast(const Tensor& x, DType dtype) {
  Op op("cast", x);
  check_defined("cast", x);
  Fresh y(x.shape(), dtype);
  detail::write("cast", y, x);
  return op.record(y, [from = x.dtype()](const Tensor& dy) { return dy.to(from); });
}

Tensor clone(const Tensor& x) {
  Op op("clone", x);
  check_defined("clone", x);
  Fresh y(x.shape(), x.dtype());
  detail::write("clone", y, x);
  return op.record(y, [](const Tensor& dy) { return dy; });
}

void copy_(const Tensor& to, const Tensor& from) {
  Op op("copy_", to, from);
  detail::check_operand("copy_", to, from);
  Tensor source = detail::safe_source(to, from);
  if (source.ref() == to.ref()) return;
  detail::write("copy_", detail::writable("copy_", to), source);
}

void fill_(const Tensor& x, Scalar value) {
  Op op("fill_", x);
  check_defined("fill_", x);
  Tensor one = detail::stored_scalar("fill_", value, x.dtype());
  detail::write("fill_", detail::writable("fill_", x), one);
}

void zero_(const Tensor& x) { fill_(x, 0); }

void Tensor::check_shared() const {
  const bool shared = defined() && (impl().count > 1 || impl().storage->count > 1);
  check(!defined() || shared || impl().storage->foreign(),
        "an assignment to a temporary of shape {} is lost: no other tensor shares its elements. "
        "Give the result a name, or assign to a view, such as x[0] = y. index_put and masked_fill "
        "set elements at indices or under a mask",
        shape());
}

const Tensor& Tensor::operator=(const Tensor& values) && {
  check_shared();
  copy_(*this, values);
  return *this;
}

const Tensor& Tensor::operator=(Scalar value) && {
  check_shared();
  fill_(*this, value);
  return *this;
}

namespace {

// x = fn(x, y) in place; fn takes two numbers of the type of x.
template <class Fn>
void update(Op& op, const char* result, const Tensor& x, const Tensor& y, Fn fn) {
  const char* const name = op.name();
  check(detail::promote(name, x.dtype(), y.dtype()) == x.dtype(),
        "{}: the {} of {} and {} does not fit {}; convert with .to()", name, result, x.dtype(),
        y.dtype(), x.dtype());
  Tensor source = detail::safe_source(x, y);
  Fresh out = detail::writable(name, x);
  dispatch(x.dtype(), [&]<class T>() {
    auto numbers = [fn](T u, T v) { return fn(u, v); };
    map<T, T, T>(name, out, numbers, x, source);
  });
  static_cast<void>(op.not_differentiable(out));  // tells the observers
}

// Refuses an operator that a gradient would have to record. The error says what to write instead.
void check_unrecorded(const char* op, char sign, const Tensor& x, const Tensor& y) {
  check_defined(op, x, y);
  check(!recording({x, y}),
        "{}: works in place and is not recorded, but {} of shape {} requires a gradient; write "
        "x = x {} y",
        op, x.requires_grad() ? "the left side" : "the operand",
        (x.requires_grad() ? x : y).shape(), sign);
}

}  // namespace

void add_(const Tensor& x, const Tensor& y, double alpha) {
  Op op("add_", x, y);
  detail::check_operand("add_", x, y);
  check(detail::promote("add_", x.dtype(), y.dtype()) == x.dtype(),
        "add_: the sum of {} and {} does not fit {}; convert with .to()", x.dtype(), y.dtype(),
        x.dtype());
  check(is_float(x.dtype()) || (alpha == std::floor(alpha) && std::abs(alpha) < 0x1p63),
        "add_: alpha is {}, but the tensors are integers; convert with .to(DType::f32)", alpha);
  Tensor source = detail::safe_source(x, y);
  Fresh out = detail::writable("add_", x);
  dispatch(x.dtype(), [&]<class T>() {
    if (alpha == 1) return map<T, T, T>("add_", out, kernels::Add(), x, source);
    auto axpy = [a = kernels::convert<T>(alpha)](T u, T v) {
      return kernels::Add()(u, kernels::Multiply()(a, v));
    };
    map<T, T, T>("add_", out, axpy, x, source);
  });
  static_cast<void>(op.not_differentiable(out));  // tells the observers
}

void mul_(const Tensor& x, const Tensor& y) {
  Op op("mul_", x, y);
  detail::check_operand("mul_", x, y);
  update(op, "product", x, y, kernels::Multiply());
}

void mul_(const Tensor& x, Scalar s) { mul_(x, detail::scalar_for(x, s)); }

const Tensor& operator+=(const Tensor& x, const Tensor& y) {
  Op op("operator+=", x, y);
  check_unrecorded("operator+=", '+', x, y);
  update(op, "sum", x, y, kernels::Add());
  return x;
}

const Tensor& operator-=(const Tensor& x, const Tensor& y) {
  Op op("operator-=", x, y);
  check_unrecorded("operator-=", '-', x, y);
  update(op, "difference", x, y, kernels::Subtract());
  return x;
}

const Tensor& operator*=(const Tensor& x, const Tensor& y) {
  Op op("operator*=", x, y);
  check_unrecorded("operator*=", '*', x, y);
  update(op, "product", x, y, kernels::Multiply());
  return x;
}

const Tensor& operator/=(const Tensor& x, const Tensor& y) {
  Op op("operator/=", x, y);
  check_unrecorded("operator/=", '/', x, y);
  check(is_float(x.dtype()), "operator/=: the quotient is f32 and does not fit {}; write x = x / y",
        x.dtype());
  update(op, "quotient", x, y, [](auto u, auto v) -> decltype(u) {
    if constexpr (std::is_floating_point_v<decltype(u)>) return u / v;
    return u;
  });
  return x;
}

const Tensor& operator+=(const Tensor& x, Scalar y) { return x += detail::scalar_for(x, y); }
const Tensor& operator-=(const Tensor& x, Scalar y) { return x -= detail::scalar_for(x, y); }
const Tensor& operator*=(const Tensor& x, Scalar y) { return x *= detail::scalar_for(x, y); }
const Tensor& operator/=(const Tensor& x, Scalar y) { return x /= detail::scalar_for(x, y); }

}  // namespace tern
