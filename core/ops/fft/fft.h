// Fourier transforms of real signals: PyTorch's torch.fft.rfft and irfft. There is no complex
// dtype: a spectrum has a last axis of 2, the real and the imaginary part, as in
// torch.view_as_real. Products of spectra: complex.h. Any length works; lengths with small prime
// factors are fast.
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

/// The frequencies k / (n d) of rfft's bins, for samples d apart.
Tensor rfftfreq(int64_t n, double d = 1, DType dtype = DType::f32);

}  // namespace tern::fft
