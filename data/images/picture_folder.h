// Images on disk in one folder per class, as in torchvision's ImageFolder, and batches of them.
//
//   datasets::PictureFolder train = datasets::open_picture_folder("imagenette/train");
//   auto loader = datasets::picture_loader(train.dataset(), {.size = 128, .augment = true});
//   for (datasets::Batch& batch : loader) loss(model(batch.images), batch.labels);
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tern/data/images/labelled_loader.h"
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

/// Whether a file is read as a picture, by its name: .png, .jpg, .jpeg, .jpe or .jfif in any case.
bool is_picture_file(const std::string& path);

/// How many files were not used, by their kind: {{".txt", 2}, {"hidden", 1}}.
using UnusedFiles = std::map<std::string, int64_t>;

/// "3 files were not used: .txt 2, hidden 1"; empty if there are none. If some are pictures of
/// other formats, names a command that converts them.
std::string unused_text(const UnusedFiles& unused);

struct PictureFolder {
  std::vector<std::string> class_names;  ///< the folders in ascending order; label i has name i
  std::vector<PictureFile> files;        ///< by class, then by path
  UnusedFiles unused;                    ///< files that are not pictures, or not in a class
  /// Reads and decodes a file when its sample is requested.
  Dataset<PictureSample> dataset(const DecodeOptions& options = {}) const;
  /// Reads and decodes all files on all threads, and removes the damaged ones, so that training on
  /// the others does not fail. Returns an error text for each damaged file.
  std::vector<std::string> drop_damaged(const DecodeOptions& options = {});
};

/// Searches FOLDER/CLASS/ and its subfolders (without following links) for pictures, and counts
/// other files. Names that begin with a dot (.git, the ._1.jpg of a Mac) and __MACOSX are neither
/// classes nor pictures, at any depth. Reads no image yet. IoError: no folder, no classes, or a
/// class without images.
PictureFolder open_picture_folder(const std::string& folder);

/// The pictures in a folder and its subfolders by the same rules, without classes.
struct FoundPictures {
  std::vector<std::string> paths;  ///< in ascending order
  UnusedFiles unused;
};
FoundPictures find_pictures(const std::string& folder);

struct PictureLoaderOptions {
  LoaderOptions order = {};
  int64_t size = 224;  ///< side of the batch's images: (B, 3, size, size)
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

/// Crops and resizes one image as the loader does. Uses `rng` only with `augment`.
Picture fit_picture(const Picture& x, const PictureLoaderOptions& options, Rng& rng);

/// Batches of images (B, 3, size, size) f32, normalised, with labels and indices.
Loader<Batch> picture_loader(Dataset<PictureSample> data, const PictureLoaderOptions& options);

}  // namespace tern::datasets
