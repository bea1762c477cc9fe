// Loaders that turn images in bytes into batches of tensors.
#pragma once

#include <memory>

#include "tern/core/tensor/tensor.h"
#include "tern/data/images/augment.h"
#include "tern/data/images/cifar10.h"
#include "tern/data/loading/dataset.h"
#include "tern/data/loading/loader.h"

namespace tern::datasets {

struct ImageSample {
  std::shared_ptr<const Image> image;  ///< keeps its image set alive
  int64_t label = 0;
};

/// The images of a set, which lives as long as the dataset.
Dataset<ImageSample> image_dataset(std::shared_ptr<const ImageSet> set);

struct Batch {
  Tensor images;   ///< (B, 3, 32, 32) f32, augmented and normalised
  Tensor labels;   ///< (B) i64; after mixing, the label of the image with weight lambda
  Tensor targets;  ///< (B, classes) f32 probabilities after mixing, else undefined
  Tensor indices;  ///< (B) i64: indices of the samples in the dataset
};

struct ImageLoaderOptions {
  LoaderOptions order = {};
  AugmentOptions augment = {};
  MixOptions mix = {};
  Normalization normalization = {};
  int64_t classes = 10;
};

/// Batches for training. For evaluation, turn off order.shuffle and leave `augment` and `mix`
/// unset.
Loader<Batch> image_loader(Dataset<ImageSample> data, const ImageLoaderOptions& options);

// ---- Pictures of any form (labelled_pictures.h reads them) -------------------------------------
/// The form of a model's input, and its number of classes.
struct PictureForm {
  int64_t side = kImageSide;          ///< height and width
  int64_t channels = kImageChannels;  ///< 3, or 1 for grey pictures
  int64_t classes = 10;
  Normalization normalization = {};
  int64_t numbers() const { return channels * side * side; }
};

/// A picture: its planes one after the other, each by rows from the top.
struct LabelledPicture {
  std::shared_ptr<const uint8_t> bytes;  ///< (channels, side, side); keeps its set alive
  int64_t label = 0;
};

/// Augments, normalises and writes a picture (channels, side, side) to `out`. The cutout is given
/// in pixels of a 32 x 32 picture and scaled to the side.
void augment(const LabelledPicture& picture, const PictureForm& form, AugmentOptions options,
             Rng& rng, float* out, std::optional<bool> mirrored = {});

struct LabelledLoaderOptions {
  LoaderOptions order = {};
  AugmentOptions augment = {};
  MixOptions mix = {};
};

/// As image_loader, with images (B, channels, side, side).
Loader<Batch> labelled_loader(Dataset<LabelledPicture> set, const PictureForm& form,
                              const LabelledLoaderOptions& options);

}  // namespace tern::datasets
