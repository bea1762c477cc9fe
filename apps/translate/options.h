// The flags of translate.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/translate/config.h"
#include "tern/apps/translate/model.h"

namespace tern::apps::translate {

struct TranslateOptions {
  enum class Command { train, run, eval, score, plot, shortlist } command = Command::train;
  TrainConfig train;
  std::string out, resume;   ///< train
  bool dry_run = false;      ///< train
  bool tensorboard = false;  ///< train
  std::string command_line;  ///< as it was given
  bool epochs_given = false, warmup_given = false;
  int threads = 0;                ///< 0: all cores
  std::string precision = "f32";  ///< of matrix products: run, eval, plot
  std::string model;              ///< folder: run, eval, plot, shortlist
  SearchOptions search;
  std::string attention;                            ///< run, plot: page to write
  std::string source, target;                       ///< eval, shortlist
  int64_t show = 0;                                 ///< eval: sentences to print
  std::string hypotheses, reference;                ///< score
  bool lowercase = false, lowercase_given = false;  ///< eval, score
  std::string tokenize = "13a";
  std::string sentence;  ///< plot
};

/// Parses the command line. --help prints and returns false; wrong flags throw Error.
bool parse_options(int argc, char** argv, TranslateOptions& options);

}  // namespace tern::apps::translate
