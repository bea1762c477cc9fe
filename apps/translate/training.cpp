#include "tern/apps/translate/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tern/apps/common/board.h"
#include "tern/apps/common/machine.h"
#include "tern/apps/translate/commands.h"
#include "tern/apps/translate/describe.h"
#include "tern/apps/translate/explain.h"
#include "tern/apps/translate/report.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/optim/adam.h"
#include "tern/train/progress.h"
#include "tern/train/schedule.h"

namespace tern::apps::translate {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool by_bleu(const TrainConfig& c) { return c.best == "bleu"; }

train::LearnerOptions scheduled(const TrainConfig& c, const Corpus& corpus) {
  train::LearnerOptions options = learner_options(c);
  options.schedule = train::make_schedule(schedule_options(c), total_steps(c, corpus));
  options.plateau = train::make_plateau(schedule_options(c), by_bleu(c));
  return options;
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& c,
                                                 const NamedTensors& parameters) {
  return std::make_unique<optim::AdamW>(
      parameters, optim::AdamWOptions{.lr = c.lr,
                                      .beta2 = c.beta2,
                                      .weight_decay = c.weight_decay,
                                      .state_bits = static_cast<int>(c.memory_use.optimizer_bits)});
}

train::LearnerOptions learner_options(const TrainConfig& c) {
  return {.clip = c.clip, .ema = c.ema, .step_in_backward = c.memory_use.step_in_backward};
}

data::Loader<data::PairBatch> training_batches(const TrainConfig& c, const Corpus& corpus) {
  return data::pair_loader(corpus.train.pairs,
                           {.batch = c.batch, .batch_tokens = c.batch_tokens, .seed = c.seed});
}

Tensor training_loss(const TranslationModel& model, const TrainConfig& c,
                     const data::PairBatch& b) {
  return model.loss(b, {.ignore_index = data::kPadId, .label_smoothing = c.label_smoothing});
}

int64_t total_steps(const TrainConfig& c, const Corpus& corpus) {
  return c.epochs * train::steps_per_epoch(training_batches(c, corpus), c.accumulate);
}

TranslationTraining::TranslationTraining(const TrainConfig& c, const Corpus& pairs,
                                         const Tokenizers& t, TranslationModel m,
                                         train::LoopOptions loop_options)
    : config(c),
      corpus(pairs),
      tokenizers(t),
      model(std::move(m)),
      loader(training_batches(c, pairs)),
      optimizer(make_optimizer(c, nn::named_parameters(model))),
      learner(model, *optimizer, scheduled(c, pairs)),
      loop(learner, loader,
           {.loss = [this](const data::PairBatch& b) { return training_loss(model, config, b); },
            .evaluate = [this] { return validate(); },
            .weight = [](const data::PairBatch& b) { return sum(b.target_lengths).item(); },
            .progress = [](const auto& b) { return static_cast<double>(b.source.size(0)); }},
           complete(std::move(loop_options))) {
  loop.checkpoint().expect("data", corpus.checksum);
}

train::LoopOptions TranslationTraining::complete(train::LoopOptions o) {
  o.epochs = config.epochs;
  o.accumulate = config.accumulate;
  o.best = {by_bleu(config) ? "valid_bleu" : "valid_loss", by_bleu(config)};
  o.only_best = true;
  o.unit = "pairs";
  set_epoch_end(o, config.epoch_end);
  o.weight_unit = "tokens";
  o.total = static_cast<double>(corpus.train.pairs->size());
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

// The attention of the first validation pairs, as the report shows it.
void TranslationTraining::add_pictures(train::EventWriter& events, int64_t step) {
  constexpr size_t kPictures = 2;
  train::Learner::Evaluation scope(learner);
  std::vector<std::string> sources;
  for (const data::SentencePair& p : corpus.valid_text)
    if (sources.size() < kPictures) sources.push_back(p.source);
  if (sources.empty()) return;
  const auto found = translate_lines(model, tokenizers, sources, {.log_probs = false});
  for (size_t i = 0; i < sources.size(); ++i)
    add_attention(events, explain(model, tokenizers, sources[i], found[i][0]), step,
                  fmt::format("attention {}", i + 1));
}

data::BleuOptions TranslationTraining::bleu_options() const {
  return {.lowercase = config.lowercase || config.tokens == "d2l"};
}

std::optional<train::Metrics> TranslationTraining::validate() const {
  train::Metrics none = {{"valid_loss", kNaN}, {"valid_ppl", kNaN}, {"valid_bleu", kNaN}};
  const int64_t pairs = std::ssize(*corpus.valid.pairs);
  if (pairs == 0) return none;
  train::Progress bar(fmt::format("validating {}/{}", loop.epoch(), loop.epochs()), "pairs",
                      2 * pairs);
  auto watch = [&](int64_t before) {
    return [&bar, before](int64_t done) {
      bar.update(before + done);
      return !train::interrupted();
    };
  };
  const double loss = token_loss(model, corpus.valid, watch(0));
  if (train::interrupted()) return std::nullopt;
  if (!std::isfinite(loss))
    throw train::Diverged(
        fmt::format("the validation's loss after epoch {} is {}", loop.epoch(), loss));
  std::vector<std::string> sources, references, translations;
  for (const data::SentencePair& p : corpus.valid_text) {
    sources.push_back(p.source);
    references.push_back(p.target);
  }
  for (auto& best : translate_lines(model, tokenizers, sources, {.log_probs = false}, watch(pairs)))
    translations.push_back(best[0].text);
  if (train::interrupted()) return std::nullopt;
  const double bleu = data::corpus_bleu(translations, references, bleu_options()).score;
  return train::Metrics{{"valid_loss", loss}, {"valid_ppl", std::exp(loss)}, {"valid_bleu", bleu}};
}

}  // namespace tern::apps::translate
