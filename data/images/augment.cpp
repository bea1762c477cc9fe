// Shifts, mirrors, normalises and cuts out training pictures, and applies RandAugment. mix.cpp
// mixes the images of a batch.
#include "tern/data/images/augment.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/data/images/image_ops.h"

namespace tern::datasets {
namespace {

constexpr uint8_t kGray = 128;
constexpr double kMostMagnitude = 30;

// An operation of RandAugment at a level of 0 ... 1, or -1 ... 1 if it has a sign.
struct Operation {
  SquarePicture (*apply)(const SquarePicture& x, double level);
  bool has_sign;
};

// The translation in pixels: 150 / 331 of the side at level 1; 331 is ImageNet's side.
int translation(const SquarePicture& x, double level) {
  return static_cast<int>(150.0 / 331 * picture_side(x) * level);
}

float factor(double level) { return static_cast<float>(1 + 0.9 * level); }

// The least byte that is not below 255 (1 - level). 1e-9 makes up for rounding.
int solarize_threshold(double level) {
  return static_cast<int>(std::ceil(255 * (1 - level) - 1e-9));
}

constexpr Operation kOperations[] = {
    {[](const SquarePicture& x, double) { return x; }, false},
    {[](const SquarePicture& x, double) { return autocontrast(x); }, false},
    {[](const SquarePicture& x, double) { return equalize(x); }, false},
    {[](const SquarePicture& x, double l) { return rotate(x, 30 * l, kGray); }, true},
    {[](const SquarePicture& x, double l) { return solarize(x, solarize_threshold(l)); }, false},
    {[](const SquarePicture& x, double l) { return adjust_color(x, factor(l)); }, true},
    {[](const SquarePicture& x, double l) {
       return posterize(x, 8 - static_cast<int>(4 * l + .5));
     },
     false},
    {[](const SquarePicture& x, double l) { return adjust_contrast(x, factor(l)); }, true},
    {[](const SquarePicture& x, double l) { return adjust_brightness(x, factor(l)); }, true},
    {[](const SquarePicture& x, double l) { return adjust_sharpness(x, factor(l)); }, true},
    {[](const SquarePicture& x, double l) {
       return affine(x, {1, .3 * l, 0, 0, 1, 0}, kGray);
     },
     true},
    {[](const SquarePicture& x, double l) {
       return affine(x, {1, 0, 0, .3 * l, 1, 0}, kGray);
     },
     true},
    {[](const SquarePicture& x, double l) {
       return shift_flip(x, translation(x, l), 0, false, kGray);
     },
     true},
    {[](const SquarePicture& x, double l) {
       return shift_flip(x, 0, translation(x, l), false, kGray);
     },
     true},
};

// Sets a square to 0: side x side pixels around a random one of whole x whole, clipped at the
// borders.
void cut_out(float* image, int whole, int side, Rng& rng) {
  const int row = static_cast<int>(rng.below(whole)) - side / 2;
  const int col = static_cast<int>(rng.below(whole)) - side / 2;
  const int first = std::max(col, 0), last = std::min(col + side, whole);
  for (int c = 0; c < kImageChannels; ++c)
    for (int r = std::max(row, 0); r < std::min(row + side, whole); ++r) {
      float* line = image + (c * whole + r) * whole;
      std::fill(line + first, line + last, 0.0f);
    }
}

}  // namespace

AugmentOptions AugmentOptions::named(std::string_view name) {
  if (name == "none") return {};
  if (name == "standard") return {.crop_padding = 4, .flip = true};
  if (name == "translate") return {.crop_padding = 2, .reflect = true, .flip = true};
  check(name == "strong",
        "augment: unknown name \"{}\"; there are none, translate, standard and strong", name);
  return {.crop_padding = 4, .flip = true, .randaugment = 2, .magnitude = 9, .cutout = 8};
}

SquarePicture rand_augment(const SquarePicture& x, int count, double magnitude, Rng& rng) {
  check(magnitude >= 0 && magnitude <= kMostMagnitude,
        "rand_augment: magnitude must be in [0, {}], got {}", kMostMagnitude, magnitude);
  SquarePicture y = x;
  for (int i = 0; i < count; ++i) {
    const Operation& op = kOperations[rng.below(std::ssize(kOperations))];
    const bool negative = rng.next_u32() & 1;
    const double level = magnitude / kMostMagnitude;
    y = op.apply(y, op.has_sign && negative ? -level : level);
  }
  return y;
}

void normalize(const SquarePicture& x, const Normalization& n, float* out) {
  const int pixels = static_cast<int>(x.size()) / kImageChannels;
  for (int c = 0; c < kImageChannels; ++c) {
    const auto scale = static_cast<float>(1 / (255 * n.std[c]));
    const auto shift = static_cast<float>(-n.mean[c] / n.std[c]);
    simd([from = x.data() + c * pixels, to = out + c * pixels, scale, shift, pixels] {
      for (int i = 0; i < pixels; ++i) to[i] = static_cast<float>(from[i]) * scale + shift;
    });
  }
}

void augment(const SquarePicture& x, const AugmentOptions& options,
             const Normalization& normalization, Rng& rng, float* out,
             std::optional<bool> mirrored) {
  const AugmentOptions& o = options;
  check(o.crop_padding >= 0 && o.randaugment >= 0 && o.cutout >= 0,
        "augment: crop_padding {}, randaugment {} and cutout {} must not be negative",
        o.crop_padding, o.randaugment, o.cutout);
  check(!o.reflect || o.crop_padding < picture_side(x),
        "augment: a picture of side {} has no {} pixels to reflect; lower crop_padding",
        picture_side(x), o.crop_padding);
  const SquarePicture* current = &x;
  SquarePicture moved, changed;
  if (options.crop_padding > 0 || options.flip) {
    const int64_t places = 2 * options.crop_padding + 1;
    const int right = static_cast<int>(rng.below(places)) - options.crop_padding;
    const int down = static_cast<int>(rng.below(places)) - options.crop_padding;
    const bool flip = mirrored ? *mirrored : options.flip && (rng.next_u32() & 1);
    moved = options.reflect ? shift_flip_reflected(x, right, down, flip)
                            : shift_flip(x, right, down, flip);
    current = &moved;
  }
  if (options.randaugment > 0) {
    changed = rand_augment(*current, options.randaugment, options.magnitude, rng);
    current = &changed;
  }
  normalize(*current, normalization, out);
  if (options.cutout > 0) cut_out(out, picture_side(x), options.cutout, rng);
}

}  // namespace tern::datasets
