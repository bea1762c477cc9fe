// The folder of a run: its files, and the choice of a new one.
#pragma once

#include <string>
#include <vector>

namespace tern::apps {

struct RunFolder {
  std::string path;

  std::string checkpoint() const { return path + "/checkpoint.safetensors"; }
  std::string last_weights() const { return path + "/model.safetensors"; }
  std::string best_weights() const { return path + "/best.safetensors"; }
  std::string log() const { return path + "/log.jsonl"; }
  std::string report() const { return path + "/report.html"; }
  std::string data() const { return path + "/data"; }  ///< what was made up for the run

  /// Writes the log anew, or adds a line to it.
  void write_log(const std::vector<std::string>& lines) const;
  void append_log(const std::string& line) const;
};

/// Error if `out` cannot become the folder of a new run: it holds one, or is no folder.
void check_new_folder(const std::string& out);

/// Makes the folder of a new run: `out`, or if that is empty runs/NAME, or the first of
/// runs/NAME-2, runs/NAME-3, ... that does not exist yet.
RunFolder make_run_folder(const std::string& out, const std::string& name);

}  // namespace tern::apps
