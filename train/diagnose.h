// Where a step that found an infinite or NaN loss or gradient is looked into.
#pragma once

#include <functional>
#include <string>

namespace tern::train {

/// Gives what is known of the cause, as a text that ends a sentence ("; first in ..."), or "".
/// `again` runs forward and backward of the step (or an evaluation) once more, with the weights and
/// the random numbers of the first time, so that they can be watched; it changes no weight and may
/// throw.
using Diagnose = std::function<std::string(const std::function<void()>& again)>;

/// What `diagnose` says; that it failed, if it throws; nothing if it is empty.
std::string diagnosis(const Diagnose& diagnose, const std::function<void()>& again);

/// What the loop does by itself.
std::string diagnose_step(const std::function<void()>& again);

}  // namespace tern::train
