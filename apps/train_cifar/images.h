// CIFAR-10 as a run uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tern/data/images/cifar10.h"
#include "tern/data/images/image_loader.h"

namespace tern::apps::train_cifar {

/// Of every byte of pictures and labels, so that a run goes on with the data it was started with.
std::string data_checksum(const data::Cifar10& data);

/// The pictures of a set that a run uses: the first `limit`, or all (0).
data::Dataset<data::ImageSample> limited(const std::shared_ptr<const data::ImageSet>& set,
                                         int64_t limit);

/// How many of `images` the share of --hold-out is. Error if it is none of them, or all.
int64_t held_out(double share, int64_t images);

/// Moves that many pictures, drawn by the seed, out of the set; both keep their order.
data::Dataset<data::ImageSample> hold_out(data::Dataset<data::ImageSample>& set, double share,
                                          uint64_t seed);

/// The first `count` pictures of a set, normalised, (count, 3, 32, 32); zeros where there are
/// fewer.
Tensor first_images(const data::Dataset<data::ImageSample>& set, int64_t count);

}  // namespace tern::apps::train_cifar
