// Colour pictures of any size, read from PNG (libpng) and JPEG (libjpeg-turbo) files, resized and
// cropped as Pillow does it. Files are not trusted: sizes are checked before anything is
// allocated; what is damaged, truncated or of another format is an IoError with the file and, where
// it is known, the position.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::data {

struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  ///< (height, width, 3), by rows from the top

  const uint8_t* row(int64_t y) const { return rgb.data() + y * width * 3; }
  uint8_t* row(int64_t y) { return rgb.data() + y * width * 3; }
};

struct DecodeOptions {
  int64_t max_pixels = 89478485;  ///< height times width; Pillow's limit
};

/// The picture in the bytes of a PNG or JPEG file, known by its first bytes. Values are those of
/// Pillow's convert("RGB"): grey in all three channels, palettes looked up, CMYK turned into RGB,
/// transparency dropped; of 16 bits the upper 8. Turns that EXIF asks for are not made. `name` is
/// what errors call it.
Picture decode_picture(std::span<const uint8_t> bytes, const std::string& name,
                       const DecodeOptions& options = {});
/// The same of a file, of at most 1 GiB.
Picture load_picture(const std::string& path, const DecodeOptions& options = {});

/// The bytes of an RGB PNG of 8 bits.
std::string encode_png(const Picture& picture);
/// Writes them, whole or not at all.
void save_png(const std::string& path, const Picture& picture);

enum class Filter { bilinear, bicubic };  ///< bicubic: a = -0.5, as Pillow's

/// The picture in another size. Each pixel is a weighted mean over the pixels of the old picture
/// that it covers (antialiased), rounded to bytes once across and then once down: Pillow's resize,
/// byte for byte. (Pillow 13 goes down first where that is less work; single bytes then differ by
/// up to 6 where one side grows much and the other shrinks.)
Picture resize(const Picture& x, int64_t height, int64_t width, Filter filter = Filter::bilinear);
/// The shorter side becomes `size`, the other keeps the proportion, rounded down
/// (torchvision.transforms.Resize).
Picture resize_shorter(const Picture& x, int64_t size, Filter filter = Filter::bilinear);

/// Rows top to top + height, columns left to left + width; Error if they are not all there.
Picture crop(const Picture& x, int64_t top, int64_t left, int64_t height, int64_t width);
/// The middle; Error if the picture is smaller.
Picture center_crop(const Picture& x, int64_t height, int64_t width);
/// Left to right.
Picture mirror(const Picture& x);

/// (3, height, width) u8.
Tensor to_tensor(const Picture& x);
/// From (3, height, width) u8.
Picture to_picture(const Tensor& x);

}  // namespace tern::data
