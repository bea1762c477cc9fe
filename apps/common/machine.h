// The machine that a program runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tern::apps {

/// "AMD EPYC, 2 threads, AVX-512, OpenBLAS 0.3.21, kernels SkylakeX".
std::string describe_machine();

/// Memory that this process may still take.
struct FreeMemory {
  int64_t bytes;
  std::string limit;  ///< what sets it: "this machine", "the control group /user.slice"
};

/// The least of what the machine has left (MemAvailable) and what the limits of the process's
/// control groups (version 1 or 2, and those around them) leave, files in memory not counted.
/// Nothing where the system does not say. `root`: where /proc and /sys are, for tests.
std::optional<FreeMemory> free_memory(const std::string& root = "/");

}  // namespace tern::apps
