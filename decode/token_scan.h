// Log-softmax and the most likely tokens of a row of logits in one pass: blocks of 256 logits are
// read once, while they are in the cache. Inside of decode only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/vmath.h"
#include "tern/decode/continuous_batching.h"

namespace tern::decoding::detail {

using Candidate = NextToken;

/// The state of a scan of one row. Its bits depend only on the logits, since the blocks are the
/// same however the row is cut into pieces.
struct RowScan {
  double max = -std::numeric_limits<double>::infinity();  ///< NaN if a logit is NaN
  double sum = 0;                                         ///< of exp(x - max)
  int64_t found = 0;                                      ///< candidates

  /// log sum exp of all logits, if they were summed. Not finite if a logit is NaN or +inf, or all
  /// are -inf.
  double log_sum() const { return std::isfinite(max) ? max + std::log(sum) : max; }
};

constexpr int64_t kScanBlock = 256;

/// Inserts a token into the `count` best, sorted by falling logit. Among equals, earlier ones stay
/// in front.
inline void insert_candidate(Candidate* best, int64_t count, RowScan& row, Candidate c) {
  int64_t at = std::min(row.found, count - 1);
  for (; at > 0 && best[at - 1].log_prob < c.log_prob; --at) best[at] = best[at - 1];
  best[at] = c;
  row.found = std::min(row.found + 1, count);
}

/// Adds one block x[0 .. n), n <= kScanBlock, of tokens first, first + 1, ... Candidates hold
/// logits instead of log probabilities until the row is complete. with_sum: false leaves out the
/// sum.
template <class T>
void scan_block(const T* x, int64_t n, int64_t first, const uint8_t* allowed, bool with_sum,
                int64_t count, RowScan& row, Candidate* best) {
  constexpr int64_t kGroup = 32;
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  struct Groups {
    T max[kScanBlock / kGroup];
  };
  const Groups groups = simd([=] {
    Groups g{};
    for (int64_t i = 0; i * kGroup < n; ++i)
      g.max[i] = kernels::max_of(x + i * kGroup, n - i * kGroup < kGroup ? n - i * kGroup : kGroup);
    return g;
  });
  const int64_t used = (n + kGroup - 1) / kGroup;
  double max = kNever;
  for (int64_t i = 0; i < used; ++i) max = kernels::larger<double>(groups.max[i], max);
  if (!(max <= row.max)) {  // also true for NaN
    row.sum = row.max > kNever ? row.sum * std::exp(row.max - max) : 0;
    row.max = std::isnan(row.max) ? row.max : max;
  }
  if (with_sum && std::isfinite(row.max)) {
    const T top = static_cast<T>(row.max);
    row.sum += simd([=] {
      return kernels::blocked_sum<T>(n, [=](int64_t i) { return vmath::exp(x[i] - top); });
    });
  }
  for (int64_t g = 0; g < used; ++g) {
    auto beaten = [&](double v) {
      return !(v > (row.found < count ? kNever : best[count - 1].log_prob));
    };
    if (beaten(groups.max[g])) continue;
    for (int64_t i = g * kGroup; i < std::min(n, (g + 1) * kGroup); ++i)
      if (!beaten(x[i]) && allowed[first + i])
        insert_candidate(best, count, row, {first + i, static_cast<double>(x[i])});
  }
}

}  // namespace tern::decoding::detail
