// Builds data, optimizer and loop of a training, and evaluates it after each epoch.
#include "tern/apps/ntm/training.h"

#include <fmt/format.h>

#include <numbers>
#include <numeric>

#include "tern/apps/common/pages/board.h"
#include "tern/apps/common/training/evaluation.h"
#include "tern/apps/ntm/report.h"
#include "tern/core/base/rng.h"
#include "tern/optim/rmsprop.h"
#include "tern/train/optimizer.h"
#include "tern/train/progress.h"

namespace tern::apps::ntm {
namespace {

std::string epoch_line(const NtmConfig& c, const training::EpochRecord& e) {
  std::string s =
      fmt::format("{:>9} sequences  train {:9.4f} bits  valid {:9.4f} bits, {:.3f} wrong",
                  training::grouped(static_cast<int64_t>(e["sequences"])),
                  e["train_loss"] / std::numbers::ln2, e["bits_per_sequence"], e["wrong_bits"]);
  if (c.task == "ngrams") s += fmt::format(" (best possible {:.2f} bits)", e["best_predictor"]);
  return s;
}

std::string describe_model(const NtmConfig& c, const SequenceModel& model) {
  const std::string weights = training::grouped(nn::num_parameters(model));
  if (c.baseline)
    return fmt::format("LSTM, {} layers of {} units, {} weights", c.layers, c.hidden, weights);
  std::string s = fmt::format(
      "Neural Turing Machine: {} controller, {} of {} units, {} reading and {} writing heads, {} "
      "slots of {}, {} at the start, {} weights",
      c.controller == "ff" ? "feed-forward" : "LSTM",
      c.layers == 1 ? "1 layer" : fmt::format("{} layers", c.layers), c.hidden, c.read_heads,
      c.write_heads, c.slots, c.width, c.memory, weights);
  if (c.shift != 1) s += fmt::format(", shifts up to {}", c.shift);
  if (!c.without.empty()) s += fmt::format(", without {}", fmt::join(c.without, ", "));
  return s;
}

}  // namespace

datasets::Loader<datasets::SequenceBatch> training_batches(const NtmConfig& c) {
  auto plan = [c](int64_t epoch, Rng) {
    datasets::EpochPlan p;
    const int64_t n = c.epoch_sequences(epoch);
    p.order.resize(static_cast<size_t>(n));
    std::iota(p.order.begin(), p.order.end(), epoch * c.every);
    for (int64_t end = std::min(c.batch, n); end > 0 && std::ssize(p.ends) * c.batch < n;
         end = std::min(end + c.batch, n))
      p.ends.push_back(end);
    return p;
  };
  auto draw = [task = datasets::sequence_task(c.task)](const datasets::BatchPlan& p) {
    Rng rng = p.batch_rng();
    return task.draw(std::ssize(p.indices), rng);
  };
  return {plan, draw, {.seed = c.seed, .workers = 0}};
}

std::unique_ptr<optim::Optimizer> make_ntm_optimizer(const NtmConfig& c,
                                                     const NamedTensors& parameters) {
  if (c.optimizer != "rmsprop") return make_optimizer(c, parameters);
  // From Graves 2013, section 4.2, which the paper cites.
  return std::make_unique<optim::RmsProp>(parameter_groups(c, parameters),
                                          optim::RmsPropOptions{.lr = c.lr,
                                                                .alpha = 0.95,
                                                                .eps = 1e-4,
                                                                .weight_decay = c.weight_decay,
                                                                .momentum = 0.9,
                                                                .centered = true});
}

Facts describe(const NtmConfig& c, const SequenceModel& model) {
  const datasets::SequenceTask task = datasets::sequence_task(c.task);
  const std::string lengths = task.lengths.low == task.lengths.high
                                  ? fmt::format("{}", task.lengths.low)
                                  : fmt::format("{} to {}", task.lengths.low, task.lengths.high);
  return {{"task", fmt::format("{} of {} {}", c.task, lengths, task.unit)},
          {"model", describe_model(c, model)}};
}

NtmTraining::NtmTraining(const NtmConfig& c, training::LoopOptions loop_options)
    : config(c),
      task(datasets::sequence_task(c.task)),
      loader(training_batches(c)),
      model(c),
      optimizer(make_ntm_optimizer(c, nn::named_parameters(model))),
      learner(model, *optimizer, learner_options(c, c.steps())),
      loop(learner, loader,
           {.loss =
                [this](const datasets::SequenceBatch& b) {
                  return datasets::cost_in_nats(model(b.input), b);
                },
            .evaluate = [this] { return evaluate(); },
            .weight = [](const auto& b) { return static_cast<double>(b.input.size(0)); }},
           complete(std::move(loop_options))) {}

training::LoopOptions NtmTraining::complete(training::LoopOptions o) {
  set_loop_options(o, config);
  if (o.steps == 0) o.epochs = config.validations();
  o.best = {"bits_per_sequence"};
  o.weights_metadata = {{"model", config.name()}, {"format", "pt"}};
  o.bar.unit = "sequences";
  o.bar.total = static_cast<double>(config.epoch_sequences(0));
  o.bar.evaluation = static_cast<double>(kValidationSequences) / 3;
  o.bar.note = [](const training::Loop& l) {
    return fmt::format("{:.4f} bits per sequence", l.means().mean("loss") / std::numbers::ln2);
  };
  o.epoch_line = [c = config](const training::EpochRecord& e) { return epoch_line(c, e); };
  o.on_epoch = [this](const training::EpochRecord& e) {
    if (loop.events()) add_pictures(*loop.events(), e.steps);
  };
  return o;
}

// Adds pictures of a sequence of the longest training length, like those in the report.
void NtmTraining::add_pictures(training::EventWriter& events, int64_t step) {
  constexpr uint64_t kSeed = 1;
  training::Learner::Evaluation scope(learner);
  const Episode e = observe(model, task, task.lengths.high, kSeed);
  for (const Strip* s : {&e.target, &e.output, &e.error})
    add_bitmap(events, "episode/" + s->title, strip_bitmap(*s, true), step);
  for (const Strip& w : e.weights)
    add_bitmap(events, "weightings/" + w.title, strip_bitmap(w, false), step);
}

std::optional<training::Metrics> NtmTraining::evaluate() const {
  const auto s = validate(
      model, task, [] { return !training::interrupted(); }, loop.world());
  if (!s) return std::nullopt;
  check_measured(loop, "the validation's cost", s->bits);
  const int64_t trained = config.sequences_after(loop.steps());
  training::Metrics m = {{"sequences", static_cast<double>(trained)},
                         {"loss", s->bits * std::numbers::ln2},
                         {"bits_per_sequence", s->bits},
                         {"wrong_bits", s->wrong}};
  if (task.name == "ngrams") m.emplace_back("best_predictor", s->best);
  return m;
}

}  // namespace tern::apps::ntm
