// The steps of a Loop, its epochs and run(). Other parts are in train/detail: loop_setup.cpp,
// loop_lengths.cpp, loop_evaluation.cpp, loop_words.cpp and kept_epochs.cpp.
#include "tern/train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "tern/core/base/ceil_div.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/shared_work.h"
#include "tern/train/detail/draw_watch.h"
#include "tern/train/detail/loop_board.h"
#include "tern/train/detail/loop_shared_steps.h"
#include "tern/train/detail/loop_state.h"
#include "tern/train/detail/run_settings.h"
#include "tern/train/detail/tensor_names.h"
#include "tern/train/diagnose.h"
#include "tern/train/progress.h"

namespace tern::training {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLoss = detail::LossMean::name;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Loop::Loop(std::vector<NamedLearner> learners, Evaluate evaluate,
           std::unique_ptr<detail::Feed> feed, LoopOptions options)
    : learners_(std::move(learners)),
      learner_(learners_.front().learner),
      evaluate_(std::move(evaluate)),
      feed_(std::move(feed)),
      options_(std::move(options)),
      held_(options_.lock) {
  check_options();
  if (options_.parallel.world) {
    shared_ = std::make_unique<SharedSteps>(options_, learner_, *feed_);
    first_ = options_.parallel.world->first();
    if (!first_) options_.terminal = options_.tensorboard = false;
  }
  folder_.path = options_.folder;
  draws_ = std::make_unique<DrawWatch>(shared_ || in_folder());
  if (options_.weight_unit.empty()) {
    const bool samples = !feed_->weighed && options_.bar.unit == BarOptions{}.unit;
    options_.weight_unit = samples ? "samples" : options_.bar.unit;
  }
  feed_->seek({});
  start_epoch();
  check(state_.batches > 0, "Loop: the loader has no batches");
  checkpoint_.add_text(
      "loop", [this] { return to_json(state_); }, [this](const std::string& json) { load(json); });
  checkpoint_.add_settings(
      "loop_recipe", [this] { return recipe_to_json(recipe()); },
      [this](const std::string& json) { return compare_recipe(json, recipe()); });
  add_best();
  join_learners();
  if (shared_) shared_->add_to(checkpoint_);
}

Loop::~Loop() = default;

EventWriter* Loop::events() const { return board_ ? &board_->events() : nullptr; }

double Loop::speed() const {
  return state_.train_seconds > 0 ? state_.means.count(kLoss) / state_.train_seconds : 0;
}

void Loop::load(const std::string& json) {
  LoopState s = loop_state_from_json(json);
  if (s.epoch_steps < 0) {  // an earlier version wrote it
    s.data_epoch = std::ssize(s.history);
    s.epoch_steps = ceil_div(s.batch, options_.accumulate);
  }
  check_length(s);
  feed_->seek({.epoch = s.data_epoch, .batch = 0});
  check(
      s.batches == feed_->batches(),
      "its epoch {} has {} batches, but the loader's has {}; resume with the same data and size of "
      "batches",
      s.data_epoch + 1, s.batches, feed_->batches());
  check(s.order == 0 || s.order == feed_->order(),
        "its epoch {} takes the samples in another order than the loader's; resume with the same "
        "seed, sampler and number of samples",
        s.data_epoch + 1);
  check(s.batch >= 0 && s.batch <= s.batches, "{} of {} batches are done", s.batch, s.batches);
  feed_->seek({.epoch = s.data_epoch, .batch = s.batch});
  if (s.batch == s.batches) check(!feed_->take(), "an epoch has more than {} batches", s.batches);
  state_ = std::move(s);
  logged_steps_ = state_.steps.records().size();
}

void Loop::take_lock() {
  if (lock_) return;
  lock_ = options_.lock ? options_.lock : std::make_shared<const RunLock>(folder_.path);
  held_ = lock_;
  if (!lock_->held() && options_.terminal && !options_.lock) say(lock_->warning(), options_.output);
}

// Whether rank 0 sees the file.
bool Loop::there(const std::string& path) const {
  const bool exists = std::filesystem::exists(path);
  return shared_ ? options_.parallel.world->gather("whether there is a checkpoint",
                                                   exists ? "1" : "0")[0] == "1"
                 : exists;
}

// Loads the run on all ranks. Rank 0 has the folder's lock before it reads.
void Loop::load_locked(const std::function<void()>& load) {
  const auto lock_and_load = [&] {
    if (first_) take_lock();
    load();
  };
  try {
    if (shared_)
      options_.parallel.world->together(lock_and_load);
    else
      lock_and_load();
  } catch (...) {
    lock_.reset();
    throw;
  }
}

bool Loop::resume() {
  const std::string path = folder_.checkpoint();
  if (!in_folder() || !there(path)) return false;
  load_locked([&] { load_state(load_checkpoint(path), path); });
  return true;
}

void Loop::load_state(const SafeTensors& state, const std::string& path) {
  SharedSteps::check_fits(state, path, options_.parallel.local_steps > 0);
  checkpoint_.load_state(state, path);
  if (shared_) shared_->check_same_state();
  resumed_ = true;
  saved_step_ = steps();
}

void Loop::end(const std::string& reason) {
  check(!history().empty() && state_.epoch_steps == 0,
        "Loop: end() is for LoopOptions::on_epoch: an epoch must be closed, and no step taken "
        "since");
  state_.history.back().ended = reason;
}

void Loop::apply_patience() {
  if (history().empty() || state_.epoch_steps > 0) return;  // decided when the epoch is closed
  state_.history.back().ended.clear();
  end_if_no_better();
}

// ---- A step ----------------------------------------------------------------------------------

// Adds the loss to the means first, so that it is the first metric.
void Loop::start_epoch() {
  const bool data_over = state_.batches > 0 && state_.batch >= state_.batches;
  state_ = {.data_epoch = state_.data_epoch + (data_over ? 1 : 0),
            .batch = data_over ? 0 : state_.batch,
            .history = std::move(state_.history),
            .own_steps = state_.own_steps,
            .steps = std::move(state_.steps),
            .kept = std::move(state_.kept)};
  state_.means.add(kLoss, 0, 0);
  state_.batches = feed_->batches();
  state_.order = feed_->order();
}

// Called when the loader's epoch ends within one of the loop's.
void Loop::start_data_epoch() {
  ++state_.data_epoch;
  state_.batch = 0;
  state_.batches = feed_->batches();
  state_.order = feed_->order();
}

// The program may have iterated over the loader since the last step, for a metric of its data.
void Loop::return_to_position() {
  const bool data_over = state_.batch >= state_.batches;
  const datasets::LoaderPosition own = {.epoch = state_.data_epoch + (data_over ? 1 : 0),
                                        .batch = data_over ? 0 : state_.batch};
  if (feed_->position() != own) feed_->seek(own);
}

// Takes the batches of a step. After an epoch's last batch, moves the loader to the next epoch.
size_t Loop::take_batches() {
  const int64_t count = std::min(options_.accumulate, state_.batches - state_.batch);
  for (int64_t i = 0; i < count; ++i)
    check(feed_->take(), "Loop: epoch {} ended after {} of {} batches", epoch(), state_.batch + i,
          state_.batches);
  if (state_.batch + count == state_.batches)
    check(!feed_->take(), "Loop: epoch {} has more than {} batches", epoch(), state_.batches);
  return static_cast<size_t>(count);
}

double Loop::train_on(size_t count, double weight) {
  if (feed_->own_step) {
    const double loss = feed_->step(0, state_.means);
    ++state_.own_steps;
    return loss;
  }
  double loss = 0;
  // The mean over the batches of the step, by weight.
  for (size_t i = 0; i < count; ++i)
    loss +=
        learner_.backward(feed_->loss(i, state_.means), count > 1 ? feed_->weight(i) / weight : 1);
  learner_.step();
  return loss;
}

void Loop::take_step(size_t count) {
  double weight = 0, done = 0;
  for (size_t i = 0; i < count; ++i) {
    const double w = feed_->weight(i);
    check(w >= 0 && std::isfinite(w), "Loop: a batch of step {} has the weight {}", steps() + 1, w);
    weight += w, done += feed_->progress(i);
  }
  const auto batches = static_cast<int64_t>(count);
  const LoopBoard::Watch watch(is_over(batches, 1) ? board_.get() : nullptr, learners_, steps());
  check(weight > 0, "Loop: the weight of the batches of step {} is {}, not above 0", steps() + 1,
        weight);
  const double loss = train_on(count, weight);
  finish_step({steps(), loss, learner_.lr(), learner_.grad_norm()}, weight, done);
  state_.batch += batches;
  ++state_.epoch_steps;
}

void Loop::finish_step(const StepRecord& record, double weight, double done) {
  if (state_.steps.add(record) && board_) board_->add(state_.steps.records().back());
  state_.means.add(kLoss, record.loss * weight, weight);
  state_.progress += done;
}

// Takes a step that the ranks share: this process computes a part of it.
void Loop::take_shared_step() {
  const bool last = is_over(1, 1);
  const LoopBoard::Watch watch(last ? board_.get() : nullptr, learners_, steps());
  finish_shared_steps(shared_->take({state_.epoch_steps, last, is_late()}, state_.means));
  ++state_.batch;
  ++state_.epoch_steps;
}

void Loop::finish_shared_steps(const std::vector<SharedStep>& steps) {
  for (const SharedStep& s : steps) {
    stop_ |= s.stop;
    late_ |= s.late;
    finish_step(s.record, s.weight, s.progress);
  }
}

bool Loop::stop_wanted() const { return shared_ ? stop_ : interrupted(); }

std::string Loop::diagnose(size_t count) {
  if (feed_->own_step) return "";  // Task::step may have updated weights
  return diagnose_step([&] {
    learner_.load_generators(generators_[0]);
    learner_.clear_gradients();
    Means means;
    if (shared_) return shared_->run_again();
    double weight = 0;
    for (size_t i = 0; i < count; ++i) weight += feed_->weight(i);
    for (size_t i = 0; i < count; ++i) {
      const Tensor loss = feed_->loss(i, means);
      tern::backward(count > 1 ? loss * (feed_->weight(i) / weight) : loss);
    }
  });
}

void Loop::save_generators() {
  generators_.resize(learners_.size());
  for (size_t i = 0; i < learners_.size(); ++i)
    learners_[i].learner.save_generators(generators_[i]);
}

void Loop::load_generators() const {
  for (size_t i = 0; i < learners_.size(); ++i)
    learners_[i].learner.load_generators(generators_[i]);
}

// Restores the state before the step.
void Loop::undo_step() {
  for (const NamedLearner& l : learners_) l.learner.clear_gradients();
  load_generators();
  state_.means = means_;
  feed_->clear();
  feed_->seek({.epoch = state_.data_epoch, .batch = state_.batch});
}

void Loop::step() {
  check(!epoch_trained(), "Loop: the epoch must be evaluated and closed before another step");
  if (state_.epoch_steps == 0)
    for (const NamedLearner& l : learners_) {
      l.learner.check_mode();
      l.learner.check_optimized();
    }
  draws_->check_kept(generators_, shared_ ? nullptr : &checkpoint_);
  return_to_position();
  if (state_.batch >= state_.batches) start_data_epoch();
  save_generators();
  means_ = state_.means;
  size_t count = 0;
  try {
    count = take_batches();
    draws_->take([&] { shared_ ? take_shared_step() : take_step(count); });
  } catch (const Diverged& e) {
    const std::string cause = diagnose(count);
    undo_step();
    throw Diverged(fmt::format("{} (epoch {}){}", e.what(), epoch(), cause));
  } catch (...) {
    undo_step();
    throw;
  }
  feed_->clear();
}

// ---- The end of an epoch ----------------------------------------------------------------------

bool Loop::close_epoch() {
  check(epoch_trained(), "Loop: the epoch is not over");
  for (const NamedLearner& l : learners_) l.learner.check_finite_state();
  Metrics evaluated;
  if (evaluate_) {
    const auto start = Clock::now();
    std::optional<Metrics> result = evaluate_weights();
    if (!result) return false;
    evaluated = std::move(*result);
    if (shared_) check_same_on_all_ranks(evaluated);
    evaluation_seconds_ = seconds_since(start);
    if (timed_) state_.evaluate_seconds += evaluation_seconds_;
    return_to_position();
  }
  state_.history.push_back({.epoch = epoch(),
                            .metrics = epoch_metrics(evaluated),
                            .speed = speed(),
                            .lr = learner_.lr(),
                            .seconds = state_.train_seconds + state_.evaluate_seconds,
                            .steps = steps()});
  if (board_) board_->add(history().back(), options_.weight_unit, learners_);
  for (const NamedLearner& l : learners_)
    if (l.learner.options().plateau) l.learner.report(history().back()[options_.best.metric]);
  start_epoch();
  end_if_no_better();
  save_weights();
  if (options_.on_epoch) options_.on_epoch(history().back());
  return true;
}

// ---- Files ------------------------------------------------------------------------------------

// All files of the run are written in it: another run's folder may replace this one at any moment.
void Loop::write(const std::function<void(const RunFolder&)>& body) const {
  if (const auto taken = held_.lock()) return taken->write(body);
  body(folder_);
}

void Loop::on_first(const std::string& what, const std::function<void()>& body) {
  if (!shared_) return body();
  dist::take_time(*options_.parallel.world, what, [&] {
    if (first_) body();
  });
}

// If the state is spread over the ranks, all of them gather it; rank 0 writes it.
void Loop::write_checkpoint(std::optional<int64_t> epoch) {
  SafeTensors state;
  if (first_ || shared_->gathers()) {
    if (shared_) finish_shared_steps(shared_->catch_up(state_.means));
    state = checkpoint_.state();
  }
  const auto save = [&](const RunFolder& here) {
    save_checkpoint(epoch ? here.checkpoint(*epoch) : here.checkpoint(), std::move(state));
  };
  on_first("the checkpoint", [&] { write(save); });
}

void Loop::save() {
  if (!in_folder()) return;
  if (board_) board_->events().sync();  // before the checkpoint: resuming writes only later steps
  write_checkpoint();
  late_ = false;
  last_save_ = Clock::now();
  saved_step_ = steps();
  if (!first_) return;
  write([&](const RunFolder& here) { append_steps(here, state_.steps, logged_steps_); });
  if (board_) board_->events().flush();
}

void Loop::write_weights(const std::string& path) const {
  if (learners_.size() == 1) return learner_.save_weights(path, options_.weights_metadata);
  SafeTensors all{{}, options_.weights_metadata};  // close_epoch() has checked that all are finite
  for (const NamedLearner& l : learners_)
    for (auto& named : with_prefix(l.name + ".", l.learner.weights()))
      all.tensors.push_back(std::move(named));
  save_safetensors(path, all);
}

void Loop::save_weights() {
  if (!in_folder()) return;
  const int64_t epoch = state_.history.back().epoch;
  const bool best = training::best_epoch(state_.history, options_.best).epoch == epoch;
  const auto save = [&](const RunFolder& here) {
    if (options_.keep > 0) write_weights(here.weights(epoch));
    if (best || !options_.only_best) write_weights(here.weights());
    if (best && !options_.only_best && !options_.best.metric.empty())
      write_weights(here.best_weights());
  };
  on_first("the weights", [&] { write(save); });
}

// ---- run() ------------------------------------------------------------------------------------

namespace {

std::string with_metrics(std::string s, const EpochRecord& e) {
  for (const auto& [name, value] : e.metrics) s += fmt::format("  {} {:.4f}", name, value);
  return s;
}

}  // namespace

// Whether checkpoint_seconds have passed since the last checkpoint.
bool Loop::is_late() const {
  return writes() && seconds_since(last_save_) > options_.checkpoint_seconds;
}

// Whether a checkpoint is due; the same answer on all ranks.
bool Loop::wants_save() const {
  if (!in_folder()) return false;
  const bool often = options_.checkpoint_steps > 0;
  return (often && steps() % options_.checkpoint_steps == 0) || (shared_ ? late_ : is_late());
}

bool Loop::train_epoch() {  // false if a signal stopped it
  const LoopOptions& o = options_;
  const BarOptions& b = o.bar;
  const bool counts = b.total > 0 && !by_steps();
  const auto all = [&] {
    return counts ? static_cast<int64_t>(b.total) : by_steps() ? steps_in_epoch() : state_.batches;
  };
  const auto done = [&] {
    return counts       ? static_cast<int64_t>(state_.progress)
           : by_steps() ? state_.epoch_steps
                        : state_.batch;
  };
  std::optional<Progress> bar;
  if (o.terminal) {
    const std::string label =
        by_steps() ? fmt::format("to step {}/{}", steps() + steps_in_epoch() - state_.epoch_steps,
                                 total_steps())
                   : fmt::format("epoch {}/{}", epoch(), epochs());
    bar.emplace(label, counts ? b.unit : by_steps() ? "steps" : "batches", all(), done(), o.output);
    // BarOptions::evaluation counts in units of `total`; the bar may count in steps.
    const double steps_each = static_cast<double>(steps_in_data_epoch()) /
                              (b.total > 0 ? b.total : static_cast<double>(state_.batches));
    bar->set_parts_to_come({.count = epochs() - epoch(),
                            .seconds = evaluation_seconds_,
                            .units = b.evaluation * (by_steps() ? steps_each : 1),
                            .pace = pace_});
  }
  while (!epoch_trained()) {
    if (stop_wanted()) return false;
    const auto start = Clock::now();
    step();
    state_.train_seconds += seconds_since(start);
    if (bar)
      bar->update(done(), [&] {
        return b.note ? b.note(*this) : fmt::format("loss {:.4f}", means().mean(kLoss));
      });
    if (wants_save()) save();
  }
  if (bar && bar->speed() > 0) pace_ = 1 / bar->speed();
  return true;
}

Outcome Loop::stop() {
  // What the ranks have not told each other yet says "stop" too, and run() may be called again.
  if (shared_) finish_shared_steps(shared_->catch_up(state_.means));
  save();
  if (options_.terminal)
    say(fmt::format("stopped{} after {} steps{}",
                    by_steps() ? "" : fmt::format(" in epoch {}", epoch()), grouped(steps()),
                    in_folder() ? "; to resume: " + options_.how_to_resume : ""),
        options_.output);
  return Outcome::interrupted;
}

Outcome Loop::train_all() {
  const LoopOptions& o = options_;
  save();  // from here on the folder holds a run, which can be resumed
  if (writes()) {
    write([&](const RunFolder& here) {
      here.write_log(log_lines(history(), step_history(), o.weight_unit));
    });
    logged_steps_ = step_history().size();
  }
  put_back_weights();
  drop_kept();
  if (resumed_ && o.terminal) say(place(), o.output), say_notes();
  while (!finished()) {
    if (!train_epoch() || !close_epoch()) return stop();
    // The weights were written before the checkpoint: a run killed in between repeats the end of
    // the epoch and writes the same weights.
    const EpochRecord& e = history().back();
    if (writes())
      write([&](const RunFolder& here) {
        append_steps(here, state_.steps, logged_steps_);
        here.append_log(log_line(e, o.weight_unit));
      });
    keep_checkpoint();
    save();
    drop_kept();
    if (o.terminal)
      say(fmt::format("{}  {:.0f} {}/s  lr {:.3g}  {}",
                      o.epoch_line ? o.epoch_line(e) : with_metrics(title(e), e), e.speed,
                      o.weight_unit, e.lr, clock_time(e.seconds)),
          o.output);
    if (o.terminal && !why_ended().empty())
      say(fmt::format("ended after {}: {}",
                      by_steps() ? title(e) : fmt::format("epoch {} of {}", e.epoch, epochs()),
                      why_ended()),
          o.output);
  }
  return Outcome::finished;
}

Outcome Loop::run() {
  if (!shared_) return run_here();
  Outcome outcome{};
  options_.parallel.world->together([&] {
    outcome = run_here();
    options_.parallel.world->barrier("the end of the run");  // until rank 0 has written its files
  });
  return outcome;
}

Outcome Loop::run_here() {
  stop_ = false;
  if (writes()) {
    check_folder();
    folder_.make();
    take_lock();
  }
  const std::shared_ptr<const RunLock> lock = std::exchange(lock_, {});  // held until run() ends
  if (lock) {
    check(resumed_ || !folder_.holds_run(),
          "{}: the folder holds a run already; resume that one, or choose another folder",
          folder_.path);
    if (lock->held()) tern::detail::remove_abandoned_files(folder_.path);
  }
  if (writes() && !finished() &&
      (options_.tensorboard || (resumed_ && has_event_files(folder_.path))))
    board_ = std::make_unique<LoopBoard>(folder_.path, steps(),
                                         epoch_trained() ? &state_.steps : nullptr);
  InterruptScope signals;
  timed_ = true;
  try {
    return train_all();
  } catch (const Diverged& e) {
    throw Diverged(e.what() + what_is_good());
  }
}

}  // namespace tern::training
