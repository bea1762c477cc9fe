// Operations on images in bytes, as Pillow defines them (Image, ImageOps, ImageEnhance): the parts
// of AutoAugment and RandAugment. Results equal Pillow's byte for byte.
#pragma once

#include <array>

#include "tern/data/images/image.h"

namespace tern::data {

/// Shifts the image by (right, down) pixels, then optionally mirrors it left to right. Pixels from
/// outside are `fill`. A random crop of an image padded by p is a shift by -p ... p.
Image shift_flip(const Image& x, int right, int down, bool flip, uint8_t fill = 0);

/// Stretches each channel to the range 0 ... 255 (ImageOps.autocontrast).
Image autocontrast(const Image& x);
/// Flattens the histogram of each channel (ImageOps.equalize).
Image equalize(const Image& x);
/// Keeps the upper `bits` bits, 0 to 8, of each byte (ImageOps.posterize).
Image posterize(const Image& x, int bits);
/// Inverts bytes of at least `threshold` (ImageOps.solarize).
Image solarize(const Image& x, int threshold);

/// ImageEnhance: factor 1 gives the image itself. Factor 0 gives a black, a grey, a mean-grey and a
/// blurred image in turn. Factors above 1 extrapolate.
Image adjust_brightness(const Image& x, float factor);
Image adjust_color(const Image& x, float factor);
Image adjust_contrast(const Image& x, float factor);
Image adjust_sharpness(const Image& x, float factor);

/// Image.transform(AFFINE, NEAREST): pixel (x, y) comes from (m0 x + m1 y + m2, m3 x + m4 y + m5),
/// measured at pixel centres. Pixels from outside are `fill`.
Image affine(const Image& x, const std::array<double, 6>& m, uint8_t fill = 0);
/// Rotates counter-clockwise about the centre, in degrees (Image.rotate).
Image rotate(const Image& x, double degrees, uint8_t fill = 0);

}  // namespace tern::data
