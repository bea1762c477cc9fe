// An elementwise op of one's own: a struct with the function and its derivative.
#include <tern/core/ops/elementwise.h>
#include <tern/core/ops/formula.h>
#include <tern/tern.h>

using namespace tern;

/// Mish (Misra 2019): x tanh(softplus(x)).
struct Mish {
  static constexpr const char* kName = "mish";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return x * formula::tanh(formula::softplus(x));
  }
  // tanh(s) + x (1 - tanh(s)^2) sigmoid(x),  s = softplus(x)
  template <class T>
  T df(const T& dy, const T& x) const {
    using namespace formula;
    T t = tanh(softplus(x));
    return dy * (t + x * (Constant<T>(1) - t * t) * sigmoid(x));
  }
};

Tensor mish(const Tensor& x) { return unary(x, Mish()); }

int main() {
  Rng rng(0);
  Tensor x = transpose(randn({33, 5}, rng, DType::f64), 0, 1);
  x = x.detach().set_requires_grad();
  gradcheck([](const std::vector<Tensor>& in) { return mish(in[0]); }, {x});
  gradgradcheck([](const std::vector<Tensor>& in) { return mish(in[0]); }, {x});
  check(all_close(mish(x), x * tanh(softplus(x))), "mish: not what its definition gives");
  check(mish(zeros({0, 3})).shape() == Shape{0, 3}, "mish: an empty tensor stays empty");
}
