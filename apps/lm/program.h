// The program lm: its flags and commands.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tern/apps/common/train_program.h"
#include "tern/apps/lm/config.h"
#include "tern/apps/lm/generate.h"

namespace tern::apps::lm {

/// The prompt that stands for standard input.
inline constexpr const char* kStandardInput = "-";

/// What the flags say.
struct LmFlags {
  TrainConfig config;               ///< train; --precision and --matmul of all commands
  TrainFlags train;                 ///< train; --threads of all commands
  std::string model;                ///< folder: generate, fill, eval
  bool int8 = false;                ///< generate, eval: packed weights
  std::vector<std::string> prompt;  ///< generate; "-": standard input
  std::string prompts;              ///< generate: a file of them, a line each
  std::string prompt_file;          ///< generate, complete: a file that is one
  GenerateOptions generate;         ///< and complete
  std::string gaps;                 ///< fill: a text with [MASK]
  int64_t guesses = 5;              ///< fill
  std::string attention;            ///< generate, fill: page to write
  std::vector<std::string> text;    ///< eval
  int64_t stride = 0;               ///< eval; 0: half of the context
};

/// The commands, with the defaults that --model chooses.
Program lm_program(LmFlags& flags, int argc, char** argv);

// Each gives the program's exit code.

/// Trains, or resumes a run.
int train_lm(const LmFlags& flags);
/// Writes the prompt and what comes after it, token by token; of several texts one after the other,
/// with an empty line between. Ctrl-C ends it. `in`: where the prompt "-" is.
int generate_text(const LmFlags& flags, std::istream& in, std::ostream& out);
/// Completes each line at once, up to a line end unless --stop says otherwise. Ctrl-C ends a
/// completion, and the program where no one types.
int complete_lines(const LmFlags& flags, std::istream& in, std::ostream& out);
/// Writes what may stand at each [MASK].
int fill_gaps(const LmFlags& flags, std::ostream& out);
/// Says how well a model knows texts. For a bert some words are masked as in training, always the
/// same ones; the result is how many of them it finds.
int evaluate_model(const LmFlags& flags);

}  // namespace tern::apps::lm
