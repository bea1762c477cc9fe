// Runs a subject and compares outputs, loss, gradients and ten AdamW steps with the reference file.
#include <algorithm>
#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/optim.h"
#include "tern/tests/parity/parity.h"

namespace tern::parity {
namespace {

using Values = std::vector<double>;

bool same_shape(const Tensor& got, const Tensor& want, const std::string& what) {
  if (got.shape() == want.shape()) return true;
  fmt::print("  {}: shape {} instead of {}\n", what, got.shape(), want.shape());
  return false;
}

// Raises `worst` to the largest difference. Returns whether all elements are within rtol and atol.
bool close(const Tensor& got, const Tensor& want, double rtol, double atol, double& worst) {
  Values a = got.to_vector<double>(), b = want.to_vector<double>();
  bool ok = true;
  for (size_t i = 0; i < b.size(); ++i) {
    double d = std::abs(a[i] - b[i]);
    ok &= d <= atol + rtol * std::abs(b[i]);  // also false for NaN
    worst = std::isnan(d) ? d : std::max(worst, d);
  }
  return ok;
}

// The length of the longest sum behind an output element: the largest fan-in of a weight.
double longest_sum(const Reference& r) {
  int64_t n = 1;
  for (const auto& [name, t] : r.parameters)
    if (t.ndim() > 1 && t.size(0) > 0) n = std::max(n, t.numel() / t.size(0));
  return static_cast<double>(n);
}

Tensor objective(const Reference& r, const Subject& s, const std::vector<Tensor>& outputs) {
  return s.loss ? s.loss(outputs, r.targets) : sum(outputs[0] * r.probe);
}

bool compare_gradients(const Reference& r, const Subject& s, Errors& e) {
  double largest = 0, worst = 0;
  bool ok = true;
  for (const auto& [name, want] : r.gradients) {
    auto it = std::find_if(s.parameters.begin(), s.parameters.end(),
                           [&, n = name](const auto& p) { return p.first == n; });
    Tensor got = it == s.parameters.end() ? Tensor() : it->second.grad();
    if (!got.defined()) {
      fmt::print("  grad.{}: there is none\n", name);
      return false;
    }
    if (!same_shape(got, want, "grad." + name)) return false;
    ok &= close(got, want, 0, std::numeric_limits<double>::infinity(), worst);
    for (double v : want.to_vector<double>()) largest = std::max(largest, std::abs(v));
  }
  e.grad = largest > 0 ? worst / largest : worst;
  return ok && e.grad <= 1e-4;
}

bool compare_trace(const Reference& r, const Subject& s, Errors& e) {
  optim::AdamW optimizer(s.parameters, {.lr = 1e-3, .weight_decay = 1e-2});
  Values want = r.trace.to_vector<double>();
  e.has_trace = true;
  for (double w : want) {
    optimizer.zero_grad();
    Tensor loss = objective(r, s, s.forward(r.inputs));
    backward(loss);
    optimizer.step();
    double d = std::abs(loss.item() - w) / std::abs(w);
    e.trace = std::isnan(d) ? d : std::max(e.trace, d);
  }
  return e.trace <= 1e-4;
}

}  // namespace

Errors compare(const Reference& r, Subject& s) {
  Errors e;
  double rtol = 1.3e-6 * std::sqrt(longest_sum(r));
  std::vector<Tensor> outputs = s.forward(r.inputs);
  bool ok = outputs.size() == r.outputs.size();
  for (size_t i = 0; ok && i < outputs.size(); ++i)
    ok = same_shape(outputs[i], r.outputs[i], "output") &&
         close(outputs[i], r.outputs[i], rtol, 1e-5, e.output);
  if (outputs.size() != r.outputs.size() || outputs[0].shape() != r.outputs[0].shape()) return e;
  Tensor loss = objective(r, s, outputs);
  e.has_loss = r.loss.defined();
  if (e.has_loss) ok &= close(loss, r.loss, rtol, 1e-5, e.loss);
  backward(loss);
  ok &= compare_gradients(r, s, e);
  if (r.trace.defined()) ok &= compare_trace(r, s, e);
  e.ok = ok;
  return e;
}

}  // namespace tern::parity
