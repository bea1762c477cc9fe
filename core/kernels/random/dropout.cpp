// Applies a dropout mask that is drawn on the fly. Each random word decides about two elements.
#include "tern/core/kernels/random/dropout.h"

#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/philox.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/creation/copy.h"

namespace tern::kernels {
namespace {

constexpr int64_t kWords = 4 * kPhiloxGroup;
static_assert(kDropGroup == 2 * kWords);

/// Drops elements [begin, end) of the whole array; from[0] and to[0] are element `begin`. Random
/// words cost more than their use, so each decides about two elements of its group: as it is, and
/// with its halves swapped. Both decisions have exactly the wanted probability. They are dependent
/// only where the other half breaks a tie, in 2^-16 of the cases.
template <class T>
[[gnu::always_inline]] inline void drop(const T* from, T* to, int64_t begin, int64_t end,
                                        uint64_t key, uint32_t first, T scale) {
  for (int64_t at = begin; at < end;) {
    const int64_t group = at / kDropGroup, start = at - group * kDropGroup;
    const int64_t last = std::min(kDropGroup, end - group * kDropGroup);
    PhiloxGroup words;
    philox_group(key, static_cast<uint64_t>(group) * kPhiloxGroup, words);
    const uint32_t* w = words.words[0];
    const int64_t skipped = group * kDropGroup - begin, half = std::min(last, kWords);
#pragma omp simd
    for (int64_t i = start; i < half; ++i)
      to[skipped + i] = w[i] >= first ? from[skipped + i] * scale : T(0);
#pragma omp simd
    for (int64_t i = std::max(start, kWords); i < last; ++i) {
      const uint32_t word = w[i - kWords] >> 16 | w[i - kWords] << 16;
      to[skipped + i] = word >= first ? from[skipped + i] * scale : T(0);
    }
    at = group * kDropGroup + last;
  }
}

/// Calls fn(begin, end) on ranges of whole groups, in parallel.
template <class F>
void for_groups(int64_t n, F fn) {
  const int64_t groups = ceil_div(n, kDropGroup);
  constexpr int64_t kGroups = 32;  // per thread, at least
  parallel_for(groups, kGroups, [=](int64_t begin, int64_t end) {
    fn(begin * kDropGroup, std::min(n, end * kDropGroup));
  });
}

}  // namespace

template <class T>
void dropout_range(const T* x, T* y, int64_t begin, int64_t end, const DropMask& mask) {
  simd([=, key = mask.key, first = mask.first, scale = static_cast<T>(mask.scale)] {
    drop(x, y, begin, end, key, first, scale);
  });
}

template <class T>
void dropout(const T* x, T* y, int64_t n, const DropMask& mask) {
  for_groups(n, [=](int64_t begin, int64_t end) {
    dropout_range(x + begin, y + begin, begin, end, mask);
  });
}

// The sum is a separate pass over data in the first cache: fused with the product, it would round
// differently from dropout() and add().
template <class T>
void dropout_add(const T* x, const T* residual, T* sum, int64_t n, const DropMask& mask) {
  for_groups(n, [=](int64_t begin, int64_t end) {
    constexpr int64_t kStep = 4 * kDropGroup;
    for (int64_t at = begin; at < end; at += kStep) {
      const int64_t count = std::min(kStep, end - at);
      alignas(64) T dropped[kStep];
      dropout_range(x + at, dropped, at, at + count, mask);
      const T *from = dropped, *passed = residual + at;
      T* to = sum + at;
      simd([=] {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) to[i] = passed[i] + from[i];
      });
    }
  });
}

template void dropout(const float*, float*, int64_t, const DropMask&);
template void dropout(const double*, double*, int64_t, const DropMask&);
template void dropout_range(const float*, float*, int64_t, int64_t, const DropMask&);
template void dropout_range(const double*, double*, int64_t, int64_t, const DropMask&);
template void dropout_add(const float*, const float*, float*, int64_t, const DropMask&);
template void dropout_add(const double*, const double*, double*, int64_t, const DropMask&);

}  // namespace tern::kernels
