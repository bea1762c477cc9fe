// What lm does, on files and terminal. Each gives the program's exit code.
#pragma once

#include <iosfwd>

#include "tern/apps/lm/options.h"

namespace tern::apps::lm {

/// Starts a run in a folder of its own.
int start_training(const LmOptions& options);
/// Goes on with the run in the folder options.resume.
int resume_training(const LmOptions& options);
/// Writes the prompt and what comes after it, token by token; of several prompts one text after the
/// other, with an empty line between. Ctrl-C ends it.
int generate_text(const LmOptions& options, std::ostream& out);
int evaluate_model(const LmOptions& options);

}  // namespace tern::apps::lm
