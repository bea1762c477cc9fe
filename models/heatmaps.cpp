// Labels of the maps that reports show.
#include "tern/models/heatmaps.h"

namespace tern::models {

std::vector<std::string> head_labels(int64_t heads) {
  std::vector<std::string> labels;
  for (int64_t h = 1; h <= heads; ++h) labels.push_back("head " + std::to_string(h));
  return labels;
}

}  // namespace tern::models
