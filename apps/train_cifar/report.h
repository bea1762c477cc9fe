// report.html of a training run: one self-contained page that a person opens in a browser.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/common/run_page.h"

namespace tern::apps::train_cifar {

/// A picture of the data set: channels R, G, B after each other, 8 bits.
struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  ///< 3 * height * width
};

/// What a layer of the model shows (models/heatmaps.h), before and after training.
struct LayerMaps {
  std::string name;
  int64_t maps = 1, rows = 0, columns = 0;
  std::vector<float> before = {}, after = {};  ///< (maps, rows, columns)
  std::vector<std::string> labels = {};        ///< of the maps, or none
  std::string mean_label = {};                 ///< of their mean; empty: it is not shown
};

/// How much each patch of a picture counts, in several ways: "Layer 2", head by head.
struct PatchShares {
  std::string name;
  int64_t maps = 1, rows = 0, columns = 0;
  std::vector<float> values = {};        ///< (maps, rows, columns)
  std::vector<std::string> labels = {};  ///< of the maps, or none
};

/// A picture with all its maps.
struct PictureMaps {
  Picture picture;
  std::string caption;
  std::vector<PatchShares> shares;
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
  Picture sample;     ///< shown cut into patches
  int64_t patch = 0;  ///< side of a patch in pixels; 0: the model sees none
  std::string maps_title, maps_caption;
  std::vector<LayerMaps> layers;
  std::string pictures_title, pictures_caption;
  std::vector<PictureMaps> pictures;
  std::vector<int64_t> confusion;       ///< classes x classes, row: true class, column: prediction
  std::vector<Prediction> predictions;  ///< some
  std::vector<Prediction> mistakes;     ///< wrong answers that the model was sure of
};

/// The page as text (write it with write_file_atomically).
std::string make_report(const ReportData& data);

}  // namespace tern::apps::train_cifar
