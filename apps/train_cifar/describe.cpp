#include "tern/apps/train_cifar/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tern/apps/common/machine.h"
#include "tern/apps/common/progress.h"
#include "tern/core/base/error.h"
#include "tern/nn/module.h"

namespace tern::apps {
namespace {

constexpr size_t kPredictions = 12;

std::string describe_model(const Trainer& t) {
  const models::GmlpOptions& o = t.model().options;
  int64_t n = t.model().spatial_weights().at(0).size(-1);
  return fmt::format("{}, {} weights: {} blocks on {} tokens of {} channels", t.options().model,
                     grouped(nn::num_parameters(t.model())), o.layers, n, o.dim);
}

std::string describe_recipe(const Trainer& t) {
  const TrainOptions& o = t.options();
  std::string s =
      fmt::format("{} epochs of {} steps, batch {}, AdamW, lr {:g} {}, weight decay {:g}", o.epochs,
                  grouped(t.steps_per_epoch()), o.batch, o.lr, o.schedule, o.weight_decay);
  auto add = [&](bool on, const char* name, double value) {
    if (on) s += fmt::format(", {} {:g}", name, value);
  };
  add(o.warmup > 0, "warm-up", static_cast<double>(o.warmup));
  add(o.label_smoothing > 0, "label smoothing", o.label_smoothing);
  if (o.augment != "none") s += ", augmentation " + o.augment;
  add(o.mixup > 0, "mixup", o.mixup);
  add(o.cutmix > 0, "cutmix", o.cutmix);
  add(o.ema > 0, "averaged weights", o.ema);
  add(o.clip > 0, "clip", o.clip);
  s += fmt::format(", dropout {:g}, seed {}", o.dropout, o.seed);
  return o.init.empty() ? s : s + ", weights from " + o.init;
}

Prediction prediction(const data::Dataset<data::ImageSample>& set, const Evaluation& e, size_t i) {
  auto first = e.probabilities.begin() + static_cast<std::ptrdiff_t>(i) * e.classes;
  data::ImageSample sample = set.get(static_cast<int64_t>(i));
  return {{data::kImageSide, data::kImageSide, {sample.image->begin(), sample.image->end()}},
          sample.label,
          {first, first + e.classes}};
}

// The wrong answers that the model was surest of.
std::vector<Prediction> worst(const data::Dataset<data::ImageSample>& set, const Evaluation& e) {
  std::vector<std::pair<float, size_t>> wrong;
  for (size_t i = 0; i < static_cast<size_t>(e.images); ++i) {
    auto row = e.probabilities.begin() + static_cast<std::ptrdiff_t>(i) * e.classes;
    auto guess = std::max_element(row, row + e.classes);
    if (guess - row != set.get(static_cast<int64_t>(i)).label) wrong.emplace_back(-*guess, i);
  }
  std::sort(wrong.begin(), wrong.end());
  std::vector<Prediction> out;
  for (size_t k = 0; k < std::min(kPredictions, wrong.size()); ++k)
    out.push_back(prediction(set, e, wrong[k].second));
  return out;
}

int64_t pixels_per_token(const models::GmlpOptions& o) {
  return std::accumulate(o.stem.begin(), o.stem.end(), o.patch,
                         [](int64_t p, const models::StemLayer& l) { return p * l.stride; });
}

}  // namespace

Facts describe(const Trainer& t, const std::string& data_path) {
  return {{"model", describe_model(t)},
          {"data", fmt::format("{}: {} training and {} test images", data_path,
                               grouped(t.train_images()), grouped(t.test_set().size()))},
          {"recipe", describe_recipe(t)},
          {"machine", describe_machine()}};
}

ReportData report_data(Trainer& t, const Facts& facts, const Evaluation& e,
                       const std::vector<std::string>& class_names) {
  const std::vector<EpochRecord>& history = t.progress().history;
  double seconds = std::accumulate(history.begin(), history.end(), 0.0,
                                   [](double s, const EpochRecord& r) { return s + r.seconds; });
  ReportData d;
  d.title = fmt::format("{} on {}", t.options().model,
                        t.options().data.empty() ? "drawn shapes" : "CIFAR-10");
  d.facts = facts;
  d.facts.emplace_back("time", fmt::format("{} for {} epoch{}", clock_time(seconds), history.size(),
                                           history.size() == 1 ? "" : "s"));
  d.epochs = history;
  d.class_names = class_names;
  d.patch = pixels_per_token(t.model().options);
  d.class_token = t.model().options.class_token;
  d.layers = t.spatial_weights();
  d.confusion = e.confusion;
  for (size_t i = 0; i < std::min(kPredictions, static_cast<size_t>(e.images)); ++i)
    d.predictions.push_back(prediction(t.test_set(), e, i));
  if (!d.predictions.empty()) d.sample = d.predictions[0].picture;
  d.mistakes = worst(t.test_set(), e);
  return d;
}

std::string epoch_line(const EpochRecord& e, int64_t epochs) {
  return fmt::format(
      "epoch {:{}}/{}  train loss {:.4f} top-1 {:5.2f} %  test loss {:.4f} top-1 {:5.2f} %  "
      "{:.0f} images/s  lr {:.3g}  {}",
      e.epoch, fmt::formatted_size("{}", epochs), epochs, e.train_loss, 100 * e.train_top1,
      e.test_loss, 100 * e.test_top[0], e.images_per_s, e.lr, clock_time(e.seconds));
}

std::string accuracy_lines(const std::array<double, 5>& top) {
  std::string s;
  for (size_t k = 0; k < top.size(); ++k)
    s += fmt::format("Top-{} accuracy: {:.2f}\n", k + 1, top[k]);
  return s;
}

}  // namespace tern::apps
