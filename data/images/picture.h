// Colour images of any size from PNG (libpng) and JPEG (libjpeg-turbo) files, resized and cropped
// as in Pillow. Files are not trusted: sizes are checked before anything is allocated. IoError for
// damaged, truncated and other files, with the file and, if known, the position.
//
// Memory: three bytes per pixel; a PNG of 11 kB can have DecodeOptions::max_pixels pixels (268 MB).
// A picture that is turned upright takes that twice, a CMYK file four bytes per pixel more, and a
// progressive JPEG up to eight more while it is decoded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::datasets {

struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  ///< (height, width, 3), row by row from the top

  const uint8_t* row(int64_t y) const { return rgb.data() + y * width * 3; }
  uint8_t* row(int64_t y) { return rgb.data() + y * width * 3; }
};

struct DecodeOptions {
  int64_t max_pixels = 89478485;  ///< height times width; Pillow's limit
  /// Turns and mirrors a picture as its EXIF orientation says, so that a phone's pictures stand
  /// upright: Pillow's ImageOps.exif_transpose. false: the pixels as the file has them.
  bool upright = true;
};

/// Decodes a PNG or JPEG file, recognised by its first bytes. Values are those of Pillow's
/// convert("RGB"): grey in all three channels, palettes resolved, CMYK converted to RGB (with inks
/// inverted, as Adobe stores them), transparency dropped, 16 bits cut to the upper 8. Accepts
/// faults that cost no pixel: warnings about a JPEG's headers, a PNG's missing end. (Pillow clips
/// grey of 16 bits.) Errors show `name`, and for another format a command that converts it.
Picture decode_picture(std::span<const uint8_t> bytes, const std::string& name,
                       const DecodeOptions& options = {});
/// The same for a file of at most 1 GiB.
Picture load_picture(const std::string& path, const DecodeOptions& options = {});

/// The bytes of an 8-bit RGB PNG.
std::string encode_png(const Picture& picture);
/// Writes them to a file, completely or not at all.
void save_png(const std::string& path, const Picture& picture);

enum class Filter { bilinear, bicubic };  ///< bicubic: a = -0.5, as Pillow's

/// Resizes with antialiasing: each pixel is a weighted mean of the old pixels that it covers.
/// Resizes and rounds to bytes first across, then down: the resize of Pillow up to 12.3, byte for
/// byte. (Pillow 13 begins with down where that is less work, whether sides grow or shrink. Many
/// bytes differ then: by 1 to 3 in photographs, by up to 26 in tiny pictures that grow much.)
Picture resize(const Picture& x, int64_t height, int64_t width, Filter filter = Filter::bilinear);
/// Resizes the shorter side to `size` and keeps the proportions, rounded down
/// (torchvision.transforms.Resize).
Picture resize_shorter(const Picture& x, int64_t size, Filter filter = Filter::bilinear);

/// Rows top to top + height, columns left to left + width. Error if they exceed the image.
Picture crop(const Picture& x, int64_t top, int64_t left, int64_t height, int64_t width);
/// Crops the middle. Error if the image is smaller.
Picture center_crop(const Picture& x, int64_t height, int64_t width);
/// Mirrors left to right.
Picture mirror(const Picture& x);

/// Converts to (3, height, width) u8.
Tensor to_tensor(const Picture& x);
/// Converts from (3, height, width) u8.
Picture to_picture(const Tensor& x);

}  // namespace tern::datasets
