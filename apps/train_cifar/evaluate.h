// Tests a model on a set of pictures.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/apps/common/training/evaluation.h"
#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/images.h"
#include "tern/apps/train_cifar/views.h"
#include "tern/train/metrics.h"

namespace tern::apps::train_cifar {

struct Evaluation {
  int64_t images = 0, classes = 0;
  double loss = 0;                 ///< mean cross entropy, without label smoothing
  std::array<double, 5> top = {};  ///< top-1 to top-5 accuracy
  /// How many of `top` are informative: with three classes, top-3 is always 1.
  int64_t ranks() const { return std::min(classes - 1, std::ssize(top)); }
  std::vector<int64_t> confusion;    ///< classes x classes, row: true class, column: prediction
  std::vector<float> probabilities;  ///< images x classes
};

/// "test_loss", "test_top1", ... for the set "test".
training::Metrics metrics_of(const Evaluation& evaluation, const std::string& set);

/// Tests `model`, which should be in evaluation mode (nn::EvalScope), on an epoch of
/// test_batches(). Empty if `progress` stopped it. Records no graph. The ranks of `world` share the
/// batches and get the same numbers as one process. Predictions are averaged over `views`.
std::optional<Evaluation> evaluate(const ImageClassifier& model,
                                   datasets::Loader<datasets::Batch>& batches,
                                   const EvaluationProgress& progress = {},
                                   dist::World* world = nullptr, Views views = Views::none);

/// The `count` classes with the highest probabilities, or all, the likeliest first.
std::vector<size_t> likeliest(std::span<const float> probabilities, size_t count);

/// The number of classes with a higher score than `label`; `classes` if scores are NaN.
int64_t rank_of(const float* scores, int64_t classes, int64_t label);

}  // namespace tern::apps::train_cifar
