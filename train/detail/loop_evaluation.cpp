// The evaluation of a Loop after an epoch, its metrics, and whether they end the run.
#include <set>

#include "tern/core/base/utf8.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/detail/copy_watch.h"
#include "tern/train/diagnose.h"
#include "tern/train/loop.h"

namespace tern::training {
namespace {

// The log has the metrics beside other numbers of the epoch, each under its name: log_line().
void check_names(const Metrics& metrics) {
  std::set<std::string> taken = {"epoch", "lr", "seconds", "steps", "ended"};
  for (const auto& [name, value] : metrics) {
    check(!name.ends_with("_per_s") && taken.insert(name).second,
          "Loop: a metric cannot be called '{}': another number in the log has that name, or it "
          "ends in _per_s like that of the speed",
          name);
    check(!find_invalid_utf8(name), "Loop: the name of the metric '{}' is not UTF-8", name);
  }
}

}  // namespace

void Loop::end_if_no_better() {
  const int64_t closed = std::ssize(state_.history);
  if (options_.patience == 0 || finished()) return;
  const int64_t since = epochs_since_best(state_.history, options_.best);
  if (since < options_.patience) return;
  const std::string& metric = options_.best.metric;
  const char* const word = epoch_word();
  std::string reason = fmt::format("there was no {} in {} {}s", metric, since, word);
  if (since < closed) {
    const EpochRecord& best = state_.history[static_cast<size_t>(closed - since - 1)];
    reason = fmt::format("{} was no better in {} {}{} than {:.6g} in {} {}", metric, since, word,
                         since == 1 ? "" : "s", best[metric], word, best.epoch);
  }
  state_.history.back().ended = reason;
}

// An evaluation that ends early is repeated later, perhaps by another process. So it must draw and
// count again what it drew and counted.
std::optional<Metrics> Loop::evaluate_weights() {
  save_generators();
  const auto put_back = [this, values = checkpoint_.remember()] {
    values();
    load_generators();
  };
  try {
    std::optional<Metrics> result = evaluate_on_all_ranks();
    if (!result) put_back();
    return result;
  } catch (...) {
    put_back();
    throw;
  }
}

std::optional<Metrics> Loop::evaluate_on_all_ranks() {
  NoGradGuard no_grad;
  std::optional<Metrics> result = evaluate_in(0);
  if (shared_)
    for (const std::string& done : options_.parallel.world->gather(
             "whether the evaluation was interrupted", result ? "1" : "0"))
      if (done == "0") result.reset();
  return result;
}

std::optional<Metrics> Loop::evaluate_first() {
  CopyWatch copies;
  std::optional<Metrics> result;
  {
    const ObserverScope watching(copies);
    result = evaluate_();
  }
  for (const NamedLearner& l : learners_) copies.check_used(l.learner.parameters());
  evaluated_ = result.has_value();
  return result;
}

// Opens the evaluation scopes of this learner and of those after it, then evaluates.
std::optional<Metrics> Loop::evaluate_in(size_t learner) {
  if (learner < learners_.size()) {
    Learner::Evaluation scope(learners_[learner].learner);
    return evaluate_in(learner + 1);
  }
  try {
    return evaluated_ ? evaluate_() : evaluate_first();
  } catch (const Diverged& e) {
    throw Diverged(fmt::format("{} (after step {}){}", e.what(), steps(),
                               diagnose_step([this] { evaluate_(); })));
  }
}

Metrics Loop::epoch_metrics(const Metrics& evaluated) const {
  Metrics all;
  for (const Means::Entry& e : state_.means.entries())
    all.emplace_back("train_" + e.name, e.sum / e.count);
  all.insert(all.end(), evaluated.begin(), evaluated.end());
  check_names(all);
  return all;
}

// The learning rate, the best epoch and the end of the run depend on these metrics: if they
// differed, the ranks would drift apart.
void Loop::check_same_on_all_ranks(const Metrics& evaluated) const {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : evaluated) texts.emplace_back(name, fmt::format("{}", value));
  options_.parallel.world->check_same(texts);
}

}  // namespace tern::training
