// All transforms are linear. irfft and rfft are each other's adjoint, except that an inverse
// transform counts frequencies that have a mirror image twice. So are ifft and fft, not scaled.
#include "tern/core/ops/fft/fft.h"

#include <cmath>
#include <vector>

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

// z (..., n, 2) -> (..., n, 2), not scaled.
Tensor complex_lines(const Tensor& z, bool inverse) {
  const char* name = inverse ? "fft::ifft" : "fft::fft";
  Op op(name, z);
  Fresh y(z.shape(), z.dtype());
  const Tensor from = z.detach().contiguous();
  if (y.numel() > 0)
    dispatch_float(z.dtype(), name, [&]<class T>() {
      const int64_t n = z.size(-2);
      kernels::fft(from.data<T>(), y.data<T>(), z.numel() / (2 * n), n, inverse);
    });
  return op.record(y, [inverse](const Tensor& dy) { return complex_lines(dy, !inverse); });
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

void check_complex(const char* op, const Tensor& z) {
  check_floats(op, z);
  check(z.ndim() >= 2 && z.size(-1) == 2,
        "{}: needs a complex tensor, whose last axis is 2 (real, imaginary), got {}; make a real x "
        "complex by stack({{x, zeros_like(x)}}, -1)",
        op, z.shape());
}

Tensor complex_transform(const char* op, const Tensor& z, const Options& o, bool inverse) {
  check_complex(op, z);
  const int axis = normalize_axis(op, o.axis, z.ndim() - 1);
  const int64_t n = o.n.value_or(z.size(axis));
  check(n >= 1, "{}: the length of the signal is {}, less than 1", op, n);
  Tensor y = complex_lines(transpose(resized(z, axis, n), axis, -2), inverse);
  return scaled(transpose(y, axis, -2), factor(o.norm, inverse, n));
}

// The options of the transform along each axis, the last of the axes first.
std::vector<Options> each_axis(const char* op, const AxesOptions& o, int ndim) {
  Dims axes = o.axes;
  const int given = o.sizes.size() > 0 ? o.sizes.size() : ndim;
  check(given <= ndim, "{}: {} sizes for a tensor with {} axes", op, given, ndim);
  for (int i = ndim - given; o.axes.size() == 0 && i < ndim; ++i) axes.push_back(i);
  check(o.sizes.size() == 0 || o.sizes.size() == axes.size(),
        "{}: {} sizes for {} axes; give one for each", op, o.sizes.size(), axes.size());
  std::vector<Options> each;
  for (int i = axes.size() - 1; i >= 0; --i) {
    const int axis = normalize_axis(op, axes[i], ndim);
    for (const Options& other : each)
      check(other.axis != axis, "{}: axis {} occurs twice", op, axis);
    each.push_back({.axis = axis, .norm = o.norm});
    if (o.sizes.size() > 0) each.back().n = o.sizes[i];
  }
  return each;
}

AxesOptions last_two(AxesOptions o) {
  if (o.axes.size() == 0) o.axes = {-2, -1};
  return o;
}

Tensor along_axes(const char* op, const Tensor& z, const AxesOptions& o, bool inverse) {
  check_complex(op, z);
  Tensor y = z;
  for (const Options& axis : each_axis(op, o, z.ndim() - 1))
    y = complex_transform(op, y, axis, inverse);
  return y;
}

// rfft along the last of the axes, then fft along the others.
Tensor real_along(const char* op, const Tensor& x, const AxesOptions& o) {
  check_floats(op, x);
  check(x.ndim() >= 1, "{}: needs at least one axis, got ()", op);
  const std::vector<Options> each = each_axis(op, o, x.ndim());
  Tensor y = rfft(x, each[0]);
  for (size_t i = 1; i < each.size(); ++i) y = complex_transform(op, y, each[i], /*inverse=*/false);
  return y;
}

// The inverse of real_along().
Tensor to_real(const char* op, const Tensor& spectrum, const AxesOptions& o) {
  check_complex(op, spectrum);
  const std::vector<Options> each = each_axis(op, o, spectrum.ndim() - 1);
  Tensor y = spectrum;
  for (size_t i = each.size() - 1; i > 0; --i)
    y = complex_transform(op, y, each[i], /*inverse=*/true);
  return irfft(y, each[0]);
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
  check_complex("fft::irfft", spectrum);
  const int axis = normalize_axis("fft::irfft", o.axis, spectrum.ndim() - 1);
  const int64_t n = o.n.value_or(2 * (spectrum.size(axis) - 1));
  check(n >= 1, "fft::irfft: the length of the signal is {}, less than 1; give it: {{.n = ...}}",
        n);
  Tensor y = transpose(resized(spectrum, axis, n / 2 + 1), axis, -2);
  return scaled(transpose(inverse_lines(y, n), axis, -1), factor(o.norm, true, n));
}

Tensor fft(const Tensor& z, const Options& o) {
  return complex_transform("fft::fft", z, o, /*inverse=*/false);
}

Tensor ifft(const Tensor& z, const Options& o) {
  return complex_transform("fft::ifft", z, o, /*inverse=*/true);
}

Tensor fftn(const Tensor& z, const AxesOptions& o) {
  return along_axes("fft::fftn", z, o, /*inverse=*/false);
}

Tensor ifftn(const Tensor& z, const AxesOptions& o) {
  return along_axes("fft::ifftn", z, o, /*inverse=*/true);
}

Tensor rfftn(const Tensor& x, const AxesOptions& o) { return real_along("fft::rfftn", x, o); }

Tensor irfftn(const Tensor& spectrum, const AxesOptions& o) {
  return to_real("fft::irfftn", spectrum, o);
}

Tensor fft2(const Tensor& z, const AxesOptions& o) {
  return along_axes("fft::fft2", z, last_two(o), /*inverse=*/false);
}

Tensor ifft2(const Tensor& z, const AxesOptions& o) {
  return along_axes("fft::ifft2", z, last_two(o), /*inverse=*/true);
}

Tensor rfft2(const Tensor& x, const AxesOptions& o) {
  return real_along("fft::rfft2", x, last_two(o));
}

Tensor irfft2(const Tensor& spectrum, const AxesOptions& o) {
  return to_real("fft::irfft2", spectrum, last_two(o));
}

Tensor fftfreq(int64_t n, double d, DType dtype) {
  check(n >= 1 && d != 0,
        "fft::fftfreq: needs at least one sample and a spacing that is not 0, got {} and {}", n, d);
  const int64_t positive = (n + 1) / 2;
  return cat({arange(0, positive, 1, dtype), arange(positive - n, 0, 1, dtype)}) /
         (static_cast<double>(n) * d);
}

Tensor fftshift(const Tensor& x, const Dims& axes) {
  check_defined("fft::fftshift", x);
  Dims shifts;
  for (int64_t axis : axes)
    shifts.push_back(x.size(normalize_axis("fft::fftshift", axis, x.ndim())) / 2);
  return roll(x, shifts, axes);
}

Tensor ifftshift(const Tensor& x, const Dims& axes) {
  check_defined("fft::ifftshift", x);
  Dims shifts;
  for (int64_t axis : axes)
    shifts.push_back(-(x.size(normalize_axis("fft::ifftshift", axis, x.ndim())) / 2));
  return roll(x, shifts, axes);
}

Tensor rfftfreq(int64_t n, double d, DType dtype) {
  check(n >= 1 && d != 0,
        "fft::rfftfreq: needs at least one sample and a spacing that is not 0, got {} and {}", n,
        d);
  return arange(0, n / 2 + 1, 1, dtype) / (static_cast<double>(n) * d);
}

}  // namespace tern::fft
