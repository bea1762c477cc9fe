// The control groups of this process: what a container or a job may take. Inside of tern only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tern::detail {

/// A group that limits this process: its own, or one around it.
struct ControlGroup {
  std::string folder;  ///< where its files are
  std::string name;    ///< "/user.slice"
  int version;         ///< of control groups: 1 or 2
};

/// Calls visit for the process's group and for those around it that have this controller ("cpu",
/// "memory"), where /proc/self/mountinfo has them as files. Both versions may be there. `root`:
/// where /proc and /sys are, for tests.
void visit_control_groups(const std::string& root, const std::string& controller,
                          const std::function<void(const ControlGroup&)>& visit);

/// The number at the start of the text, behind blanks. Nothing if there is none ("max").
std::optional<int64_t> leading_number(const std::string& text);
/// The number behind `name` in the first line of the file that begins with it; with no name that of
/// the first line. Nothing if there is no such line or number.
std::optional<int64_t> number_in_file(const std::string& path, const std::string& name = "");

}  // namespace tern::detail
