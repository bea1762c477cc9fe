// A generated data set, for runs without downloads: ten classes of shapes in CIFAR-10's format.
#pragma once

#include <cstdint>
#include <string>

#include "tern/core/base/rng.h"
#include "tern/data/images/cifar10.h"

namespace tern::apps::train_cifar {

/// Sizes for a run without data: enough for over 90 % in seconds on two cores.
constexpr int64_t kDrawnTrain = 10000, kDrawnTest = 2000;

/// Discs, rings, squares, frames, triangles, pluses, crosses, horizontal stripes, vertical stripes
/// and checkers (class 0 to 9), at random places, in random sizes and colours, with noise.
/// Foreground and background swap roles at random, so that no linear classifier tells them apart.
datasets::Image draw_image(int64_t label, Rng rng);

/// Both sets with as many pictures of each class as possible; the same for the same seed.
datasets::Cifar10 draw_cifar10(int64_t train_n, int64_t test_n, uint64_t seed);

}  // namespace tern::apps::train_cifar
