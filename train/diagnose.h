// Looks for the cause of an infinite or NaN loss or gradient.
#pragma once

#include <functional>
#include <string>

namespace tern::training {

/// Returns the cause as the end of a sentence ("; first in ..."), or "" if it is not found. `again`
/// repeats forward and backward of the step (or an evaluation) with the same weights and random
/// numbers, so that they can be observed. It changes no weight and may throw.
using Diagnose = std::function<std::string(const std::function<void()>& again)>;

/// The result of `diagnose`; if it throws, that it failed; nothing if it is empty.
std::string diagnosis(const Diagnose& diagnose, const std::function<void()>& again);

/// The loop's default.
std::string diagnose_step(const std::function<void()>& again);

}  // namespace tern::training
