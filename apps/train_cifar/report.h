// report.html of a training run: one self-contained page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/pages/run_page.h"
#include "tern/models/heatmaps.h"

namespace tern::apps::train_cifar {

struct Prediction {
  Bitmap picture;
  int64_t label = 0;
  std::vector<float> probabilities;  ///< one per class
};

struct ReportData {
  RunSummary run;         ///< "gmlp-4m on CIFAR-10"
  int ranks = 5;          ///< top-1 to top-5; fewer if there are fewer classes
  bool held_out = false;  ///< epochs are evaluated on images held out
  /// Metrics on the test images of the best epoch's weights (the last epoch's if no images are held
  /// out), under the names of the epochs' columns. Empty before the end of the run, and if no
  /// images are held out and --tta is none.
  training::Metrics tested = {};
  std::string views = {};             ///< views that `tested` averages over: views_text()
  std::string shown = "Test images";  ///< the kind of the images below
  std::vector<std::string> class_names;
  int64_t images = 0;                        ///< images that the present model was evaluated on
  int64_t patch = 0;                         ///< side of a patch in pixels; 0: no patches
  int64_t stem = 0;                          ///< convolutions before the tokens; 0: cut patches
  models::Heatmaps before = {}, after = {};  ///< before and after training; may have no maps
  models::PatchMaps patches = {};            ///< for the first `predictions`; may have no maps
  std::vector<int64_t> confusion;       ///< classes x classes, row: true class, column: prediction
  std::vector<Prediction> predictions;  ///< examples; the first is also shown in patches
  std::vector<Prediction> mistakes;     ///< wrong answers with high probability
};

/// The picture, and to its right in the same size a map (rows, columns) of the weights of its
/// patches, from white (smallest) to dark blue (largest).
Bitmap picture_and_map(const Bitmap& picture, const Tensor& shares);

/// Scores of a class: tp / (tp + fn), tp / (tp + fp) and their harmonic mean; NaN for 0 / 0.
struct ClassScores {
  double recall = 0, precision = 0, f1 = 0;
};
/// The scores of each class, from counts (classes x classes; row: true class, column: prediction).
std::vector<ClassScores> class_scores(const std::vector<int64_t>& confusion, size_t classes);

/// The page as text (write it with write_file_atomically).
std::string make_report(const ReportData& data);

}  // namespace tern::apps::train_cifar
