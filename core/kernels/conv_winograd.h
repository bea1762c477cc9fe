// 3 x 3 convolutions of f32 with stride 1 by Winograd's minimal filtering, F(2 x 2, 3 x 3) and for
// gradients by w F(3 x 3, 2 x 2): 16 multiplications for four outputs in place of 36 (Lavin & Gray
// 2016, "Fast algorithms for convolutional neural networks"). Bits depend on the shape alone, as
// those of all products. Inside of core only.
#pragma once

#include "tern/core/kernels/conv.h"

namespace tern::kernels {

/// Whether a convolution has the form for it, and gains.
bool winograd_takes(const Conv& c);

/// As conv() and conv_input_grad(). REQUIRES: winograd_takes(c).
void conv_winograd(const Conv& c, const float* x, const float* w, const float* bias, float* y);
void conv_input_winograd(const Conv& c, const float* dy, const float* w, float* dx);

/// The sums over squares first, ..., last - 1 of dw's channels in some blocks of
/// Windows::kChannels: to (out, features), in the order of Windows::Order::pixels.
/// REQUIRES: winograd_takes(c).
int64_t winograd_squares(const Conv& c);
void weight_panel_winograd(const Conv& c, const float* x, const float* dy, int64_t first_block,
                           int64_t last_block, int64_t first, int64_t last, float* to);

}  // namespace tern::kernels
