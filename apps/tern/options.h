// The flags of tern.
#pragma once

#include <string>
#include <vector>

namespace tern::apps::program {

struct ReportOptions {
  std::vector<std::string> runs;        ///< folders
  std::string out = "comparison.html";  ///< the page
};

/// Parses the command line. --help prints and returns false; wrong flags throw Error.
bool parse_options(int argc, char** argv, ReportOptions& options);

}  // namespace tern::apps::program
