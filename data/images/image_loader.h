// From images in bytes to batches of tensors.
#pragma once

#include <memory>

#include "tern/core/tensor/tensor.h"
#include "tern/data/images/augment.h"
#include "tern/data/images/cifar10.h"
#include "tern/data/loading/dataset.h"
#include "tern/data/loading/loader.h"

namespace tern::data {

struct ImageSample {
  std::shared_ptr<const Image> image;  ///< keeps its image set alive
  int64_t label = 0;
};

/// The images of a set, which lives as long as the dataset.
Dataset<ImageSample> image_dataset(std::shared_ptr<const ImageSet> set);

struct Batch {
  Tensor images;   ///< (B, 3, 32, 32) f32, augmented and normalised
  Tensor labels;   ///< (B) i64; after mixing, of the image with weight lambda
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

/// Batches for training; for evaluation turn shuffle off and leave the rest off.
Loader<Batch> image_loader(Dataset<ImageSample> data, const ImageLoaderOptions& options);

}  // namespace tern::data
