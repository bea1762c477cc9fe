#include "tern/train/detail/loop_impl.h"

#include <algorithm>
#include <filesystem>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/progress.h"

namespace tern::train {

using Clock = std::chrono::steady_clock;

// The loss comes first among the means.
void Loop::Impl::start_epoch() {
  state = {.history = std::move(state.history),
           .steps = std::move(state.steps),
           .kept = std::move(state.kept)};
  state.means.add(kLoss, 0, 0);
  state.batches = feed.batches();
}

// Takes the batches of a step; at the end of the epoch the loader goes on to the next.
size_t Loop::Impl::take_batches() {
  const int64_t count = std::min(options.accumulate, state.batches - state.batch);
  for (int64_t i = 0; i < count; ++i)
    check(feed.take(), "Loop: epoch {} ended after {} of {} batches", epoch(), state.batch + i,
          state.batches);
  if (state.batch + count == state.batches)
    check(!feed.take(), "Loop: epoch {} has more than {} batches", epoch(), state.batches);
  return static_cast<size_t>(count);
}

void Loop::Impl::take_step(size_t count) {
  double weight = 0, loss = 0, done = 0;
  for (size_t i = 0; i < count; ++i) weight += feed.weight(i);
  const bool last = state.batch + static_cast<int64_t>(count) == state.batches;
  const LoopBoard::Watch watch(last ? board.get() : nullptr, learner);
  check(weight > 0, "Loop: the weight of the batches of step {} is {}, not above 0",
        learner.steps() + 1, weight);
  for (size_t i = 0; i < count; ++i) {
    // The mean over what all batches hold.
    loss += learner.backward(feed.loss(i, state.means), count > 1 ? feed.weight(i) / weight : 1);
    done += feed.progress(i);
  }
  learner.step();
  if (state.steps.add({learner.steps(), loss, learner.lr(), learner.grad_norm()}) && board)
    board->add(state.steps.records().back());
  state.means.add(kLoss, loss * weight, weight);
  state.progress += done;
  state.batch += static_cast<int64_t>(count);
}

std::string Loop::Impl::diagnose(size_t count) {
  return diagnosis(options.diagnose, [&] {
    learner.load_generators(generators);
    learner.clear_gradients();
    Means means;
    double weight = 0;
    for (size_t i = 0; i < count; ++i) weight += feed.weight(i);
    for (size_t i = 0; i < count; ++i) {
      const Tensor loss = feed.loss(i, means);
      tern::backward(count > 1 ? loss * (feed.weight(i) / weight) : loss);
    }
  });
}

// As if the step had not been begun.
void Loop::Impl::undo_step() {
  learner.clear_gradients();
  learner.load_generators(generators);
  state.means = means;
  feed.clear();
  feed.seek({.epoch = std::ssize(state.history), .batch = state.batch});
}

void Loop::Impl::load(const std::string& json) {
  LoopState s = loop_state_from_json(json);
  const int64_t closed = std::ssize(s.history);
  check(closed + (s.batch > 0) <= options.epochs,
        "the run is in epoch {} already, and is to have {}", closed + (s.batch > 0),
        options.epochs);
  feed.seek({.epoch = closed, .batch = 0});
  check(
      s.batches == feed.batches(),
      "its epoch {} has {} batches, but the loader's has {}; go on with the same data and size of "
      "batches",
      closed + 1, s.batches, feed.batches());
  check(s.batch >= 0 && s.batch <= s.batches, "{} of {} batches are done", s.batch, s.batches);
  feed.seek({.epoch = closed, .batch = s.batch});
  if (s.batch == s.batches) check(!feed.take(), "an epoch has more than {} batches", s.batches);
  state = std::move(s);
  logged_steps = state.steps.records().size();
}

void Loop::Impl::take_lock() {
  if (lock) return;
  lock = options.lock ? options.lock : std::make_shared<const RunLock>(folder.path);
  held = lock;
  if (!lock->held() && options.terminal && !options.lock) say(lock->warning(), options.output);
}

// To be asked anew before each file: WriteError if the folder is no longer this run's.
const RunFolder& Loop::Impl::folder_to_write() const {
  if (const auto taken = held.lock()) taken->check_in_place();
  return folder;
}

// The same, to be asked once a file is begun in a folder. What a file holds takes a while to
// gather, and another run's folder may have taken this one's place by then.
std::function<void()> Loop::Impl::still_ours() const {
  return [this] { folder_to_write(); };
}

void Loop::Impl::save() {
  if (!in_folder()) return;
  save_checkpoint(folder_to_write().checkpoint(), checkpoint.state(), still_ours());
  last_save = Clock::now();
  saved_step = learner.steps();
  append_steps(folder_to_write(), state.steps, logged_steps);
  if (board) board->events().flush();
}

void Loop::Impl::save_weights() {
  if (!in_folder() || !options.save_weights) return;
  const auto save = [this](const std::string& path) {
    learner.save_weights(path, options.weights_metadata, still_ours());
  };
  if (options.keep > 0) save(folder_to_write().weights(state.history.back().epoch));
  const bool best =
      train::best_epoch(state.history, options.best).epoch == state.history.back().epoch;
  if (best || !options.only_best) save(folder_to_write().weights());
  if (best && !options.only_best && !options.best.metric.empty())
    save(folder_to_write().best_weights());
}

void Loop::Impl::end_if_no_better() {
  const int64_t closed = std::ssize(state.history);
  if (options.patience == 0 || closed >= options.epochs) return;
  const int64_t since = epochs_since_best(state.history, options.best);
  if (since < options.patience) return;
  const std::string& metric = options.best.metric;
  std::string reason = fmt::format("there was no {} in {} epochs", metric, since);
  if (since < closed) {
    const EpochRecord& best = state.history[static_cast<size_t>(closed - since - 1)];
    reason = fmt::format("{} was no better in {} epoch{} than {:.6g} in epoch {}", metric, since,
                         since == 1 ? "" : "s", best[metric], best.epoch);
  }
  state.history.back().ended = reason;
}

std::optional<Metrics> Loop::Impl::evaluate_weights() {
  NoGradGuard no_grad;
  Learner::Evaluation scope(learner);
  try {
    return evaluate();
  } catch (const Diverged& e) {
    throw Diverged(fmt::format("{} (after step {}){}", e.what(), learner.steps(),
                               diagnosis(options.diagnose, [this] { evaluate(); })));
  }
}

Metrics Loop::Impl::metrics(const Metrics& evaluated) const {
  Metrics all;
  for (const Means::Entry& e : state.means.entries())
    all.emplace_back("train_" + e.name, e.sum / e.count);
  all.insert(all.end(), evaluated.begin(), evaluated.end());
  return all;
}

// Where a run that was resumed goes on.
std::string Loop::Impl::place() const {
  const std::string steps = grouped(learner.steps());
  if (!state.history.empty() && !state.history.back().ended.empty())
    return fmt::format("ended after epoch {} of {} and {} steps: {}", epoch() - 1, options.epochs,
                       steps, state.history.back().ended);
  if (std::ssize(state.history) >= options.epochs)
    return fmt::format("all {} epochs are done, after {} steps", options.epochs, steps);
  const std::string batch =
      state.batch == state.batches
          ? "to be evaluated"
          : fmt::format("batch {} of {}", grouped(state.batch + 1), grouped(state.batches));
  return fmt::format("goes on in epoch {}/{}, {}, after {} steps", epoch(), options.epochs, batch,
                     steps);
}

// Which files of the run hold what was learned before.
std::string Loop::Impl::what_is_good() const {
  if (!in_folder() || !std::filesystem::exists(folder.checkpoint())) return "";
  std::string text =
      fmt::format("; {} keeps the state after step {}", folder.checkpoint(), saved_step);
  if (state.history.empty() || !options.save_weights) return text;
  const EpochRecord& e =
      options.only_best ? train::best_epoch(state.history, options.best) : state.history.back();
  return text + fmt::format(", {} the weights of epoch {}", folder.weights(), e.epoch);
}

bool Loop::Impl::wants_save() const {
  if (!in_folder()) return false;
  const bool often = options.checkpoint_steps > 0;
  return (often && learner.steps() % options.checkpoint_steps == 0) ||
         std::chrono::duration<double>(Clock::now() - last_save).count() >
             options.checkpoint_seconds;
}

}  // namespace tern::train
