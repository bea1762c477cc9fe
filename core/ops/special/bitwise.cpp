// Bitwise logic and shifts of integers, without gradients. A shift by all bits or more is a
// separate case, because C++ leaves it undefined.
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/elementwise/elementary.h"

namespace tern {
namespace {

// Refuses floating numbers, whose bits have no meaning here.
template <class F>
Tensor bits(const char* name, const Tensor& a, const Tensor& b, F f) {
  Op op(name, a, b);
  check_defined(name, a, b);
  for (const Tensor* t : {&a, &b})
    check(!is_float(t->dtype()), "{}: needs integers, got {}; convert with .to(DType::i64)", name,
          t->dtype());
  const DType type = detail::promote(name, a.dtype(), b.dtype());
  Fresh y(broadcast_shapes(name, a.shape(), b.shape()), type);
  dispatch(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) detail::map<T, T, T>(name, y, f, a, b);
  });
  return op.not_differentiable(y);
}

void check_shift(const char* name, const Tensor& a, const Tensor& b) {
  check_defined(name, a, b);
  const bool negative = b.dtype() == DType::i64 && b.numel() > 0 && min(b).item<int64_t>() < 0;
  check(!negative, "{}: a shift must not be negative; shift the other way", name);
}

}  // namespace

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return bits("bitwise_and", a, b, [](auto u, auto v) { return static_cast<decltype(u)>(u & v); });
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return bits("bitwise_or", a, b, [](auto u, auto v) { return static_cast<decltype(u)>(u | v); });
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return bits("bitwise_xor", a, b, [](auto u, auto v) { return static_cast<decltype(u)>(u ^ v); });
}
Tensor bitwise_not(const Tensor& x) {
  return bits("bitwise_not", x, x, [](auto u, auto) { return static_cast<decltype(u)>(~u); });
}

Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  check_shift("bitwise_left_shift", a, b);
  return bits("bitwise_left_shift", a, b, [](auto u, auto v) {
    using T = decltype(u);
    const bool beyond = static_cast<uint64_t>(v) >= 8 * sizeof(T);
    return beyond ? T(0) : static_cast<T>(static_cast<uint64_t>(u) << v);
  });
}

Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  check_shift("bitwise_right_shift", a, b);
  return bits("bitwise_right_shift", a, b, [](auto u, auto v) {
    using T = decltype(u);
    constexpr uint64_t kMost = 8 * sizeof(T) - 1;
    const bool beyond = static_cast<uint64_t>(v) > kMost;
    return static_cast<T>(beyond && std::is_unsigned_v<T> ? 0 : u >> (beyond ? kMost : v));
  });
}

}  // namespace tern
