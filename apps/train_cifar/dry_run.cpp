#include "tern/apps/train_cifar/dry_run.h"

#include <algorithm>

#include "tern/apps/common/dry_run.h"
#include "tern/apps/train_cifar/commands.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/training.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/train/progress.h"

namespace tern::apps::train_cifar {

Summary summary_of_run(const TrainOptions& o, int64_t images) {
  std::optional<ShapeOnlyScope> nothing;
  if (o.init.empty()) nothing.emplace();
  const ImageClassifier model = make_model(o);
  const int64_t count = std::min(o.batch, trained_images(o, images));
  data::Batch batch;
  train::Means means;
  auto make_batch = [&] {
    batch.images = zeros({count, data::kImageChannels, data::kImageSide, data::kImageSide});
    batch.labels = zeros({count}, DType::i64);
    if (o.mixup + o.cutmix > 0) batch.targets = zeros({count, 10});
  };
  return summary(model, [&] { return training_loss(model, o, batch, means); },
                 {.batch = make_batch,
                  .optimizer = [&](const NamedTensors& p) { return make_optimizer(o, p); },
                  .learner = learner_options(o)});
}

int dry_run(const TrainOptions& o) {
  if (!o.out.empty()) check_new_folder(o.out);
  DryRunOptions options{.waiting_batches = data::LoaderOptions().prefetch};
  int64_t images = kDrawnTrain;
  data::Cifar10 data;
  if (o.data.empty()) {
    options.data_bytes = (kDrawnTrain + kDrawnTest) * static_cast<int64_t>(sizeof(data::Image));
  } else {
    data = data::load_cifar10(o.data);
    images = data.train->size();
  }
  const Summary s = summary_of_run(o, images);
  options.facts = {
      {"model", fmt::format("{}, {} weights", o.model, train::grouped(s.num_parameters()))},
      {"recipe", fmt::format("{} steps of {} images, {}{}", train::grouped(total_steps(o, images)),
                             o.batch, o.optimizer, o.ema > 0 ? ", averaged weights" : "")}};
  return report_dry_run(s, options);
}

}  // namespace tern::apps::train_cifar
