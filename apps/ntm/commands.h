// What ntm does, on files and terminal. Each gives the program's exit code.
#pragma once

#include "tern/apps/ntm/options.h"

namespace tern::apps::ntm {

/// Starts a run in a folder of its own.
int start_training(const NtmCommand& command);
/// Goes on with the run in the folder command.resume.
int resume_training(const NtmCommand& command);
/// Tests the model of a run on other lengths.
int evaluate_model(const NtmCommand& command);

}  // namespace tern::apps::ntm
