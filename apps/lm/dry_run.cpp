#include "tern/apps/lm/dry_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/dry_run.h"
#include "tern/apps/lm/bert_folder.h"
#include "tern/apps/lm/bert_score.h"
#include "tern/apps/lm/bert_training.h"
#include "tern/apps/lm/training.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

Tensor copy_of(const Tensor& ids) {
  return ids.defined() ? tensor(ids.to_vector<int64_t>(), ids.shape()) : ids;
}

data::BertBatch copy_of(const data::BertBatch& b) {
  data::BertBatch copy = b;
  for (Tensor* t :
       {&copy.tokens, &copy.segments, &copy.lengths, &copy.places, &copy.words, &copy.next})
    *t = copy_of(*t);
  return copy;
}

data::BertBatch largest_batch(const TrainConfig& c, const BertCorpus& corpus,
                              const data::WordPiece& pieces) {
  data::Loader<data::BertBatch> loader = data::bert_loader(corpus.train, pieces, loader_options(c));
  data::BertBatch largest;
  for (data::BertBatch& batch : loader)
    if (!largest.tokens.defined() || batch.tokens.numel() > largest.tokens.numel())
      largest = std::move(batch);
  return largest;
}

SummaryOptions step_options(const TrainConfig& c, int64_t batches, std::function<void()> batch) {
  return {.batch = std::move(batch),
          .optimizer = [c](const NamedTensors& p) { return make_optimizer(c, p); },
          .learner = learner_options(c),
          .accumulate = std::min(c.accumulate, batches)};
}

}  // namespace

Summary summary_of_run(const TrainConfig& c, const Corpus& corpus) {
  auto loader = training_batches(c, corpus);
  const data::WindowBatch first = loader.next().value();  // none is larger
  ShapeOnlyScope nothing;
  const LanguageModel model = make_model(c.model, c.seed);
  data::WindowBatch batch;
  return summary(
      model, [&] { return training_loss(model, batch); },
      step_options(c, loader.batches_per_epoch(), [&] {
        batch = {copy_of(first.tokens), copy_of(first.targets)};
      }));
}

Summary summary_of_run(const TrainConfig& c, const BertCorpus& corpus,
                       const data::WordPiece& pieces) {
  const data::BertBatch largest = largest_batch(c, corpus, pieces);
  const int64_t batches =
      data::bert_loader(corpus.train, pieces, loader_options(c)).batches_per_epoch();
  ShapeOnlyScope nothing;
  Rng rng(c.seed);
  const models::Bert model(bert_sizes(c, pieces), rng);
  data::BertBatch batch;
  auto loss = [&] {
    return models::pretraining_loss(model, input_of(batch), targets_of(batch)).total;
  };
  return summary(model, loss, step_options(c, batches, [&] { batch = copy_of(largest); }));
}

int report_run(const TrainConfig& c, const Summary& s, const Texts& texts, int64_t steps) {
  DryRunOptions options{.waiting_batches = data::WindowLoaderOptions().prefetch + c.accumulate - 1};
  options.facts = {
      {"model", fmt::format("{}, {} weights", c.model.model, train::grouped(s.num_parameters()))},
      {"data", fmt::format("{}, {} tokens", texts.description, train::grouped(c.model.vocab))},
      {"recipe", fmt::format("{} steps; below, one on the largest batch", train::grouped(steps))}};
  return report_dry_run(s, options);
}

}  // namespace tern::apps::lm
