// Builds the loaders, model, optimizer and loop of a training, evaluates it after each epoch, and
// tests the best weights.
#include "tern/apps/train_cifar/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tern/apps/common/pages/board.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/train_cifar/report.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/progress.h"

namespace tern::apps::train_cifar {
namespace {

// Whether the last batch of an epoch is left out if it is not full.
bool drops_last(const TrainOptions& o, int64_t images) { return o.drop_last && images >= o.batch; }

datasets::LabelledLoaderOptions loader_options(const TrainOptions& o, int64_t images) {
  datasets::AugmentOptions augment = datasets::AugmentOptions::named(o.augment);
  augment.flip = augment.flip && o.flip;
  augment.alternate_flips = o.alternate_flips;
  return {.order = {.batch = o.batch, .drop_last = drops_last(o, images), .seed = o.seed},
          .augment = augment,
          .mix = {.mixup = o.mixup, .cutmix = o.cutmix}};
}

// Sets the weights that a model computes from training images, if it has such weights (Airbench).
ImageClassifier fitted(ImageClassifier model, const TrainOptions& o,
                       const datasets::Dataset<LabelledPicture>& set) {
  auto* const network = std::get_if<models::Airbench>(&model.network);
  if (!network || !o.init.empty()) return model;
  constexpr int64_t kPixels = 5000 * datasets::kImagePixels;  // 5,000 pictures of CIFAR-10
  const int64_t count =
      std::clamp<int64_t>(kPixels / (model.form.side * model.form.side), 1, set.size());
  std::vector<int64_t> some;  // from the whole set, which may be sorted by class
  for (int64_t i = 0; i < count; ++i) some.push_back(i * set.size() / count);
  network->whiten(first_images(set.subset(std::move(some)), model.form, count));
  return model;
}

// The line that is printed after an epoch.
std::string epoch_line(const training::EpochRecord& e, const std::string& title) {
  const std::string set = e.has("valid_loss") ? "valid" : "test";
  return fmt::format("{}  train loss {:.4f} top-1 {:5.2f} %  {} loss {:.4f} top-1 {:5.2f} %", title,
                     e["train_loss"], 100 * e["train_top1"], set, e[set + "_loss"],
                     100 * e[set + "_top1"]);
}

NamedTensors numbered(const models::Heatmaps& maps) {
  NamedTensors out;
  for (const models::Heatmap& m : maps.maps)
    out.emplace_back(fmt::format("{}", out.size()), m.values);
  return out;
}

}  // namespace

ImageClassifier make_untrained(TrainOptions o) {
  o.init.clear();
  ShapeOnlyScope nothing;
  return make_model(o);
}

ImageClassifier make_model(const TrainOptions& o, bool says) {
  Rng rng(o.seed);
  ImageClassifier model = find_classifier(o.model).make(
      o.dropout, rng, nn::recompute_named(o.memory_use.recompute), o.form);
  if (!o.init.empty()) {
    const std::string note = start_from(o.init, model);
    if (says && !note.empty()) training::say(note, log_stream());
  }
  return model;
}

int64_t trained_images(const TrainOptions& o, int64_t images) {
  const int64_t all = o.limit > 0 ? std::min(images, o.limit) : images;
  return all - held_out(o.hold_out, all);
}

int64_t epoch_batches(const TrainOptions& o, int64_t images) {
  const int64_t trained = trained_images(o, images);
  return (trained + (drops_last(o, trained) ? 0 : o.batch - 1)) / o.batch;
}

int64_t total_steps(const TrainOptions& o, int64_t images) {
  return o.epochs * ((epoch_batches(o, images) + o.accumulate - 1) / o.accumulate);
}

Tensor training_loss(const ImageClassifier& model, const TrainOptions& o, const datasets::Batch& b,
                     training::Means& means) {
  const Tensor logits = model(b.images);
  const Tensor found = cross_entropy(logits, b.targets.defined() ? b.targets : b.labels,
                                     {.label_smoothing = o.label_smoothing});
  NoGradGuard no_grad;
  const Tensor right = b.targets.defined() ? argmax(b.targets, -1) : b.labels;
  means.add("top1", sum(eq(argmax(logits, -1), right)).item(),
            static_cast<double>(b.labels.size(0)));
  return found;
}

CifarTraining::CifarTraining(const TrainOptions& o, const LabelledPictures& data, ImageClassifier m,
                             training::LoopOptions loop_options)
    : options(o),
      kind(data.kind),
      note(data.note),
      form(m.form),
      train_set(limited(data.train, form, o.limit)),
      held_set(hold_out(train_set, o.hold_out, o.seed)),
      test_set(limited(data.test, form, o.limit)),
      loader(datasets::labelled_loader(train_set, form, loader_options(o, train_set.size()))),
      evaluation_loader(test_batches(o.hold_out > 0 ? held_set : test_set, form)),
      model(fitted(std::move(m), o, train_set)),
      optimizer(make_optimizer(o, nn::named_parameters(model))),
      learner(model, *optimizer, learner_options(o, total_steps(o, data.train.size()), 0, true)),
      initial(heatmaps()),
      loop(learner, loader,
           {.loss =
                [this](const datasets::Batch& b, training::Means& means) {
                  freeze_what_is_done();
                  return training_loss(model, options, b, means);
                },
            .evaluate = [this] { return evaluate_epoch(); },
            .weight =
                [](const datasets::Batch& b) { return static_cast<double>(b.labels.size(0)); }},
           complete(std::move(loop_options))) {
  loop.checkpoint().add(
      "heatmaps", [this] { return numbered(initial); },
      [this](const NamedTensors& s) { load_state("heatmaps", numbered(initial), s); });
  loop.checkpoint().add_text(
      "options", [this] { return to_json(options); }, [](const std::string&) {});
  loop.checkpoint().expect("data", data_checksum(data));
}

training::LoopOptions CifarTraining::complete(training::LoopOptions o) {
  set_loop_options(o, options);
  if (options.hold_out > 0) o.best = {"valid_top1", true};
  o.weights_metadata = {{"model", model.name}, {"format", "pt"}};
  o.bar.unit = "images";
  o.bar.total = static_cast<double>(train_set.size());
  o.bar.note = [](const training::Loop& l) {
    return fmt::format("loss {:.4f}  top-1 {:.1f} %", l.means().mean("loss"),
                       100 * l.means().mean("top1"));
  };
  o.epoch_line = [this](const training::EpochRecord& e) { return epoch_line(e, loop.title(e)); };
  o.bar.evaluation = static_cast<double>(evaluated_set().size()) / 3;
  const bool all = options.hold_out == 0 && !o.folder.empty();  // keep the last epoch's weights
  o.on_epoch = [this, all, metadata = o.weights_metadata,
                next = std::move(o.on_epoch)](const training::EpochRecord& e) {
    loop.on_first("the report", [&] {
      if (all)
        loop.write([&](const training::RunFolder& here) {
          learner.save_weights(here.best_weights(), metadata);
        });
      if (loop.events()) add_pictures(*loop.events(), e.steps);
      if (next) next(e);
    });
  };
  return o;
}

void CifarTraining::freeze_what_is_done() {
  auto* const network = std::get_if<models::Airbench>(&model.network);
  if (!network) return;
  const int64_t epoch = learner.steps() / training::steps_per_epoch(loader, options.accumulate);
  network->train_whitening_bias(epoch < network->options.whiten_bias_epochs);
}

// Adds the report's pictures: the model's heatmaps, and maps of the patches of some images.
void CifarTraining::add_pictures(training::EventWriter& events, int64_t step) {
  constexpr int64_t kPictures = 4;
  training::Learner::Evaluation scope(learner);
  add_heatmaps(events, heatmaps(), step);
  const datasets::Dataset<LabelledPicture>& set = evaluated_set();
  const int64_t count = std::min(kPictures, set.size());
  const models::PatchMaps found = patch_maps(count);
  for (int64_t i = 0; i < count; ++i)
    for (const models::PatchMap& layer : found.maps) {
      const Tensor mean = tern::mean(layer.values[i], {0});
      const Bitmap picture = picture_of(set.get(i), form);
      add_bitmap(events, fmt::format("{}/image {}, {}", found.title, i + 1, layer.title),
                 picture_and_map(picture, mean), step);
    }
}

std::optional<Evaluation> CifarTraining::test(const std::string& label, dist::World* world,
                                              Views views) {
  training::Progress bar(label, "images", evaluated_set().size(), 0, loop.output());
  return evaluate(model, evaluation_loader, until_interrupted(bar), world, views);
}

const datasets::Dataset<LabelledPicture>& CifarTraining::evaluated_set() const {
  return options.hold_out > 0 && !best_tested ? held_set : test_set;
}

bool CifarTraining::test_best() {
  load_weights_of(loop.folder().best_weights(), model);
  best_tested = true;
  evaluation_loader = test_batches(test_set, form);
  nn::EvalScope evaluating(model);
  evaluation = test("testing", nullptr, views_named(options.tta));
  return evaluation.has_value();
}

std::optional<training::Metrics> CifarTraining::evaluate_epoch() {
  const bool held = options.hold_out > 0;
  evaluation =
      test(fmt::format("{} {}/{}", held ? "validating" : "testing", loop.epoch(), loop.epochs()),
           loop.world());
  if (!evaluation) return std::nullopt;
  const std::string name = held ? "valid" : "test";
  check_measured(loop, "the " + name + " loss", evaluation->loss);
  return metrics_of(*evaluation, name);
}

models::Heatmaps CifarTraining::heatmaps() const {
  NoGradGuard no_grad;
  nn::EvalScope evaluating(model);
  const Tensor image = first_images(options.hold_out > 0 ? held_set : test_set, form, 1);
  const auto found = [&](const auto& n) -> models::Heatmaps {
    if constexpr (requires { n.heatmaps(image); }) return n.heatmaps(image);
    return {};
  };
  return std::visit(found, model.network);
}

models::PatchMaps CifarTraining::patch_maps(int64_t images) const {
  NoGradGuard no_grad;
  nn::EvalScope evaluating(model);
  const auto found = [&](const auto& n) -> models::PatchMaps {
    if constexpr (requires(const Tensor& x) { n.patch_maps(x); })
      return n.patch_maps(first_images(evaluated_set(), form, images));
    return {};
  };
  return std::visit(found, model.network);
}

}  // namespace tern::apps::train_cifar
