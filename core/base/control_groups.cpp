#include "tern/core/base/control_groups.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace tern::detail {

namespace fs = std::filesystem;

void visit_control_groups(const std::string& root, const std::string& controller,
                          const std::function<void(const ControlGroup&)>& visit) {
  const fs::path groups = fs::path(root) / "sys/fs/cgroup";
  std::ifstream in(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/a/b", "9:memory:/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool two = controllers.empty();
    if (!two && ("," + controllers + ",").find("," + controller + ",") == line.npos) continue;
    const fs::path folder = two ? groups : groups / controller;
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path();;
         path = path.parent_path()) {
      std::string name = "/";
      name += path.string();
      visit({folder / path, name, two ? 2 : 1});
      if (path.empty()) break;
    }
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
