// A 32x32 colour image as bytes.
#pragma once

#include <array>
#include <cstdint>

namespace tern::datasets {

constexpr int kImageChannels = 3;
constexpr int kImageSide = 32;
constexpr int kImagePixels = kImageSide * kImageSide;
constexpr int kImageBytes = kImageChannels * kImagePixels;

/// (3, 32, 32): the red, the green and the blue plane, each row by row from the top.
using Image = std::array<uint8_t, kImageBytes>;

}  // namespace tern::datasets
