// What a model of the zoo can tell of itself beside its output, for reports. Each is a member
// function that it may have; what it has not is left out of the report:
//
//   std::string summary() const;                        // "3 blocks on 17 tokens of 512 channels"
//   int64_t patch_size() const;                         // side in pixels of what a token sees
//   Heatmaps heatmaps(const Tensor& images) const;      // weights, or attention for these images
#pragma once

#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::models {

/// Matrices of one layer.
struct Heatmap {
  std::string title;  ///< "Layer 2"
  Tensor values;      ///< (heads, rows, columns), without history, and not the model's own elements
};

struct Heatmaps {
  std::string title;    ///< of them all: "Spatial weights"
  std::string caption;  ///< what a row and a column are
  std::vector<Heatmap> maps;
};

}  // namespace tern::models
