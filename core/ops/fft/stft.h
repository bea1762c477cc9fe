// Spectra of short pieces of a signal (the short-time Fourier transform), and the windows for them:
// spectrograms, speech and music. Spectra are those of fft.h.
#pragma once

#include <optional>

#include "tern/core/ops/convolution/spatial.h"
#include "tern/core/ops/ops.h"

namespace tern::fft {

struct StftOptions {
  int64_t hop = 0;     ///< samples from a frame to the next; 0: n / 4
  Tensor window = {};  ///< (W), W <= n: factors in the middle of a frame; undefined: n ones
  /// Frame t has sample t hop in its middle: the signal is padded by n / 2 at both ends. Else frame
  /// t begins at sample t hop.
  bool center = true;
  PaddingMode padding = PaddingMode::reflect;  ///< of both ends
  bool normalized = false;                     ///< divides spectra by sqrt(n)
};

/// x (..., T) -> (..., n / 2 + 1, frames, 2): the rfft of each frame of n samples times the window.
/// As torch.stft with return_complex=False.
Tensor stft(const Tensor& x, int64_t n, const StftOptions& options = {});

/// The signal (..., T) of a spectrum (..., n / 2 + 1, frames, 2): frames times the window, added
/// and divided by the sum of the squared windows. With the options of stft() it is its inverse, but
/// for samples at the end that no frame reached. `length`: T, cropped or filled with zeros. Error
/// if the windows leave out a sample in between. As torch.istft.
Tensor istft(const Tensor& spectrum, int64_t n, const StftOptions& options = {},
             std::optional<int64_t> length = {});

/// (n): sin^2(pi i / n), and 0.54 - 0.46 cos(2 pi i / n). periodic: false divides by n - 1, so that
/// the last element equals the first.
Tensor hann_window(int64_t n, bool periodic = true, DType dtype = DType::f32);
Tensor hamming_window(int64_t n, bool periodic = true, DType dtype = DType::f32);

}  // namespace tern::fft
