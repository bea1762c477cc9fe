// A machine made of files, for tests of what tern reads in /proc and /sys.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tern::test {

struct FakeMachine {
  std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("tern_machine_{}", getpid());
  FakeMachine() { std::filesystem::remove_all(root); }
  ~FakeMachine() { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
};

}  // namespace tern::test
