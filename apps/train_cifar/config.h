// What is trained on which pictures, and how. A run keeps it in its folder as config.json, and in
// its checkpoint, where earlier versions kept it alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training_options.h"
#include "tern/data/images/labelled_pictures.h"

namespace tern::apps::train_cifar {

using datasets::PictureForm;

struct TrainOptions : TrainingOptions {
  std::string data;  ///< folder or archive; empty: generated pictures
  std::string model = "gmlp-4m";
  int64_t batch = 32;
  double label_smoothing = 0;
  std::string augment = "none";
  bool flip = true;              ///< mirror pictures, where `augment` changes them
  bool alternate_flips = false;  ///< datasets::AugmentOptions
  bool drop_last = false;        ///< leave out the last batch of an epoch if it is not full
  std::string tta = "none";      ///< views of a picture in the last test: view_names()
  bool exif_rotation = true;     ///< pictures in folders stand upright
  bool skip_damaged = false;     ///< leave out pictures in folders that cannot be read
  double mixup = 0, cutmix = 0;  ///< alpha of the Beta distribution; 0: off
  double dropout = 0.1;
  int64_t limit = 0;    ///< use only so many training (and test) images; 0: all
  double hold_out = 0;  ///< share of the training images that chooses the best epoch
  std::string init;     ///< weights to start from; empty: random ones

  // What the data say. Older files, which are all of CIFAR-10, lack it.
  PictureForm form;
  std::vector<std::string> class_names;

  TrainOptions();
};

/// How the pictures of folders are read.
datasets::FolderReading folder_reading(const TrainOptions& options);

/// The rows of the settings (apps/common/settings.h).
void settings(Settings& settings, TrainOptions& options);
/// Error where settings do not go together.
void check_config(const TrainOptions& options);

/// How a model is trained where no flag says otherwise.
TrainOptions default_options(const std::string& model);
/// The models with other defaults than gmlp-4m's, a line each: the flags that would set them.
std::string other_defaults();

/// The keys of settings whose flags were given.
using GivenKeys = std::vector<std::string>;
/// Copies these settings.
void copy_settings(const GivenKeys& keys, TrainOptions from, TrainOptions& to);
/// " --lr 0.001 --batch 64": the flags that turn one configuration into the other.
std::string flags_between(TrainOptions from, TrainOptions to);

}  // namespace tern::apps::train_cifar
