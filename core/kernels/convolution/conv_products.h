// Convolutions of f32 as matrix products of our own tiles, in f32 or bf16 (matmul_precision()). The
// windows of the pictures are one operand, which exists only where it is packed (conv_windows.h).
// Results have the same bits on any number of threads and at any vector level.
// REQUIRES, for all functions: bf16 products, or not products_by_blas(). Inside of core only.
#pragma once

#include "tern/core/kernels/convolution/conv.h"
#include "tern/core/kernels/products/matrix.h"

namespace tern::kernels {

/// As conv(), conv_input_grad() and conv_weight_grad().
void conv_products(const Conv& c, Factor x, const float* w, const float* bias, float* y);
void conv_input_products(const Conv& c, const float* dy, const float* w, float* dx);
void conv_weight_products(const Conv& c, Factor x, const float* dy, float* dw);

}  // namespace tern::kernels
