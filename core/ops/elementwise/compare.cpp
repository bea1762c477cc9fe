// Comparisons, tests of numbers (isnan, isinf, ...) and logic. All give u8 tensors of 0 and 1.
#include <cmath>
#include <functional>
#include <limits>

#include "tern/core/kernels/creation/copy.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/elementwise/elementary.h"

namespace tern {

using detail::compare;
using detail::exact_scalar_for;
using detail::map;

namespace {

// f(x) -> 0 or 1, for x of any type.
template <class F>
Tensor test(const char* name, const Tensor& x, F f) {
  Op op(name, x);
  Fresh y(x.shape(), DType::u8);
  dispatch(x.dtype(), [&]<class T>() {
    auto number = [f](T v) { return static_cast<uint8_t>(f(v)); };
    map<uint8_t, T>(name, y, number, x);
  });
  return op.not_differentiable(y);
}

Tensor truth(const Tensor& x) {
  return test("truth", x, [](auto v) { return v != 0; });
}

template <class F>
Tensor logic(const char* name, const Tensor& a, const Tensor& b, F f) {
  return compare(name, a.dtype() == DType::u8 ? a : truth(a), b.dtype() == DType::u8 ? b : truth(b),
                 f);
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", a, b, std::equal_to()); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", a, b, std::not_equal_to()); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", a, b, std::less()); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", a, b, std::less_equal()); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare("gt", a, b, std::greater()); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare("ge", a, b, std::greater_equal()); }
Tensor eq(const Tensor& a, Scalar b) { return eq(a, exact_scalar_for(a, b)); }
Tensor ne(const Tensor& a, Scalar b) { return ne(a, exact_scalar_for(a, b)); }
Tensor lt(const Tensor& a, Scalar b) { return lt(a, exact_scalar_for(a, b)); }
Tensor le(const Tensor& a, Scalar b) { return le(a, exact_scalar_for(a, b)); }
Tensor gt(const Tensor& a, Scalar b) { return gt(a, exact_scalar_for(a, b)); }
Tensor ge(const Tensor& a, Scalar b) { return ge(a, exact_scalar_for(a, b)); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  check_defined("logical_and", a, b);
  return logic("logical_and", a, b, [](uint8_t u, uint8_t v) { return (u != 0) & (v != 0); });
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  check_defined("logical_or", a, b);
  return logic("logical_or", a, b, [](uint8_t u, uint8_t v) { return (u | v) != 0; });
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  check_defined("logical_xor", a, b);
  return logic("logical_xor", a, b, [](uint8_t u, uint8_t v) { return (u != 0) != (v != 0); });
}
Tensor logical_not(const Tensor& x) {
  check_defined("logical_not", x);
  return test("logical_not", x, [](auto v) { return v == 0; });
}

Tensor isnan(const Tensor& x) {
  check_defined("isnan", x);
  return test("isnan", x, [](auto v) { return v != v; });
}
Tensor isfinite(const Tensor& x) {
  check_defined("isfinite", x);
  return test("isfinite", x, [](auto v) { return v - v == 0; });
}

Tensor isinf(const Tensor& x) {
  check_defined("isinf", x);
  return test("isinf", x, [](auto v) {
    if constexpr (std::is_floating_point_v<decltype(v)>)
      return std::abs(v) > std::numeric_limits<decltype(v)>::max();
    return false;
  });
}

bool all_close(const Tensor& a, const Tensor& b, double rtol, double atol) {
  check_defined("all_close", a, b);
  Fresh close(broadcast_shapes("all_close", a.shape(), b.shape()), DType::u8);
  auto f = [=](double u, double v) {
    int near = std::abs(u - v) <= atol + rtol * std::abs(v), finite = std::abs(v) < HUGE_VAL;
    return static_cast<uint8_t>((near & finite) | static_cast<int>(u == v));
  };
  map<uint8_t, double, double>("all_close", close, f, a, b);
  return !kernels::any_zero(close.data<uint8_t>(), DType::u8, close.numel());
}

}  // namespace tern
