// Checks the options of a Loop before it begins, and adds its learners to the checkpoint.
#include <set>

#include "tern/train/loop.h"

namespace tern::training {

void Loop::check_options() const {
  const LoopOptions& o = options_;
  check(o.epochs >= 1 && o.accumulate >= 1,
        "Loop: there must be at least one epoch, and one batch per step; they are {} and {}",
        o.epochs, o.accumulate);
  check(o.steps >= 0 && o.evaluate_steps >= 0,
        "Loop: steps and evaluate_steps must not be negative, they are {} and {}", o.steps,
        o.evaluate_steps);
  check(
      o.steps == 0 || o.epochs == 1,
      "Loop: the length of the run is given as {} steps and as {} epochs; leave one of the two out",
      o.steps, o.epochs);
  check(o.steps == 0 || feed_->own_step || learner_.steps() < o.steps,
        "Loop: the learner has already taken {} steps, but the length of the run is {}",
        learner_.steps(), o.steps);
  for (const NamedLearner& l : learners_) {
    const auto& plateau = l.learner.options().plateau;
    check(!plateau || !o.best.metric.empty(),
          "Loop: LearnerOptions::plateau needs a metric; name it in LoopOptions::best");
    check(!plateau || plateau->maximize == o.best.largest,
          "Loop: LearnerOptions::plateau assumes that the metric {} {} become large, but "
          "LoopOptions::best assumes the opposite; set both to the same",
          o.best.metric, o.best.largest ? "should not" : "should");
  }
  check(o.patience >= 0 && o.keep >= 0,
        "Loop: patience and the number of kept epochs must not be negative, they are {} and {}",
        o.patience, o.keep);
  check(o.patience == 0 || !o.best.metric.empty(),
        "Loop: a patience of {} epochs needs a metric; name it in LoopOptions::best", o.patience);
  check(!o.only_best || !o.best.metric.empty(),
        "Loop: only_best keeps the weights of the best epoch, which needs a metric; name it in "
        "LoopOptions::best");
  check(o.checkpoint_seconds >= 0 && o.checkpoint_steps >= 0,
        "Loop: checkpoint_seconds and checkpoint_steps must not be negative, they are {} and {}",
        o.checkpoint_seconds, o.checkpoint_steps);
  check(!o.folder.empty() || (o.keep == 0 && o.checkpoint_steps == 0 && !o.tensorboard),
        "Loop: keep, checkpoint_steps and tensorboard are about files of the run's folder; set "
        "LoopOptions::folder, or leave them out");
  check(o.accumulate == 1 || !learner_.options().step_in_backward,
        "Loop: a step of {} batches needs their gradients together, and step_in_backward frees "
        "each at once; leave one of the two out",
        o.accumulate);
  check(!feed_->own_step || (o.accumulate == 1 && !o.parallel.world),
        "Loop: Task::step takes one batch per step in one process; leave out accumulate and "
        "Parallel::world");
  check(o.parallel.world || (!o.parallel.shard_optimizer && o.parallel.local_steps == 0),
        "Loop: shard_optimizer and local_steps are for the ranks of a world; give it one in "
        "Parallel::world");
  check(!o.parallel.world || (o.accumulate == 1 && !learner_.options().step_in_backward),
        "Loop: several processes share one batch per step, and need all of its gradients together; "
        "leave out accumulate and step_in_backward");
}

std::vector<NamedLearner> Loop::check_several(const std::vector<NamedLearner>& learners,
                                              bool has_step) {
  check(!learners.empty(), "Loop: there is no learner");
  check(has_step || learners.size() == 1,
        "Loop: {} learners need a Task::step, which says how they are trained", learners.size());
  std::set<std::string> names;
  for (const NamedLearner& l : learners) {
    const bool plain = !l.name.empty() && l.name.find_first_of(".,") == std::string::npos;
    check(plain || learners.size() == 1,
          "Loop: a learner cannot be called '{}'; take a name without dots and commas", l.name);
    check(names.insert(l.name).second, "Loop: two learners are called '{}'", l.name);
  }
  if (learners.size() > 1) return learners;
  return {{"", learners[0].learner}};
}

void Loop::join_learners() {
  for (const NamedLearner& l : learners_) {
    const std::string prefix = l.name.empty() ? "" : l.name + "_";
    l.learner.add_to(checkpoint_, prefix);
    if (learners_.size() == 1) continue;
    NamedTensors others;
    for (const NamedLearner& other : learners_)
      if (&other.learner != &l.learner)
        for (const auto& p : other.learner.parameters()) others.push_back(p);
    l.learner.train_beside(l.name, std::move(others));
  }
}

// The file of the best weights belongs to the metric with which it was written.
void Loop::add_best() {
  const Best& best = options_.best;
  const std::string now = best.metric.empty()
                              ? "the last one"
                              : fmt::format("the one with the {} {}",
                                            best.largest ? "largest" : "smallest", best.metric);
  checkpoint_.add_settings(
      "loop_best", [now] { return now; },
      [now](const std::string& then) -> std::vector<std::string> {
        if (then == now) return {};
        return {
            fmt::format("the best epoch is {} from here on, as in the program; it was {}; the "
                        "file of the best weights changes with the next better epoch",
                        now, then)};
      });
}

// The settings of the run that come from the program, not from the checkpoint.
optim::NamedNumbers Loop::recipe() const {
  const Parallel& p = options_.parallel;
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  optim::NamedNumbers all = {{"accumulate", count(options_.accumulate)},
                             {"evaluate_steps", count(options_.evaluate_steps)},
                             {"the number of blocks", p.world ? count(p.blocks) : 1}};
  if (p.local_steps > 0)
    all.insert(all.end(), {{"outer_lr", p.outer_lr}, {"outer_momentum", p.outer_momentum}});
  return all;
}

}  // namespace tern::training
