// Pictures on the disk, a folder a class, as torchvision's ImageFolder; and batches of them.
//
//   data::PictureFolder train = data::open_picture_folder("imagenette/train");
//   auto loader = data::picture_loader(train.dataset(), {.size = 128, .augment = true});
//   for (data::Batch& batch : loader) loss(model(batch.images), batch.labels);
#pragma once

#include <string>
#include <vector>

#include "tern/data/images/image_loader.h"
#include "tern/data/images/picture.h"
#include "tern/data/loading/dataset.h"
#include "tern/data/loading/loader.h"

namespace tern::data {

struct PictureSample {
  Picture picture;
  int64_t label = 0;
};

struct PictureFile {
  std::string path;
  int64_t label = 0;
};

struct PictureFolder {
  std::vector<std::string> class_names;  ///< the folders in ascending order; label i is name i
  std::vector<PictureFile> files;        ///< by class, then by path
  /// Reads and decodes a file when its sample is asked for.
  Dataset<PictureSample> dataset(const DecodeOptions& options = {}) const;
};

/// Looks into FOLDER/CLASS/ and the folders below it (where links are not followed) for .png,
/// .jpg and .jpeg files, in any case of letters; other files are left alone. Nothing is read yet.
/// IoError: no folder, no classes, or a class without a picture.
PictureFolder open_picture_folder(const std::string& folder);

struct PictureLoaderOptions {
  LoaderOptions order = {};
  int64_t size = 224;  ///< of the batch's pictures: (B, 3, size, size)
  /// false: the shorter side is resized to `shorter` (0: size * 8 / 7, as 256 for 224), the middle
  /// is cut out. true: a random part of `scale` of the area and of a ratio of sides within `ratio`
  /// is cut out and resized (RandomResizedCrop), half of them mirrored.
  bool augment = false;
  int64_t shorter = 0;
  std::array<double, 2> scale = {0.08, 1}, ratio = {3.0 / 4, 4.0 / 3};
  double mirrored = 0.5;  ///< share of mirrored pictures with `augment`
  Filter filter = Filter::bilinear;
  /// ImageNet's.
  Normalization normalization = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
};

/// What the loader makes of one picture; `rng` is used with augment alone.
Picture fit_picture(const Picture& x, const PictureLoaderOptions& options, Rng& rng);

/// Batches of images (B, 3, size, size) f32, normalised, with labels and indices.
Loader<Batch> picture_loader(Dataset<PictureSample> data, const PictureLoaderOptions& options);

}  // namespace tern::data
