// Random changes of training pictures, and the way from bytes to the numbers a network sees.
// All randomness comes from the Rng that is passed: the same generator, the same picture.
#pragma once

#include <array>
#include <string_view>

#include "tern/core/base/rng.h"
#include "tern/core/tensor/tensor.h"
#include "tern/data/images/image.h"

namespace tern::data {

/// (byte / 255 - mean) / std for each channel. The defaults are those of CIFAR-10's training set.
struct Normalization {
  std::array<double, kImageChannels> mean = {0.4914, 0.4822, 0.4465};
  std::array<double, kImageChannels> std = {0.2470, 0.2435, 0.2616};
};

/// What is done to a picture, in this order; nothing by default.
struct AugmentOptions {
  int crop_padding = 0;  ///< random 32x32 crop of the picture with so many black pixels around
  bool flip = false;     ///< mirrored left to right with probability 1/2
  int randaugment = 0;   ///< how many random operations of RandAugment
  double magnitude = 9;  ///< of them, 0 to 30
  int cutout = 0;        ///< side of a square that becomes 0 after normalisation

  /// none | standard (crop of 4, flip) | strong (standard, 2 operations of magnitude 9, cutout of
  /// 8); Error for another name.
  static AugmentOptions named(std::string_view name);
};

/// RandAugment (Cubuk et al. 2019, arXiv:1909.13719): `count` operations, drawn from identity,
/// autocontrast, equalize, rotate, solarize, color, posterize, contrast, brightness, sharpness,
/// shear x/y and translate x/y, each at `magnitude` (0 to 30, scales as in torchvision) with a
/// random sign. Pixels from outside are grey (128).
Image rand_augment(const Image& x, int count, double magnitude, Rng& rng);

/// Writes the normalised picture (3, 32, 32) to `out`.
void normalize(const Image& x, const Normalization& normalization, float* out);

/// Augments, normalises and writes a picture (3, 32, 32) to `out`.
void augment(const Image& x, const AugmentOptions& options, const Normalization& normalization,
             Rng& rng, float* out);

// ---- Mixing the pictures of a batch ------------------------------------------------------------
/// alpha of Beta(alpha, alpha), from which the share is drawn; 0: off. With both on, each batch
/// takes one of them by a coin.
struct MixOptions {
  double mixup = 0;   ///< Zhang et al. 2017, arXiv:1710.09412
  double cutmix = 0;  ///< Yun et al. 2019, arXiv:1905.04899
  bool on() const { return mixup > 0 || cutmix > 0; }
};

/// From Beta(alpha, alpha), alpha > 0: in [0, 1].
double sample_beta(double alpha, Rng& rng);

/// Mixes images (B, C, H, W), contiguous f32, in place: picture i gets 1 - lambda of picture i + 1
/// (the last of the first), blended or as a rectangle. Returns lambda, the share of picture i.
double mix_images(const Tensor& images, const MixOptions& options, Rng& rng);

/// Soft targets (B, classes) of mixed pictures: lambda at labels[i], the rest at labels[i + 1].
Tensor mix_targets(const Tensor& labels, int64_t classes, double lambda);

}  // namespace tern::data
