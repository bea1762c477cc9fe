// Writes the records of steps and epochs as TensorBoard scalars, weights and gradients as
// histograms.
#include "tern/train/detail/loop_board.h"

#include <cmath>

namespace tern::training {
namespace {

constexpr int kBins = 64;  // TensorFlow has several hundred, but TensorBoard draws thirty

EventWriterOptions options(const std::string& folder, int64_t steps, const StepLog* unclosed) {
  EventWriterOptions o;
  if (has_event_files(folder)) o.purge_step = unclosed ? steps : steps + 1;
  return o;
}

}  // namespace

LoopBoard::LoopBoard(const std::string& folder, int64_t steps, const StepLog* unclosed)
    : events_(folder, options(folder, steps, unclosed)) {
  if (unclosed && !unclosed->records().empty() && unclosed->records().back().step == steps)
    add(unclosed->records().back());
}

void LoopBoard::add(const StepRecord& r) {
  for (const auto& [name, value] :
       {std::pair("step/loss", r.loss), {"step/lr", r.lr}, {"step/grad_norm", r.grad_norm}})
    if (std::isfinite(value)) events_.add_scalar(name, value, r.step);
}

namespace {

// "critic." if there are several learners, else "".
std::string prefix_of(const NamedLearner& l) { return l.name.empty() ? "" : l.name + "."; }

}  // namespace

LoopBoard::Watch::Watch(LoopBoard* board, const std::vector<NamedLearner>& learners, int64_t steps)
    : learners_(learners) {
  if (!board) return;
  before_.resize(learners.size());
  for (size_t i = 0; i < learners.size(); ++i)
    before_[i] = learners[i].learner.on_gradient(
        [this, board, i, steps](const std::string& name, const Tensor& gradient) {
          if (before_[i]) before_[i](name, gradient);
          if (gradient.numel() > 0)
            board->events_.add_histogram("gradients/" + prefix_of(learners_[i]) + name, gradient,
                                         steps + 1, kBins);
        });
}

LoopBoard::Watch::~Watch() {
  for (size_t i = 0; i < before_.size(); ++i)
    learners_[i].learner.on_gradient(std::move(before_[i]));
}

void LoopBoard::add(const EpochRecord& e, const std::string& unit,
                    const std::vector<NamedLearner>& learners) {
  for (const auto& [name, value] : e.metrics)
    if (std::isfinite(value)) events_.add_scalar("epoch/" + name, value, e.steps);
  if (e.speed > 0) events_.add_scalar("epoch/" + unit + "_per_s", e.speed, e.steps);
  for (const NamedLearner& l : learners)
    for (const auto& [name, parameter] : nn::named_parameters(l.learner.model()))
      if (parameter.numel() > 0)
        events_.add_histogram("weights/" + prefix_of(l) + name, parameter, e.steps, kBins);
  events_.flush();
}

}  // namespace tern::training
