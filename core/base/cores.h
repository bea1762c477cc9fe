// How many threads are worth starting on this machine, and where they run. Inside of tern only.
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

/// The processors that this process may run on, by the kernel's numbers: those of this thread, or
/// where OpenMP binds threads to places (OMP_PLACES, OMP_PROC_BIND) those of all places. It binds
/// the main thread before main() begins, and threads inherit that.
std::vector<int> allowed_processors();

/// `root`: where /proc and /sys are, for tests.
Cores usable_cores(const std::vector<int>& allowed = allowed_processors(),
                   const std::string& root = "/");

/// If OpenMP binds threads: binds this one as it would bind thread `self` of a team of `threads`.
void bind_to_place(int self, int threads);
/// Lets this thread run on all processors of this process, if OpenMP binds threads. For threads
/// beside the pool, which would else share the place of the thread that started them.
void leave_place();

}  // namespace tern::detail
