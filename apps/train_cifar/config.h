// Model, pictures and recipe of a training. A run stores them in its folder as config.json, and in
// its checkpoint; runs of earlier versions have them only there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training/training_options.h"
#include "tern/data/images/labelled_pictures.h"

namespace tern::apps::train_cifar {

using datasets::PictureForm;

struct TrainOptions : TrainingOptions {
  std::string data;  ///< folder or archive; empty: generated pictures
  std::string model = "gmlp-4m";
  int64_t batch = 32;
  double label_smoothing = 0;
  std::string augment = "none";
  bool flip = true;              ///< mirror pictures, if `augment` is not none
  bool alternate_flips = false;  ///< datasets::AugmentOptions
  bool drop_last = false;        ///< leave out the last batch of an epoch if it is not full
  std::string tta = "none";      ///< views of a picture in the final test: view_names()
  bool exif_rotation = true;     ///< rotate pictures in folders by their EXIF data
  bool skip_damaged = false;     ///< leave out pictures in folders that cannot be read
  double mixup = 0, cutmix = 0;  ///< alpha of the Beta distribution; 0: off
  double dropout = 0.1;
  int64_t limit = 0;    ///< largest number of training (and of test) images; 0: all
  double hold_out = 0;  ///< share of the training images, held out to choose the best epoch
  std::string init;     ///< weights to start from; empty: random ones

  // Read from the data. Older files lack it: they are all for CIFAR-10.
  PictureForm form;
  std::vector<std::string> class_names;
  bool split_by_seed = false;  ///< datasets::LabelledPictures

  TrainOptions();
};

/// Options for reading pictures from folders.
datasets::FolderReading folder_reading(const TrainOptions& options);

/// Lists the settings (apps/common/command_line/settings.h).
void settings(Settings& settings, TrainOptions& options);
/// Error if settings contradict each other.
void check_config(const TrainOptions& options);

/// The defaults for training a model.
TrainOptions default_options(const std::string& model);
/// A line for each model whose defaults differ from those of `model`: flags that would set them.
std::string other_defaults(const std::string& model);

/// Copies these settings.
void copy_settings(const GivenKeys& keys, TrainOptions from, TrainOptions& to);

}  // namespace tern::apps::train_cifar
