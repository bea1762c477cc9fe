// Looks for the cause of an infinite or NaN loss or gradient.
#pragma once

#include <functional>
#include <string>

namespace tern::training {

/// Names the first op whose result is infinite or NaN: "; first in ...", the end of a sentence, or
/// "" if there is none. `again` repeats forward and backward of the step (or an evaluation) with
/// the same weights and random numbers. It changes no weight. If it throws, the text says so.
std::string diagnose_step(const std::function<void()>& again);

}  // namespace tern::training
