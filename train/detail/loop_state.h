// What a LoopState (loop.h) is in files. Inside of train only.
#pragma once

#include <string>

#include "tern/train/loop.h"

namespace tern::training {

/// Adds the records of steps to the folder's log that are not among the `logged` first, which then
/// are all.
void append_steps(const RunFolder& folder, const StepLog& steps, size_t& logged);

/// As JSON; numbers come back bit for bit, infinite and NaN ones too.
std::string to_json(const LoopState& state);
/// Error if the text is not such a state.
LoopState loop_state_from_json(const std::string& json);

}  // namespace tern::training
