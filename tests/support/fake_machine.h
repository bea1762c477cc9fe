// A folder with files like those in /proc and /sys, for tests of what tern reads there.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tern::test {

/// Control groups of both versions are mounted, as on most systems.
struct FakeMachine {
  std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("tern_machine_{}", getpid());
  FakeMachine() {
    std::filesystem::remove_all(root);
    write("proc/self/mountinfo",
          "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
          "30 25 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
          "31 30 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
          "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  }
  ~FakeMachine() { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
};

}  // namespace tern::test
