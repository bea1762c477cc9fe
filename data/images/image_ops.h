// Operations on images in bytes, as Pillow defines them (Image, ImageOps, ImageEnhance): the parts
// of AutoAugment and RandAugment. Results equal Pillow's, byte for byte.
#pragma once

#include <array>

#include "tern/data/images/image.h"

namespace tern::datasets {

/// The side S. Error if the number of bytes is not 3 S S.
int picture_side(const SquarePicture& x);

/// Moves the picture by (right, down) pixels, then mirrors it left to right if asked. Pixels from
/// outside are `fill`. A random crop of the picture padded by p is a shift by -p ... p.
SquarePicture shift_flip(const SquarePicture& x, int right, int down, bool flip, uint8_t fill = 0);

/// The same, but pixels from outside are the picture reflected at its border (c b | a b c d). Error
/// if it moves by S pixels or more.
SquarePicture shift_flip_reflected(const SquarePicture& x, int right, int down, bool flip);

/// Stretches each channel to 0 ... 255 (ImageOps.autocontrast).
SquarePicture autocontrast(const SquarePicture& x);
/// Flattens the histogram of each channel (ImageOps.equalize).
SquarePicture equalize(const SquarePicture& x);
/// Keeps the upper bits, 0 to 8 (else Error), of each byte (ImageOps.posterize).
SquarePicture posterize(const SquarePicture& x, int bits);
/// Inverts the bytes that are at least `threshold` (ImageOps.solarize).
SquarePicture solarize(const SquarePicture& x, int threshold);

/// ImageEnhance: factor 1 gives the picture itself. Factor 0 gives a black one (brightness), a grey
/// one (color), one of the mean grey (contrast) or a blurred one (sharpness). Factors beyond 1 move
/// away from these.
SquarePicture adjust_brightness(const SquarePicture& x, float factor);
SquarePicture adjust_color(const SquarePicture& x, float factor);
SquarePicture adjust_contrast(const SquarePicture& x, float factor);
SquarePicture adjust_sharpness(const SquarePicture& x, float factor);

/// Image.transform(AFFINE, NEAREST): pixel (x, y) comes from (m0 x + m1 y + m2, m3 x + m4 y + m5),
/// measured at the centres of pixels. Pixels from outside are `fill`.
SquarePicture affine(const SquarePicture& x, const std::array<double, 6>& m, uint8_t fill = 0);
/// Rotates counter-clockwise about the centre, in degrees (Image.rotate).
SquarePicture rotate(const SquarePicture& x, double degrees, uint8_t fill = 0);

}  // namespace tern::datasets
