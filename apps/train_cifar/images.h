// Pictures as a run uses them.
#pragma once

#include <cstdint>

#include "tern/apps/train_cifar/pictures.h"
#include "tern/data/images/image_loader.h"

namespace tern::apps::train_cifar {

/// The pictures of a set that a run uses: the first `limit`, or all (0).
data::Dataset<Sample> limited(const PictureSet& set, const PictureForm& form, int64_t limit);

/// How many of `images` the share of --hold-out is. Error if it is none of them, or all.
int64_t held_out(double share, int64_t images);

/// Moves that many pictures, drawn by the seed, out of the set; both keep their order.
data::Dataset<Sample> hold_out(data::Dataset<Sample>& set, double share, uint64_t seed);

struct BatchOptions {
  data::LoaderOptions order = {};
  data::AugmentOptions augment = {};
  data::MixOptions mix = {};
};

/// What data::image_loader makes of pictures of 32 x 32 in colour, of any form; `augment` has
/// RandAugment for a side of 32 alone.
data::Loader<data::Batch> batches(data::Dataset<Sample> set, const PictureForm& form,
                                  const BatchOptions& options);

/// The first `count` pictures of a set, normalised, (count, C, S, S); zeros where there are fewer.
Tensor first_images(const data::Dataset<Sample>& set, const PictureForm& form, int64_t count);

}  // namespace tern::apps::train_cifar
