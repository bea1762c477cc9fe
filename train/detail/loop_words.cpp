// Printed texts about the state of a run: where it resumes, notes about settings, and which files
// are good after a failure.
#include <filesystem>

#include "tern/train/loop.h"
#include "tern/train/progress.h"

namespace tern::training {

// Where a run resumes.
std::string Loop::place() const {
  const std::string taken = grouped(steps());
  const std::string& why = why_ended();
  if (by_steps()) {
    const std::string of = fmt::format("{} of {} steps", taken, grouped(total_steps()));
    if (!why.empty()) return fmt::format("ended after {}: {}", of, why);
    if (finished()) return fmt::format("all {} steps are done", taken);
    return fmt::format("resumes after {}{}", of, epoch_trained() ? ", to be evaluated" : "");
  }
  if (!why.empty())
    return fmt::format("ended after epoch {} of {} and {} steps: {}", epoch() - 1, epochs(), taken,
                       why);
  if (finished()) return fmt::format("all {} epochs are done, after {} steps", epochs(), taken);
  const std::string batch =
      epoch_trained()
          ? "to be evaluated"
          : fmt::format("batch {} of {}", grouped(state_.batch + 1), grouped(state_.batches));
  return fmt::format("resumes in epoch {}/{}, {}, after {} steps", epoch(), epochs(), batch, taken);
}

void Loop::say_notes() const {
  for (const std::string& note : checkpoint_.notes())
    say(fmt::format("note: {}", note), options_.output);
}

// The end of an error text: which files of the run hold the state before the failure.
std::string Loop::what_is_good() const {
  if (!in_folder() || !std::filesystem::exists(folder_.checkpoint())) return "";
  std::string text =
      fmt::format("; {} keeps the state after step {}", folder_.checkpoint(), saved_step_);
  if (state_.history.empty()) return text;
  const EpochRecord& e = options_.only_best ? training::best_epoch(state_.history, options_.best)
                                            : state_.history.back();
  return text + fmt::format(", {} the weights of {} {}", folder_.weights(), epoch_word(), e.epoch);
}

}  // namespace tern::training
