// The training loop: epochs over a loader's batches, evaluation, progress, log, checkpoints,
// Ctrl-C, exact resume. You give a model, the loss of a batch and an evaluation:
//
//   training::Learner learner(model, optimizer, {.clip = 1, .ema = 0.999});
//   training::Loop loop(learner, batches,
//       {.loss = [&](const Batch& b) { return cross_entropy(model(b.x), b.y); },
//        .evaluate = [&] { return training::Metrics{{"valid_loss", test(model)}}; }},
//       {.epochs = 10, .folder = "runs/first"});
//   loop.resume();  // continues the run in that folder, if one was stopped or killed there
//   return loop.run() == training::Outcome::finished ? 0 : training::kExitInterrupted;
//
// LoopOptions::steps sets the length of the run in steps, evaluate_steps the number of steps
// between evaluations. To train several models, each with its own optimizer (a GAN), make several
// learners and give a Task::step:
//
//   training::Learner critic(d, d_optimizer), generator(g, g_optimizer);
//   training::Loop loop({{"critic", critic}, {"generator", generator}}, batches,
//       {.step = [&](const Batch& b, training::Means& means) {
//         const Tensor made = g(randn({b.x.size(0), 8}, noise));
//         const double seen = critic.backward(critic_loss(d(b.x), d(made.detach())));
//         critic.step();
//         const double fooled = generator.backward(generator_loss(d(made)));
//         generator.step();
//         means.add("fooled", fooled, 1);
//         return seen + fooled;
//       }}, ...);
//
// A run in a folder writes log.jsonl (run_log.h), checkpoint.safetensors (at the start, at the end
// of each epoch, every few minutes between, and when it is stopped), model.safetensors (the weights
// after each epoch, or their averages if there are any) and, if the options name a metric,
// best.safetensors. It may end early (LoopOptions::patience, Loop::end()) and keep the files of
// several epochs (keep).
//
// Resuming is exact: k steps, a stop or kill, resume() and the rest give bit for bit the weights of
// an uninterrupted run, also in mid-epoch. resume() also restores frozen parameters and the
// optimizer's settings (Learner::add_to). Other settings come from the program (accumulate, blocks,
// clip, schedule); a printed line lists those that differ from the checkpoint's. Add the state of
// your loss or evaluation (a generator, counters) to checkpoint() before resume(). A run in a
// folder whose first steps draw from an Rng that is not there ends with an Error; so does a run of
// several ranks whose first steps draw from an Rng that is not the model's. If the loop's hooks do
// not fit, write your own loop with learner.h, checkpoint.h, interrupt.h and progress.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/data/loading/loader.h"
#include "tern/train/checkpoint.h"
#include "tern/train/interrupt.h"
#include "tern/train/learner.h"
#include "tern/train/metrics.h"
#include "tern/train/parallel.h"
#include "tern/train/run_folder.h"
#include "tern/train/run_lock.h"
#include "tern/train/run_log.h"
#include "tern/train/tensorboard.h"

namespace tern::training {

/// The loss of a batch: a function of the batch, or of the batch and the epoch's means. It may add
/// further numbers to the means, under other names than "loss": means.add("top1", right, images).
template <class B>
struct Loss {
  std::function<Tensor(const B&, Means&)> call;

  Loss() {}  // NOLINT: "= default" breaks g++ 12 where a Task has a step and no loss
  template <class F>
  requires(!std::is_same_v<F, Loss>) Loss(F f) {  // NOLINT: implicit on purpose
    constexpr bool kFits = std::is_invocable_r_v<Tensor, F&, const B&, Means&> ||
                           std::is_invocable_r_v<Tensor, F&, const B&>;
    static_assert(kFits,
                  "Task::loss must be callable as Tensor loss(const Batch&) or Tensor "
                  "loss(const Batch&, Means&), and give a Tensor: its mean over the batch");
    if constexpr (!kFits)
      return;
    else if constexpr (std::is_invocable_r_v<Tensor, F&, const B&, Means&>)
      call = std::move(f);
    else
      call = [f = std::move(f)](const B& batch, Means&) { return f(batch); };
  }
};

/// Computes the metrics of an epoch; std::nullopt if it was interrupted and must be repeated.
using Evaluate = std::function<std::optional<Metrics>()>;

/// The functions of a training on batches B.
template <class B>
struct Task {
  Loss<B> loss = {};  ///< a mean over the batch
  /// Called after each epoch with the averaged weights, if there are any, in evaluation mode and
  /// without gradients. A long evaluation should check interrupted() now and then, and return
  /// std::nullopt if it is true: then it is repeated when the run resumes, with the generators of
  /// the models and the numbers, texts, lists and generators of Loop::checkpoint() that it began
  /// with. Without this function there are no metrics.
  Evaluate evaluate = {};
  /// The weight of a batch (pictures, tokens) in the mean loss, the speed, and a step of several
  /// batches. Default: the number of samples that the loader planned for it, so that means are over
  /// samples even if the last batch of an epoch is smaller. Give a weight if the loss is a mean
  /// over something else, such as tokens. No weight may be negative or infinite, and that of a
  /// step must be above 0.
  std::function<double(const B&)> weight = {};
  /// How much a batch adds toward BarOptions::total. Default: its weight if that is given, else 1.
  std::function<double(const B&)> progress = {};
  /// Replaces `loss` for steps of several backward passes or optimizers. The function calls
  /// backward() and step() of the learners and returns the loss for the log and the terminal. One
  /// call is one step of the loop and takes one batch. Add the function's own generators and
  /// counters to Loop::checkpoint(). A step that throws after an update is not undone: resume from
  /// a checkpoint.
  std::function<double(const B&, Means&)> step = {};
};

/// One of several learners of a loop.
struct NamedLearner {
  std::string name;
  Learner& learner;
};

class Loop;

/// The progress bar of an epoch.
struct BarOptions {
  std::string unit = "batches";  ///< the unit of Task::progress
  double total = 0;              ///< sum of Task::progress over an epoch; 0: batches are counted
  /// The cost of Task::evaluate in the units of `total`, to estimate the time left before it has
  /// run once. A forward pass costs about a third of a training step.
  double evaluation = 0;
  /// The text beside the bar; default: the loss.
  std::function<std::string(const Loop&)> note = {};
};

struct LoopOptions {
  int64_t epochs = 1;
  /// The length of the run in steps; it may end within an epoch. 0: `epochs` gives the length.
  int64_t steps = 0;
  /// Makes an "epoch" of the loop this many steps long, wherever the loader's epochs end. Then
  /// evaluation, log, weights, best, patience, keep and on_epoch follow after every evaluate_steps
  /// steps and at the end of the run. 0: the epochs of the loop are those of the loader.
  int64_t evaluate_steps = 0;
  int64_t accumulate = 1;  ///< batches per step; the last step of an epoch may have fewer
  /// The folder of the run. Empty: nothing is written, and keep, checkpoint_steps and tensorboard
  /// are an Error.
  std::string folder = {};
  /// The lock on the folder, if the program has it already. Otherwise the loop locks the folder
  /// from resume() or the start of run() until run() ends.
  std::shared_ptr<const RunLock> lock = {};
  Best best = {};  ///< selects the epoch with the best weights; no metric: no epoch is the best
  /// Early stopping: the run ends after this number of successive epochs that are no better by
  /// `best`; 0: never.
  int64_t patience = 0;
  /// model.safetensors has the best weights, and there is no best.safetensors. Needs a metric.
  bool only_best = false;
  /// The number of last epochs whose checkpoint and weights are also kept in separate files
  /// (RunFolder::checkpoint(epoch), weights(epoch)), together with the weights of the best epoch up
  /// to each of them. Older files are removed, if this run wrote them.
  int64_t keep = 0;
  std::map<std::string, std::string> weights_metadata = {{"format", "pt"}};  ///< in weights files
  double checkpoint_seconds = 300;  ///< time between checkpoints
  int64_t checkpoint_steps = 0;     ///< steps between further checkpoints; 0: none
  /// Writes event files for TensorBoard: the log's numbers, and histograms of weights and gradients
  /// at the end of each epoch. A resumed run whose folder has event files writes them in any case.
  bool tensorboard = false;
  bool terminal = true;           ///< false: nothing is printed
  std::FILE* output = stdout;     ///< use stderr if standard output carries a result
  BarOptions bar = BarOptions();  // g++ 12 warns of "= {}" where LoopOptions is a temporary
  /// The unit of Task::weight, for the log; empty: bar.unit, or "samples" without Task::weight.
  std::string weight_unit = {};
  /// The start of the line printed for a closed epoch; default: title and metrics. Speed, learning
  /// rate and time follow.
  std::function<std::string(const EpochRecord&)> epoch_line = {};
  /// Called after an epoch is closed, before its log line and checkpoint. It may call Loop::end().
  std::function<void(const EpochRecord&)> on_epoch = {};
  Parallel parallel = {};
  std::string how_to_resume = "run it again";  ///< printed when the run is stopped
};

enum class Outcome { finished, interrupted };

namespace detail {

/// The loop's access to loader and task, independent of the type of a batch. It holds a list of the
/// batches of a step, or of this process's blocks of one batch; `i` is an index of that list.
class Feed {
 public:
  Feed(bool has_step, bool has_weight) : own_step(has_step), weighed(has_weight) {}
  virtual ~Feed() = default;
  virtual bool take() = 0;  ///< false at the end of an epoch; the next call begins the next one
  virtual void clear() = 0;
  virtual Tensor loss(size_t i, Means& means) = 0;
  virtual double step(size_t i, Means& means) = 0;  ///< replaces `loss`, if `own_step`
  virtual double weight(size_t i) const = 0;
  virtual double progress(size_t i) const = 0;
  virtual datasets::LoaderPosition position() const = 0;
  virtual void seek(datasets::LoaderPosition position) = 0;
  /// From now on take() takes the blocks [first, end) of a batch.
  virtual void cut(int64_t blocks, int64_t first, int64_t end) = 0;
  virtual bool has(size_t i) const = 0;  ///< whether block i of the list is not empty
  virtual int64_t batches() const = 0;   ///< number of batches in the loader's current epoch
  virtual int64_t order() const = 0;     ///< the checksum of that epoch in Loader::state_dict()

  const bool own_step;  ///< the task has a step
  const bool weighed;   ///< false: the task has no weight; samples are counted
};

/// The mean called "loss" is the loop's: a task that adds to it would change train_loss and speed.
struct LossMean {
  static constexpr const char* name = "loss";
  const Means& means;
  double count = means.count(name);
  explicit LossMean(const Means& m) : means(m) {}
  template <class T>
  T checked(T result) const {
    check(means.count(name) == count,
          "Loop: the loop itself keeps the mean called '{}'; give the task's mean another name",
          name);
    return result;
  }
};

template <class B>
class LoaderFeed final : public Feed {
 public:
  LoaderFeed(datasets::Loader<B>& loader, Task<B> task)
      : Feed(static_cast<bool>(task.step), static_cast<bool>(task.weight)),
        loader_(loader),
        task_(std::move(task)) {
    check(static_cast<bool>(task_.loss.call) != own_step,
          "Loop: a Task has a loss or a step, one of the two");
  }
  bool take() override {
    if (!first_block_) {
      std::optional<B> batch = loader_.next();
      if (!batch) return false;
      list_.push_back({std::move(batch), static_cast<double>(loader_.samples())});
      return true;
    }
    auto blocks = loader_.next_blocks();
    if (!blocks) return false;
    int64_t number = *first_block_;
    for (std::optional<B>& block : *blocks)
      list_.push_back({std::move(block), static_cast<double>(loader_.samples(number++))});
    return true;
  }
  void clear() override { list_.clear(); }
  Tensor loss(size_t i, Means& means) override {
    const LossMean own(means);
    return own.checked(task_.loss.call(batch(i), means));
  }
  double step(size_t i, Means& means) override {
    const LossMean own(means);
    return own.checked(task_.step(batch(i), means));
  }
  double weight(size_t i) const override {
    return weighed ? task_.weight(batch(i)) : list_[i].samples;
  }
  double progress(size_t i) const override {
    return task_.progress ? task_.progress(batch(i)) : weighed ? weight(i) : 1;
  }
  datasets::LoaderPosition position() const override { return loader_.position(); }
  void seek(datasets::LoaderPosition position) override { loader_.seek(position); }
  void cut(int64_t blocks, int64_t first, int64_t end) override {
    loader_.cut(blocks, first, end);
    if (blocks > 1) first_block_ = first;
  }
  bool has(size_t i) const override { return list_[i].batch.has_value(); }
  int64_t batches() const override { return loader_.batches_per_epoch(); }
  int64_t order() const override {
    return loader_.state_dict().back().second.template item<int64_t>();
  }

 private:
  struct Taken {
    std::optional<B> batch;  // or block
    double samples;
  };
  const B& batch(size_t i) const { return *list_[i].batch; }

  datasets::Loader<B>& loader_;
  Task<B> task_;
  std::vector<Taken> list_;
  std::optional<int64_t> first_block_;  // set if each batch is cut into blocks
};

}  // namespace detail

/// The state of a loop, beside the learner's, for an exact resume.
struct LoopState {
  // The loader's epoch in progress:
  int64_t data_epoch = 0;          // 0, 1, ...
  int64_t batch = 0, batches = 0;  // number of batches done, and in all
  int64_t order = 0;               // checksum of the samples' order; 0 from earlier versions
  // The loop's epoch in progress, which may be evaluate_steps long:
  int64_t epoch_steps = 0;  // number of steps done; -1 in files of earlier versions
  double progress = 0;      // sum of Task::progress over them
  double train_seconds = 0, evaluate_seconds = 0;
  Means means = {};
  // The closed epochs:
  std::vector<EpochRecord> history = {};
  // The whole run:
  int64_t own_steps = 0;  // calls of Task::step so far
  StepLog steps = {};
  std::vector<int64_t> kept = {};  // epochs with separate files, which this run wrote
};

class DrawWatch;
class LoopBoard;
class SharedSteps;
struct SharedStep;

class Loop {
 public:
  /// Learner and loader must outlive it. Nothing else may use them while it runs, except that an
  /// evaluation or a hook may iterate over the loader: the loop goes back to its own position.
  template <class B>
  Loop(Learner& learner, datasets::Loader<B>& loader, std::type_identity_t<Task<B>> task,
       LoopOptions options = {})
      : Loop(std::vector<NamedLearner>{{"", learner}}, loader, std::move(task),
             std::move(options)) {}
  /// Trains several learners with Task::step. Each has its own model, optimizer, schedule, clip and
  /// averages. Its backward() adds gradients only to its own parameters (train_beside). Its parts
  /// in checkpoints are called NAME_model, NAME_optimizer, ..., its weights in model.safetensors
  /// NAME.WEIGHT: load them into a module whose fields have these names. The log has the learning
  /// rate and the gradient norm of the first learner.
  template <class B>
  Loop(const std::vector<NamedLearner>& learners, datasets::Loader<B>& loader,
       std::type_identity_t<Task<B>> task, LoopOptions options = {})
      : Loop(check_several(learners, static_cast<bool>(task.step)), task.evaluate,
             std::make_unique<detail::LoaderFeed<B>>(loader, task), std::move(options)) {}
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Trains until all epochs are closed, or until a signal stops it (interrupt.h); then it saves
  /// the state. Error if the folder holds a run that was not resumed, or another process trains in
  /// it. WriteError if a file cannot be written, or the folder was moved or removed meanwhile.
  /// Diverged names the value that is not finite, the step, and the file with the state before it.
  Outcome run();

  /// The parts of the checkpoint. Add your own state before resume() or run().
  Checkpoint& checkpoint() { return checkpoint_; }
  /// Continues the run in the folder; false if it has no checkpoint. IoError if the
  /// checkpoint is damaged or does not fit.
  bool resume();
  /// Continues after an epoch whose checkpoint was kept (LoopOptions::keep), as if no later epoch
  /// had been trained: run() restores weights and log, and removes the files of later epochs.
  /// IoError as above, or if no checkpoint of that epoch was kept.
  void resume(int64_t epoch);
  /// For on_epoch: makes the epoch that was just closed the last one. The reason is printed and
  /// logged. If the run is resumed, it is still finished, unless end("") revokes the end.
  /// REQUIRES: an epoch is closed, and no step was taken since.
  void end(const std::string& reason);
  /// For a run resumed with another LoopOptions::patience, or with more epochs after its last one:
  /// applies the patience to the closed epochs. That may end the run or revoke its end; a reason
  /// given to end() is forgotten.
  void apply_patience();

  // ---- The parts of run() ----
  /// Takes one step of the optimizer. If it throws, the state before the step is restored, except
  /// what the forward pass changes (running statistics, your own counters), and the step can be
  /// taken again. With the learner's step_in_backward this holds only until the backward pass; if
  /// that throws, resume from a checkpoint. REQUIRES: !epoch_trained().
  void step();
  /// Whether all steps of the epoch in progress are done, so that close_epoch() comes next.
  bool epoch_trained() const { return is_over(0, 0); }
  /// Evaluates and adds the epoch to the history. Returns false, and changes nothing, if it was
  /// interrupted. Throws Diverged, and changes and writes nothing, if a tensor of a learner is not
  /// finite or the evaluation throws it. REQUIRES: epoch_trained().
  bool close_epoch();
  /// Whether all epochs are closed or the run has ended early.
  bool finished() const;
  /// Why the run ended before its last epoch; "" if it did not.
  std::string why_ended() const { return history().empty() ? "" : history().back().ended; }

  /// The state in memory; its tensors share their elements with the parts. All ranks of Parallel
  /// take part, and the state of rank 0 is whole. With Parallel::local_steps, call it only at the
  /// end of a round.
  SafeTensors state() const { return checkpoint_.state(); }
  /// Loads such a state; `path` is for errors.
  void load_state(const SafeTensors& state, const std::string& path);

  int64_t epoch() const { return std::ssize(history()) + 1; }  ///< the one in progress: 1, 2, ...
  /// The number of epochs of the run. With LoopOptions::steps or evaluate_steps it is an estimate
  /// until the run is finished, which assumes that all epochs of the loader are as long as the
  /// current one.
  int64_t epochs() const;
  int64_t steps() const;        ///< steps taken so far
  int64_t total_steps() const;  ///< steps of the whole run; estimated as in epochs()
  /// The word for an epoch in messages: "epoch", or "evaluation" with evaluate_steps.
  const char* epoch_word() const;
  /// "epoch 3/10" for a closed epoch; "step 1500/5000" if the run is counted in steps.
  std::string title(const EpochRecord& epoch) const;
  const std::vector<EpochRecord>& history() const { return state_.history; }  ///< closed epochs
  /// The records of steps in the log (run_log.h).
  const std::vector<StepRecord>& step_history() const { return state_.steps.records(); }
  const Best& best() const { return options_.best; }
  const EpochRecord& best_epoch() const { return training::best_epoch(history(), best()); }
  /// The writer of event files while run() writes them; else nullptr.
  EventWriter* events() const;
  const Means& means() const { return state_.means; }  ///< means of the epoch in progress
  double speed() const;  ///< weight per second of training in this epoch, measured by run()
  const RunFolder& folder() const { return folder_; }
  /// Calls body with the folder, for a program that writes its own files there, as RunLock::write()
  /// does. WriteError if the folder was moved or removed, in which case another run may have begun
  /// under its name.
  void write(const std::function<void(const RunFolder&)>& body) const;
  /// The check of write() alone.
  void check_folder() const {
    write([](const RunFolder&) {});
  }
  /// Runs body on rank 0 of LoopOptions::parallel while the other ranks wait, however long it takes
  /// (dist::take_time); without ranks, runs it here. Use it for your own files and reports. Body
  /// must not call the world; an exception that it throws is thrown on all ranks.
  void on_first(const std::string& what, const std::function<void()>& body);
  std::FILE* output() const { return options_.output; }
  dist::World* world() const { return options_.parallel.world; }  ///< LoopOptions::parallel
  Learner& learner() const { return learner_; }                   ///< the first learner
  const std::vector<NamedLearner>& learners() const { return learners_; }

 private:
  Loop(std::vector<NamedLearner> learners, Evaluate evaluate, std::unique_ptr<detail::Feed> feed,
       LoopOptions options);
  static std::vector<NamedLearner> check_several(const std::vector<NamedLearner>& learners,
                                                 bool has_step);
  void check_options() const;
  void add_best();
  void join_learners();
  optim::NamedNumbers recipe() const;
  // The lengths of epochs and of the run:
  bool is_over(int64_t batches, int64_t steps) const;
  bool by_steps() const { return options_.steps > 0 || options_.evaluate_steps > 0; }
  int64_t steps_in_data_epoch() const;
  int64_t steps_in_epoch() const;
  void check_length(const LoopState& state) const;
  void start_data_epoch();

  // A step:
  void start_epoch();
  void return_to_position();
  size_t take_batches();
  double train_on(size_t count, double weight);
  void take_step(size_t count);
  void take_shared_step();
  void finish_step(const StepRecord& record, double weight, double done);
  void finish_shared_steps(const std::vector<SharedStep>& steps);
  bool stop_wanted() const;
  bool writes() const { return in_folder() && first_; }
  std::string diagnose(size_t count);
  void save_generators();
  void load_generators() const;
  void undo_step();
  // The end of an epoch:
  std::optional<Metrics> evaluate_weights();
  std::optional<Metrics> evaluate_on_all_ranks();
  std::optional<Metrics> evaluate_in(size_t learner);
  std::optional<Metrics> evaluate_first();
  void check_same_on_all_ranks(const Metrics& evaluated) const;
  Metrics epoch_metrics(const Metrics& evaluated) const;
  void end_if_no_better();
  // Files:
  void load(const std::string& json);
  void take_lock();
  void load_locked(const std::function<void()>& load);
  bool there(const std::string& path) const;
  bool in_folder() const { return !folder_.path.empty(); }
  bool is_late() const;
  bool wants_save() const;
  void write_checkpoint(std::optional<int64_t> epoch = {});
  void save();
  void save_weights();
  void write_weights(const std::string& path) const;
  void keep_checkpoint();
  bool is_best_of_kept(int64_t epoch) const;
  void drop_kept();
  void put_back_weights();
  // run():
  Outcome run_here();
  Outcome train_all();
  bool train_epoch();
  Outcome stop();
  std::string place() const;
  void say_notes() const;
  std::string what_is_good() const;

  std::vector<NamedLearner> learners_;
  Learner& learner_;  // the first one
  Evaluate evaluate_;
  std::unique_ptr<detail::Feed> feed_;
  LoopOptions options_;
  RunFolder folder_;
  Checkpoint checkpoint_;
  LoopState state_;
  std::unique_ptr<SharedSteps> shared_;  // set if several ranks share the steps
  bool first_ = true;                    // this process is rank 0
  bool stop_ = false;                    // a rank was interrupted in the last step
  bool late_ = false;                    // rank 0 has wanted a checkpoint since the last one
  bool resumed_ = false, timed_ = false, evaluated_ = false;
  std::shared_ptr<const RunLock> lock_;       // between resume() and run()
  std::weak_ptr<const RunLock> held_;         // the program's lock, or the loop's own
  std::vector<std::vector<Rng>> generators_;  // the learners' generators before step or evaluation
  Means means_;                               // the means before the step
  std::unique_ptr<DrawWatch> draws_;
  double evaluation_seconds_ = 0;  // time of the last evaluation; 0: none has run
  double pace_ = 0;                // seconds per unit of the last epoch's bar
  std::chrono::steady_clock::time_point last_save_;
  int64_t saved_step_ = 0;
  size_t logged_steps_ = 0;  // number of step records in the log file
  std::unique_ptr<LoopBoard> board_;
};

/// Steps of the optimizer per epoch of the loader, for a schedule.
template <class B>
int64_t steps_per_epoch(const datasets::Loader<B>& loader, int64_t accumulate = 1) {
  return (loader.batches_per_epoch() + accumulate - 1) / accumulate;
}

}  // namespace tern::training
