// rfft and irfft. Both are linear. Each is the other's adjoint, except that an inverse transform
// counts frequencies that have a mirror image twice.
#include "tern/core/ops/fft/fft.h"

#include <cmath>

#include "tern/core/kernels/fft/fft.h"
#include "tern/core/ops/memory.h"

namespace tern::fft {
namespace {

Tensor inverse_lines(const Tensor& y, int64_t n);

// (frequencies, 1): how often each counts among all n frequencies.
Tensor multiplicity(int64_t n, DType type) {
  Tensor w = full({n / 2 + 1, 1}, 2, type);
  NoGradGuard guard;
  fill_(w[0], 1);
  if (n % 2 == 0) fill_(w[n / 2], 1);
  return w;
}

// x (..., n) -> (..., n / 2 + 1, 2), not scaled.
Tensor lines(const Tensor& x) {
  Op op("fft::rfft", x);
  const int64_t n = x.size(-1);
  Shape shape = x.shape();
  shape[shape.size() - 1] = n / 2 + 1;
  shape.push_back(2);
  Fresh y(shape, x.dtype());
  const Tensor from = x.detach().contiguous();
  if (y.numel() > 0)
    dispatch_float(x.dtype(), "fft::rfft", [&]<class T>() {
      kernels::rfft(from.data<T>(), y.data<T>(), x.numel() / n, n);
    });
  return op.record(
      y, [n](const Tensor& dy) { return inverse_lines(dy / multiplicity(n, dy.dtype()), n); });
}

// y (..., n / 2 + 1, 2) -> (..., n), not scaled.
Tensor inverse_lines(const Tensor& y, int64_t n) {
  Op op("fft::irfft", y);
  Shape shape(y.shape().begin(), y.shape().end() - 1);
  shape[shape.size() - 1] = n;
  Fresh x(shape, y.dtype());
  const Tensor from = y.detach().contiguous();
  if (x.numel() > 0)
    dispatch_float(y.dtype(), "fft::irfft", [&]<class T>() {
      kernels::irfft(from.data<T>(), x.data<T>(), x.numel() / n, n);
    });
  return op.record(x, [n](const Tensor& dx) { return lines(dx) * multiplicity(n, dx.dtype()); });
}

// Crops the axis to `size` elements, or pads it with zeros at the end.
Tensor resized(const Tensor& x, int axis, int64_t size) {
  if (x.size(axis) >= size) return narrow(x, axis, 0, size);
  Dims pads;
  for (int a = x.ndim() - 1; a >= axis; --a) {
    pads.push_back(0);
    pads.push_back(a == axis ? size - x.size(axis) : 0);
  }
  return pad(x, pads);
}

double factor(Norm norm, bool inverse, int64_t n) {
  if (norm == Norm::ortho) return 1 / std::sqrt(static_cast<double>(n));
  return inverse == (norm == Norm::backward) ? 1 / static_cast<double>(n) : 1;
}

Tensor scaled(const Tensor& x, double by) { return by == 1 ? x : x * by; }

void check_floats(const char* op, const Tensor& x) {
  check_defined(op, x);
  check(is_float(x.dtype()), "{}: needs f32 or f64, got {}; convert with .to(DType::f32)", op,
        x.dtype());
}

}  // namespace

Tensor rfft(const Tensor& x, const Options& o) {
  check_floats("fft::rfft", x);
  const int axis = normalize_axis("fft::rfft", o.axis, x.ndim());
  const int64_t n = o.n.value_or(x.size(axis));
  check(n >= 1, "fft::rfft: the length of the signal is {}, less than 1", n);
  Tensor y = lines(transpose(resized(x, axis, n), axis, -1));
  return scaled(transpose(y, axis, -2), factor(o.norm, false, n));
}

Tensor irfft(const Tensor& spectrum, const Options& o) {
  check_floats("fft::irfft", spectrum);
  check(spectrum.ndim() >= 2 && spectrum.size(-1) == 2,
        "fft::irfft: needs a spectrum whose last axis is 2 (real, imaginary), got {}",
        spectrum.shape());
  const int axis = normalize_axis("fft::irfft", o.axis, spectrum.ndim() - 1);
  const int64_t n = o.n.value_or(2 * (spectrum.size(axis) - 1));
  check(n >= 1, "fft::irfft: the length of the signal is {}, less than 1; give it: {{.n = ...}}",
        n);
  Tensor y = transpose(resized(spectrum, axis, n / 2 + 1), axis, -2);
  return scaled(transpose(inverse_lines(y, n), axis, -1), factor(o.norm, true, n));
}

Tensor rfftfreq(int64_t n, double d, DType dtype) {
  check(n >= 1 && d != 0,
        "fft::rfftfreq: needs at least one sample and a spacing that is not 0, got {} and {}", n,
        d);
  return arange(0, n / 2 + 1, 1, dtype) / (static_cast<double>(n) * d);
}

}  // namespace tern::fft
