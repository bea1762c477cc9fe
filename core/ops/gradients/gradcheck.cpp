// gradcheck and gradgradcheck (tape/autograd.h): compare gradients with central differences of a
// weighted sum of all outputs.
#include <algorithm>
#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace {

using MultiFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// A fixed weight in [0.5, 1.5) for element i of output k. In an unweighted sum some errors would
// cancel (softmax).
double weight(size_t k, int64_t i) {
  auto x = static_cast<double>((static_cast<uint64_t>(i) * 2654435761u + k * 40503u) % 1000u);
  return 0.5 + x / 1000;
}

Tensor weights_like(const Tensor& y, size_t k) {
  std::vector<double> w(static_cast<size_t>(y.numel()));
  for (size_t i = 0; i < w.size(); ++i) w[i] = weight(k, static_cast<int64_t>(i));
  return tensor(w, y.shape());
}

double weighted_sum(const MultiFunction& fn, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs = fn(inputs);
  double total = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    std::vector<double> y = outputs[k].to_vector<double>();
    for (size_t i = 0; i < y.size(); ++i) total += weight(k, static_cast<int64_t>(i)) * y[i];
  }
  return total;
}

// The offset of linear index `at` from the data pointer.
int64_t position(const Layout& layout, int64_t at) {
  int64_t p = 0;
  for (int axis = layout.ndim() - 1; axis >= 0; --axis) {
    p += at % layout.shape[axis] * layout.strides[axis];
    at /= layout.shape[axis];
  }
  return p;
}

double central_difference(const MultiFunction& fn, const std::vector<Tensor>& inputs,
                          const Tensor& x, int64_t at, double eps) {
  const double before = x.data<double>()[position(x.layout(), at)];
  auto set = [&](double value) {
    NoGradGuard guard;
    x.mutable_data<double>()[position(x.layout(), at)] = value;
  };
  auto sum_at = [&](double value) {
    set(value);
    try {
      const double sum = weighted_sum(fn, inputs);
      set(before);
      return sum;
    } catch (...) {
      set(before);
      throw;
    }
  };
  const double up = sum_at(before + eps), down = sum_at(before - eps);
  return (up - down) / (2 * eps);
}

std::vector<Tensor> analytic(const char* name, const MultiFunction& fn,
                             const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted) {
  std::vector<Tensor> outputs, weights;
  size_t k = 0;
  for (const Tensor& y : fn(inputs)) {
    if (y.requires_grad()) {
      outputs.push_back(y);
      weights.push_back(weights_like(y, k));
    }
    ++k;
  }
  check(!outputs.empty(), "{}: no output requires a gradient", name);
  return grad(outputs, wanted, {.allow_unused = true, .gradients = weights});
}

void compare(const char* name, const MultiFunction& fn, const std::vector<Tensor>& inputs,
             const GradcheckOptions& options) {
  std::vector<Tensor> wanted;
  std::vector<std::string> called;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_grad()) {
      check(inputs[i].dtype() == DType::f64, "{}: inputs must be f64, got {}", name,
            inputs[i].dtype());
      called.push_back(i < options.names.size() ? options.names[i]
                                                : fmt::format("input {}", wanted.size()));
      wanted.push_back(inputs[i]);
    }
  check(!wanted.empty(), "{}: no input requires a gradient", name);
  std::vector<Tensor> grads = analytic(name, fn, inputs, wanted);
  for (size_t k = 0; k < wanted.size(); ++k) {
    std::vector<double> got(static_cast<size_t>(wanted[k].numel()), 0.0);
    if (grads[k].defined()) got = grads[k].to_vector<double>();
    const size_t parts = options.most > 0 ? static_cast<size_t>(options.most) : got.size();
    const size_t step = parts ? (got.size() + parts - 1) / parts : 1;
    // Varies the offset within a step, so that not all elements come from one column of a matrix.
    for (size_t first = 0, turn = 0; first < got.size(); first += step, ++turn) {
      const size_t i = std::min(got.size() - 1, first + turn % step);
      double want = central_difference(fn, inputs, wanted[k], static_cast<int64_t>(i), options.eps);
      double error = std::abs(got[i] - want);
      check(error <= options.atol + options.rtol * std::abs(want),
            "{}: {} of shape {}, element {}: the gradient is {}, but finite differences give {}",
            name, called[k], wanted[k].shape(), i, got[i], want);
    }
  }
}

}  // namespace

void gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  compare(
      "gradcheck", [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{fn(x)}; }, inputs,
      options);
}

void gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options) {
  Tensor y = fn(inputs);
  std::vector<Tensor> all = inputs;  // followed by the incoming gradient
  all.push_back(weights_like(y, 1).set_requires_grad());
  auto gradients = [&](const std::vector<Tensor>& x) {
    EnableGradGuard on;
    std::vector<Tensor> args(x.begin(), x.end() - 1), wanted;
    for (const Tensor& t : args)
      if (t.requires_grad()) wanted.push_back(t);
    std::vector<Tensor> out;
    for (const Tensor& g :
         grad({fn(args)}, wanted,
              {.create_graph = true, .allow_unused = true, .gradients = {x.back()}}))
      if (g.defined()) out.push_back(g);
    return out;
  };
  compare("gradgradcheck", gradients, all, options);
}

}  // namespace tern
