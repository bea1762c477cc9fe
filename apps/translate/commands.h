// What translate does, on files and terminal. Each gives the program's exit code.
#pragma once

#include <iosfwd>

#include "tern/apps/translate/options.h"

namespace tern::apps::translate {

/// Starts a run in a folder of its own.
int start_training(const TranslateOptions& options);
/// Goes on with the run in the folder options.resume.
int resume_training(const TranslateOptions& options);
/// Translates lines as they come.
int run_translations(const TranslateOptions& options, std::istream& in, std::ostream& out);
int evaluate_model(const TranslateOptions& options);
int score_files(const TranslateOptions& options);
int plot_attention(const TranslateOptions& options);
/// Writes the lexicon of a model folder, for --shortlist.
int learn_shortlist(const TranslateOptions& options);

}  // namespace tern::apps::translate
