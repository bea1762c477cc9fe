// Texts about model, images and results, and the data of the report.
#include "tern/apps/train_cifar/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/nn/module.h"
#include "tern/train/progress.h"

namespace tern::apps::train_cifar {
namespace {

constexpr size_t kPredictions = 12;
constexpr int64_t kPictures = 4;  // pictures with maps of their patches

Prediction prediction(const CifarTraining& t, const Evaluation& e, size_t i) {
  auto first = e.probabilities.begin() + static_cast<std::ptrdiff_t>(i) * e.classes;
  const LabelledPicture sample = t.evaluated_set().get(static_cast<int64_t>(i));
  return {picture_of(sample, t.form), sample.label, {first, first + e.classes}};
}

// The wrong predictions with the highest probabilities.
std::vector<Prediction> worst(const CifarTraining& t, const Evaluation& e) {
  const datasets::Dataset<LabelledPicture>& set = t.evaluated_set();
  std::vector<std::pair<float, size_t>> wrong;
  for (size_t i = 0; i < static_cast<size_t>(e.images); ++i) {
    auto row = e.probabilities.begin() + static_cast<std::ptrdiff_t>(i) * e.classes;
    auto guess = std::max_element(row, row + e.classes);
    if (guess - row != set.get(static_cast<int64_t>(i)).label) wrong.emplace_back(-*guess, i);
  }
  std::sort(wrong.begin(), wrong.end());
  std::vector<Prediction> out;
  for (size_t k = 0; k < std::min(kPredictions, wrong.size()); ++k)
    out.push_back(prediction(t, e, wrong[k].second));
  return out;
}

}  // namespace

std::string describe_model(const ImageClassifier& model) {
  return fmt::format("{}, {} weights: {}", model.name, training::grouped(nn::num_parameters(model)),
                     std::visit([](const auto& n) { return n.summary(); }, model.network));
}

std::string images_text(int64_t train, int64_t held, int64_t test, const std::string& note) {
  return fmt::format("{} training{} and {} test images{}", training::grouped(train),
                     held > 0 ? fmt::format(", {} held-out", training::grouped(held)) : "",
                     training::grouped(test), note);
}

Facts describe(const CifarTraining& t, const std::string& data_path) {
  return {
      {"model", describe_model(t.model)},
      {"data",
       fmt::format("{}{}: {}, {} steps per epoch", data_path,
                   t.options.data.empty() ? " (generated, not CIFAR-10)" : "",
                   images_text(t.train_set.size(), t.held_set.size(), t.test_set.size(), t.note),
                   training::grouped(training::steps_per_epoch(t.loader, t.options.accumulate)))}};
}

ReportData report_data(const CifarTraining& t, const Facts& facts,
                       const std::vector<std::string>& class_names, const RunRecord& record) {
  const Evaluation& e = *t.evaluation;
  ReportData d;
  d.run = summary_of(fmt::format("{} on {}", t.options.model,
                                 t.options.data.empty() ? "generated shapes" : t.kind),
                     facts, record, t.loop);
  if (t.options.hold_out == 0) d.run.best = 0;  // no epoch was chosen
  d.held_out = t.options.hold_out > 0;
  if (t.best_tested) d.tested = metrics_of(e, d.held_out ? "valid" : "test");
  if (t.best_tested) d.views = views_text(views_named(t.options.tta));
  d.ranks = static_cast<int>(e.ranks());
  if (d.held_out && !t.best_tested) d.shown = "Images held out";
  d.class_names = class_names;
  d.images = e.images;
  d.stem = std::visit(
      [](const auto& n) {
        if constexpr (requires { n.options.stem; })
          return std::ssize(n.options.stem);
        else
          return std::ptrdiff_t{0};
      },
      t.model.network);
  d.patch = std::visit(
      [](const auto& n) -> int64_t {
        if constexpr (requires { n.patch_size(); }) return n.patch_size();
        return 0;
      },
      t.model.network);
  d.before = t.initial;
  d.after = t.heatmaps();
  if (e.images > 0) d.patches = t.patch_maps(std::min(kPictures, e.images));
  d.confusion = e.confusion;
  for (size_t i = 0; i < std::min(kPredictions, static_cast<size_t>(e.images)); ++i)
    d.predictions.push_back(prediction(t, e, i));
  d.mistakes = worst(t, e);
  return d;
}

std::vector<std::string> result_lines(const CifarTraining& t) {
  const Evaluation& e = *t.evaluation;
  const std::string views = t.best_tested ? views_text(views_named(t.options.tta)) : "";
  const std::string test = fmt::format("test loss {:.4f}, top-1 {:.2f} %{}", e.loss, 100 * e.top[0],
                                       views.empty() ? "" : " with " + views);
  const training::RunFolder& folder = t.loop.folder();
  if (t.options.hold_out == 0)
    return {fmt::format("last {} {}: {}, {}", t.loop.epoch_word(), t.loop.history().back().epoch,
                        test, folder.weights())};
  const training::EpochRecord& best = t.loop.best_epoch();
  return {fmt::format("best {} {}: top-1 {:.2f} % of the images held out, {}", t.loop.epoch_word(),
                      best.epoch, 100 * best["valid_top1"], folder.best_weights()),
          test};
}

std::string accuracy_lines(const std::array<double, 5>& top, int64_t ranks) {
  std::string s;
  for (size_t k = 0; k < static_cast<size_t>(ranks); ++k)
    s += fmt::format("Top-{} accuracy: {:.4f}\n", k + 1, top[k]);
  return s;
}

}  // namespace tern::apps::train_cifar
