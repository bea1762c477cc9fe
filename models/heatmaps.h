// What a model of the zoo can tell of itself beside its output, for reports. Each is a member
// function that it may have; what it has not is left out of the report:
//
//   std::string summary() const;                        // "3 blocks on 17 tokens of 512 channels"
//   int64_t patch_size() const;                         // side in pixels of what a token sees
//   Heatmaps heatmaps(const Tensor& images) const;      // weights, or attention for these images
//   PatchMaps patch_maps(const Tensor& images) const;   // how much each patch of these counts
#pragma once

#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::models {

/// Matrices of one layer.
struct Heatmap {
  std::string title;  ///< "Layer 2"
  Tensor values;      ///< (maps, rows, columns), without history, and not the model's own elements
  std::vector<std::string> labels = {};  ///< of the maps: "head 2"; empty: the title says enough
  std::string mean_label = "";  ///< of the mean of the maps, shown behind them; empty: it is not
};

struct Heatmaps {
  std::string title;    ///< of them all: "Spatial weights"
  std::string caption;  ///< what a row and a column are
  std::vector<Heatmap> maps;
};

/// Maps of some images, on the grid of their patches.
struct PatchMap {
  std::string title;                     ///< "Layer 2"
  Tensor values;                         ///< (images, maps, rows, columns), without history
  std::vector<std::string> labels = {};  ///< of the maps: "head 2"; empty: the title says enough
};

struct PatchMaps {
  std::string title;    ///< of them all: "Attention"
  std::string caption;  ///< what a value says
  std::vector<PatchMap> maps;
};

/// "head 1", "head 2", ...
std::vector<std::string> head_labels(int64_t heads);

}  // namespace tern::models
