// The machine that a program runs on: a description, and its free memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tern::apps {

/// "AMD EPYC, 2 threads, AVX-512, OpenBLAS 0.3.21, kernels SkylakeX".
std::string describe_machine();

/// Memory that this process can still allocate.
struct FreeMemory {
  int64_t bytes;
  std::string limit;  ///< what limits it: "this machine", "the control group /user.slice"
};

/// The smallest of the machine's available memory (MemAvailable) and what the limits of the
/// process's control groups (version 1 or 2, with their parents) leave; cached files do not count
/// as used. Empty if the system does not say. `root`: the folder of /proc and /sys, for tests.
std::optional<FreeMemory> free_memory(const std::string& root = "/");

}  // namespace tern::apps
