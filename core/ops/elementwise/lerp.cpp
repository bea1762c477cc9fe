// lerp(a, b, weight) with a number or a tensor as weight: exactly a at 0 and b at 1.
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/elementwise/elementary.h"

namespace tern {
namespace {

using detail::map;

struct Lerp {
  static constexpr const char* kName = "lerp";
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::nothing;
  double weight;
  void note(Op& op) const { op.note("weight", weight); }
  template <class T>
  T f(T a, T b) const {
    return mix(a, b, static_cast<T>(weight));
  }
  Tensor dfa(const Tensor& dy, const Tensor&, const Tensor&) const { return dy * (1 - weight); }
  Tensor dfb(const Tensor& dy, const Tensor&, const Tensor&) const { return dy * weight; }
  /// Computes from the nearer end: exact at both ends.
  template <class T>
  static T mix(T a, T b, T w) {
    return std::abs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w);
  }
};

}  // namespace

Tensor lerp(const Tensor& a, const Tensor& b, double weight) { return binary(a, b, Lerp{weight}); }

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  Op op("lerp", a, b, weight);
  check_defined("lerp", a, b, weight);
  const DType type =
      detail::promote("lerp", detail::promote("lerp", a.dtype(), b.dtype()), weight.dtype());
  Shape shape = broadcast_shapes("lerp", a.shape(), b.shape());
  Fresh y(broadcast_shapes("lerp", shape, weight.shape()), type);
  dispatch_float(type, "lerp", [&]<class T>() {
    auto mix = [](T u, T v, T w) { return Lerp::mix(u, v, w); };
    map<T, T, T, T>("lerp", y, mix, a, b, weight);
  });
  return op.record(
      y, [a = save(a), b = save(b), w = save(weight)](const Tensor& dy, const Wants& wants) {
        Gradients g(3);
        if (wants[0]) g[0] = dy * (1 - w.get());
        if (wants[1]) g[1] = dy * w.get();
        if (wants[2]) g[2] = dy * (b.get() - a.get());
        return g;
      });
}

}  // namespace tern
