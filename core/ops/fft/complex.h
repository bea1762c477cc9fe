// Complex numbers as real tensors whose last axis is 2 (real and imaginary part), as in fft.h and
// torch.view_as_real. Sums, products with real numbers, views and joins are those of ops.h. This
// page has the functions that mix the two parts. To build a complex tensor and to take it apart:
//
//   Tensor z = stack({re, im}, -1);
//   Tensor re = select(z, -1, 0), im = select(z, -1, 1);
//
// Shapes are given without the axis of 2. Operands are all f32 or all f64. Gradients are those of
// the real tensors, to any order. Errors name the function.
//
//   // y = u * kernel, causal, of length n, by the convolution theorem (S4D: Gu et al. 2022)
//   Tensor y = fft::irfft(
//       complex_mul(fft::rfft(u, {.n = 2 * n}), fft::rfft(kernel, {.n = 2 * n})));
//   y = narrow(y, -1, 0, n);
#pragma once

#include <string_view>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Elementwise; shapes broadcast.
Tensor complex_mul(const Tensor& a, const Tensor& b);
/// Negates the imaginary part.
Tensor complex_conj(const Tensor& z);
/// |z|, without the axis of 2. Sums squares in f64, so that f32 does not overflow. Gradient 0 at 0.
Tensor complex_abs(const Tensor& z);
/// e^re (cos im + i sin im).
Tensor complex_exp(const Tensor& z);
/// matmul of complex matrices (..., M, K) x (..., K, N); leading axes broadcast.
Tensor complex_matmul(const Tensor& a, const Tensor& b);
/// einsum of one or two complex operands; the equation does not name the axis of 2.
Tensor complex_einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace tern
