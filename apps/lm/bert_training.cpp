#include "tern/apps/lm/bert_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/board.h"
#include "tern/apps/common/machine.h"
#include "tern/apps/lm/bert_score.h"
#include "tern/apps/lm/describe.h"
#include "tern/core/base/error.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/progress.h"
#include "tern/train/schedule.h"

namespace tern::apps::lm {
namespace {

double share(int64_t part, int64_t of) {
  return static_cast<double>(part) / static_cast<double>(of);
}

}  // namespace

int64_t total_steps(const TrainConfig& c, const BertCorpus& corpus, const data::WordPiece& pieces) {
  const auto loader = data::bert_loader(corpus.train, pieces, loader_options(c));
  return c.epochs * train::steps_per_epoch(loader, c.accumulate);
}

BertTraining::BertTraining(const TrainConfig& c, const BertCorpus& text, const data::WordPiece& p,
                           models::Bert m, train::LoopOptions loop_options)
    : config(c),
      corpus(text),
      pieces(p),
      model(std::move(m)),
      loader(data::bert_loader(text.train, p, loader_options(c))),
      optimizer(optim::decay_groups(nn::named_parameters(model), c.weight_decay),
                {.lr = c.lr,
                 .beta2 = c.beta2,
                 .state_bits = static_cast<int>(c.memory_use.optimizer_bits)}),
      learner(model, optimizer,
              {.schedule = train::make_schedule(schedule_options(c), total_steps(c, text, p)),
               .plateau = train::make_plateau(schedule_options(c), false),
               .clip = c.clip,
               .ema = c.ema,
               .step_in_backward = c.memory_use.step_in_backward}),
      loop(learner, loader,
           {.loss = [this](const data::BertBatch& b, train::Means& m) { return loss(b, m); },
            .evaluate = [this] { return validate(); },
            .weight = [](const auto& b) { return sum(b.lengths).item(); },
            .progress = [](const auto&) { return 1.0; }},
           complete(std::move(loop_options))) {
  loop.checkpoint().expect("data", corpus.checksum);
}

train::LoopOptions BertTraining::complete(train::LoopOptions o) {
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
  o.epoch_line = [epochs = o.epochs](const train::EpochRecord& e) {
    return bert_epoch_line(e, epochs);
  };
  o.how_to_resume = "--resume " + o.folder;
  o.on_epoch = [this, next = std::move(o.on_epoch)](const train::EpochRecord& e) {
    if (loop.events()) add_pictures(*loop.events(), e.steps);
    if (next) next(e);
  };
  return o;
}

// Of a sentence for validation, or of training.
void BertTraining::add_pictures(train::EventWriter& events, int64_t step) {
  const data::Documents& from = corpus.valid->sentences() > 0 ? *corpus.valid : *corpus.train;
  const auto sentence = from.sentence(0);
  const auto n = std::min<int64_t>(std::ssize(sentence), config.model.context);
  if (n == 0) return;
  train::Learner::Evaluation scope(learner);
  NoGradGuard no_grad;
  const std::vector<std::string> names(static_cast<size_t>(n));
  AttentionSentence s;
  const std::vector<Tensor> layers = model.attend(
      {.tokens = tensor(std::vector<int64_t>(sentence.begin(), sentence.begin() + n), {1, n})});
  for (size_t i = 0; i < layers.size(); ++i)
    record_attention(s, "Self-attention", static_cast<int64_t>(i) + 1, layers[i][0], names, names);
  add_attention(events, s, step);
}

Tensor BertTraining::loss(const data::BertBatch& b, train::Means& means) const {
  const models::BertLoss l = models::pretraining_loss(model, input_of(b), targets_of(b));
  const auto words = static_cast<double>(b.words.numel());
  means.add("masked", l.masked.item() * words, words);
  if (b.next.defined()) {
    const auto pairs = static_cast<double>(b.next.numel());
    means.add("next", l.next.item() * pairs, pairs);
  }
  return l.total;
}

std::optional<train::Metrics> BertTraining::validate() const {
  train::Metrics none;
  for (const char* name :
       {"valid_loss", "valid_masked", "valid_ppl", "valid_words", "valid_next", "valid_pairs"})
    none.emplace_back(name, std::numeric_limits<double>::quiet_NaN());
  if (corpus.valid->sentences() == 0) return none;
  data::BertLoaderOptions options = loader_options(config);
  options.shuffle = false;  // and the masks of its first epoch, the same each time
  auto batches = data::bert_loader(corpus.valid, pieces, options);
  train::Progress bar(fmt::format("validating {}/{}", loop.epoch(), loop.epochs()), "batches",
                      batches.batches_per_epoch());
  const BertScore s = score_batches(model, batches, [&](int64_t done) {
    bar.update(done);
    return !train::interrupted();
  });
  if (train::interrupted()) return std::nullopt;
  if (!std::isfinite(s.masked_nats + s.next_nats))
    throw train::Diverged(
        fmt::format("the validation's loss after epoch {} is {}", loop.epoch(), s.loss()));
  return train::Metrics{
      {"valid_loss", s.loss()},      {"valid_masked", s.masked_loss()},
      {"valid_ppl", s.perplexity()}, {"valid_words", share(s.masked_right, s.masked)},
      {"valid_next", s.next_loss()}, {"valid_pairs", share(s.pairs_right, s.pairs)}};
}

std::string describe_model(const models::Bert& model) {
  const models::BertOptions& o = model.options;
  return fmt::format(
      "bert, {} weights: {} layers of {} channels, {} heads, ffn {}, {} tokens at most, dropout "
      "{:g}"
      "{}",
      train::grouped(nn::num_parameters(model)), o.layers, o.dim, o.heads, o.ffn, o.positions,
      o.dropout, o.next_sentence ? ", with the next sentence" : "");
}

Facts describe(const BertTraining& t, const Texts& texts) {
  const BertCorpus& c = t.corpus;
  Facts facts = {
      {"model", describe_model(t.model)},
      {"data",
       fmt::format("{}: {} training and {} validation tokens of {} pieces, {} "
                   "documents of {} sentences",
                   texts.description, train::grouped(std::ssize(c.train->tokens)),
                   train::grouped(std::ssize(c.valid->tokens)), train::grouped(t.pieces.size()),
                   train::grouped(c.train->size()), train::grouped(c.train->sentences()))}};
  if (!t.config.from.empty()) facts.emplace_back("", "starts from the weights of " + t.config.from);
  facts.emplace_back("recipe",
                     describe_recipe(t.config, fmt::format("sequences of {} tokens at most",
                                                           t.config.model.context)));
  facts.emplace_back("machine", describe_machine());
  return facts;
}

std::string bert_epoch_line(const train::EpochRecord& e, int64_t epochs) {
  auto numbers = [](double masked, double next) {
    return std::isnan(next) ? fmt::format("{:.4f}", masked)
                            : fmt::format("{:.4f} + {:.4f}", masked, next);
  };
  std::string s = fmt::format(
      "epoch {:{}}/{}  train loss {}", e.epoch, fmt::formatted_size("{}", epochs), epochs,
      numbers(e["train_masked"],
              e.has("train_next") ? e["train_next"] : std::numeric_limits<double>::quiet_NaN()));
  if (!std::isnan(e["valid_loss"])) {
    s += fmt::format("  valid loss {} ppl {:.2f}, {:.1f} % of words",
                     numbers(e["valid_masked"], e["valid_next"]), e["valid_ppl"],
                     100 * e["valid_words"]);
    if (!std::isnan(e["valid_pairs"]))
      s += fmt::format(", {:.1f} % of pairs", 100 * e["valid_pairs"]);
  }
  return s + fmt::format("  {:.0f} tokens/s  lr {:.3g}  {}", e.speed, e.lr,
                         train::clock_time(e.seconds));
}

}  // namespace tern::apps::lm
