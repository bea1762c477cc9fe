// Turns attention and weight maps into images and adds them to TensorBoard's event file.
#include "tern/apps/common/pages/board.h"

#include <fmt/core.h>

#include <algorithm>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/heatmap.h"
#include "tern/core/ops/ops.h"

namespace tern::apps {

void add_bitmap(training::EventWriter& events, const std::string& tag, const Bitmap& b,
                int64_t step) {
  constexpr int64_t kSide = 256;
  const int64_t scale = std::max<int64_t>(kSide / std::max({b.width, b.height, int64_t{1}}), 1);
  events.add_image(tag, enlarged(b, scale), step);
}

void add_attention(training::EventWriter& events, const AttentionSentence& sentence, int64_t step,
                   const std::string& heading) {
  for (const AttentionGroup& group : sentence.groups)
    for (const AttentionMatrix& mean : layer_means(group))
      if (!mean.weights.empty())
        add_bitmap(events, heading + "/" + mean.title, attention_bitmap(mean), step);
}

void add_heatmaps(training::EventWriter& events, const models::Heatmaps& maps, int64_t step) {
  for (const models::Heatmap& layer : maps.maps) {
    if (layer.values.numel() == 0) continue;
    const double limit = std::max(max(abs(layer.values)).item(), 1e-30);
    for (int64_t i = 0; i < layer.values.size(0); ++i) {
      const Bitmap b = color_cells(
          layer.values[i].to_vector<float>(), layer.values.size(1), layer.values.size(2),
          [&](float v) { return diverging_color(static_cast<double>(v) / limit); });
      std::string tag = fmt::format("{}/{}", maps.title, layer.title);
      if (!layer.labels.empty())
        tag += ", " + layer.labels.at(static_cast<size_t>(i));
      else if (layer.values.size(0) > 1)
        tag += fmt::format(", {}", i + 1);
      add_bitmap(events, tag, b, step);
    }
  }
}

}  // namespace tern::apps
