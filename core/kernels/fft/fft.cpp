// Fourier transforms with kissfft. Lengths with a large prime factor use Bluestein's algorithm. A
// real line of even length is one complex transform of half its length.
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

Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Transforms real lines of n numbers. If n is even, a line is n / 2 complex numbers: elements 2 j
/// are their real parts. Each line has a transform of its own: none changes another one's rounding.
struct RealLines {
  int64_t n, size;  // size: of the complex transform
  Dft dft;
  Line turns;  // e^(-+ 2 pi i k / n), k = 0 ... size, if n is even

  RealLines(int64_t length, bool inverse)
      : n(length), size(is_even() ? n / 2 : n), dft(size, inverse) {
    const double step = (inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(n);
    for (int64_t k = 0; is_even() && k <= size; ++k)
      turns.push_back(std::polar(1.0, step * static_cast<double>(k)));
  }
  bool is_even() const { return n % 2 == 0; }

  /// Calls fn(plan, line, two working arrays of `size` numbers) for all lines.
  template <class Fn>
  void for_each(int64_t lines, Fn fn) const {
    parallel_for(lines, kFftGrain / n + 1, [&](int64_t begin, int64_t end) {
      const Dft own = dft;
      Line in(static_cast<size_t>(size)), out(in.size());
      for (int64_t line = begin; line < end; ++line) fn(own, line, in.data(), out.data());
    });
  }
};

}  // namespace

// Even n: with m = n / 2 and W = conj(Z_{m-k}),
//   X_k = (Z_k + W) / 2 + e^(-2 pi i k / n) (Z_k - W) / 2i.
template <class T>
void rfft(const T* x, T* y, int64_t lines, int64_t n) {
  const int64_t half = n / 2 + 1;
  const RealLines plan(n, false);
  plan.for_each(lines, [=, &plan](const Dft& dft, int64_t line, Complex* in, Complex* out) {
    const T* from = x + line * n;
    T* to = y + line * half * 2;
    const int64_t m = plan.size;
    for (int64_t j = 0; j < m; ++j)
      in[j] = plan.is_even() ? Complex(double{from[2 * j]}, double{from[2 * j + 1]})
                             : Complex(double{from[j]}, 0.0);
    dft(in, out);
    for (int64_t k = 0; k < half; ++k) {
      Complex result = out[k % m];
      if (plan.is_even() && k % m == 0) {  // the sum and the alternating sum of the line
        result = k == 0 ? out[0].real() + out[0].imag() : out[0].real() - out[0].imag();
      } else if (plan.is_even()) {
        const Complex mirrored = std::conj(out[(m - k) % m]);
        const Complex difference = result - mirrored;
        const Complex odd(difference.imag(), -difference.real());
        result = (result + mirrored + times(odd, plan.turns[static_cast<size_t>(k)])) / 2.0;
      }
      to[2 * k] = static_cast<T>(result.real());
      to[2 * k + 1] = k == 0 || 2 * k == n ? T(0) : static_cast<T>(result.imag());
    }
  });
}

// Even n: z is the transform of Y_k + conj(Y_{m-k}) + i e^(2 pi i k / n) (Y_k - conj(Y_{m-k})).
template <class T>
void irfft(const T* y, T* x, int64_t lines, int64_t n) {
  const int64_t half = n / 2 + 1;
  const RealLines plan(n, true);
  plan.for_each(lines, [=, &plan](const Dft& dft, int64_t line, Complex* in, Complex* out) {
    const auto at = [=](int64_t k) {
      const T* from = y + (line * half + k) * 2;
      const bool own_mirror = k == 0 || 2 * k == n;
      return Complex(double{from[0]}, own_mirror ? 0.0 : double{from[1]});
    };
    T* to = x + line * n;
    const int64_t m = plan.size;
    if (plan.is_even()) {
      for (int64_t k = 0; k < m; ++k) {
        const Complex a = at(k), b = std::conj(at(m - k));
        const Complex odd = times(a - b, plan.turns[static_cast<size_t>(k)]);
        in[k] = a + b + Complex(-odd.imag(), odd.real());
      }
    } else {
      in[0] = at(0);
      for (int64_t k = 1; k < half; ++k) {
        in[k] = at(k);
        in[n - k] = std::conj(in[k]);
      }
    }
    dft(in, out);
    for (int64_t j = 0; j < m; ++j) {
      to[plan.is_even() ? 2 * j : j] = static_cast<T>(out[j].real());
      if (plan.is_even()) to[2 * j + 1] = static_cast<T>(out[j].imag());
    }
  });
}

template <class T>
void fft(const T* x, T* y, int64_t lines, int64_t n, bool inverse) {
  const Dft dft(n, inverse);
  parallel_for(lines, kFftGrain / n + 1, [&](int64_t begin, int64_t end) {
    const Dft own = dft;
    Line in(static_cast<size_t>(n)), out(in.size());
    for (int64_t line = begin; line < end; ++line) {
      const T* from = x + line * n * 2;
      T* to = y + line * n * 2;
      for (int64_t j = 0; j < n; ++j) in[j] = Complex(double{from[2 * j]}, double{from[2 * j + 1]});
      own(in.data(), out.data());
      for (int64_t k = 0; k < n; ++k) {
        to[2 * k] = static_cast<T>(out[k].real());
        to[2 * k + 1] = static_cast<T>(out[k].imag());
      }
    }
  });
}

template void rfft(const float*, float*, int64_t, int64_t);
template void rfft(const double*, double*, int64_t, int64_t);
template void irfft(const float*, float*, int64_t, int64_t);
template void irfft(const double*, double*, int64_t, int64_t);

template void fft(const float*, float*, int64_t, int64_t, bool);
template void fft(const double*, double*, int64_t, int64_t, bool);

}  // namespace tern::kernels
