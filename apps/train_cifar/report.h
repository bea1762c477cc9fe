// report.html of a training run: one self-contained page that a person opens in a browser.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tern::apps {

/// One line of log.jsonl.
struct EpochRecord {
  int64_t epoch = 0;  ///< 1, 2, ...
  double train_loss = 0, train_top1 = 0;
  double test_loss = 0;
  std::array<double, 5> test_top = {};  ///< top-1 .. top-5
  double images_per_s = 0, lr = 0, seconds = 0;
};

/// A picture of the data set: channels R, G, B after each other, 8 bits.
struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  ///< 3 * height * width
};

/// The spatial weights of one layer, `heads` matrices of n x n, before and after training.
struct SpatialWeights {
  std::string name;
  int64_t heads = 1, n = 0;
  std::vector<float> before = {}, after = {};  ///< heads * n * n, row-major
};

struct Prediction {
  Picture picture;
  int64_t label = 0;
  std::vector<float> probabilities;  ///< a class each
};

struct ReportData {
  std::string title;                                       ///< "gmlp-4m on CIFAR-10"
  std::vector<std::pair<std::string, std::string>> facts;  ///< what ran: model, data, flags, ...
  std::vector<EpochRecord> epochs;
  std::vector<std::string> class_names;
  Picture sample;           ///< shown cut into patches
  int64_t patch = 8;        ///< side of a patch in pixels
  bool class_token = true;  ///< token 0 of the spatial weights is the class token
  std::vector<SpatialWeights> layers;
  std::vector<int64_t> confusion;       ///< classes x classes, row: true class, column: prediction
  std::vector<Prediction> predictions;  ///< some
  std::vector<Prediction> mistakes;     ///< wrong answers that the model was sure of
};

/// The page as text (write it with write_file_atomically).
std::string make_report(const ReportData& data);

}  // namespace tern::apps
