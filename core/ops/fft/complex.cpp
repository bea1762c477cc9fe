// Complex functions in real ops: (a + bi)(c + di) = ac - bd + (ad + bc)i.
#include "tern/core/ops/fft/complex.h"

#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/fused.h"

namespace tern {
namespace {

struct Parts {
  Tensor re, im;

  Parts(const char* op, const Tensor& z) {
    check_defined(op, z);
    check(is_float(z.dtype()), "{}: needs f32 or f64, got {}; convert with .to(DType::f32)", op,
          z.dtype());
    check(z.ndim() >= 1 && z.size(-1) == 2,
          "{}: complex numbers have a last axis of 2 (real, imaginary), got {}; give "
          "stack({{re, im}}, -1)",
          op, z.shape());
    re = select(z, -1, 0);
    im = select(z, -1, 1);
  }
};

void check_types(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), "{}: types differ: {} and {}; convert one with .to()", op,
        a.dtype(), b.dtype());
}

Tensor joined(const Tensor& re, const Tensor& im) { return stack({re, im}, -1); }

// The complex product, given a real product that is linear in both operands.
template <class Product>
Tensor bilinear(const char* op, const Tensor& a, const Tensor& b, const Product& product) {
  const Parts x(op, a), y(op, b);
  check_types(op, a, b);
  return joined(product(x.re, y.re) - product(x.im, y.im),
                product(x.re, y.im) + product(x.im, y.re));
}

}  // namespace

Tensor complex_mul(const Tensor& a, const Tensor& b) {
  const Parts x("complex_mul", a), y("complex_mul", b);
  check_types("complex_mul", a, b);
  auto re = [](auto p, auto q, auto r, auto s) { return p * r - q * s; };
  auto im = [](auto p, auto q, auto r, auto s) { return p * s + q * r; };
  return joined(fused("complex_mul", re, x.re, x.im, y.re, y.im),
                fused("complex_mul", im, x.re, x.im, y.re, y.im));
}

Tensor complex_conj(const Tensor& z) {
  const Parts x("complex_conj", z);
  return joined(x.re, -x.im);
}

Tensor complex_abs(const Tensor& z) {
  const Parts checked("complex_abs", z);
  return norm(z, 2, -1);
}

Tensor complex_exp(const Tensor& z) {
  const Parts x("complex_exp", z);
  auto re = [](auto r, auto i) { return exp(r) * cos(i); };
  auto im = [](auto r, auto i) { return exp(r) * sin(i); };
  return joined(fused("complex_exp", re, x.re, x.im), fused("complex_exp", im, x.re, x.im));
}

Tensor complex_matmul(const Tensor& a, const Tensor& b) {
  return bilinear("complex_matmul", a, b,
                  [](const Tensor& x, const Tensor& y) { return matmul(x, y); });
}

Tensor complex_einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  check(operands.size() == 1 || operands.size() == 2,
        "complex_einsum: takes one or two operands, got {}; contract more of them in pairs",
        operands.size());
  if (operands.size() == 2)
    return bilinear("complex_einsum", operands[0], operands[1],
                    [&](const Tensor& x, const Tensor& y) {
                      return einsum(equation, {x, y});
                    });
  const Parts x("complex_einsum", operands[0]);
  return joined(einsum(equation, {x.re}), einsum(equation, {x.im}));
}

}  // namespace tern
