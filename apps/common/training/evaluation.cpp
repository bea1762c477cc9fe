// The error of an evaluation that has diverged.
#include "tern/apps/common/training/evaluation.h"

#include <fmt/format.h>

#include <cmath>

namespace tern::apps {

void check_measured(const training::Loop& loop, const std::string& what, double value,
                    std::optional<double> shown) {
  if (!std::isfinite(value))
    throw training::Diverged(fmt::format("{} after {} {} is {}", what, loop.epoch_word(),
                                         loop.epoch(), shown.value_or(value)));
}

}  // namespace tern::apps
