// Complex functions, on tensors with a last axis of 2, against std::complex; and the convolution of
// a state-space model by FFT against its recurrence.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>

#include "tern/core/base/rng.h"
#include "tern/core/ops/fft/complex.h"
#include "tern/core/ops/fft/fft.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::ops_complex {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::for_each_index;
using Complex = std::complex<double>;

/// The complex number at an index that omits the axis of 2. Axes of size 1 broadcast.
Complex at(const Array& x, Dims index) {
  index.push_back(0);
  const double re = x.broadcast_at(index);
  index[index.size() - 1] = 1;
  return {re, x.broadcast_at(index)};
}

/// The array (shape, 2) of the complex numbers fn(index).
Array complex_array(const Shape& shape, const std::function<Complex(const Dims&)>& fn) {
  Shape whole = shape;
  whole.push_back(2);
  Array y(whole);
  for_each_index(shape, [&](Dims i) {
    const Complex z = fn(i);
    i.push_back(0);
    y.at(i) = z.real();
    i[i.size() - 1] = 1;
    y.at(i) = z.imag();
  });
  return y;
}

Shape numbers(const Array& x) { return Shape(x.shape.begin(), x.shape.end() - 1); }

Array each(const Array& x, const std::function<Complex(Complex)>& fn) {
  return complex_array(numbers(x), [&](const Dims& i) { return fn(at(x, i)); });
}

/// (..., M, K) x (..., K, N), complex. Leading axes broadcast.
Array naive_matmul(const Arrays& in) {
  const Shape a = numbers(in[0]), b = numbers(in[1]);
  Shape shape = a.size() > b.size() ? a : b;
  const int n = shape.size();
  shape[n - 2] = a[a.size() - 2];
  shape[n - 1] = b[b.size() - 1];
  return complex_array(shape, [&](const Dims& i) {
    Complex sum = 0;
    for (int64_t k = 0; k < a[a.size() - 1]; ++k) {
      Dims left = i, right = i;
      left[n - 1] = right[n - 2] = k;
      sum += at(in[0], left) * at(in[1], right);
    }
    return sum;
  });
}

TEST_CASE("op table: complex functions") {
  auto times = [](const Args& x) { return complex_mul(x[0], x[1]); };
  auto naive_times = [](const Arrays& x) {
    return complex_array(broadcast_shapes("naive", numbers(x[0]), numbers(x[1])),
                         [&](const Dims& i) { return at(x[0], i) * at(x[1], i); });
  };
  op("complex_mul", {{3, 4, 2}, {3, 4, 2}}, times).equals(naive_times);
  op("complex_mul, broadcast", {{3, 4, 2}, {4, 2}}, times).equals(naive_times);
  op("complex_mul, broadcast both ways", {{3, 1, 2}, {1, 4, 2}}, times).equals(naive_times);
  op("complex_mul, one number", {{2}, {3, 2}}, times).empty({{2}, {0, 2}}).equals(naive_times);
  op("complex_conj", {{3, 4, 2}}, [](const Args& x) {
    return complex_conj(x[0]);
  }).equals([](const Arrays& x) { return each(x[0], [](Complex z) { return std::conj(z); }); });
  op("complex_abs", {{3, 4, 2}}, [](const Args& x) {
    return complex_abs(x[0]);
  }).equals([](const Arrays& x) {
    Array y(numbers(x[0]));
    for_each_index(y.shape, [&](const Dims& i) { y.at(i) = std::abs(at(x[0], i)); });
    return y;
  });
  op("complex_exp", {{3, 4, 2}}, [](const Args& x) {
    return complex_exp(x[0]);
  }).equals([](const Arrays& x) { return each(x[0], [](Complex z) { return std::exp(z); }); });
  op("complex_matmul", {{3, 2, 4, 2}, {4, 3, 2}}, [](const Args& x) {
    return complex_matmul(x[0], x[1]);
  }).equals(naive_matmul);
  op("complex_einsum", {{3, 4, 2}, {4, 5, 2}}, [](const Args& x) {
    return complex_einsum("i k, k j -> i j", {x[0], x[1]});
  }).equals(naive_matmul);
  op("complex_einsum, one operand", {{3, 4, 2}}, [](const Args& x) {
    return complex_einsum("i k -> k", {x[0]});
  }).equals([](const Arrays& x) {
    return complex_array(Shape{x[0].shape[1]}, [&](const Dims& k) {
      Complex sum = 0;
      for (int64_t i = 0; i < x[0].shape[0]; ++i) sum += at(x[0], {i, k[0]});
      return sum;
    });
  });
}

TEST_CASE("complex: large numbers, zeros, errors") {
  Tensor z = tensor({3e30, 4e30, 0, 0, 3e-30, 4e-30}, {3, 2}).set_requires_grad();
  Tensor size = complex_abs(z);
  CHECK(all_close(size, tensor({5e30, 0, 5e-30}, {3}), 1e-6, 0));
  CHECK(all_close(grad({sum(size)}, {z})[0], tensor({.6, .8, 0, 0, .6, .8}, {3, 2}), 1e-6, 0));
  auto refused = [](const char* text, const auto& fn) {
    CHECK_THROWS_WITH_AS(static_cast<void>(fn()), doctest::Contains(text), Error);
  };
  Tensor x = zeros({4, 2});
  refused("complex_mul: complex numbers have a last axis of 2",
          [&] { return complex_mul(x, zeros({4})); });
  refused("complex_abs: complex numbers", [] { return complex_abs(zeros({})); });
  refused("complex_exp: needs f32 or f64, got i64", [&] { return complex_exp(x.to(DType::i64)); });
  refused("complex_matmul: types differ: f32 and f64",
          [&] { return complex_matmul(x, x.to(DType::f64)); });
  refused("complex_einsum: takes one or two operands, got 3", [&] {
    return complex_einsum("i, i, i ->", {x, x, x});
  });
  refused("complex_conj: operand 1 is undefined", [] { return complex_conj(Tensor()); });
}

/// The kernel of a diagonal state-space model (S4D; Gu et al. 2022, equation 9, with B = 1):
/// 2 Re sum_n C_n e^(l dt A_n) for l = 0 ... length - 1. poles = dt A and c are (H, N, 2).
Tensor s4d_kernel(const Tensor& poles, const Tensor& c, int64_t length) {
  Tensor steps = arange(0, length, 1, poles.dtype());
  Tensor powers = complex_exp(unsqueeze(poles, 2) * reshape(steps, {length, 1}));  // (H, N, L, 2)
  return 2 * select(complex_einsum("h n, h n l -> h l", {c, powers}), -1, 0);
}

/// u (B, H, L) and kernel (H, L) -> (B, H, L), causal.
Tensor long_convolution(const Tensor& u, const Tensor& kernel) {
  const int64_t n = u.size(-1);
  Tensor spectrum = complex_mul(fft::rfft(u, {.n = 2 * n}), fft::rfft(kernel, {.n = 2 * n}));
  return narrow(fft::irfft(spectrum), -1, 0, n);
}

TEST_CASE("complex: S4D's convolution is its recurrence, and has gradients") {
  const int64_t batch = 2, channels = 3, states = 4, length = 37;
  Rng rng(8);
  Tensor re = -exp(randn({channels, states}, rng, DType::f64));
  Tensor im = 3 * randn({channels, states}, rng, DType::f64);
  Tensor poles = 0.1 * stack({re, im}, -1), c = randn({channels, states, 2}, rng, DType::f64);
  Tensor u = randn({batch, channels, length}, rng, DType::f64);
  const Array y = test::to_array(long_convolution(u, s4d_kernel(poles, c, length)));
  const Array a = test::to_array(poles), out = test::to_array(c), in = test::to_array(u);
  for_each_index({batch, channels}, [&](const Dims& i) {
    std::vector<Complex> state(static_cast<size_t>(states));
    for (int64_t t = 0; t < length; ++t) {
      double sum = 0;
      for (int64_t n = 0; n < states; ++n) {
        Complex& s = state[static_cast<size_t>(n)];
        s = std::exp(at(a, {i[1], n})) * s + in.at({i[0], i[1], t});
        sum += 2 * (at(out, {i[1], n}) * s).real();
      }
      CHECK(y.at({i[0], i[1], t}) == doctest::Approx(sum).epsilon(1e-11));
    }
  });
  Tensor short_u = narrow(u, 2, 0, 5).clone();
  auto model = [](const Args& x) { return long_convolution(x[0], s4d_kernel(x[1], x[2], 5)); };
  for (const Tensor& t : {short_u, poles, c}) t.set_requires_grad();
  CHECK_NOTHROW(gradcheck(model, {short_u, poles, c}));
}

}  // namespace
}  // namespace tern::ops_complex
