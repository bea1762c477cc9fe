// The flags of lm.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/apps/lm/generate.h"

namespace tern::apps::lm {

struct LmOptions {
  enum class Command { train, generate, fill, eval } command = Command::train;
  TrainConfig train;
  std::string out, resume;   ///< train
  bool dry_run = false;      ///< train
  bool tensorboard = false;  ///< train
  std::string command_line;  ///< as it was given
  bool epochs_given = false, warmup_given = false;
  int threads = 0;                  ///< 0: all cores
  std::string precision = "f32";    ///< of matrix products: generate, fill, eval
  std::string model;                ///< folder: generate, fill, eval
  bool int8 = false;                ///< generate, eval: packed weights
  std::vector<std::string> prompt;  ///< generate
  std::string prompts;              ///< generate: a file of them
  GenerateOptions generate;
  std::string gaps;               ///< fill: a text with [MASK]
  int64_t guesses = 5;            ///< fill
  std::string attention;          ///< generate, fill: page to write
  std::vector<std::string> text;  ///< eval
  int64_t stride = 0;             ///< eval; 0: half of the context
};

/// Parses the command line. --help prints and returns false; wrong flags throw Error.
bool parse_options(int argc, char** argv, LmOptions& options);

}  // namespace tern::apps::lm
