#include "tern/apps/train_cifar/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::train_cifar {
namespace {

void count_rows(Evaluation& e, const std::vector<float>& rows, const std::vector<int64_t>& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const float* row = &rows[i * static_cast<size_t>(e.classes)];
    int64_t rank = rank_of(row, e.classes, labels[i]);
    for (int64_t k = rank; k < std::ssize(e.top); ++k) e.top[static_cast<size_t>(k)] += 1;
    int64_t guess = std::max_element(row, row + e.classes) - row;
    ++e.confusion[static_cast<size_t>(labels[i] * e.classes + guess)];
  }
  e.images += std::ssize(labels);
  e.probabilities.insert(e.probabilities.end(), rows.begin(), rows.end());
}

void add_batch(Evaluation& e, const Tensor& logits, const Tensor& labels) {
  if (e.classes == 0) {
    e.classes = logits.size(1);
    e.confusion.assign(static_cast<size_t>(e.classes * e.classes), 0);
  }
  e.loss += cross_entropy(logits, labels, {.reduction = Reduction::sum}).item();
  count_rows(e, softmax(logits, -1).to_vector<float>(), labels.to_vector<int64_t>());
}

}  // namespace

int64_t rank_of(const float* scores, int64_t classes, int64_t label) {
  int64_t rank = 0;
  for (int64_t j = 0; j < classes; ++j) {
    if (!std::isfinite(scores[j])) return classes;
    rank += scores[j] > scores[label] || (scores[j] == scores[label] && j < label);
  }
  return rank;
}

std::optional<Evaluation> evaluate(const ImageClassifier& model, data::Loader<data::Batch>& batches,
                                   const EvaluationProgress& progress) {
  NoGradGuard no_grad;
  Evaluation e;
  if (batches.position().batch > 0) batches.seek({});  // another evaluation was stopped there
  for (data::Batch& batch : batches) {
    add_batch(e, model(batch.images), batch.labels);
    if (progress && !progress(e.images)) return std::nullopt;
  }
  auto n = static_cast<double>(std::max<int64_t>(e.images, 1));
  e.loss /= n;
  for (double& top : e.top) top /= n;
  return e;
}

std::string prediction_line(const std::string& file, const ImageClassifier& model,
                            const std::vector<std::string>& names) {
  NoGradGuard no_grad;
  constexpr size_t kShown = 3;
  const PictureForm& form = model.form();
  std::vector<uint8_t> bytes(static_cast<size_t>(form.numbers()));
  data::write_planes(data::load_picture(file), form, bytes.data());
  const auto shared = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  const data::Dataset<LabelledPicture> one(
      std::vector<LabelledPicture>{{{shared, shared->data()}, 0}});
  const auto p = softmax(model(first_images(one, form, 1)), -1).to_vector<float>();
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  std::string line = file + ":";
  for (size_t k = 0; k < std::min(kShown, order.size()); ++k)
    line += fmt::format("{} {} {:.1f} %", k == 0 ? "" : ",",
                        order[k] < names.size() ? names[order[k]] : std::to_string(order[k]),
                        100 * p[order[k]]);
  return line + "\n";
}

}  // namespace tern::apps::train_cifar
