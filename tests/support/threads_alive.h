// The threads of this process.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace tern::test {

/// The ids that the kernel gave them.
inline std::set<std::string> threads_alive() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ids.insert(task.path().filename());
  return ids;
}

}  // namespace tern::test
