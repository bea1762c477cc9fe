// Fourier transforms, as PyTorch's torch.fft. There is no complex dtype: complex tensors have a
// last axis of 2, the real and the imaginary part, as in torch.view_as_real. Axis numbers do not
// count it: axis -1 of a complex tensor is the one before. Products of spectra: complex.h. Any
// length works; lengths with small prime factors are fast.
//
//   // a layer of a Fourier neural operator (Li et al. 2021): x (B, C, H, W), w (C, O, h, v, 2)
//   Tensor low = slice(fft::rfft2(x), {{}, {}, {0, h}, {0, v}});
//   Tensor y = fft::irfft2(complex_einsum("b c h w, c o h w -> b o h w", {low, w}),
//                          {.sizes = {H, W}});
//   // the mixing layer of FNet (Lee-Thorp et al. 2022): x (B, T, C) as a complex tensor
//   Tensor mixed = select(fft::fft2(stack({x, zeros_like(x)}, -1)), -1, 0);
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern::fft {

/// Which transform divides by n: the inverse, both (by sqrt(n)), or the forward one.
enum class Norm { backward, ortho, forward };

struct Options {
  std::optional<int64_t> n = {};  ///< length of the signal, which is cropped or padded with zeros
  int64_t axis = -1;              ///< the signal's axis; the axis of 2 does not count
  Norm norm = Norm::backward;
};

/// X[k] = sum_j x[j] e^(-2 pi i j k / n), k = 0 ... n / 2. The axis of n becomes n / 2 + 1, and a
/// last axis of 2 is added.
Tensor rfft(const Tensor& x, const Options& options = {});

/// The inverse: (..., n / 2 + 1, ..., 2) -> (..., n, ...). By default n = 2 (frequencies - 1),
/// which is even. As PyTorch, it ignores the imaginary parts of frequency 0 and, for even n, n / 2.
Tensor irfft(const Tensor& spectrum, const Options& options = {});

/// The transform of a complex signal z (..., n, ..., 2), of the same shape: Z[k] = sum_j z[j] e^(-2
/// pi i j k / n). ifft is its inverse. Make a real x complex by stack({x, zeros_like(x)}, -1).
Tensor fft(const Tensor& z, const Options& options = {});
Tensor ifft(const Tensor& z, const Options& options = {});

struct AxesOptions {
  Dims sizes = {};  ///< lengths of the signal along `axes`; none: those of the input
  /// Which axes, each at most once. By default the functions whose names end in 2 take the last
  /// two; the others take the last ones, as many as `sizes` has, or all if there are no sizes.
  Dims axes = {};
  Norm norm = Norm::backward;
};

// Transforms along several axes. rfftn is rfft along the last of `axes`, then fft along the others;
// irfftn is its inverse. sizes and norm are those of each axis.
Tensor fftn(const Tensor& z, const AxesOptions& options = {});
Tensor ifftn(const Tensor& z, const AxesOptions& options = {});
Tensor rfftn(const Tensor& x, const AxesOptions& options = {});
Tensor irfftn(const Tensor& spectrum, const AxesOptions& options = {});
Tensor fft2(const Tensor& z, const AxesOptions& options = {});
Tensor ifft2(const Tensor& z, const AxesOptions& options = {});
Tensor rfft2(const Tensor& x, const AxesOptions& options = {});
Tensor irfft2(const Tensor& spectrum, const AxesOptions& options = {});

/// The frequencies k / (n d) of rfft's bins, for samples d apart. fftfreq: of fft's bins, which are
/// 0, 1, ..., then the negative ones: ..., -2, -1.
Tensor rfftfreq(int64_t n, double d = 1, DType dtype = DType::f32);
Tensor fftfreq(int64_t n, double d = 1, DType dtype = DType::f32);

/// Rolls the axes so that frequency 0 comes to the middle; ifftshift undoes this. Negative axes of
/// a complex tensor count its axis of 2, as in all functions that take any tensor.
Tensor fftshift(const Tensor& x, const Dims& axes);
Tensor ifftshift(const Tensor& x, const Dims& axes);

}  // namespace tern::fft
