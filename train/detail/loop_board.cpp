#include "tern/train/detail/loop_board.h"

#include <cmath>

namespace tern::training {
namespace {

constexpr int kBins = 64;  // TensorFlow's are several hundred, and the page draws thirty

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

LoopBoard::Watch::Watch(LoopBoard* board, Learner& learner)
    : learner_(learner), watching_(board != nullptr) {
  if (!watching_) return;
  before_ = learner.on_gradient([this, board](const std::string& name, const Tensor& gradient) {
    if (before_) before_(name, gradient);
    if (gradient.numel() > 0)
      board->events_.add_histogram("gradients/" + name, gradient, learner_.steps() + 1, kBins);
  });
}

LoopBoard::Watch::~Watch() {
  if (watching_) learner_.on_gradient(std::move(before_));
}

void LoopBoard::add(const EpochRecord& e, const std::string& unit, const Learner& learner) {
  for (const auto& [name, value] : e.metrics)
    if (std::isfinite(value)) events_.add_scalar("epoch/" + name, value, e.steps);
  if (e.speed > 0) events_.add_scalar("epoch/" + unit + "_per_s", e.speed, e.steps);
  for (const auto& [name, parameter] : nn::named_parameters(learner.model()))
    if (parameter.numel() > 0) events_.add_histogram("weights/" + name, parameter, e.steps, kBins);
  events_.flush();
}

}  // namespace tern::training
