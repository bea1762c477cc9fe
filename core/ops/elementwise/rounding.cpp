// abs, sign, floor, ceil, round, trunc.
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/elementwise/unary.h"

namespace tern {
namespace {

using namespace formula;
using detail::Flat;

struct Zero : Flat {
  static constexpr const char* kName = "zero_gradient";
  auto f(auto) const { return 0; }
};

struct Sign : Flat {
  static constexpr const char* kName = "sign";
  auto f(auto x) const { return sign(x); }
};

struct Floor : Flat {
  static constexpr const char* kName = "floor";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::floor(x);
    return x;
  }
};

struct Ceil : Flat {
  static constexpr const char* kName = "ceil";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::ceil(x);
    return x;
  }
};

struct Round : Flat {
  static constexpr const char* kName = "round";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::nearbyint(x);
    return x;
  }
};

struct Trunc : Flat {
  static constexpr const char* kName = "trunc";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::trunc(x);
    return x;
  }
};

}  // namespace

Tensor detail::zero_gradient(const Tensor& dy) { return unary(dy, Zero()); }

Tensor abs(const Tensor& x) { return unary(x, detail::Abs()); }
Tensor sign(const Tensor& x) { return unary(x, Sign()); }
Tensor floor(const Tensor& x) { return unary(x, Floor()); }
Tensor ceil(const Tensor& x) { return unary(x, Ceil()); }
Tensor round(const Tensor& x) { return unary(x, Round()); }
Tensor trunc(const Tensor& x) { return unary(x, Trunc()); }

}  // namespace tern
