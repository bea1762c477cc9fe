// Member functions of a model for reports that show more than its output. A model of train_cifar
// has summary(). The others are optional, and reports leave out what a model lacks:
//
//   std::string summary() const;                        // "3 blocks on 17 tokens of 512 channels"
//   int64_t patch_size() const;                         // side of a token's patch in pixels
//   Heatmaps heatmaps(const Tensor& images) const;      // weights, or attention for these images
//   PatchMaps patch_maps(const Tensor& images) const;   // importance of each patch of these images
#pragma once

#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::models {

/// Matrices of one layer.
struct Heatmap {
  std::string title;  ///< "Layer 2"
  Tensor values;      ///< (maps, rows, columns), without history; not the model's own memory
  std::vector<std::string> labels = {};  ///< of the maps: "head 2"; empty: none
  std::string mean_label = "";  ///< of the mean of the maps, shown after them; empty: no mean
};

struct Heatmaps {
  std::string title;    ///< of the whole: "Spatial weights"
  std::string caption;  ///< says what rows and columns are
  std::vector<Heatmap> maps;
};

/// Maps of several images, on their grid of patches.
struct PatchMap {
  std::string title;                     ///< "Layer 2"
  Tensor values;                         ///< (images, maps, rows, columns), without history
  std::vector<std::string> labels = {};  ///< of the maps: "head 2"; empty: none
};

struct PatchMaps {
  std::string title;    ///< of the whole: "Attention"
  std::string caption;  ///< says what a value means
  std::vector<PatchMap> maps;
};

/// "head 1", "head 2", ...
std::vector<std::string> head_labels(int64_t heads);

}  // namespace tern::models
