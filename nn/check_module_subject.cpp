// Helpers of check_module: bitwise and approximate comparison of tensors with a text of the first
// difference, and a copy of the module that can be run, rewound and converted.
#include "tern/nn/check_module_subject.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tern/core/ops/ops.h"

namespace tern::nn::detail {
namespace {

/// How far results of different kernels may differ, relative to the largest number.
double closeness(DType dtype) {
  return dtype == DType::f32 ? 1e-4 : dtype == DType::f64 ? 1e-9 : 0;
}

double largest(const std::vector<double>& x) {
  double most = 0;
  for (double v : x)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return dispatch(x.dtype(), [&]<class T>() {
    return x.numel() == 0 ||
           std::memcmp(x.data<T>(), y.data<T>(), static_cast<size_t>(x.numel()) * sizeof(T)) == 0;
  });
}

std::string difference(const std::string& what, const Tensor& got, const Tensor& want, bool close) {
  if (got.shape() != want.shape() || got.dtype() != want.dtype())
    return fmt::format("{} is {} {} instead of {} {}", what, got.dtype(), got.shape(), want.dtype(),
                       want.shape());
  if (same_bits(got, want)) return "";
  const auto g = got.to_vector<double>(), w = want.to_vector<double>();
  const double allowed = close ? closeness(got.dtype()) * largest(w) : 0;
  for (size_t i = 0; i < g.size(); ++i) {
    if (g[i] == w[i] || std::abs(g[i] - w[i]) <= allowed || (close && g[i] != g[i] && w[i] != w[i]))
      continue;
    return fmt::format("{} of shape {}, element {}: {} instead of {}", what, got.shape(), i, g[i],
                       w[i]);
  }
  return close ? "" : fmt::format("{} of shape {} differs in some bits", what, got.shape());
}

std::string difference(const Tensors& got, const Tensors& want, bool close) {
  if (got.size() != want.size())
    return fmt::format("{} outputs instead of {}", got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    std::string found = difference(output_name(i), got[i], want[i], close);
    if (!found.empty()) return found;
  }
  return "";
}

bool Subject::has_modes() const {
  return is_random() || std::any_of(fields_.begin(), fields_.end(), [](const Slot& s) {
           return std::holds_alternative<TrainingMode*>(s.field) ||
                  std::holds_alternative<Buffer*>(s.field);
         });
}

Tensors Subject::run(const Tensors& inputs) const {
  NoGradGuard no_grad;
  Tensors out = module_.call(inputs);
  for (Tensor& t : out) t = t.detach().clone();
  return out;
}

void Subject::remember() {
  rngs_.clear();
  buffers_.clear();
  for (Rng* rng : generators(fields_)) rngs_.push_back(*rng);
  for (const auto& [name, t] : named_buffers(fields_)) buffers_.emplace_back(t, t.clone());
}

void Subject::rewind() const {
  NoGradGuard no_grad;
  size_t i = 0;
  for (Rng* rng : generators(fields_)) *rng = rngs_[i++];
  for (const auto& [to, from] : buffers_) copy_(to, from);
}

Tensors to_f64(const Tensors& inputs, bool requires_grad) {
  Tensors out;
  for (const Tensor& t : inputs) {
    out.push_back(t);
    if (!t.defined() || !is_float(t.dtype())) continue;
    out.back() = t.detach().to(DType::f64).clone();
    if (requires_grad) out.back().set_requires_grad();
  }
  return out;
}

Tensor joined(const Tensors& outputs) {
  Tensors flat;
  for (const Tensor& t : outputs)
    if (is_float(t.dtype()) && t.requires_grad()) flat.push_back(reshape(t, {t.numel()}));
  return flat.empty() ? Tensor() : cat(flat);
}

NamedTensors outputs_and_gradients(Subject& subject, const Tensors& inputs) {
  NamedTensors out;
  Tensors leaves;
  for (const Tensor& t : inputs) {
    leaves.push_back(t);
    if (t.defined() && is_float(t.dtype())) leaves.back() = t.detach().set_requires_grad();
  }
  subject.rewind();
  const Tensors outputs = subject.record(leaves);
  for (size_t i = 0; i < outputs.size(); ++i)
    out.emplace_back(output_name(i), outputs[i].detach().clone());
  for (const auto& [name, t] : subject.parameters())
    if (t.requires_grad()) t.set_grad({});
  const Tensor y = joined(outputs);
  if (!y.defined()) return out;
  const Tensor weights = linspace(0.5, 1.5, y.numel(), y.dtype());
  backward(y, {.gradient = weights});
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].defined() && leaves[i].grad().defined())
      out.emplace_back(fmt::format("gradient of input {}", i), leaves[i].grad().clone());
  for (const auto& [name, t] : subject.parameters())
    if (t.grad().defined())
      out.emplace_back(fmt::format("gradient of parameter '{}'", name), t.grad().clone());
  return out;
}

NamedTensors clones(const NamedTensors& state) {
  NamedTensors out;
  for (const auto& [name, t] : state) out.emplace_back(name, t.detach().clone());
  return out;
}

}  // namespace tern::nn::detail
