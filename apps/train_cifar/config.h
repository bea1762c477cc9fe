// What is trained on which pictures, and how. Kept in a run's folder as config.json, and in its
// checkpoint, where earlier versions kept it alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training_options.h"
#include "tern/data/images/augment.h"

namespace tern::apps::train_cifar {

/// What a model is given, and what it tells apart.
struct PictureForm {
  int64_t side = data::kImageSide;          ///< height and width
  int64_t channels = data::kImageChannels;  ///< 3, or 1 of grey pictures
  int64_t classes = 10;
  data::Normalization normalization = {};
  int64_t numbers() const { return channels * side * side; }
};

struct TrainOptions : TrainingOptions {
  std::string data;  ///< folder or archive; empty: the drawn set
  std::string model = "gmlp-4m";
  int64_t batch = 32;
  double label_smoothing = 0;
  std::string augment = "none";
  double mixup = 0, cutmix = 0;  ///< alpha of the Beta distribution; 0: off
  double dropout = 0.1;
  int64_t limit = 0;    ///< use only so many training (and test) images; 0: all
  double hold_out = 0;  ///< share of the training images that chooses the best epoch
  std::string init;     ///< weights to start from; empty: drawn ones

  // What the data say; older files lack it, which are all of CIFAR-10.
  PictureForm form;
  std::vector<std::string> class_names;

  TrainOptions();
};

/// Its rows (apps/common/settings.h).
void settings(Settings& settings, TrainOptions& options);
/// Error where they do not go together.
void check_config(const TrainOptions& options);

/// What a model is trained with where no flag says otherwise.
TrainOptions default_options(const std::string& model);
/// The models whose defaults are others, and these, as flags: a line each, with one in front.
std::string other_defaults();

}  // namespace tern::apps::train_cifar
