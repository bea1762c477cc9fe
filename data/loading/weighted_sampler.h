// Samples drawn by weight: torch.utils.data.WeightedRandomSampler. For classes of which one has far
// more samples than another, give each sample the inverse of its class's number:
//
//   std::vector<double> weights;
//   for (int64_t label : labels) weights.push_back(1 / count[label]);
//   auto loader = dataset_loader(data, collate,
//                                {.batch = 32, .seed = 1, .sampler = weighted_sampler(weights)});
//
// What an epoch draws depends on the loader's seed and the epoch alone: on no number of workers,
// and a loader that is set to a saved position goes on with the same samples.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/data/loading/loader.h"

namespace tern::data {

struct WeightedSamplerOptions {
  int64_t num_samples = 0;  ///< drawn in an epoch; 0: as many as there are weights
  bool replacement = true;  ///< false: no sample twice in an epoch
};

/// Draws sample i with a probability of weights[i] / sum(weights). Without replacement each draw is
/// one among those that are left, by their weights, as torch.multinomial's: what is heavy comes
/// early. What has no weight never comes. Weights need not sum to 1.
///
/// Error: a weight is negative, infinite or NaN; all are 0; without replacement there are fewer
/// weights above 0 than samples to draw.
Sampler weighted_sampler(const std::vector<double>& weights,
                         const WeightedSamplerOptions& options = {});

}  // namespace tern::data
