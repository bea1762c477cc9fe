// The parts of training that GPTs and BERTs share: loop options and the validation.
#include "tern/apps/lm/training.h"

#include <fmt/format.h>

namespace tern::apps::lm {

training::LoopOptions loop_options(training::LoopOptions o, const TrainConfig& c,
                                   const training::Loop& loop,
                                   std::string (*losses)(const training::EpochRecord&),
                                   std::function<void(const training::EpochRecord&)> pictures) {
  set_loop_options(o, c);
  o.best = {"valid_loss"};
  o.only_best = true;
  o.weight_unit = "tokens";
  o.bar.note = [](const training::Loop& l) {
    return fmt::format("loss {:.4f}  {:.0f} tokens/s", l.means().mean("loss"), l.speed());
  };
  o.epoch_line = [losses, &loop](const training::EpochRecord& e) {
    return fmt::format("{}  train loss {}", loop.title(e), losses(e));
  };
  o.on_epoch = std::move(pictures);
  return o;
}

training::Progress validation_bar(const training::Loop& loop, const char* unit, int64_t total) {
  return {fmt::format("validating {}/{}", loop.epoch(), loop.epochs()), unit, total, 0,
          loop.output()};
}

}  // namespace tern::apps::lm
