// Fourier transforms of real signals: PyTorch's torch.fft.rfft and irfft, where a spectrum is a
// tensor with a last axis of 2 (real and imaginary parts, as torch.view_as_real gives it). There
// are no complex tensors; products of spectra are in complex.h. Any length; lengths whose prime
// factors are small are fast.
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern::fft {

/// Which way is divided by n: back, both (by its root), or forth.
enum class Norm { backward, ortho, forward };

struct Options {
  std::optional<int64_t> n = {};  ///< length of the signal: cropped, or padded with zeros
  int64_t axis = -1;              ///< of the signal, the axis of 2 not counted
  Norm norm = Norm::backward;
};

/// X[k] = sum_j x[j] e^(-2 pi i j k / n), k = 0 ... n / 2: an axis of n becomes one of n / 2 + 1,
/// and an axis of 2 comes last.
Tensor rfft(const Tensor& x, const Options& options = {});

/// The way back: (..., n / 2 + 1, ..., 2) -> (..., n, ...). By default n is even: 2 (frequencies -
/// 1). As in PyTorch the imaginary parts of frequency 0 and, if n is even, n / 2 are not read.
Tensor irfft(const Tensor& spectrum, const Options& options = {});

/// The frequencies k / (n d) of rfft's bins for samples d apart.
Tensor rfftfreq(int64_t n, double d = 1, DType dtype = DType::f32);

}  // namespace tern::fft
