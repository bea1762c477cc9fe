// The control groups of this process: Linux's limits on a container or a job. Inside of tern only.
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
  int version;         ///< version of control groups: 1 or 2
};

/// Calls visit for the process's group and for the groups around it that have this controller
/// ("cpu", "memory") and are mounted (/proc/self/mountinfo). A machine may have both versions.
/// `root`: the folder that holds /proc and /sys, for tests.
void visit_control_groups(const std::string& root, const std::string& controller,
                          const std::function<void(const ControlGroup&)>& visit);

/// The number at the start of the text, after blanks; nullopt if there is none ("max").
std::optional<int64_t> leading_number(const std::string& text);
/// The number after `name` in the first line of the file that begins with `name`. Without a name:
/// the number in the first line. nullopt if there is no such line or number.
std::optional<int64_t> number_in_file(const std::string& path, const std::string& name = "");

}  // namespace tern::detail
