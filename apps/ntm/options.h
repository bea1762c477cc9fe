// The flags of ntm.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/ntm/config.h"

namespace tern::apps::ntm {

struct NtmCommand {
  enum class Name { train, eval } name = Name::train;
  NtmConfig config;          ///< train
  std::string out, resume;   ///< train
  bool dry_run = false;      ///< train
  bool tensorboard = false;  ///< train
  std::string command_line;  ///< as it was given
  bool warmup_given = false;
  int threads = 0;  ///< 0: all cores
  // eval:
  std::string model;  ///< folder of a run
  std::vector<int64_t> lengths;
  int64_t count = 100;    ///< sequences a length
  int64_t repeats = 0;    ///< repeat-copy: so many, not drawn; 0: drawn
  uint64_t seed = 0;      ///< of what is drawn
  std::string attention;  ///< page or picture of the weightings to write
};

/// Parses the command line. --help prints and returns false; wrong flags throw Error.
bool parse_options(int argc, char** argv, NtmCommand& command);

}  // namespace tern::apps::ntm
