// Colour pictures as bytes: 32x32 images, and square pictures of any side.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tern::datasets {

constexpr int kImageChannels = 3;
constexpr int kImageSide = 32;
constexpr int kImagePixels = kImageSide * kImageSide;
constexpr int kImageBytes = kImageChannels * kImagePixels;

/// (3, 32, 32): the red, the green and the blue plane, each row by row from the top.
using Image = std::array<uint8_t, kImageBytes>;

/// (3, S, S) for any side S: the planes as in Image.
using SquarePicture = std::vector<uint8_t>;

}  // namespace tern::datasets
