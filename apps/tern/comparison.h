// The page that sets runs side by side, and the program that writes it.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/command_line.h"
#include "tern/apps/tern/runs.h"

namespace tern::apps::program {

/// The page as text: what each run is, curves of what at least two of them (or the only one) have
/// measured, a table of the settings that differ, and the numbers of the last and the best epochs.
std::string comparison_page(const std::vector<Run>& runs);

/// Writes it, whole or not at all. Error if the file is there and no such page.
void write_comparison(const std::string& path, const std::vector<Run>& runs);

/// The flags of `tern report`, and the program.
struct ReportFlags {
  std::vector<std::string> runs;        ///< folders
  std::string out = "comparison.html";  ///< the page
};
Program tern_program(ReportFlags& flags);

}  // namespace tern::apps::program
