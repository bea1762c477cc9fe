// Sums, differences and products for any element type. Integers wrap around without undefined
// behaviour, as in PyTorch.
#pragma once

#include <type_traits>

namespace tern::kernels {

/// T for floats, the unsigned type for integers.
template <class T>
struct WrappingType {
  using type = std::make_unsigned_t<T>;
};
template <>
struct WrappingType<float> {
  using type = float;
};
template <>
struct WrappingType<double> {
  using type = double;
};
template <class T>
using Wrapping = typename WrappingType<T>::type;

struct Add {
  template <class T>
  [[gnu::always_inline]] T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Subtract {
  template <class T>
  [[gnu::always_inline]] T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

struct Multiply {
  template <class T>
  [[gnu::always_inline]] T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

}  // namespace tern::kernels
