// A generated data set, for runs without downloads: ten classes of shapes in CIFAR-10's format.
#pragma once

#include <cstdint>
#include <string>

#include "tern/core/base/rng.h"
#include "tern/data/images/cifar10.h"

namespace tern::apps::train_cifar {

/// Sizes for a run without data: enough for over 90 % in seconds on two cores.
constexpr int64_t kDrawnTrain = 10000, kDrawnTest = 2000;
/// How many of them a run with --limit needs (0: all); its files hold a multiple of 5.
constexpr int64_t drawn_count(int64_t limit, int64_t all) {
  return limit == 0 || limit > all ? all : (limit + 4) / 5 * 5;
}

/// Discs, rings, squares, frames, triangles, pluses, crosses, horizontal stripes, vertical stripes
/// and checkers (class 0 to 9), at random places, in random sizes and colours, with noise.
/// Foreground and background swap roles at random, so that no linear classifier tells them apart.
datasets::Image draw_image(int64_t label, Rng rng);

/// Both sets with as many pictures of each class as possible; the same for the same seed.
datasets::Cifar10 draw_cifar10(int64_t train_n, int64_t test_n, uint64_t seed);

/// Black pictures, as many of each class, for a dry run that only counts them.
datasets::Cifar10 blank_cifar10(int64_t train_n, int64_t test_n);

}  // namespace tern::apps::train_cifar
