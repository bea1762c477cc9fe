// 3 x 3 convolutions of f32 with stride 1, and products in f32 or bf16, by Winograd's minimal
// filtering: F(2 x 2, 3 x 3), and for gradients by w F(3 x 3, 2 x 2). Four outputs take 16
// multiplications in place of 36 (Lavin & Gray 2016, "Fast algorithms for convolutional neural
// networks"). As for all products, bits depend only on the shape. Inside of core only.
#pragma once

#include "tern/core/kernels/convolution/conv.h"

namespace tern::kernels {

/// Whether the method applies to a convolution and is faster.
bool winograd_takes(const Conv& c);

/// As conv() and conv_input_grad(). REQUIRES: winograd_takes(c).
void conv_winograd(const Conv& c, Factor x, const float* w, const float* bias, float* y);
void conv_input_winograd(const Conv& c, const float* dy, const float* w, float* dx);

/// The number of squares of all pictures, and the sums of dw over squares first, ..., last - 1 for
/// channels in some blocks of Windows::kChannels: to (out, features), in the order of
/// Windows::Order::pixels. REQUIRES: winograd_takes(c).
int64_t winograd_squares(const Conv& c);
void weight_panel_winograd(const Conv& c, Factor x, const float* dy, int64_t first_block,
                           int64_t last_block, int64_t first, int64_t last, float* to);

}  // namespace tern::kernels
