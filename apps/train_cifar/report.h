// report.html of a training run: one self-contained page that a person opens in a browser.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/html.h"
#include "tern/apps/common/run_page.h"
#include "tern/models/heatmaps.h"

namespace tern::apps::train_cifar {

struct Prediction {
  Bitmap picture;
  int64_t label = 0;
  std::vector<float> probabilities;  ///< a class each
};

struct ReportData {
  RunSummary run;         ///< "gmlp-4m on CIFAR-10"
  int ranks = 5;          ///< top-1 to top-5; of fewer classes fewer
  bool held_out = false;  ///< epochs are measured on images held out
  /// What the best epoch's weights (where none are held out, the last one's) do on the test images,
  /// in the columns of those that epochs are measured on; empty before the end, and without --tta
  /// where none are held out.
  training::Metrics tested = {};
  std::string views = {};  ///< over which the answers of `tested` are means: views_text()
  std::string shown = "Test images";  ///< what the images below are
  std::vector<std::string> class_names;
  int64_t images = 0;                        ///< that the model as it is was measured on
  int64_t patch = 0;                         ///< side of a patch in pixels; 0: the model sees none
  int64_t stem = 0;                          ///< convolutions before the tokens; 0: patches are cut
  models::Heatmaps before = {}, after = {};  ///< training; may have no maps
  models::PatchMaps patches = {};            ///< of the first images of `predictions`, likewise
  std::vector<int64_t> confusion;       ///< classes x classes, row: true class, column: prediction
  std::vector<Prediction> predictions;  ///< some; the first one is also shown in patches
  std::vector<Prediction> mistakes;     ///< wrong answers that the model was sure of
};

/// The picture, and to its right in the same size a map (rows, columns) of how much its patches
/// count, from white for the least to dark blue for the most.
Bitmap picture_and_map(const Bitmap& picture, const Tensor& shares);

/// Of a class: tp / (tp + fn), tp / (tp + fp) and their harmonic mean; NaN where nothing is divided
/// by nothing.
struct ClassScores {
  double recall = 0, precision = 0, f1 = 0;
};
/// The scores of each class from classes x classes counts, row: true class, column: prediction.
std::vector<ClassScores> class_scores(const std::vector<int64_t>& confusion, size_t classes);

/// The page as text (write it with write_file_atomically).
std::string make_report(const ReportData& data);

}  // namespace tern::apps::train_cifar
