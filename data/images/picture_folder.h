// Images on disk in one folder per class, as in torchvision's ImageFolder, and batches of them.
//
//   datasets::PictureFolder train = datasets::open_picture_folder("imagenette/train");
//   auto loader = datasets::picture_loader(train.dataset(), {.size = 128, .augment = true});
//   for (datasets::Batch& batch : loader) loss(model(batch.images), batch.labels);
#pragma once

#include <string>
#include <vector>

#include "tern/data/images/image_loader.h"
#include "tern/data/images/picture.h"
#include "tern/data/loading/dataset.h"
#include "tern/data/loading/loader.h"

namespace tern::datasets {

struct PictureSample {
  Picture picture;
  int64_t label = 0;
};

struct PictureFile {
  std::string path;
  int64_t label = 0;
};

struct PictureFolder {
  std::vector<std::string> class_names;  ///< the folders in ascending order; label i has name i
  std::vector<PictureFile> files;        ///< by class, then by path
  /// Reads and decodes a file when its sample is requested.
  Dataset<PictureSample> dataset(const DecodeOptions& options = {}) const;
};

/// Searches FOLDER/CLASS/ and its subfolders (without following links) for .png, .jpg and .jpeg
/// files in any letter case, and ignores others. Reads no image yet. IoError: no folder, no
/// classes, or a class without images.
PictureFolder open_picture_folder(const std::string& folder);

struct PictureLoaderOptions {
  LoaderOptions order = {};
  int64_t size = 224;  ///< of the batch's images: (B, 3, size, size)
  /// false: resizes the shorter side to `shorter` (0: size * 8 / 7, as 256 for 224) and crops the
  /// middle. true: crops a random part, with its area in `scale` and its aspect ratio in `ratio`,
  /// resizes it (RandomResizedCrop) and mirrors some images.
  bool augment = false;
  int64_t shorter = 0;
  std::array<double, 2> scale = {0.08, 1}, ratio = {3.0 / 4, 4.0 / 3};
  double mirrored = 0.5;  ///< share of mirrored images with `augment`
  Filter filter = Filter::bilinear;
  /// ImageNet's statistics.
  Normalization normalization = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
};

/// What the loader makes of one image. `rng` is only used with `augment`.
Picture fit_picture(const Picture& x, const PictureLoaderOptions& options, Rng& rng);

/// Batches of images (B, 3, size, size) f32, normalised, with labels and indices.
Loader<Batch> picture_loader(Dataset<PictureSample> data, const PictureLoaderOptions& options);

}  // namespace tern::datasets
