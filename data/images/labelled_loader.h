// Batches of labelled pictures in memory: augmented, normalised and mixed. labelled_pictures.h
// reads the pictures and has an example.
#pragma once

#include <memory>
#include <optional>

#include "tern/core/tensor/tensor.h"
#include "tern/data/images/augment.h"
#include "tern/data/images/image.h"
#include "tern/data/loading/dataset.h"
#include "tern/data/loading/loader.h"

namespace tern::datasets {

struct Batch {
  Tensor images;   ///< (B, channels, side, side) f32, augmented and normalised
  Tensor labels;   ///< (B) i64; after mixing, the label of the image with weight lambda
  Tensor targets;  ///< (B, classes) f32 probabilities after mixing, else undefined
  Tensor indices;  ///< (B) i64: indices of the samples in the dataset
};

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

/// Batches for training. For evaluation, turn off order.shuffle and leave `augment` and `mix`
/// unset. Error for a label that is not in [0, form.classes).
Loader<Batch> labelled_loader(Dataset<LabelledPicture> set, const PictureForm& form,
                              const LabelledLoaderOptions& options);

}  // namespace tern::datasets
