// Predicts the time of a parallel loop on N threads from the times of its parts, with the schedule
// of the pool (core/base/threads.h). Inside of core only.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <span>
#include <vector>

namespace tern::detail {

/// Seconds until the last part has ended. If `own_parts`, thread p takes parts p, p + N, p + 2 N
/// and so on. Otherwise a free thread takes the next part, in order.
inline double makespan(std::span<const double> parts, int threads, bool own_parts) {
  std::vector<double> busy(static_cast<size_t>(std::max(threads, 1)));
  if (own_parts) {
    for (size_t p = 0; p < parts.size(); ++p) busy[p % busy.size()] += parts[p];
    return *std::max_element(busy.begin(), busy.end());
  }
  std::priority_queue<double, std::vector<double>, std::greater<>> free(busy.begin(), busy.end());
  double last = 0;
  for (double part : parts) {
    const double end = free.top() + part;
    free.pop();
    free.push(end);
    last = std::max(last, end);
  }
  return last;
}

/// The reasons why a loop takes longer on N threads than an N-th of its parts' time, in seconds.
struct Loss {
  double few = 0;     ///< fewer parts than threads
  double uneven = 0;  ///< threads wait for the last one
  double small = 0;   ///< the pool's own cost, which matters only in short loops
  double serial = 0;  ///< code outside of loops of several parts: N - 1 threads wait
  double sum() const { return few + uneven + small + serial; }
  Loss& operator+=(const Loss& o) {
    few += o.few, uneven += o.uneven, small += o.small, serial += o.serial;
    return *this;
  }
  /// The largest reason, in words.
  const char* reason() const {
    const double most = std::max({few, uneven, small, serial});
    if (most == serial) return "serial";
    if (most == few) return "too few parts";
    return most == uneven ? "uneven parts" : "too small";
  }
};

/// The loss of a loop of several parts. `cost`: the pool's own cost in seconds.
inline Loss loss_of_loop(std::span<const double> parts, int threads, bool own_parts, double cost) {
  const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
  const double used = std::min(static_cast<double>(threads), static_cast<double>(parts.size()));
  return {.few = all / used - all / threads,
          .uneven = makespan(parts, threads, own_parts) - all / used,
          .small = cost};
}

}  // namespace tern::detail
