// Fourier transforms with kissfft. Lengths with a large prime factor use Bluestein's algorithm. Two
// real lines share one complex transform.
#include "tern/core/kernels/fft/fft.h"

#include <bit>
#include <kissfft.hh>
#include <numbers>
#include <optional>
#include <vector>

#include "tern/core/base/threads.h"

namespace tern::kernels {
namespace {

using Complex = std::complex<double>;
using Line = std::vector<Complex>;
using Fft = kissfft<double>;  // one per thread, since it has working memory

constexpr int64_t kFftGrain = 4096;     // numbers per thread, at least
constexpr int64_t kLargestFactor = 31;  // kissfft needs n p operations for a prime factor p

int64_t largest_factor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p) largest = p;
  return n > 1 ? n : largest;
}

/// Sums of n products with a chirp, as a convolution whose length is a power of two (Bluestein
/// 1970): j k = (j^2 + k^2 - (k - j)^2) / 2.
class Chirp {
 public:
  Chirp(int64_t n, bool inverse)
      : n_(static_cast<size_t>(n)),
        size_(std::bit_ceil(2 * n_)),
        forward_(size_, false),
        backward_(size_, true) {
    chirp_.resize(n_);
    uint64_t square = 0;  // j^2 modulo 2 n
    for (size_t j = 0; j < n_; ++j) {
      const double angle = std::numbers::pi * static_cast<double>(square) / static_cast<double>(n);
      chirp_[j] = std::polar(1.0, inverse ? angle : -angle);
      square = (square + 2 * j + 1) % (2 * n_);
    }
    Line filter(size_);
    filter[0] = std::conj(chirp_[0]);
    for (size_t j = 1; j < n_; ++j) filter[j] = filter[size_ - j] = std::conj(chirp_[j]);
    filter_.resize(size_);
    forward_.transform(filter.data(), filter_.data());
  }
  void operator()(const Complex* in, Complex* out) const {
    Line line(size_), spectrum(size_);
    for (size_t j = 0; j < n_; ++j) line[j] = in[j] * chirp_[j];
    forward_.transform(line.data(), spectrum.data());
    for (size_t k = 0; k < size_; ++k) spectrum[k] *= filter_[k];
    backward_.transform(spectrum.data(), line.data());
    for (size_t k = 0; k < n_; ++k) out[k] = line[k] * chirp_[k] / static_cast<double>(size_);
  }

 private:
  size_t n_, size_;
  Fft forward_, backward_;
  Line chirp_, filter_;
};

/// The transform of n complex numbers in either direction, not scaled.
class Dft {
 public:
  Dft(int64_t n, bool inverse) {
    if (largest_factor(n) > kLargestFactor)
      chirp_.emplace(n, inverse);
    else
      fft_.emplace(static_cast<size_t>(n), inverse);
  }
  void operator()(const Complex* in, Complex* out) const {
    if (chirp_)
      (*chirp_)(in, out);
    else
      fft_->transform(in, out);
  }

 private:
  std::optional<Fft> fft_;
  std::optional<Chirp> chirp_;
};

// Calls fn(plan, line, number of lines) for pairs of lines, which are the real and imaginary part
// of one transform.
template <class Fn>
void for_each_pair(int64_t lines, int64_t n, bool inverse, Fn fn) {
  const Dft plan(n, inverse);
  parallel_for((lines + 1) / 2, kFftGrain / n + 1, [&](int64_t begin, int64_t end) {
    const Dft own = plan;
    for (int64_t pair = begin; pair < end; ++pair)
      fn(own, 2 * pair, std::min<int64_t>(2, lines - 2 * pair));
  });
}

}  // namespace

// For z = x + i x': X_k = (Z_k + conj(Z_{n-k})) / 2 and X'_k = (Z_k - conj(Z_{n-k})) / 2i.
template <class T>
void rfft(const T* x, T* y, int64_t lines, int64_t n) {
  const int64_t half = n / 2 + 1;
  for_each_pair(lines, n, false, [=](const Dft& dft, int64_t line, int64_t count) {
    Line in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
    const T* first = x + line * n;
    for (int64_t j = 0; j < n; ++j)
      in[static_cast<size_t>(j)] = {double{first[j]}, count > 1 ? double{first[n + j]} : 0.0};
    dft(in.data(), out.data());
    for (int64_t k = 0; k < half; ++k) {
      const Complex z = out[static_cast<size_t>(k)];
      const Complex mirrored = std::conj(out[static_cast<size_t>(k == 0 ? 0 : n - k)]);
      const Complex sum = z + mirrored, difference = z - mirrored;
      T* to = y + (line * half + k) * 2;
      to[0] = static_cast<T>(sum.real() / 2);
      to[1] = static_cast<T>(sum.imag() / 2);
      if (count < 2) continue;
      to[2 * half] = static_cast<T>(difference.imag() / 2);
      to[2 * half + 1] = static_cast<T>(-difference.real() / 2);
    }
  });
}

// For two spectra: Y + i Y' has the two lines as real and imaginary part.
template <class T>
void irfft(const T* y, T* x, int64_t lines, int64_t n) {
  const int64_t half = n / 2 + 1;
  for_each_pair(lines, n, true, [=](const Dft& dft, int64_t line, int64_t count) {
    Line in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
    auto at = [=](int64_t l, int64_t k) {
      const T* from = y + (l * half + k) * 2;
      const bool own_mirror = k == 0 || 2 * k == n;
      return Complex(double{from[0]}, own_mirror ? 0.0 : double{from[1]});
    };
    for (int64_t k = 0; k < half; ++k) {
      const Complex a = at(line, k), b = count > 1 ? at(line + 1, k) : Complex();
      const Complex i(0, 1);
      if (k > 0) in[static_cast<size_t>(n - k)] = std::conj(a) + i * std::conj(b);
      in[static_cast<size_t>(k)] = a + i * b;
    }
    dft(in.data(), out.data());
    T* first = x + line * n;
    for (int64_t j = 0; j < n; ++j) {
      first[j] = static_cast<T>(out[static_cast<size_t>(j)].real());
      if (count > 1) first[n + j] = static_cast<T>(out[static_cast<size_t>(j)].imag());
    }
  });
}

template void rfft(const float*, float*, int64_t, int64_t);
template void rfft(const double*, double*, int64_t, int64_t);
template void irfft(const float*, float*, int64_t, int64_t);
template void irfft(const double*, double*, int64_t, int64_t);

}  // namespace tern::kernels
