// A timeout that does not count the time in which this process was stopped. Inside of dist only.
#pragma once

#include <algorithm>
#include <chrono>

namespace tern::dist::detail {

/// Adds up the time of a wait, at most one second from one call of is_over() to the next. So a
/// process that was stopped (SIGSTOP, Slurm's suspend, a machine that slept) does not count that
/// time against the ranks for which it waits. Call is_over() several times per second.
class Patience {
 public:
  explicit Patience(double seconds) : left_(seconds) {}
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
