// The pictures of a run: how many it uses, which it holds out, and how it tests.
#pragma once

#include <cstdint>
#include <string>

#include "tern/data/images/labelled_pictures.h"
#include "tern/data/images/picture.h"

namespace tern::apps::train_cifar {

using datasets::LabelledPicture;
using datasets::LabelledPictures;
using datasets::LabelledSet;
using datasets::PictureForm;

/// The pictures of a set that a run uses: the first `limit`, or all (0).
datasets::Dataset<LabelledPicture> limited(const LabelledSet& set, const PictureForm& form,
                                           int64_t limit);

/// How many of `images` the share of --hold-out is. Error if it is none of them, or all.
int64_t held_out(double share, int64_t images);

/// Moves that many pictures, chosen by the seed, out of the set; both keep their order.
datasets::Dataset<LabelledPicture> hold_out(datasets::Dataset<LabelledPicture>& set, double share,
                                            uint64_t seed);

/// All of a set in its order, to test a model.
datasets::Loader<datasets::Batch> test_batches(const datasets::Dataset<LabelledPicture>& set,
                                               const PictureForm& form);

/// The first `count` pictures of a set, normalised, (count, C, S, S); zeros where there are fewer.
Tensor first_images(const datasets::Dataset<LabelledPicture>& set, const PictureForm& form,
                    int64_t count);

/// A picture as reports show it.
datasets::Picture picture_of(const LabelledPicture& picture, const PictureForm& form);

/// A checksum of every byte of pictures and labels, so that a run is resumed with its own data.
std::string data_checksum(const LabelledPictures& data);

}  // namespace tern::apps::train_cifar
