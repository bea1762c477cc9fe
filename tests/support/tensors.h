// Small tensors, infinity and NaN, and comparisons, for tests of every layer.
#pragma once

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::test {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline Tensor f64(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, DType::f64);
}
/// A vector: shape (values.size()).
inline Tensor f64(std::initializer_list<double> values) {
  return f64(values, {std::ssize(values)});
}

/// A copy of t that requires a gradient and has no history.
inline Tensor leaf(const Tensor& t) { return t.detach().clone().set_requires_grad(); }

inline bool close(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-6) {
  return a.shape() == b.shape() && all_close(a, b, rtol, atol);
}

/// Every number is the expected one, infinities and NaN included, or differs from it by at most
/// rtol * |expected| + atol.
inline bool close(const std::vector<double>& got, const std::vector<double>& expected, double rtol,
                  double atol = 0) {
  if (got.size() != expected.size()) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    const double x = got[i], y = expected[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= rtol * std::abs(y) + atol)) return false;
  }
  return true;
}

/// Equal numbers of one type, except that NaN never equals anything and 0 equals -0.
inline bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         a.to_vector<double>() == b.to_vector<double>();
}

/// The tensors whose names begin with `prefix`, named by the rest of their names.
inline NamedTensors part(const NamedTensors& tensors, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, t] : tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), t);
  return out;
}

/// The same names with copies of the tensors.
inline NamedTensors copies(NamedTensors tensors) {
  for (auto& [name, t] : tensors) t = t.detach().clone();
  return tensors;
}

/// The numbers of several tensors, one after the other.
inline std::vector<double> numbers_of(const std::vector<Tensor>& tensors) {
  std::vector<double> out;
  for (const Tensor& t : tensors)
    for (double v : t.to_vector<double>()) out.push_back(v);
  return out;
}
inline std::vector<double> numbers_of(const NamedTensors& tensors) {
  std::vector<Tensor> all;
  for (const auto& [name, t] : tensors) all.push_back(t);
  return numbers_of(all);
}

/// The numbers of y, then those of the gradients of sum(y * y) by each of `leaves`.
inline std::vector<double> value_and_gradients(const Tensor& y, const std::vector<Tensor>& leaves) {
  std::vector<Tensor> all = grad({sum(y * y)}, leaves);
  all.insert(all.begin(), y);
  return numbers_of(all);
}

}  // namespace tern::test
