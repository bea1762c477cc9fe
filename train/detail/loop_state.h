// A LoopState (loop.h) in files: JSON in checkpoints, and lines of the log. Inside of train only.
#pragma once

#include <string>

#include "tern/train/loop.h"

namespace tern::training {

/// Appends all records of steps but the first `logged` to the folder's log, and sets `logged` to
/// their number.
void append_steps(const RunFolder& folder, const StepLog& steps, size_t& logged);

/// The state as JSON. Reading restores numbers bit for bit, even infinite and NaN ones.
std::string to_json(const LoopState& state);
/// Error if the text is not such a state.
LoopState loop_state_from_json(const std::string& json);

}  // namespace tern::training
