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

/// As data::image_loader, for pictures of any form. The cutout is as large a part of a picture as
/// of one of 32 x 32.
data::Loader<data::Batch> batches(data::Dataset<Sample> set, const PictureForm& form,
                                  const BatchOptions& options);

/// All of a set in its order, to test a model.
data::Loader<data::Batch> test_batches(const data::Dataset<Sample>& set, const PictureForm& form);

/// The first `count` pictures of a set, normalised, (count, C, S, S); zeros where there are fewer.
Tensor first_images(const data::Dataset<Sample>& set, const PictureForm& form, int64_t count);

}  // namespace tern::apps::train_cifar
