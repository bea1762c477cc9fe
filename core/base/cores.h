// The number of threads worth starting on this machine, and their placement. Inside of tern only.
#pragma once

#include <string>
#include <vector>

namespace tern::detail {

/// The part of the machine that this process may use.
struct Cores {
  /// The number of threads that can run at once: the processors that the process may run on, but
  /// not more than the CPU quota of its control groups.
  int processors;
  /// The number of threads that do not share a core's arithmetic units: at most `processors`. Two
  /// threads on one core share its multipliers, and one thread's product keeps those busy.
  int cores;
};

/// The processors that this process may run on, by the kernel's numbers. If OpenMP binds threads to
/// places (OMP_PLACES, OMP_PROC_BIND), these are the processors of all places: OpenMP binds the
/// main thread before main() begins, and threads inherit that. Else they are those of this thread.
std::vector<int> allowed_processors();

/// `root`: the folder that holds /proc and /sys, for tests.
Cores usable_cores(const std::vector<int>& allowed = allowed_processors(),
                   const std::string& root = "/");

/// If OpenMP binds threads: binds this one as it would bind thread `self` of a team of `threads`.
void bind_to_place(int self, int threads);
/// Lets this thread run on all processors of this process, if OpenMP binds threads. For threads
/// outside the pool, which would otherwise share the place of the thread that started them.
void leave_place();

}  // namespace tern::detail
