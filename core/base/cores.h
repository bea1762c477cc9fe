// How many threads are worth starting on this machine. Inside of tern only.
#pragma once

#include <string>
#include <vector>

namespace tern::detail {

/// What this process may use of the machine.
struct Cores {
  /// Threads that can run at once: the processors that it may run on, and no more than the CPU
  /// quota of its control groups gives it the time of.
  int processors;
  /// Threads that do not share a core's arithmetic units: at most `processors`. Two threads on one
  /// core share its multipliers, and a product keeps those busy from one thread.
  int cores;
};

/// The processors that this process may run on, by the kernel's numbers.
std::vector<int> allowed_processors();

/// `root`: where /proc and /sys are, for tests.
Cores usable_cores(const std::vector<int>& allowed = allowed_processors(),
                   const std::string& root = "/");

}  // namespace tern::detail
