// Tests a model on a set of pictures.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/images.h"
#include "tern/apps/train_cifar/views.h"
#include "tern/dist/world.h"
#include "tern/train/metrics.h"

namespace tern::apps::train_cifar {

struct Evaluation {
  int64_t images = 0, classes = 0;
  double loss = 0;                 ///< mean cross entropy, without label smoothing
  std::array<double, 5> top = {};  ///< share of pictures whose class is among the k likeliest
  /// How many of `top` are informative: with three classes, top-3 is always 1.
  int64_t ranks() const { return std::min(classes - 1, std::ssize(top)); }
  std::vector<int64_t> confusion;    ///< classes x classes, row: true class, column: prediction
  std::vector<float> probabilities;  ///< images x classes
};

/// "test_loss", "test_top1", ... of the set "test".
training::Metrics metrics_of(const Evaluation& evaluation, const std::string& set);

/// Called with the number of pictures done, about that of all ranks; false stops the evaluation.
using EvaluationProgress = std::function<bool(int64_t done)>;

/// Tests `model`, which should be in evaluation (nn::EvalScope), on an epoch of test_batches();
/// nothing if `progress` stopped it. No graph is recorded. The ranks of `world` share the batches,
/// with the same numbers as one process. The answers are those to `views`.
std::optional<Evaluation> evaluate(const ImageClassifier& model,
                                   datasets::Loader<datasets::Batch>& batches,
                                   const EvaluationProgress& progress = {},
                                   dist::World* world = nullptr, Views views = Views::none);

/// How many classes are likelier than `label`; `classes` where the scores are not numbers.
int64_t rank_of(const float* scores, int64_t classes, int64_t label);

}  // namespace tern::apps::train_cifar
