// The short-time Fourier transform: frames are windows along the last axis, their sum is a fold.
#include "tern/core/ops/fft/stft.h"

#include <cmath>
#include <numbers>

#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/fft/fft.h"
#include "tern/core/tape/record.h"

namespace tern::fft {
namespace {

/// A call's sizes, and its window with n elements.
struct Frames {
  int64_t n, hop;
  Tensor window;

  Frames(const char* name, const Tensor& x, int64_t length, const StftOptions& o)
      : n(length), hop(o.hop != 0 ? o.hop : length / 4) {
    check_defined(name, x);
    check(is_float(x.dtype()), "{}: needs f32 or f64, got {}; convert with .to(DType::f32)", name,
          x.dtype());
    check(n >= 1 && hop >= 1, "{}: frames of {} samples, {} apart; both must be at least 1", name,
          n, hop);
    window = o.window.defined() ? o.window : ones({n}, x.dtype());
    check(window.ndim() == 1 && window.size(0) >= 1 && window.size(0) <= n &&
              window.dtype() == x.dtype(),
          "{}: the window has one axis of 1 to {} elements in {}, got {} {}", name, n, x.dtype(),
          window.dtype(), window.shape());
    const int64_t rest = n - window.size(0);
    window = pad(window, {rest / 2, rest - rest / 2});
  }
  Norm norm(const StftOptions& o) const { return o.normalized ? Norm::ortho : Norm::backward; }
  /// (B, n, frames) -> (B, samples).
  Tensor added(const Tensor& frames) const {
    const char* name = "fft::istft";
    const int64_t samples = checked_sum(name, n, checked_product(name, hop, frames.size(2) - 1));
    return select(select(fold(frames, {1, samples}, {.kernel = {1, n}, .stride = {1, hop}}), 1, 0),
                  1, 0);
  }
};

Tensor cosine_window(const char* name, double middle, int64_t n, bool periodic, DType dtype) {
  check(n >= 1, "{}: a window of {} elements; it needs at least 1", name, n);
  if (n == 1) return ones({1}, dtype);
  const auto period = static_cast<double>(periodic ? n : n - 1);
  const Tensor angle = arange(0, n, 1, DType::f64) * (2 * std::numbers::pi / period);
  return (middle - (1 - middle) * cos(angle)).to(dtype);
}

}  // namespace

Tensor stft(const Tensor& x, int64_t n, const StftOptions& options) {
  const char* name = "fft::stft";
  const Frames f(name, x, n, options);
  check(x.ndim() >= 1, "{}: needs a signal, got the shape {}", name, x.shape());
  const int64_t edge = options.center ? n / 2 : 0;
  check(x.size(-1) > edge || options.padding != PaddingMode::reflect || edge == 0,
        "{}: reflect pads {} samples at each end, which a signal of {} does not have", name, edge,
        x.size(-1));
  const Tensor padded = edge > 0 ? pad(x, {edge, edge}, options.padding) : x;
  check(padded.size(-1) >= n, "{}: a signal of {} samples is shorter than a frame of {}", name,
        padded.size(-1), n);
  const Tensor frames = unfold(padded, -1, n, f.hop) * f.window;
  return transpose(rfft(frames, {.norm = f.norm(options)}), -3, -2);
}

Tensor istft(const Tensor& spectrum, int64_t n, const StftOptions& options,
             std::optional<int64_t> length) {
  const char* name = "fft::istft";
  const Frames f(name, spectrum, n, options);
  check(spectrum.ndim() >= 3 && spectrum.size(-1) == 2 && spectrum.size(-3) == n / 2 + 1,
        "{}: frames of {} samples have spectra (..., {}, frames, 2), got {}", name, n, n / 2 + 1,
        spectrum.shape());
  const int64_t count = spectrum.size(-2);
  check(count >= 1, "{}: needs at least one frame, got the shape {}", name, spectrum.shape());
  const Shape front(spectrum.shape().begin(), spectrum.shape().end() - 3);
  const Tensor frames =
      irfft(transpose(spectrum, -3, -2), {.n = n, .norm = f.norm(options)}) * f.window;
  const Tensor sum = f.added(transpose(reshape(frames, {numel(front), count, n}), 1, 2));
  const Tensor weight = f.added(expand(view(square(f.window), {1, n, 1}), {1, n, count}));
  const int64_t first = options.center ? n / 2 : 0;
  const int64_t whole = sum.size(1) - 2 * first,
                kept = std::min(length.value_or(whole), whole + first);
  check(length.value_or(0) >= 0, "{}: the length is {}, less than 0", name, length.value_or(0));
  check(kept >= 0, "{}: {} frames, {} apart, leave no signal", name, count, f.hop);
  const Tensor divisor = narrow(weight, 1, first, kept);
  check(any(logical_not(gt(divisor, 1e-11))).item<int>() == 0,
        "{}: the windows leave out samples of the signal: their squares add up to 0 there", name);
  Tensor y = narrow(sum, 1, first, kept) / divisor;
  if (length) y = pad(y, {0, *length - kept});
  Shape out = front;
  out.push_back(y.size(1));
  return reshape(y, out);
}

Tensor hann_window(int64_t n, bool periodic, DType dtype) {
  return cosine_window("fft::hann_window", 0.5, n, periodic, dtype);
}
Tensor hamming_window(int64_t n, bool periodic, DType dtype) {
  return cosine_window("fft::hamming_window", 0.54, n, periodic, dtype);
}

}  // namespace tern::fft
