// Convolutions (cross-correlations, as in PyTorch) and transposed convolutions over one, two or
// three spatial axes. B batch, C input channels, O output channels. A single image needs a batch
// axis: unsqueeze(x, 0).
#pragma once

#include "tern/core/ops/convolution/spatial.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

template <class Size>
struct ConvOptions {
  Size stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  PaddingMode padding_mode = PaddingMode::zeros;  ///< how the padding is filled
  /// PyTorch's padding = "same": pads so that the output keeps the input's size (an odd pad goes
  /// to the end). Requires stride 1 and padding 0.
  bool same_padding = false;
};
using Conv1dOptions = ConvOptions<int64_t>;
using Conv2dOptions = ConvOptions<Size2>;
using Conv3dOptions = ConvOptions<Size3>;

/// x (B, C, L), w (O, C/groups, K), b (O) or undefined -> (B, O, L') with
/// L' = (L + 2*padding - dilation*(K-1) - 1) / stride + 1.
Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv1dOptions& options = {});
/// x (B, C, H, W), w (O, C/groups, KH, KW), b (O) or undefined -> (B, O, H', W').
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv2dOptions& options = {});
/// x (B, C, D, H, W), w (O, C/groups, KD, KH, KW), b (O) or undefined -> (B, O, D', H', W').
Tensor conv3d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv3dOptions& options = {});

template <class Size>
struct ConvTransposeOptions {
  Size stride = 1, padding = 0;
  Size output_padding = 0;  ///< added at one end of the output; less than stride or dilation
  int64_t groups = 1;
  Size dilation = 1;
};
using ConvTranspose1dOptions = ConvTransposeOptions<int64_t>;
using ConvTranspose2dOptions = ConvTransposeOptions<Size2>;
using ConvTranspose3dOptions = ConvTransposeOptions<Size3>;

/// The gradient, with respect to its input, of a convolution with these options (except
/// output_padding): x (B, C, L), w (C, O/groups, K), b (O) or undefined -> (B, O, L') with
/// L' = (L-1)*stride - 2*padding + dilation*(K-1) + output_padding + 1.
Tensor conv_transpose1d(const Tensor& x, const Tensor& w, const Tensor& b = {},
                        const ConvTranspose1dOptions& options = {});
/// x (B, C, H, W), w (C, O/groups, KH, KW).
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Tensor& b = {},
                        const ConvTranspose2dOptions& options = {});
/// x (B, C, D, H, W), w (C, O/groups, KD, KH, KW).
Tensor conv_transpose3d(const Tensor& x, const Tensor& w, const Tensor& b = {},
                        const ConvTranspose3dOptions& options = {});

struct UnfoldOptions {
  Size2 kernel;
  Size2 dilation = 1, padding = 0, stride = 1;
};
/// The windows of a convolution as columns (im2col): x (B, C, H, W) -> (B, C*KH*KW, L), L windows.
/// As torch.nn.functional.unfold. Windows along one axis: unfold(x, axis, size, step) of ops.h.
Tensor unfold(const Tensor& x, const UnfoldOptions& options);
/// Sums windows back into an image, adding where they overlap: x (B, C*KH*KW, L) -> (B, C, H, W)
/// with output_size = (H, W). The transpose of unfold with the same options.
Tensor fold(const Tensor& x, Size2 output_size, const UnfoldOptions& options);

}  // namespace tern
