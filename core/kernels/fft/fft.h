// Discrete Fourier transforms of contiguous lines of any length. Computes in double, for float
// too. Complex numbers are pairs (real, imaginary). Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// y[k] = sum x[j] e^(-2 pi i j k / n), k = 0 ... n / 2: x (lines, n), y (lines, n / 2 + 1, 2).
template <class T>
void rfft(const T* x, T* y, int64_t lines, int64_t n);

/// x[j] = sum over all n frequencies y[k] e^(2 pi i j k / n). y holds the first n / 2 + 1; the
/// others are their complex conjugates. Imaginary parts of self-conjugate frequencies are ignored.
template <class T>
void irfft(const T* y, T* x, int64_t lines, int64_t n);

/// y[k] = sum x[j] e^(-+ 2 pi i j k / n), plus if inverse: x and y (lines, n, 2).
template <class T>
void fft(const T* x, T* y, int64_t lines, int64_t n, bool inverse);

}  // namespace tern::kernels
