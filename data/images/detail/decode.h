// The parts of decode_picture. Inside of data only.
#pragma once

#include <span>
#include <string>

#include "tern/data/images/picture.h"

namespace tern::datasets::detail {

Picture decode_png(std::span<const uint8_t> bytes, const std::string& name,
                   const DecodeOptions& options);
Picture decode_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                    const DecodeOptions& options);

/// Error, which begins with `op`, if the picture has no pixels, or not three bytes for each.
void check_picture(const char* op, const Picture& x);

/// An empty picture of this size with memory for its pixels. IoError if it has more pixels than the
/// options allow, or than `packed` bytes with at most `per_byte` pixels each can encode.
Picture allocate_picture(const std::string& name, int64_t height, int64_t width, int64_t packed,
                         int64_t per_byte, const DecodeOptions& options);

/// The orientation of the camera, 1 to 8, from EXIF data (a TIFF header, with "Exif" before it or
/// not). 1, upright, if the data lack it or are damaged.
int exif_orientation(std::span<const uint8_t> exif);
/// Turns and mirrors a picture of this orientation upright.
Picture turned(Picture picture, int orientation);

/// Names the format of bytes that are neither PNG nor JPEG, and the command that converts them, if
/// there is one.
std::string describe_foreign_picture(std::span<const uint8_t> bytes);

}  // namespace tern::datasets::detail
