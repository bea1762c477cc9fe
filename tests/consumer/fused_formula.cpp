// A program's own activation and gate, each with one pass over memory in forward and one in
// backward; the library derives the gradients.
#include <tern/core/ops/fused.h>
#include <tern/tern.h>

using namespace tern;

/// TanhExp (Liu & Di 2020): x tanh(e^x).
Tensor tanh_exp(const Tensor& x) {
  return fused(
      "tanh_exp", [](auto v) { return v * tanh(exp(v)); }, x);
}

/// The output of a highway layer (Srivastava et al. 2015): x if the gate is closed, y if it is
/// open.
Tensor highway(const Tensor& gate, const Tensor& x, const Tensor& y) {
  auto formula = [](auto g, auto a, auto b) {
    const auto open = sigmoid(g);
    return open * b + (1 - open) * a;
  };
  return fused("highway", formula, gate, x, y);
}

int main() {
  Rng rng(0);
  Tensor x = randn({33, 5}, rng, DType::f64).set_requires_grad();
  Tensor y = randn({33, 5}, rng, DType::f64).set_requires_grad();
  Tensor bias = randn({5}, rng, DType::f64).set_requires_grad();
  auto layer = [](const std::vector<Tensor>& in) { return highway(in[2], tanh_exp(in[0]), in[1]); };
  gradcheck(layer, {x, y, bias});
  gradgradcheck(layer, {x, y, bias});
  check(all_close(tanh_exp(x), x * tanh(exp(x))), "tanh_exp: not what its definition gives");
}
