#include "tern/data/images/augment.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/data/images/image_ops.h"

namespace tern::data {
namespace {

constexpr uint8_t kGray = 128;
constexpr double kMostMagnitude = 30;
constexpr double kMostTranslation = 150.0 / 331 * kImageSide;  // pixels; 331: ImageNet's side

// An operation of RandAugment at a level of 0 ... 1, or -1 ... 1 if it has a sign.
struct Operation {
  Image (*apply)(const Image& x, double level);
  bool has_sign;
};

float factor(double level) { return static_cast<float>(1 + 0.9 * level); }

constexpr Operation kOperations[] = {
    {[](const Image& x, double) { return x; }, false},
    {[](const Image& x, double) { return autocontrast(x); }, false},
    {[](const Image& x, double) { return equalize(x); }, false},
    {[](const Image& x, double l) { return rotate(x, 30 * l, kGray); }, true},
    {[](const Image& x, double l) { return solarize(x, static_cast<int>(256 - 255 * l)); }, false},
    {[](const Image& x, double l) { return adjust_color(x, factor(l)); }, true},
    {[](const Image& x, double l) { return posterize(x, 8 - static_cast<int>(4 * l + .5)); },
     false},
    {[](const Image& x, double l) { return adjust_contrast(x, factor(l)); }, true},
    {[](const Image& x, double l) { return adjust_brightness(x, factor(l)); }, true},
    {[](const Image& x, double l) { return adjust_sharpness(x, factor(l)); }, true},
    {[](const Image& x, double l) {
       return affine(x, {1, .3 * l, 0, 0, 1, 0}, kGray);
     },
     true},
    {[](const Image& x, double l) {
       return affine(x, {1, 0, 0, .3 * l, 1, 0}, kGray);
     },
     true},
    {[](const Image& x, double l) {
       return shift_flip(x, static_cast<int>(kMostTranslation * l), 0, false, kGray);
     },
     true},
    {[](const Image& x, double l) {
       return shift_flip(x, 0, static_cast<int>(kMostTranslation * l), false, kGray);
     },
     true},
};

// A square of `side` pixels about a random one, cut off at the borders.
void cut_out(float* image, int side, Rng& rng) {
  const int row = static_cast<int>(rng.below(kImageSide)) - side / 2;
  const int col = static_cast<int>(rng.below(kImageSide)) - side / 2;
  const int first = std::max(col, 0), last = std::min(col + side, kImageSide);
  for (int c = 0; c < kImageChannels; ++c)
    for (int r = std::max(row, 0); r < std::min(row + side, kImageSide); ++r) {
      float* line = image + (c * kImageSide + r) * kImageSide;
      std::fill(line + first, line + last, 0.0f);
    }
}

}  // namespace

AugmentOptions AugmentOptions::named(std::string_view name) {
  if (name == "none") return {};
  if (name == "standard") return {.crop_padding = 4, .flip = true};
  check(name == "strong", "augment: unknown name \"{}\"; there are none, standard and strong",
        name);
  return {.crop_padding = 4, .flip = true, .randaugment = 2, .magnitude = 9, .cutout = 8};
}

Image rand_augment(const Image& x, int count, double magnitude, Rng& rng) {
  check(magnitude >= 0 && magnitude <= kMostMagnitude,
        "rand_augment: magnitude must be in [0, {}], got {}", kMostMagnitude, magnitude);
  Image y = x;
  for (int i = 0; i < count; ++i) {
    const Operation& op = kOperations[rng.below(std::ssize(kOperations))];
    const bool negative = rng.next_u32() & 1;
    const double level = magnitude / kMostMagnitude;
    y = op.apply(y, op.has_sign && negative ? -level : level);
  }
  return y;
}

void normalize(const Image& x, const Normalization& n, float* out) {
  for (int c = 0; c < kImageChannels; ++c) {
    const auto scale = static_cast<float>(1 / (255 * n.std[c]));
    const auto shift = static_cast<float>(-n.mean[c] / n.std[c]);
    simd([from = x.data() + c * kImagePixels, to = out + c * kImagePixels, scale, shift] {
      for (int i = 0; i < kImagePixels; ++i) to[i] = static_cast<float>(from[i]) * scale + shift;
    });
  }
}

void augment(const Image& x, const AugmentOptions& options, const Normalization& normalization,
             Rng& rng, float* out) {
  const Image* current = &x;
  Image moved, changed;
  if (options.crop_padding > 0 || options.flip) {
    const int64_t places = 2 * options.crop_padding + 1;
    const int right = static_cast<int>(rng.below(places)) - options.crop_padding;
    const int down = static_cast<int>(rng.below(places)) - options.crop_padding;
    moved = shift_flip(x, right, down, options.flip && (rng.next_u32() & 1));
    current = &moved;
  }
  if (options.randaugment > 0) {
    changed = rand_augment(*current, options.randaugment, options.magnitude, rng);
    current = &changed;
  }
  normalize(*current, normalization, out);
  if (options.cutout > 0) cut_out(out, options.cutout, rng);
}

}  // namespace tern::data
