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
  /// What the best epoch's weights do on the test images, in the columns of those held out; empty
  /// before the end, and where none are held out.
  training::Metrics tested = {};
  std::string shown = "Test images";  ///< what the images below are
  std::vector<std::string> class_names;
  int64_t patch = 0;                         ///< side of a patch in pixels; 0: the model sees none
  models::Heatmaps before = {}, after = {};  ///< training; may have no maps
  models::PatchMaps patches = {};            ///< of the first images of `predictions`, likewise
  std::vector<int64_t> confusion;       ///< classes x classes, row: true class, column: prediction
  std::vector<Prediction> predictions;  ///< some; the first one is also shown in patches
  std::vector<Prediction> mistakes;     ///< wrong answers that the model was sure of
};

/// The picture in grey, each patch the redder the more its value (row-major) is above 1 / N.
/// `most`: the value that is the reddest; 0: the largest of them.
Bitmap overlay(const Bitmap& picture, const std::vector<float>& values, int64_t rows,
               int64_t columns, double most = 0);

/// The page as text (write it with write_file_atomically).
std::string make_report(const ReportData& data);

}  // namespace tern::apps::train_cifar
