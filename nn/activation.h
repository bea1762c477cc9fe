// Activations as function objects, for Sequential and as template arguments. Inside a model call
// the functions of core/ops/ops.h instead, or use Linear's options, which fuse them into the
// product.
#pragma once

#include "tern/core/ops/ops.h"
#include "tern/nn/parameter.h"

namespace tern::nn {

struct Identity {
  Tensor operator()(const Tensor& x) const { return x; }
};
struct Relu {
  Tensor operator()(const Tensor& x) const { return relu(x); }
};
struct Gelu {
  Tensor operator()(const Tensor& x) const { return gelu(x); }
};
struct GeluTanh {
  Tensor operator()(const Tensor& x) const { return gelu(x, tern::Gelu::tanh); }
};
struct Silu {
  Tensor operator()(const Tensor& x) const { return silu(x); }
};
struct Tanh {
  Tensor operator()(const Tensor& x) const { return tanh(x); }
};
struct Sigmoid {
  Tensor operator()(const Tensor& x) const { return sigmoid(x); }
};
struct Softplus {
  Tensor operator()(const Tensor& x) const { return softplus(x); }
};
struct LeakyRelu {
  double slope = 0.01;
  Tensor operator()(const Tensor& x) const { return leaky_relu(x, slope); }
  static void fields(auto&, auto&&) {}
};
struct Elu {
  double alpha = 1;
  Tensor operator()(const Tensor& x) const { return elu(x, alpha); }
  static void fields(auto&, auto&&) {}
};
struct Mish {
  Tensor operator()(const Tensor& x) const { return mish(x); }
};
struct Hardswish {
  Tensor operator()(const Tensor& x) const { return hardswish(x); }
};
struct Relu6 {
  Tensor operator()(const Tensor& x) const { return relu6(x); }
};
struct Hardtanh {
  double low = -1, high = 1;
  Tensor operator()(const Tensor& x) const { return hardtanh(x, low, high); }
  static void fields(auto&, auto&&) {}
};
struct Hardsigmoid {
  Tensor operator()(const Tensor& x) const { return hardsigmoid(x); }
};
struct Selu {
  Tensor operator()(const Tensor& x) const { return selu(x); }
};
struct Celu {
  double alpha = 1;
  Tensor operator()(const Tensor& x) const { return celu(x, alpha); }
  static void fields(auto&, auto&&) {}
};
struct Softsign {
  Tensor operator()(const Tensor& x) const { return softsign(x); }
};
struct Tanhshrink {
  Tensor operator()(const Tensor& x) const { return tanhshrink(x); }
};
struct Softshrink {
  double lambda = 0.5;
  Tensor operator()(const Tensor& x) const { return softshrink(x, lambda); }
  static void fields(auto&, auto&&) {}
};
struct Hardshrink {
  double lambda = 0.5;
  Tensor operator()(const Tensor& x) const { return hardshrink(x, lambda); }
  static void fields(auto&, auto&&) {}
};
/// Softmax: probabilities along an axis. LogSoftmax: their logarithms.
struct Softmax {
  int64_t axis = -1;
  Tensor operator()(const Tensor& x) const { return softmax(x, axis); }
  static void fields(auto&, auto&&) {}
};
struct LogSoftmax {
  int64_t axis = -1;
  Tensor operator()(const Tensor& x) const { return log_softmax(x, axis); }
  static void fields(auto&, auto&&) {}
};
struct LogSigmoid {
  Tensor operator()(const Tensor& x) const { return log_sigmoid(x); }
};
/// a * sigmoid(b), where a and b are the halves of x along the axis.
struct Glu {
  int64_t axis = -1;
  Tensor operator()(const Tensor& x) const { return glu(x, axis); }
  static void fields(auto&, auto&&) {}
};
/// x where it is positive, else weight * x: one learned slope, or one per channel of x (N, C, ...).
struct Prelu {
  Parameter weight;

  explicit Prelu(int64_t parameters = 1, double init = 0.25) : weight(full({parameters}, init)) {}
  Tensor operator()(const Tensor& x) const { return prelu(x, weight); }
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};
/// Joins axes first..last into one.
struct Flatten {
  int64_t first = 1, last = -1;
  Tensor operator()(const Tensor& x) const { return flatten(x, first, last); }
  static void fields(auto&, auto&&) {}
};

}  // namespace tern::nn
