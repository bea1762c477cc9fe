#include "tern/apps/lm/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/board.h"
#include "tern/apps/lm/describe.h"
#include "tern/apps/lm/score.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/adam.h"
#include "tern/train/progress.h"
#include "tern/train/schedule.h"

namespace tern::apps::lm {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

train::LearnerOptions with_schedule(const TrainConfig& c, const Corpus& corpus) {
  train::LearnerOptions o = learner_options(c);
  o.schedule = train::make_schedule(schedule_options(c), total_steps(c, corpus));
  o.plateau = train::make_plateau(schedule_options(c), false);
  return o;
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& c,
                                                 const NamedTensors& weights) {
  return std::make_unique<optim::AdamW>(
      optim::decay_groups(weights, c.weight_decay),
      optim::AdamWOptions{.lr = c.lr,
                          .beta2 = c.beta2,
                          .state_bits = static_cast<int>(c.memory_use.optimizer_bits)});
}

train::LearnerOptions learner_options(const TrainConfig& c) {
  return {.clip = c.clip, .ema = c.ema, .step_in_backward = c.memory_use.step_in_backward};
}

data::Loader<data::WindowBatch> training_batches(const TrainConfig& c, const Corpus& corpus) {
  return data::window_loader(
      corpus.train,
      {.batch = c.batch, .window = c.model.context, .parts = c.parts, .seed = c.seed});
}

Tensor training_loss(const LanguageModel& model, const data::WindowBatch& b) {
  return model.loss(b.tokens, b.targets);
}

int64_t total_steps(const TrainConfig& c, const Corpus& corpus) {
  return c.epochs * train::steps_per_epoch(training_batches(c, corpus), c.accumulate);
}

LmTraining::LmTraining(const TrainConfig& c, const Corpus& text, LanguageModel m,
                       train::LoopOptions loop_options)
    : config(c),
      corpus(text),
      model(std::move(m)),
      loader(training_batches(c, text)),
      optimizer(make_optimizer(c, nn::named_parameters(model))),
      learner(model, *optimizer, with_schedule(c, text)),
      loop(learner, loader,
           {.loss = [this](const data::WindowBatch& b, train::Means& m) { return loss(b, m); },
            .evaluate = [this] { return validate(); },
            .weight = [](const auto& b) { return static_cast<double>(b.tokens.numel()); },
            .progress = [](const auto&) { return 1.0; }},
           complete(std::move(loop_options))) {
  loop.checkpoint().expect("data", corpus.checksum);
}

train::LoopOptions LmTraining::complete(train::LoopOptions o) {
  o.epochs = config.epochs;
  o.accumulate = config.accumulate;
  o.best = {"valid_loss"};
  o.only_best = true;
  o.unit = "batches";
  set_epoch_end(o, config.epoch_end);
  o.weight_unit = "tokens";
  o.note = [](const train::Loop& l) {
    return fmt::format("loss {:.4f}  {:.0f} tokens/s", l.means().mean("loss"), l.speed());
  };
  o.epoch_line = [epochs = o.epochs](const train::EpochRecord& e) { return epoch_line(e, epochs); };
  o.how_to_resume = "--resume " + o.folder;
  o.on_epoch = [this, next = std::move(o.on_epoch)](const train::EpochRecord& e) {
    if (loop.events()) add_pictures(*loop.events(), e.steps);
    if (next) next(e);
  };
  return o;
}

// What the model does with the beginning of the text for validation, or of training.
void LmTraining::add_pictures(train::EventWriter& events, int64_t step) {
  constexpr int64_t kMostShown = 40;
  const std::vector<int64_t>& text = corpus.valid.ids.empty() ? *corpus.train : corpus.valid.ids[0];
  const int64_t n = std::min({kMostShown, config.model.context, std::ssize(text)});
  if (n == 0) return;
  train::Learner::Evaluation scope(learner);
  NoGradGuard no_grad;
  const Tensor tokens = tensor(std::vector<int64_t>(text.begin(), text.begin() + n), {1, n});
  const std::vector<std::string> names(static_cast<size_t>(n));
  AttentionSentence s;
  const std::vector<Tensor> layers = model.attention(tokens);
  for (size_t i = 0; i < layers.size(); ++i)
    record_attention(s, "Self-attention", static_cast<int64_t>(i) + 1, layers[i][0], names, names);
  add_attention(events, s, step);
  add_heatmaps(events, model.heatmaps(tokens), step);
}

Tensor LmTraining::loss(const data::WindowBatch& b, train::Means& means) const {
  Tensor loss = training_loss(model, b);
  const auto tokens = static_cast<double>(b.tokens.numel());
  means.add("bits_per_byte", loss.item() * tokens / std::numbers::ln2,
            tokens * corpus.bytes_per_token);
  return loss;
}

std::optional<train::Metrics> LmTraining::validate() const {
  if (corpus.valid.tokens == 0)
    return train::Metrics{{"valid_loss", kNaN}, {"valid_ppl", kNaN}, {"valid_bits_per_byte", kNaN}};
  train::Progress bar(fmt::format("validating {}/{}", loop.epoch(), loop.epochs()), "tokens",
                      corpus.valid.tokens);
  const Score score = score_texts(model, corpus.valid, {.batch = config.batch}, [&](int64_t done) {
    bar.update(done);
    return !train::interrupted();
  });
  if (train::interrupted()) return std::nullopt;
  if (!std::isfinite(score.nats))
    throw train::Diverged(
        fmt::format("the validation's loss after epoch {} is {}", loop.epoch(), score.loss()));
  return train::Metrics{{"valid_loss", score.loss()},
                        {"valid_ppl", score.perplexity()},
                        {"valid_bits_per_byte", score.bits_per_byte()}};
}

}  // namespace tern::apps::lm
