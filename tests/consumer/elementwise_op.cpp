// A program's own elementwise op: a struct with the function and its derivative.
#include <tern/core/ops/elementwise.h>
#include <tern/core/ops/formula.h>
#include <tern/tern.h>

using namespace tern;

/// TanhExp (Liu & Di 2020): x tanh(e^x).
struct TanhExp {
  static constexpr const char* kName = "tanh_exp";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return x * formula::tanh(formula::exp(x));
  }
  // tanh(e^x) + x e^x (1 - tanh(e^x)^2)
  template <class T>
  T df(const T& dy, const T& x) const {
    using namespace formula;
    T e = exp(x), t = tanh(e);
    return dy * (t + x * e * (Constant<T>(1) - t * t));
  }
};

Tensor tanh_exp(const Tensor& x) { return unary(x, TanhExp()); }

int main() {
  Rng rng(0);
  Tensor x = transpose(randn({33, 5}, rng, DType::f64), 0, 1);
  x = x.detach().set_requires_grad();
  gradcheck([](const std::vector<Tensor>& in) { return tanh_exp(in[0]); }, {x});
  gradgradcheck([](const std::vector<Tensor>& in) { return tanh_exp(in[0]); }, {x});
  check(all_close(tanh_exp(x), x * tanh(exp(x))), "tanh_exp: not what its definition gives");
  check(tanh_exp(zeros({0, 3})).shape() == Shape{0, 3}, "tanh_exp: an empty tensor stays empty");
}
