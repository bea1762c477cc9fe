// Operations on images in bytes, as Pillow defines them (Image, ImageOps, ImageEnhance): the parts
// of AutoAugment and RandAugment. Results equal Pillow's, byte for byte. P is Image, or
// SquarePicture for any other side.
#pragma once

#include <array>
#include <vector>

#include "tern/data/images/image.h"

namespace tern::datasets {

/// (3, S, S) for any S: the red, the green and the blue plane, each by rows from the top.
using SquarePicture = std::vector<uint8_t>;
/// The side S. Error if the number of bytes is not 3 S S.
constexpr int picture_side(const Image&) { return kImageSide; }
int picture_side(const SquarePicture& x);

/// Moves the picture by (right, down) pixels, then mirrors it left to right if asked. Pixels from
/// outside are `fill`. A random crop of the picture padded by p is a shift by -p ... p.
template <class P>
P shift_flip(const P& x, int right, int down, bool flip, uint8_t fill = 0);

/// The same, but pixels from outside are the picture reflected at its border (c b | a b c d). Error
/// if it moves by S pixels or more.
template <class P>
P shift_flip_reflected(const P& x, int right, int down, bool flip);

/// Stretches each channel to 0 ... 255 (ImageOps.autocontrast).
template <class P>
P autocontrast(const P& x);
/// Flattens the histogram of each channel (ImageOps.equalize).
template <class P>
P equalize(const P& x);
/// Keeps the upper bits, 0 to 8, of each byte (ImageOps.posterize).
template <class P>
P posterize(const P& x, int bits);
/// Inverts the bytes that are at least `threshold` (ImageOps.solarize).
template <class P>
P solarize(const P& x, int threshold);

/// ImageEnhance: factor 1 gives the picture itself. Factor 0 gives a black one (brightness), a grey
/// one (color), one of the mean grey (contrast) or a blurred one (sharpness). Factors beyond 1 move
/// away from these.
template <class P>
P adjust_brightness(const P& x, float factor);
template <class P>
P adjust_color(const P& x, float factor);
template <class P>
P adjust_contrast(const P& x, float factor);
template <class P>
P adjust_sharpness(const P& x, float factor);

/// Image.transform(AFFINE, NEAREST): pixel (x, y) comes from (m0 x + m1 y + m2, m3 x + m4 y + m5),
/// measured at the centres of pixels. Pixels from outside are `fill`.
template <class P>
P affine(const P& x, const std::array<double, 6>& m, uint8_t fill = 0);
/// Rotates counter-clockwise about the centre, in degrees (Image.rotate).
template <class P>
P rotate(const P& x, double degrees, uint8_t fill = 0);

}  // namespace tern::datasets
