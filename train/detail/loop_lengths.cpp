// Decides where the epochs of a Loop and its run end: with the loader's epochs, or after a number
// of steps (LoopOptions::steps, evaluate_steps).
#include <fmt/format.h>

#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/train/loop.h"

namespace tern::training {

int64_t Loop::steps() const { return feed_->own_step ? state_.own_steps : learner_.steps(); }

// Whether the epoch in progress will be over after `batches` more batches and `more` more steps.
bool Loop::is_over(int64_t batches, int64_t more) const {
  const LoopOptions& o = options_;
  const bool data_over = state_.batch + batches >= state_.batches;
  if (o.steps > 0 && steps() + more >= o.steps) return true;
  if (o.evaluate_steps == 0) return data_over;
  if (state_.epoch_steps + more >= o.evaluate_steps) return true;
  return o.steps == 0 && data_over && state_.data_epoch + 1 >= o.epochs;
}

bool Loop::finished() const {
  if (history().empty()) return false;
  if (!why_ended().empty()) return true;
  if (options_.steps > 0) return steps() >= options_.steps && state_.epoch_steps == 0;
  return state_.data_epoch >= options_.epochs;
}

// The number of steps in the loader's current epoch.
int64_t Loop::steps_in_data_epoch() const { return ceil_div(state_.batches, options_.accumulate); }

int64_t Loop::total_steps() const {
  return options_.steps > 0 ? options_.steps : options_.epochs * steps_in_data_epoch();
}

int64_t Loop::epochs() const {
  if (!by_steps()) return options_.epochs;
  if (finished() && why_ended().empty()) return std::ssize(history());
  const int64_t each =
      options_.evaluate_steps > 0 ? options_.evaluate_steps : steps_in_data_epoch();
  return std::max(ceil_div(total_steps(), each), std::ssize(history()));
}

// The number of steps in the loop's current epoch.
int64_t Loop::steps_in_epoch() const {
  const int64_t each =
      options_.evaluate_steps > 0
          ? options_.evaluate_steps
          : state_.epoch_steps + ceil_div(state_.batches - state_.batch, options_.accumulate);
  return std::min(each, state_.epoch_steps + std::max<int64_t>(total_steps() - steps(), 0));
}

const char* Loop::epoch_word() const {
  return options_.evaluate_steps > 0 ? "evaluation" : "epoch";
}

std::string Loop::title(const EpochRecord& e) const {
  const bool in_steps = by_steps();
  const int64_t all = in_steps ? total_steps() : epochs();
  return fmt::format("{} {:{}}/{}", in_steps ? "step" : "epoch", in_steps ? e.steps : e.epoch,
                     fmt::formatted_size("{}", all), all);
}

// Error if a state has more steps or epochs than the run.
void Loop::check_length(const LoopState& s) const {
  if (options_.steps > 0) {
    const int64_t taken = (s.history.empty() ? 0 : s.history.back().steps) + s.epoch_steps;
    check(taken <= options_.steps, "the run has already taken {} steps, but its length is {}",
          taken, options_.steps);
    return;
  }
  const int64_t epoch = s.data_epoch + (s.batch > 0 ? 1 : 0);
  check(epoch <= options_.epochs, "the run is already in epoch {}, but its length is {}", epoch,
        options_.epochs);
}

}  // namespace tern::training
