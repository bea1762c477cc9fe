// Steps that all ranks take together by GradientSum, and steps of ranks that train apart, which
// send each other their losses and metrics every few steps.
#include "tern/train/detail/loop_shared_steps.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "tern/core/tape/autograd.h"
#include "tern/train/detail/exact_text.h"

namespace tern::training {
namespace {

using detail::exact_number, detail::exact_text, detail::taken_until;

// A rank's message to all others about its part of a step, beside the loss: whether it wants to
// stop or to save a checkpoint, its progress, and the task's means.
struct Note {
  bool stop = false, late = false;
  double progress = 0;
  Means means = {};

  std::string text() const {
    std::string s = fmt::format("{:d} {:d} {}\n", stop, late, exact_text(progress));
    for (const Means::Entry& e : means.entries())
      s += fmt::format("{} {} {}\n", exact_text(e.sum), exact_text(e.count), e.name);
    return s;
  }
};

// Adds a rank's note to the step and to the means.
void add_note(std::string_view note, SharedStep& step, Means& means) {
  step.stop |= taken_until(note, ' ') != "0";
  step.late |= taken_until(note, ' ') != "0";
  step.progress += exact_number(taken_until(note, '\n'));
  while (!note.empty()) {
    const double sum = exact_number(taken_until(note, ' '));
    const double count = exact_number(taken_until(note, ' '));
    means.add(std::string(taken_until(note, '\n')), sum, count);
  }
}

void check_parallel(const Parallel& o) {
  check(o.local_steps >= 0 && o.outer_lr > 0 && o.outer_momentum >= 0,
        "Loop: local steps and the momentum of outer steps must not be negative, and their "
        "learning rate must be positive; they are {}, {} and {}",
        o.local_steps, o.outer_momentum, o.outer_lr);
  check(o.local_steps == 0 || !o.shard_optimizer,
        "Loop: each rank that takes local steps needs a whole optimizer; leave out "
        "shard_optimizer or local_steps");
  check(o.local_steps == 0 || o.check_every == 0,
        "Loop: the weights of the ranks differ between outer steps; leave out check_every or "
        "local_steps");
  check(o.local_steps > 0 || o.blocks >= 2,
        "Loop: a batch that several processes share needs 2 blocks or more, not {}", o.blocks);
}

// The factors of the schedule in the first, a middle and the last step.
std::string schedule_text(const optim::Schedule& schedule, int64_t steps) {
  if (!schedule) return "none";
  return fmt::format("{} {} {}", schedule(0), schedule(steps / 2),
                     schedule(std::max<int64_t>(steps, 1) - 1));
}

// The settings that decide how a loop trains, as texts with names. GradientSum compares the model.
std::vector<std::pair<std::string, std::string>> same_on_all_ranks(const LoopOptions& loop,
                                                                   const Learner& learner,
                                                                   const detail::Feed& feed) {
  const Parallel& p = loop.parallel;
  const LearnerOptions& l = learner.options();
  return {
      {"the options of parallel training:",
       fmt::format("sharding {}, {} local steps, outer steps of {} and {}",
                   p.shard_optimizer ? "on" : "off", p.local_steps, p.outer_lr, p.outer_momentum)},
      {"epochs", fmt::format("{}", loop.epochs)},
      {"a length in steps (0: none) of", fmt::format("{}", loop.steps)},
      {"steps between evaluations (0: an epoch):", fmt::format("{}", loop.evaluate_steps)},
      {"batches in an epoch", fmt::format("{}", feed.batches())},
      {"a loader (seed, batch, samples) with the checksum", fmt::format("{:x}", feed.order())},
      {"a learning rate of", fmt::format("{}", learner.lr())},
      {"a schedule of",
       schedule_text(l.schedule, loop.steps > 0 ? loop.steps : loop.epochs * feed.batches())},
      {"clip", fmt::format("{}", l.clip)},
      {"ema", fmt::format("{}", l.ema)}};
}

// Error if the optimizer has a parameter that the model lacks: no rank would send its gradient.
void check_in_model(const Learner& learner) {
  std::set<const void*> shared;
  for (const auto& [name, p] : nn::named_parameters(learner.model())) shared.insert(p.node().get());
  for (const auto& [name, p] : learner.parameters())
    check(
        shared.contains(p.node().get()),
        "Loop: the optimizer has the parameter {}, which is not in the model; the ranks share the "
        "gradients of the model's parameters alone, so make it a field of the model",
        name);
}

// The number of steps that a rank takes before it tells the others of them. It receives theirs
// after the same number of further steps, which gives a slow network time.
constexpr int64_t kStepsToTell = 8;

constexpr char kEndOfNote = '\0';

}  // namespace

SharedSteps::SharedSteps(const LoopOptions& loop, Learner& learner, detail::Feed& feed)
    : learner_(learner),
      feed_(feed),
      world_(*loop.parallel.world),
      local_steps_(loop.parallel.local_steps),
      gathers_(world_.size() > 1 && (loop.parallel.shard_optimizer || local_steps_ > 0)),
      generators_(nn::generators(learner.model())) {
  const Parallel& options = loop.parallel;
  check_parallel(options);
  feed_.seek({});
  world_.check_same(same_on_all_ranks(loop, learner, feed));
  const int64_t rank = world_.rank(), ranks = world_.size();
  dist::GradientSumOptions sum{.blocks = local_steps_ > 0 ? ranks : options.blocks,
                               .check_every = options.check_every};
  check(
      local_steps_ == 0 || !learner.options().lookahead,
      "Loop: the slow weights of Lookahead would undo much of each outer step; leave out lookahead "
      "or local_steps");
  if (local_steps_ == 0) check_in_model(learner);
  if (!options.shard_optimizer) sum.check_also = [&learner] { return learner.own_state(); };
  sum_.emplace(world_, learner.model(), sum);  // always: it compares models and processors
  if (local_steps_ > 0) {
    sum_.reset();
    outer_.emplace(options, learner);
    feed_.cut(ranks, rank, rank + 1);
  } else {
    feed_.cut(options.blocks, sum_->first_block(), sum_->end_block());
  }
  if (options.shard_optimizer) learner.shard_optimizer(world_);
}

// ---- Shared steps -----------------------------------------------------------------------------

dist::BlockLoss SharedSteps::block_loss(int64_t block, bool late) {
  Note note{.stop = interrupted(), .late = late};
  const size_t i = item(block);
  if (!feed_.has(i)) return {.note = note.text()};
  const Tensor loss = feed_.loss(i, note.means);
  learner_.check_loss(loss);
  note.progress = feed_.progress(i);
  return {loss, feed_.weight(i), note.text()};
}

std::vector<SharedStep> SharedSteps::take(const Place& place, Means& means) {
  if (outer_) return take_apart(place, means);
  SharedStep step;
  const double loss = sum_->backward([&](int64_t block) { return block_loss(block, place.late); });
  step.weight = sum_->weight();
  for (const std::string& note : sum_->notes()) add_note(note, step, means);
  learner_.step();
  step.record = {learner_.steps(), loss, learner_.lr(), learner_.grad_norm()};
  return {step};
}

void SharedSteps::run_again() {
  Means means;
  if (outer_) {
    draw_apart();
    if (feed_.has(0)) tern::backward(feed_.loss(0, means));
    return;
  }
  for (int64_t b = sum_->first_block(); b < sum_->end_block(); ++b) {
    if (!feed_.has(item(b))) continue;
    sum_->set_generators(b);
    tern::backward(feed_.loss(item(b), means));
  }
}

// ---- Steps of ranks that train apart ----------------------------------------------------------

// Sets the generators so that each rank draws different numbers. Returns the generators for after
// the step, which are the same on all ranks.
std::vector<Rng> SharedSteps::draw_apart() {
  std::vector<Rng> after, step;  // read first: a part that the model has twice is here twice
  for (const Rng* g : generators_) step.push_back(after.emplace_back(*g).split());
  for (size_t i = 0; i < step.size(); ++i)
    *generators_[i] = step[i].stream(static_cast<uint64_t>(world_.rank()));
  return after;
}

std::vector<SharedStep> SharedSteps::take_apart(const Place& place, Means& means) {
  std::vector<SharedStep> known;
  world_.together([&] {
    outer_->begin();
    Note note{.stop = interrupted(), .late = place.late};
    double loss = 0, weight = 0;  // 0: this rank's part of the batch is empty
    const std::vector<Rng> after = draw_apart();
    if (feed_.has(0)) {
      weight = feed_.weight(0);
      check(weight > 0 && std::isfinite(weight),
            "Loop: the weight of a part of step {} is {}, not above 0", learner_.steps() + 1,
            weight);
      loss = learner_.backward(feed_.loss(0, note.means));
      note.progress = feed_.progress(0);
    }
    for (size_t i = 0; i < after.size(); ++i) *generators_[i] = after[i];
    if (weight > 0)
      learner_.step();
    else
      learner_.skip_step();
    untold_.push_back({.record = {learner_.steps(), 0, learner_.lr(), learner_.grad_norm()}});
    notes_ +=
        fmt::format("{} {} {}", exact_text(weight), exact_text(loss), note.text()) + kEndOfNote;
    if (place.last || (place.done + 1) % local_steps_ == 0) {
      known = catch_up(means);
      outer_->take(place.last);
    } else if (std::ssize(untold_) >= kStepsToTell) {
      known = hear(means);
      tell();
    }
  });
  return known;
}

void SharedSteps::tell() {
  told_ = std::exchange(untold_, {});
  texts_ = std::make_shared<std::vector<std::string>>();
  telling_ = world_.begin_gather(
      "the losses of steps", std::exchange(notes_, {}),
      [to = texts_](std::vector<std::string> texts) { *to = std::move(texts); });
}

// Adds in the order of the steps, and of the ranks in each step: the sums have the same bits,
// whenever the ranks receive them.
std::vector<SharedStep> SharedSteps::hear(Means& means) {
  std::vector<SharedStep> steps = std::exchange(told_, {});
  if (steps.empty()) return steps;
  telling_.wait();
  std::vector<std::string_view> ranks(texts_->begin(), texts_->end());
  for (SharedStep& step : steps) {
    std::vector<double> weights;
    for (std::string_view& rank : ranks) {
      std::string_view text = taken_until(rank, kEndOfNote);
      weights.push_back(exact_number(taken_until(text, ' ')));
      step.weight += weights.back();
      step.record.loss += weights.back() * exact_number(taken_until(text, ' '));
      add_note(text, step, means);
    }
    step.record.loss /= step.weight;
    outer_->count(weights);
  }
  return steps;
}

std::vector<SharedStep> SharedSteps::catch_up(Means& means) {
  std::vector<SharedStep> known = hear(means);
  if (untold_.empty()) return known;
  tell();
  for (const SharedStep& step : hear(means)) known.push_back(step);
  return known;
}

// ---- Checkpoints ------------------------------------------------------------------------------

namespace {

constexpr const char* kLocalSteps = "local_steps";  // the name of the part in a checkpoint

}  // namespace

void SharedSteps::add_to(Checkpoint& checkpoint) {
  if (!outer_) return;
  checkpoint.add(
      kLocalSteps,
      [this] {
        check(untold_.empty() && told_.empty(),
              "Loop: between two outer steps each rank has its own state, and only a checkpoint in "
              "the run's folder has all of it");
        return outer_->state_dict();
      },
      [this](const NamedTensors& state) { outer_->load_state_dict(state); });
}

void SharedSteps::check_fits(const SafeTensors& state, const std::string& path, bool local_steps) {
  const bool local = state.find(fmt::format("{}.ranks", kLocalSteps)).defined();
  check_io(local_steps || !local,
           "{}: the run takes local steps, each rank with an optimizer of its own; resume it with "
           "the same numbers of ranks and local steps",
           path);
  check_io(local || !local_steps, "{}: the run does not take local steps; resume it without them",
           path);
}

void SharedSteps::check_same_state() {
  if (!sum_) return;
  sum_->set_steps(learner_.steps());
  sum_->check_same_state();
}

}  // namespace tern::training
