// The operations of reductions (sum, mean, max, min, norm), and the plan of kept and reduced axes.
#include "tern/core/kernels/reduction/reduction.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "tern/core/base/reduce.h"
#include "tern/core/kernels/reduction/reduction_engine.h"

namespace tern::kernels {
namespace {

template <class T>
using SumType = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

template <class T>
constexpr T kLowest = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                  : std::numeric_limits<T>::lowest();
template <class T>
constexpr T kHighest = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity()
                                                   : std::numeric_limits<T>::max();

template <class T>
struct Sum {
  using In = T;
  using Acc = SumType<T>;
  using Out = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
  double divisor;
  Acc start() const { return 0; }
  Acc step(Acc a, In x) const { return a + static_cast<Acc>(x); }
  Acc merge(Acc a, Acc b) const { return a + b; }
  Out finish(Acc a) const {
    if constexpr (std::is_floating_point_v<T>) return static_cast<Out>(a / divisor);
    return static_cast<Out>(a);
  }
};

// Keeps the better element by Pick. The first NaN stays.
template <class T, class Pick>
struct Best {
  using In = T;
  using Acc = T;
  using Out = T;
  T worst;
  Acc start() const { return worst; }
  Acc step(Acc a, In x) const { return Pick()(x, a); }
  Acc merge(Acc a, Acc b) const { return Pick()(b, a); }
  Out finish(Acc a) const { return a; }
};

struct Larger {
  template <class T>
  T operator()(T x, T best) const {
    return larger(x, best);
  }
};
struct Smaller {
  template <class T>
  T operator()(T x, T best) const {
    return smaller(x, best);
  }
};

// Sums f(x), then applies g to the sum.
template <class T, class F, class G>
struct SumOf {
  using In = T;
  using Acc = double;
  using Out = T;
  F f;
  G g;
  Acc start() const { return 0; }
  Acc step(Acc a, In x) const { return a + f(static_cast<double>(x)); }
  Acc merge(Acc a, Acc b) const { return a + b; }
  Out finish(Acc a) const { return static_cast<Out>(g(a)); }
};

template <class T, class F, class G>
void reduce_sum_of(const ReducePlan& plan, const T* x, T* y, F f, G g) {
  reduce(plan, SumOf<T, F, G>{f, g}, x, y);
}

}  // namespace

ReducePlan plan_reduction(const Layout& x, const Dims& axes) {
  ReducePlan plan;
  Layout kept, reduced;
  Dims order = axes;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::abs(x.strides[static_cast<int>(a)]) > std::abs(x.strides[static_cast<int>(b)]);
  });
  for (int64_t axis : order) {
    int64_t size = x.shape[static_cast<int>(axis)], stride = x.strides[static_cast<int>(axis)];
    if (stride < 0 && size > 0) plan.first += (size - 1) * stride;
    reduced.shape.push_back(size);
    reduced.strides.push_back(std::abs(stride));
  }
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (axes.contains(axis)) continue;
    kept.shape.push_back(x.shape[axis]);
    kept.strides.push_back(x.strides[axis]);
  }
  plan.kept = plan_loops(kept.shape, {&kept});
  plan.reduced = plan_loops(reduced.shape, {&reduced});
  return plan;
}

void sum(const ReducePlan& plan, const float* x, float* y, double divisor) {
  reduce(plan, Sum<float>{divisor}, x, y);
}
void sum(const ReducePlan& plan, const double* x, double* y, double divisor) {
  reduce(plan, Sum<double>{divisor}, x, y);
}
void sum(const ReducePlan& plan, const int64_t* x, int64_t* y, double divisor) {
  reduce(plan, Sum<int64_t>{divisor}, x, y);
}
void sum(const ReducePlan& plan, const uint8_t* x, int64_t* y, double divisor) {
  reduce(plan, Sum<uint8_t>{divisor}, x, y);
}

template <class T>
void max(const ReducePlan& plan, const T* x, T* y) {
  reduce(plan, Best<T, Larger>{kLowest<T>}, x, y);
}

template <class T>
void min(const ReducePlan& plan, const T* x, T* y) {
  reduce(plan, Best<T, Smaller>{kHighest<T>}, x, y);
}

template <class T>
void norm(const ReducePlan& plan, const T* x, T* y, double p) {
  if (p == 1)
    reduce_sum_of(
        plan, x, y, [](double v) { return std::abs(v); }, [](double a) { return a; });
  else if (p == 2)
    reduce_sum_of(
        plan, x, y, [](double v) { return v * v; }, [](double a) { return std::sqrt(a); });
  else
    reduce_sum_of(
        plan, x, y, [p](double v) { return std::pow(std::abs(v), p); },
        [p](double a) { return std::pow(a, 1 / p); });
}

template void max(const ReducePlan&, const float*, float*);
template void max(const ReducePlan&, const double*, double*);
template void max(const ReducePlan&, const int64_t*, int64_t*);
template void max(const ReducePlan&, const uint8_t*, uint8_t*);
template void min(const ReducePlan&, const float*, float*);
template void min(const ReducePlan&, const double*, double*);
template void min(const ReducePlan&, const int64_t*, int64_t*);
template void min(const ReducePlan&, const uint8_t*, uint8_t*);
template void norm(const ReducePlan&, const float*, float*, double);
template void norm(const ReducePlan&, const double*, double*, double);

}  // namespace tern::kernels
