// Samples drawn by weight: torch.utils.data.WeightedRandomSampler. For unbalanced classes give each
// sample the inverse of its class's size:
//
//   std::vector<double> weights;
//   for (int64_t label : labels) weights.push_back(1 / count[label]);
//   auto loader = dataset_loader(data, collate,
//                                {.batch = 32, .seed = 1, .sampler = weighted_sampler(weights)});
//
// An epoch's samples depend only on the loader's seed and the epoch, not on the number of workers.
// A loader set to a saved position continues with the same samples.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/data/loading/loader.h"

namespace tern::datasets {

struct WeightedSamplerOptions {
  int64_t num_samples = 0;  ///< per epoch; 0: one per weight
  bool replacement = true;  ///< false: no sample twice per epoch
};

/// Draws sample i with probability weights[i] / sum(weights). Weights need not sum to 1; a weight
/// of 0 is never drawn. Without replacement each draw is among the remaining samples, by their
/// weights, as in torch.multinomial: heavy samples tend to come early.
///
/// Error: a weight is negative, infinite or NaN; all are 0; without replacement fewer weights are
/// above 0 than samples to draw. A loader refuses the sampler if it has not one weight per sample.
Sampler weighted_sampler(const std::vector<double>& weights,
                         const WeightedSamplerOptions& options = {});

}  // namespace tern::datasets
