// How long a rank waits for others. Inside of dist only.
#pragma once

#include <algorithm>
#include <chrono>

namespace tern::dist::detail {

/// Adds up the time of a wait, a second at most from one look to the next. So a process that was
/// stopped itself (SIGSTOP, Slurm's suspend, a machine that slept) does not count that time against
/// the ranks that it waits for. Look several times a second.
class Patience {
 public:
  explicit Patience(double seconds) : left_(seconds) {}
  /// Whether the time is over.
  bool is_over() {
    const Clock::time_point now = Clock::now();
    left_ -= std::min(1.0, std::chrono::duration<double>(now - last_).count());
    last_ = now;
    return left_ < 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double left_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace tern::dist::detail
