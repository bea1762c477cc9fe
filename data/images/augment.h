// Random changes of training pictures, and conversion from bytes to network inputs. All random
// numbers come from the given Rng: the same generator gives the same picture.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "tern/core/base/rng.h"
#include "tern/core/tensor/tensor.h"
#include "tern/data/images/image.h"

namespace tern::datasets {

/// (byte / 255 - mean) / std for each channel. The defaults are those of CIFAR-10's training set.
struct Normalization {
  std::array<double, kImageChannels> mean = {0.4914, 0.4822, 0.4465};
  std::array<double, kImageChannels> std = {0.2470, 0.2435, 0.2616};
};

/// The changes of an image, in this order; none by default.
struct AugmentOptions {
  /// Black pixels added at each side, before a random crop of the picture's own size.
  int crop_padding = 0;
  bool reflect = false;  ///< the added pixels are the picture, reflected at its borders
  bool flip = false;     ///< mirrored left to right with probability 1/2
  /// With `flip`, in loaders: a random half of the pictures is mirrored in even epochs, the others
  /// in odd ones, so that two epochs show each picture both ways (Jordan 2024, arXiv:2404.00498).
  bool alternate_flips = false;
  int randaugment = 0;   ///< number of random RandAugment operations
  double magnitude = 9;  ///< their magnitude, 0 to 30
  int cutout = 0;        ///< side of a square set to 0 after normalisation

  /// none | translate (crop of 2, reflected, flip) | standard (crop of 4, flip) | strong (standard,
  /// 2 operations of magnitude 9, cutout of 8). Error for other names.
  static AugmentOptions named(std::string_view name);
};

/// RandAugment (Cubuk et al. 2019, arXiv:1909.13719): `count` random operations out of identity,
/// autocontrast, equalize, rotate, solarize, color, posterize, contrast, brightness, sharpness,
/// shear x/y and translate x/y, each at `magnitude` (0 to 30, scales as in torchvision) with a
/// random sign. Pixels from outside are grey (128).
SquarePicture rand_augment(const SquarePicture& x, int count, double magnitude, Rng& rng);

/// Writes the normalised picture (3, S, S) to `out`.
void normalize(const SquarePicture& x, const Normalization& normalization, float* out);

/// Augments, normalises and writes a picture (3, S, S) to `out`. `mirrored` decides whether to
/// mirror it; without a value, `options.flip` and chance decide. Error: a negative option, a
/// magnitude outside of [0, 30], or a reflected border as wide as the picture.
void augment(const SquarePicture& x, const AugmentOptions& options,
             const Normalization& normalization, Rng& rng, float* out,
             std::optional<bool> mirrored = {});

// ---- Mixing the images of a batch --------------------------------------------------------------
/// alpha of the Beta(alpha, alpha) from which lambda is drawn; 0: off, negative: an Error. If both
/// are on, each batch randomly uses one of them.
struct MixOptions {
  double mixup = 0;   ///< Zhang et al. 2017, arXiv:1710.09412
  double cutmix = 0;  ///< Yun et al. 2019, arXiv:1905.04899
  bool on() const { return mixup != 0 || cutmix != 0; }
};

/// Draws from Beta(alpha, alpha): in [0, 1]. Error: alpha is not above 0, or not finite.
double sample_beta(double alpha, Rng& rng);

/// Mixes images (B, C, H, W), contiguous f32, in place: image i takes a share of 1 - lambda from
/// image i + 1 (the last image from the first), blended or as a rectangle. Returns lambda, the
/// weight of image i.
double mix_images(const Tensor& images, const MixOptions& options, Rng& rng);

/// Soft targets (B, classes) of mixed images: lambda for labels[i], the rest for labels[i + 1].
Tensor mix_targets(const Tensor& labels, int64_t classes, double lambda);

}  // namespace tern::datasets
