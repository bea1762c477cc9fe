// The pictures of a run: those that it uses, those that it holds out, and batches for tests.
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

/// The number of images that --hold-out, a share of `images`, holds out. Error if that is none or
/// all.
int64_t held_out(double share, int64_t images);

/// Moves that many pictures, chosen by the seed, out of the set. Both sets keep the order.
datasets::Dataset<LabelledPicture> hold_out(datasets::Dataset<LabelledPicture>& set, double share,
                                            uint64_t seed);

/// All pictures of a set in order, to test a model.
datasets::Loader<datasets::Batch> test_batches(const datasets::Dataset<LabelledPicture>& set,
                                               const PictureForm& form);

/// The first `count` pictures of a set, normalised, (count, C, S, S); padded with zeros if there
/// are fewer.
Tensor first_images(const datasets::Dataset<LabelledPicture>& set, const PictureForm& form,
                    int64_t count);

/// A picture as reports show it.
datasets::Picture picture_of(const LabelledPicture& picture, const PictureForm& form);

/// A checksum over all bytes of pictures and labels, so that a run resumes with the same data.
std::string data_checksum(const LabelledPictures& data);

}  // namespace tern::apps::train_cifar
