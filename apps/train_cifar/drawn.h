// A generated data set, for runs without downloads: ten classes of shapes in CIFAR-10's format.
#pragma once

#include <cstdint>

#include "tern/core/base/rng.h"
#include "tern/data/images/cifar10.h"

namespace tern::apps::train_cifar {

/// Numbers of pictures for a run without data: enough for over 90 % in seconds on two cores.
constexpr int64_t kDrawnTrain = 10000, kDrawnTest = 2000;
/// The number of pictures that a run with --limit needs (0: all), rounded up to a multiple of 5
/// because the set is stored in five files.
constexpr int64_t drawn_count(int64_t limit, int64_t all) {
  return limit == 0 || limit > all ? all : (limit + 4) / 5 * 5;
}

/// Discs, rings, squares, frames, triangles, pluses, crosses, horizontal stripes, vertical stripes
/// and checkers (class 0 to 9), with random places, sizes, colours and noise. Foreground and
/// background swap at random, so that no linear classifier can separate the classes.
datasets::Image draw_image(int64_t label, Rng rng);

/// Both sets, with classes as balanced as possible. The same seed gives the same pictures.
datasets::Cifar10 draw_cifar10(int64_t train_n, int64_t test_n, uint64_t seed);

/// Black pictures with the same labels, for a dry run, which only counts them.
datasets::Cifar10 blank_cifar10(int64_t train_n, int64_t test_n);

}  // namespace tern::apps::train_cifar
