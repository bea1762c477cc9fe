// Scores the batches of a set, which ranks share, and adds up accuracy, loss and confusion matrix.
#include "tern/apps/train_cifar/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::train_cifar {
namespace {

// Returns the number of pictures in a batch, the sum of their losses, their labels, and the
// probabilities of all classes for each picture.
dist::Numbers score(const ImageClassifier& model, const datasets::Batch& batch, Views views) {
  const Tensor logits = logits_of(model, batch.images, views);
  const auto labels = batch.labels.to_vector<double>();
  const auto probabilities = softmax(logits, -1).to_vector<double>();
  dist::Numbers n = {static_cast<double>(labels.size()),
                     cross_entropy(logits, batch.labels, {.reduction = Reduction::sum}).item()};
  n.insert(n.end(), labels.begin(), labels.end());
  n.insert(n.end(), probabilities.begin(), probabilities.end());
  return n;
}

void count_row(Evaluation& e, const float* row, int64_t label) {
  for (int64_t k = rank_of(row, e.classes, label); k < std::ssize(e.top); ++k)
    e.top[static_cast<size_t>(k)] += 1;
  const int64_t guess = std::max_element(row, row + e.classes) - row;
  ++e.confusion[static_cast<size_t>(label * e.classes + guess)];
}

void add(Evaluation& e, const dist::Numbers& n) {
  const auto images = static_cast<size_t>(n[0]), labels = size_t{2}, rows = labels + images;
  if (e.classes == 0) {
    e.classes = static_cast<int64_t>((n.size() - rows) / images);
    e.confusion.assign(static_cast<size_t>(e.classes * e.classes), 0);
  }
  e.loss += n[1];
  const size_t before = e.probabilities.size();
  e.probabilities.insert(e.probabilities.end(), n.begin() + static_cast<int64_t>(rows), n.end());
  for (size_t i = 0; i < images; ++i)
    count_row(e, &e.probabilities[before + i * static_cast<size_t>(e.classes)],
              static_cast<int64_t>(n[labels + i]));
  e.images += static_cast<int64_t>(images);
}

}  // namespace

std::vector<size_t> likeliest(std::span<const float> p, size_t count) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  order.resize(std::min(count, order.size()));
  return order;
}

int64_t rank_of(const float* scores, int64_t classes, int64_t label) {
  int64_t rank = 0;
  for (int64_t j = 0; j < classes; ++j) {
    if (!std::isfinite(scores[j])) return classes;
    rank += scores[j] > scores[label] || (scores[j] == scores[label] && j < label);
  }
  return rank;
}

std::optional<Evaluation> evaluate(const ImageClassifier& model,
                                   datasets::Loader<datasets::Batch>& batches,
                                   const EvaluationProgress& progress, dist::World* world,
                                   Views views) {
  NoGradGuard no_grad;
  const auto images = [](const datasets::Batch& b) { return b.labels.size(0); };
  const auto scores =
      share_batches(world, "the evaluation", batches, progress, images,
                    [&](const datasets::Batch& b) { return score(model, b, views); });
  if (!scores) return std::nullopt;
  Evaluation e;
  for (const dist::Numbers& n : *scores) add(e, n);
  auto n = static_cast<double>(std::max<int64_t>(e.images, 1));
  e.loss /= n;
  for (double& top : e.top) top /= n;
  return e;
}

training::Metrics metrics_of(const Evaluation& e, const std::string& set) {
  training::Metrics m = {{set + "_loss", e.loss}};
  for (size_t k = 0; k < static_cast<size_t>(e.ranks()); ++k)
    m.emplace_back(fmt::format("{}_top{}", set, k + 1), e.top[k]);
  return m;
}

}  // namespace tern::apps::train_cifar
