#include "tern/apps/translate/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tern/apps/common/dry_run.h"
#include "tern/apps/translate/model.h"
#include "tern/apps/translate/training.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

// With most elements of the source, of the target, of both: one of them takes most.
std::array<data::PairBatch, 3> largest_batches(const TrainConfig& c, const Corpus& corpus) {
  std::array<data::PairBatch, 3> found;
  std::array<int64_t, 3> most{};
  data::Loader<data::PairBatch> loader = training_batches(c, corpus);
  for (const data::PairBatch& batch : loader) {
    const int64_t source = batch.source.numel(), target = batch.target_in.numel();
    const std::array<int64_t, 3> sizes = {source, target, source + target};
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] <= most[i]) continue;
      most[i] = sizes[i];
      found[i] = batch;
    }
  }
  return found;
}

Tensor copy_of(const Tensor& ids) { return tensor(ids.to_vector<int64_t>(), ids.shape()); }

Summary summary_of_batch(const TrainConfig& c, int64_t accumulate, const data::PairBatch& given) {
  ShapeOnlyScope nothing;
  const TranslationModel model(c.model, c.seed);
  data::PairBatch batch;
  auto make_batch = [&] {
    batch = {copy_of(given.source),     copy_of(given.source_lengths), copy_of(given.target_in),
             copy_of(given.target_out), copy_of(given.target_lengths), copy_of(given.indices)};
  };
  return summary(model, [&] { return training_loss(model, c, batch); },
                 {.batch = make_batch,
                  .optimizer = [&](const NamedTensors& p) { return make_optimizer(c, p); },
                  .learner = learner_options(c),
                  .accumulate = accumulate});
}

}  // namespace

Summary summary_of_run(const TrainConfig& c, const Corpus& corpus) {
  const int64_t batches = training_batches(c, corpus).batches_per_epoch();
  std::optional<Summary> most;
  for (const data::PairBatch& batch : largest_batches(c, corpus)) {
    Summary s = summary_of_batch(c, std::min(c.accumulate, batches), batch);
    if (!most || s.cost.peak() > most->cost.peak()) most = std::move(s);
  }
  return std::move(*most);
}

int dry_run(const TrainConfig& c, const Corpus& corpus, const PairFiles& files) {
  const Summary s = summary_of_run(c, corpus);
  DryRunOptions options{.waiting_batches = data::PairLoaderOptions().prefetch + c.accumulate - 1};
  options.facts = {
      {"model", fmt::format("{}, {} weights", c.model.model, train::grouped(s.num_parameters()))},
      {"data", fmt::format("{}: {} pairs", files.description,
                           train::grouped(std::ssize(*corpus.train.pairs)))},
      {"recipe", fmt::format("{} steps; below, one on the largest batch",
                             train::grouped(total_steps(c, corpus)))}};
  return report_dry_run(s, options);
}

}  // namespace tern::apps::translate
