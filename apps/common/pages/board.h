// Adds the pictures of the programs' reports to TensorBoard (--tensorboard). The training loop
// itself writes scalars and histograms (train/loop.h).
#pragma once

#include <cstdint>
#include <string>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/html.h"
#include "tern/models/heatmaps.h"
#include "tern/train/tensorboard.h"

namespace tern::apps {

/// Adds the bitmap, enlarged to about 256 pixels: TensorBoard would blur it when enlarging.
void add_bitmap(training::EventWriter& events, const std::string& tag, const Bitmap& bitmap,
                int64_t step);

/// Adds each layer's weights, averaged over its heads. A tag: "attention/Cross attention, layer 2,
/// mean of its heads".
void add_attention(training::EventWriter& events, const AttentionSentence& sentence, int64_t step,
                   const std::string& heading = "attention");

/// Adds every map in colours from -m (blue) to m (red), where m is the largest absolute value of
/// its layer. A tag: "Spatial weights/Layer 2, head 1".
void add_heatmaps(training::EventWriter& events, const models::Heatmaps& maps, int64_t step);

}  // namespace tern::apps
