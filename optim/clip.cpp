// Norms, clipping and checks of gradients, each in one parallel pass over pieces of all tensors.
// The sums of the pieces are added in a fixed order.
#include "tern/optim/clip.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/cuts.h"
#include "tern/optim/leaf.h"

namespace tern::optim {
namespace {

struct Gradients {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  std::vector<Cut> cuts;
};

enum class Layouts { any, contiguous_in_place };

// The existing gradients, made contiguous. contiguous_in_place, for functions that write to them:
// the copies replace the originals, and a parameter that two models share counts once.
Gradients collect(const char* op, const NamedTensors& parameters, Layouts layouts) {
  Gradients out;
  std::unordered_set<const void*> seen;
  for (const auto& [name, p] : parameters) {
    if (layouts == Layouts::contiguous_in_place && !seen.insert(p.ref().get()).second) continue;
    check_gradient_is_there(op, name, p);
    Tensor g = p.grad();
    if (!g.defined()) continue;
    if (!g.is_contiguous()) {
      g = g.contiguous();
      if (layouts == Layouts::contiguous_in_place) p.set_grad(g);
    }
    cut(out.cuts, out.tensors.size(), g.numel());
    out.names.push_back(name);
    out.tensors.push_back(g);
  }
  return out;
}

NamedTensors numbered(const std::vector<Tensor>& parameters) {
  NamedTensors out;
  for (size_t i = 0; i < parameters.size(); ++i) out.emplace_back(std::to_string(i), parameters[i]);
  return out;
}

// Calls fn<T>(cut number, elements, count) for all pieces of the gradients.
template <class Fn>
void for_each_piece(const Gradients& grads, const char* op, Fn fn) {
  parallel_blocks(static_cast<int64_t>(grads.cuts.size()), work(grads.cuts), [&](int64_t i) {
    const Cut& cut = grads.cuts[static_cast<size_t>(i)];
    const Tensor& g = grads.tensors[cut.item];
    dispatch_float(g.dtype(), op, [&]<class T>() {
      fn(static_cast<size_t>(i), const_cast<T*>(g.data<T>()) + cut.begin, cut.count);
    });
  });
}

/// Sum of squares, added in double precision in an order that depends only on n.
template <class T>
double sum_squares(const T* x, int64_t n) {
  // Sixteen sums side by side give the same order on every vector unit.
  constexpr int64_t kLanes = 16;
  return simd([=] {
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t k = 0; k < kLanes; ++k)
        lanes[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
    for (int64_t k = 0; i < n; ++i, ++k)
      lanes[k] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    double sum = 0;
    for (double s : lanes) sum += s;
    return sum;
  });
}

/// Largest absolute value; NaN if any element is NaN.
template <class T>
double max_abs(const T* x, int64_t n) {
  return simd([=] {
    T most = 0;
    for (int64_t i = 0; i < n; ++i) {
      T a = std::abs(x[i]);
      if (!(a <= most)) most = a;
      if (a != a) return std::numeric_limits<double>::quiet_NaN();
    }
    return static_cast<double>(most);
  });
}

template <class T>
bool all_finite(const T* x, int64_t n) {
  return simd([=] {
    T sum = 0;  // 0 * x is 0 for finite x and NaN for others, and NaN stays
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += 0 * x[i];
    return sum == 0;
  });
}

template <class T>
void scale(T* x, int64_t n, double factor) {
  simd([=, f = T(factor)] {
    for (int64_t i = 0; i < n; ++i) x[i] *= f;
  });
}

/// Clamps into [-bound, bound]; NaN stays.
template <class T>
void clamp(T* x, int64_t n, double bound) {
  simd([=, b = T(bound)] {
    for (int64_t i = 0; i < n; ++i) {
      T v = x[i];
      v = v > b ? b : v;
      x[i] = v < -b ? -b : v;
    }
  });
}

// One number per piece: its sum of squares, or its largest absolute value.
std::vector<double> measure(const Gradients& grads, bool largest) {
  std::vector<double> out(grads.cuts.size());
  for_each_piece(grads, "clip_grad_norm", [&](size_t i, const auto* x, int64_t n) {
    out[i] = largest ? max_abs(x, n) : sum_squares(x, n);
  });
  return out;
}

}  // namespace

double clip_grad_norm(const NamedTensors& parameters, double max_norm,
                      const ClipNormOptions& options) {
  bool largest = std::isinf(options.p);
  check(largest || options.p == 2, "clip_grad_norm: p must be 2 or infinity, it is {}", options.p);
  check(max_norm >= 0, "clip_grad_norm: the bound must not be negative, it is {}", max_norm);
  NoGradGuard no_grad;
  Gradients grads = collect("clip_grad_norm", parameters, Layouts::contiguous_in_place);
  std::vector<double> measures = measure(grads, largest);
  double norm = 0;
  for (size_t i = 0; i < measures.size(); ++i) {
    check(std::isfinite(measures[i]) || !options.error_if_nonfinite,
          "clip_grad_norm: the gradient of '{}' is not finite; lower the learning rate or look for "
          "a division by zero",
          grads.names[grads.cuts[i].item]);
    if (!largest)
      norm += measures[i];
    else if (!(measures[i] <= norm))
      norm = std::isnan(norm) ? norm : measures[i];
  }
  if (!largest) norm = std::sqrt(norm);
  double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const Tensor& g : grads.tensors) g.begin_write("clip_grad_norm");
  for_each_piece(grads, "clip_grad_norm", [=](size_t, auto* x, int64_t n) { scale(x, n, factor); });
  return norm;
}

std::vector<double> grad_squares(const NamedTensors& parameters) {
  NoGradGuard no_grad;
  const Gradients grads = collect("grad_squares", parameters, Layouts::any);
  const std::vector<double> measures = measure(grads, false);
  std::vector<double> of_gradients(grads.tensors.size()), out;
  for (size_t i = 0; i < measures.size(); ++i) of_gradients[grads.cuts[i].item] += measures[i];
  auto next = of_gradients.begin();
  for (const auto& [name, p] : parameters) out.push_back(p.grad().defined() ? *next++ : 0);
  return out;
}

void clip_grad_value(const NamedTensors& parameters, double bound) {
  check(bound >= 0, "clip_grad_value: the bound must not be negative, it is {}", bound);
  NoGradGuard no_grad;
  Gradients grads = collect("clip_grad_value", parameters, Layouts::contiguous_in_place);
  for (const Tensor& g : grads.tensors) g.begin_write("clip_grad_value");
  for_each_piece(grads, "clip_grad_value", [=](size_t, auto* x, int64_t n) { clamp(x, n, bound); });
}

std::optional<NonFiniteGradient> find_non_finite_gradient(const NamedTensors& parameters) {
  NoGradGuard no_grad;
  Gradients grads = collect("check_finite_gradients", parameters, Layouts::any);
  std::vector<uint8_t> spoilt(grads.cuts.size());
  for_each_piece(grads, "check_finite_gradients",
                 [&](size_t i, const auto* x, int64_t n) { spoilt[i] = !all_finite(x, n); });
  auto bad = std::find(spoilt.begin(), spoilt.end(), 1);
  if (bad == spoilt.end()) return {};
  const Cut& where = grads.cuts[static_cast<size_t>(bad - spoilt.begin())];
  const Tensor& g = grads.tensors[where.item];
  return dispatch_float(g.dtype(), "check_finite_gradients", [&]<class T>() {
    int64_t at = where.begin;
    while (std::isfinite(g.data<T>()[at])) ++at;
    return NonFiniteGradient{grads.names[where.item], at, static_cast<double>(g.data<T>()[at])};
  });
}

void check_finite_gradients(const NamedTensors& parameters) {
  if (auto found = find_non_finite_gradient(parameters))
    fail(
        fmt::format("check_finite_gradients: the gradient of '{}' has {} at element {}; a step "
                    "would spoil the weights. Leave this step out, lower the learning rate, or "
                    "look for a division by zero",
                    found->parameter, found->value, found->element));
}

double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                      const ClipNormOptions& options) {
  return clip_grad_norm(numbered(parameters), max_norm, options);
}

void clip_grad_value(const std::vector<Tensor>& parameters, double bound) {
  clip_grad_value(numbered(parameters), bound);
}

}  // namespace tern::optim
