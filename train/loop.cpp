#include "tern/train/loop.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "tern/core/io/atomic_file.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/detail/loop_impl.h"
#include "tern/train/progress.h"

namespace tern::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Loop::Loop(Learner& learner, Evaluate evaluate, detail::Feed feed, LoopOptions options)
    : impl_(new Impl{.learner = learner,
                     .evaluate = std::move(evaluate),
                     .feed = std::move(feed),
                     .options = std::move(options),
                     .folder = {}}) {
  const LoopOptions& o = impl_->options;
  check(o.epochs >= 1 && o.accumulate >= 1,
        "Loop: there must be at least one epoch, and one batch a step; they are {} and {}",
        o.epochs, o.accumulate);
  check(!learner.options().plateau || !o.best.metric.empty(),
        "Loop: LearnerOptions::plateau needs a metric; name it in LoopOptions::best");
  check(!learner.options().plateau || learner.options().plateau->maximize == o.best.largest,
        "Loop: LearnerOptions::plateau takes the metric {} for one that {} become large, and "
        "LoopOptions::best does not; give both the same",
        o.best.metric, o.best.largest ? "is not to" : "is to");
  check(o.patience >= 0 && o.keep >= 0,
        "Loop: patience and the number of kept epochs must not be negative, they are {} and {}",
        o.patience, o.keep);
  check(o.patience == 0 || !o.best.metric.empty(),
        "Loop: a patience of {} epochs needs a metric; name it in LoopOptions::best", o.patience);
  check(o.keep == 0 || !o.folder.empty(), "Loop: {} epochs are to be kept, but there is no folder",
        o.keep);
  check(o.accumulate == 1 || !learner.options().step_in_backward,
        "Loop: a step of {} batches needs their gradients together, and step_in_backward frees "
        "each at once; leave one of the two out",
        o.accumulate);
  impl_->folder.path = o.folder;
  if (impl_->options.weight_unit.empty()) impl_->options.weight_unit = o.unit;
  impl_->feed.seek({});
  impl_->start_epoch();
  check(impl_->state.batches > 0, "Loop: the loader has no batches");
  impl_->checkpoint.add_text(
      "loop", [this] { return to_json(impl_->state); },
      [this](const std::string& json) { impl_->load(json); });
  learner.add_to(impl_->checkpoint);
}

Loop::~Loop() = default;

Checkpoint& Loop::checkpoint() { return impl_->checkpoint; }
SafeTensors Loop::state() const { return impl_->checkpoint.state(); }
int64_t Loop::epoch() const { return impl_->epoch(); }
int64_t Loop::epochs() const { return impl_->options.epochs; }
bool Loop::epoch_trained() const { return impl_->state.batch >= impl_->state.batches; }
bool Loop::finished() const { return std::ssize(history()) >= epochs() || !why_ended().empty(); }
std::string Loop::why_ended() const { return history().empty() ? "" : history().back().ended; }
const std::vector<EpochRecord>& Loop::history() const { return impl_->state.history; }
const std::vector<StepRecord>& Loop::step_history() const { return impl_->state.steps.records(); }
const Best& Loop::best() const { return impl_->options.best; }
EventWriter* Loop::events() const { return impl_->board ? &impl_->board->events() : nullptr; }
const Means& Loop::means() const { return impl_->state.means; }
const RunFolder& Loop::folder() const { return impl_->folder; }
const RunFolder& Loop::folder_to_write() const { return impl_->folder_to_write(); }
std::FILE* Loop::output() const { return impl_->options.output; }
Learner& Loop::learner() const { return impl_->learner; }

double Loop::speed() const {
  const LoopState& s = impl_->state;
  return s.train_seconds > 0 ? s.means.count(kLoss) / s.train_seconds : 0;
}

const EpochRecord& Loop::best_epoch() const {
  return train::best_epoch(history(), impl_->options.best);
}

bool Loop::resume() {
  if (!impl_->in_folder() || !std::filesystem::exists(impl_->folder.checkpoint())) return false;
  impl_->take_lock();
  const std::string path = impl_->folder.checkpoint();
  try {
    load_state(load_checkpoint(path), path);
  } catch (...) {
    impl_->lock.reset();
    throw;
  }
  return true;
}

void Loop::load_state(const SafeTensors& state, const std::string& path) {
  impl_->checkpoint.load_state(state, path);
  impl_->resumed = true;
  impl_->saved_step = impl_->learner.steps();
}

void Loop::end(const std::string& reason) {
  check(!history().empty() && impl_->state.batch == 0,
        "Loop: end() is for LoopOptions::on_epoch: an epoch must be closed, and no step taken "
        "since");
  impl_->state.history.back().ended = reason;
}

void Loop::step() {
  check(!epoch_trained(), "Loop: the epoch is to be evaluated and closed before another step");
  Impl& p = *impl_;
  p.learner.save_generators(p.generators);
  p.means = p.state.means;
  size_t count = 0;
  try {
    count = p.take_batches();
    p.take_step(count);
  } catch (const Diverged& e) {
    const std::string cause = p.diagnose(count);
    p.undo_step();
    throw Diverged(fmt::format("{} (epoch {}){}", e.what(), epoch(), cause));
  } catch (...) {
    p.undo_step();
    throw;
  }
  p.feed.clear();
}

bool Loop::close_epoch() {
  check(epoch_trained(), "Loop: the epoch is not over");
  Impl& p = *impl_;
  p.learner.check_finite_state();
  Metrics evaluated;
  if (p.evaluate) {
    const auto start = Clock::now();
    std::optional<Metrics> result = p.evaluate_weights();
    if (!result) return false;
    evaluated = std::move(*result);
    if (p.timed) p.state.evaluate_seconds += seconds_since(start);
  }
  p.state.history.push_back({.epoch = epoch(),
                             .metrics = p.metrics(evaluated),
                             .speed = speed(),
                             .lr = p.learner.lr(),
                             .seconds = p.state.train_seconds + p.state.evaluate_seconds,
                             .steps = p.learner.steps()});
  if (p.board) p.board->add(history().back(), p.options.weight_unit, p.learner);
  if (p.learner.options().plateau) p.learner.report(history().back()[p.options.best.metric]);
  p.start_epoch();
  p.end_if_no_better();
  p.save_weights();
  if (p.options.on_epoch) p.options.on_epoch(history().back());
  return true;
}

// ---- run() ------------------------------------------------------------------------------------

namespace {

std::string plain_line(const EpochRecord& e, int64_t epochs, const std::string& unit) {
  std::string s = fmt::format("epoch {}/{}", e.epoch, epochs);
  for (const auto& [name, value] : e.metrics) s += fmt::format("  {} {:.4f}", name, value);
  return s +
         fmt::format("  {:.0f} {}/s  lr {:.3g}  {}", e.speed, unit, e.lr, clock_time(e.seconds));
}

}  // namespace

bool Loop::train_epoch() {  // false where a signal stopped it
  Impl& p = *impl_;
  const LoopOptions& o = p.options;
  const bool counts = o.total > 0;
  std::optional<Progress> bar;
  if (o.terminal) {
    bar.emplace(fmt::format("epoch {}/{}", epoch(), epochs()), counts ? o.unit : "batches",
                counts ? static_cast<int64_t>(o.total) : p.state.batches,
                counts ? static_cast<int64_t>(p.state.progress) : p.state.batch, o.output);
    bar->set_parts_to_come(
        {.count = epochs() - epoch(), .seconds = history().empty() ? 0 : history().back().seconds});
  }
  while (!epoch_trained()) {
    if (interrupted()) return false;
    const auto start = Clock::now();
    step();
    p.state.train_seconds += seconds_since(start);
    if (bar)
      bar->update(counts ? static_cast<int64_t>(p.state.progress) : p.state.batch, [&] {
        return o.note ? o.note(*this) : fmt::format("loss {:.4f}", means().mean(kLoss));
      });
    if (p.wants_save()) p.save();
  }
  return true;
}

Outcome Loop::stop() {
  Impl& p = *impl_;
  p.save();
  if (p.options.terminal)
    say(fmt::format("stopped in epoch {} after {} steps{}", epoch(), grouped(p.learner.steps()),
                    p.in_folder() ? "; to go on: " + p.options.how_to_resume : ""),
        p.options.output);
  return Outcome::interrupted;
}

Outcome Loop::train_all() {
  Impl& p = *impl_;
  const LoopOptions& o = p.options;
  p.save();  // first of all: from here on there is a run in the folder, which can be resumed
  if (p.in_folder()) {
    p.folder_to_write().write_log(log_lines(history(), step_history(), o.weight_unit));
    p.logged_steps = step_history().size();
  }
  p.put_back_weights();
  p.drop_kept();
  if (p.resumed && o.terminal) say(p.place(), o.output);
  while (!finished()) {
    if (!train_epoch() || !close_epoch()) return stop();
    // Weights were written first: a run that is killed in between repeats the epoch and writes the
    // same.
    const EpochRecord& e = history().back();
    if (p.in_folder()) append_steps(p.folder_to_write(), p.state.steps, p.logged_steps);
    if (p.in_folder()) p.folder_to_write().append_log(log_line(e, o.weight_unit));
    p.keep_checkpoint();
    p.save();
    p.drop_kept();
    if (o.terminal)
      say(o.epoch_line ? o.epoch_line(e) : plain_line(e, epochs(), o.weight_unit), o.output);
    if (o.terminal && !why_ended().empty())
      say(fmt::format("ended after epoch {} of {}: {}", e.epoch, epochs(), why_ended()), o.output);
  }
  return Outcome::finished;
}

Outcome Loop::run() {
  Impl& p = *impl_;
  if (p.in_folder()) {
    p.folder_to_write().make();
    p.take_lock();
  }
  const std::shared_ptr<const RunLock> lock = std::exchange(p.lock, {});  // until the end
  if (lock) {
    check(p.resumed || !p.folder.holds_run(),
          "{}: the folder holds a run already; resume that one, or choose another folder",
          p.folder.path);
    if (lock->held()) tern::detail::remove_abandoned_files(p.folder.path);
  }
  if (p.in_folder() && !finished() &&
      (p.options.tensorboard || (p.resumed && has_event_files(p.folder.path))))
    p.board = std::make_unique<LoopBoard>(p.folder.path, p.learner.steps(),
                                          epoch_trained() ? &p.state.steps : nullptr);
  InterruptScope signals;
  p.timed = true;
  try {
    return train_all();
  } catch (const Diverged& e) {
    throw Diverged(e.what() + p.what_is_good());
  }
}

}  // namespace tern::train
