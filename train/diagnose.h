// Looks for the cause of an infinite or NaN loss or gradient.
#pragma once

#include <functional>
#include <string>

namespace tern::training {

/// Returns the cause as the end of a sentence ("; first in ..."), or "" if it is not found. `again`
/// repeats forward and backward of the step (or an evaluation) with the same weights and random
/// numbers, so that they can be observed. It changes no weight and may throw.
using Diagnose = std::function<std::string(const std::function<void()>& again)>;

/// The result of `diagnose`. If it throws, a text that says so; "" if `diagnose` is empty.
std::string diagnosis(const Diagnose& diagnose, const std::function<void()>& again);

/// The default of a Loop: names the first op whose result is infinite or NaN.
std::string diagnose_step(const std::function<void()>& again);

}  // namespace tern::training
