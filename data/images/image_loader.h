// From pictures of bytes to batches of tensors.
#pragma once

#include <memory>

#include "tern/core/tensor/tensor.h"
#include "tern/data/images/augment.h"
#include "tern/data/images/cifar10.h"
#include "tern/data/loading/dataset.h"
#include "tern/data/loading/loader.h"

namespace tern::data {

struct ImageSample {
  std::shared_ptr<const Image> image;  ///< keeps alive what it belongs to
  int64_t label = 0;
};

/// The pictures of a set, which stays alive as long as the dataset.
Dataset<ImageSample> image_dataset(std::shared_ptr<const ImageSet> set);

struct Batch {
  Tensor images;   ///< (B, 3, 32, 32) f32, augmented and normalised
  Tensor labels;   ///< (B) i64; with mixing, of the picture that has the share lambda
  Tensor targets;  ///< (B, classes) f32 probabilities, with mixing; undefined otherwise
  Tensor indices;  ///< (B) i64: the samples' numbers in the dataset
};

struct ImageLoaderOptions {
  LoaderOptions order = {};
  AugmentOptions augment = {};
  MixOptions mix = {};
  Normalization normalization = {};
  int64_t classes = 10;
};

/// Batches for training, or with shuffle off and nothing else on, for evaluation.
Loader<Batch> image_loader(Dataset<ImageSample> data, const ImageLoaderOptions& options);

}  // namespace tern::data
