// Reads the control groups of this process (versions 1 and 2) from /proc/self/cgroup, and finds
// their files by /proc/self/mountinfo.
#include "tern/core/base/control_groups.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace tern::detail {

namespace fs = std::filesystem;

namespace {

/// A tree of groups, or a part of it, as files.
struct Mount {
  fs::path folder;
  fs::path top;  // the group whose files are in `folder`
};

bool lists(const std::string& words, const std::string& word) {
  return ("," + words + ",").find("," + word + ",") != words.npos;
}

/// The mounts of a controller of version 1, or without a controller those of version 2.
std::vector<Mount> mounts_of(const fs::path& root, const std::string& controller) {
  std::vector<Mount> mounts;
  std::ifstream in(root / "proc/self/mountinfo");
  // "31 24 0:27 /top /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct"
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word, top, folder, type, device, options;
    words >> word >> word >> word >> top >> folder;
    while (words >> word && word != "-") continue;
    words >> type >> device >> options;
    if (controller.empty() ? type == "cgroup2" : type == "cgroup" && lists(options, controller))
      mounts.push_back({root / fs::path(folder).relative_path(), top});
  }
  return mounts;
}

/// Visits a group and the groups around it, as far as the mount has them. A container may see its
/// own group as the mount's top, but another name in /proc/self/cgroup. Then visits only that top.
void visit_up(const Mount& mount, const std::string& group, int version,
              const std::function<void(const ControlGroup&)>& visit) {
  fs::path below = fs::path(group).lexically_relative(mount.top);
  if (below == "." || *below.begin() == "..") below.clear();
  for (;; below = below.parent_path()) {
    visit({mount.folder / below, below.empty() ? mount.top : mount.top / below, version});
    if (below.empty()) break;
  }
}

}  // namespace

void visit_control_groups(const std::string& root, const std::string& controller,
                          const std::function<void(const ControlGroup&)>& visit) {
  std::ifstream in(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/a/b", "9:memory:/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool two = controllers.empty();
    if (!two && !lists(controllers, controller)) continue;
    for (const Mount& mount : mounts_of(root, two ? "" : controller))
      visit_up(mount, line.substr(second + 1), two ? 2 : 1, visit);
  }
}

std::optional<int64_t> leading_number(const std::string& text) {
  const size_t at = std::min(text.find_first_not_of(" \t"), text.size());
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  return value;
}

std::optional<int64_t> number_in_file(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name)) return leading_number(line.substr(name.size()));
  return std::nullopt;
}

}  // namespace tern::detail
