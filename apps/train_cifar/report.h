// report.html of a training run: one self-contained page that a person opens in a browser.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/common/run_page.h"
#include "tern/models/heatmaps.h"

namespace tern::apps::train_cifar {

/// A picture of the data set: channels R, G, B after each other, 8 bits.
struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  ///< 3 * height * width
};

struct Prediction {
  Picture picture;
  int64_t label = 0;
  std::vector<float> probabilities;  ///< a class each
};

/// What the best epoch's weights do on the test images, in a run that held images out.
struct BestTested {
  std::array<double, 5> top = {};  ///< as Evaluation::top
  double loss = 0;
};

struct ReportData {
  RunSummary run;                     ///< "gmlp-4m on CIFAR-10"
  int ranks = 5;                      ///< top-1 to top-5; of fewer classes fewer
  bool held_out = false;              ///< epochs are measured on images held out
  std::optional<BestTested> tested;   ///< none before the end
  std::string shown = "Test images";  ///< what the images below are
  std::vector<std::string> class_names;
  int64_t patch = 0;                         ///< side of a patch in pixels; 0: the model sees none
  models::Heatmaps before = {}, after = {};  ///< training; may have no maps
  models::PatchMaps patches = {};            ///< of the first images of `predictions`, likewise
  std::vector<int64_t> confusion;       ///< classes x classes, row: true class, column: prediction
  std::vector<Prediction> predictions;  ///< some; the first one is also shown in patches
  std::vector<Prediction> mistakes;     ///< wrong answers that the model was sure of
};

/// The page as text (write it with write_file_atomically).
std::string make_report(const ReportData& data);

}  // namespace tern::apps::train_cifar
