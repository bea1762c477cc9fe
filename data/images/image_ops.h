// Operations on pictures of bytes, as Pillow defines them (Image, ImageOps, ImageEnhance): the
// building blocks of AutoAugment and RandAugment. Results equal Pillow's byte for byte.
#pragma once

#include <array>

#include "tern/data/images/image.h"

namespace tern::data {

/// Moves the picture by (right, down) pixels, then mirrors it left to right if asked; what comes
/// in from outside is `fill`. A random crop of the picture padded by p is a shift by -p ... p.
Image shift_flip(const Image& x, int right, int down, bool flip, uint8_t fill = 0);

/// Stretches each channel to 0 ... 255 (ImageOps.autocontrast).
Image autocontrast(const Image& x);
/// Flattens the histogram of each channel (ImageOps.equalize).
Image equalize(const Image& x);
/// Keeps the upper bits, 0 to 8, of each byte (ImageOps.posterize).
Image posterize(const Image& x, int bits);
/// Inverts the bytes that are at least `threshold` (ImageOps.solarize).
Image solarize(const Image& x, int threshold);

/// ImageEnhance: factor 1 gives the picture, 0 a black one, a grey one, one of the mean grey, a
/// blurred one; factors beyond 1 go the other way.
Image adjust_brightness(const Image& x, float factor);
Image adjust_color(const Image& x, float factor);
Image adjust_contrast(const Image& x, float factor);
Image adjust_sharpness(const Image& x, float factor);

/// Image.transform(AFFINE, NEAREST): pixel (x, y) comes from (m0 x + m1 y + m2, m3 x + m4 y + m5),
/// measured at the centres of pixels; what comes from outside is `fill`.
Image affine(const Image& x, const std::array<double, 6>& m, uint8_t fill = 0);
/// Counter-clockwise about the centre, in degrees (Image.rotate).
Image rotate(const Image& x, double degrees, uint8_t fill = 0);

}  // namespace tern::data
