#include "tern/core/kernels/dropout.h"

#include <algorithm>

#include "tern/core/base/philox.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/copy.h"

namespace tern::kernels {
namespace {

constexpr int64_t kWords = 4 * kPhiloxGroup, kPerGroup = 2 * kWords;

/// Elements of groups [begin, end). Random words cost more than what is done with them, so each
/// decides about two elements of its group: as it is, and with its halves exchanged. Either has
/// exactly the probability wanted; that the other half breaks ties joins the two in a share of
/// 2^-16 of the cases.
template <class T>
[[gnu::always_inline]] inline void drop(const T* x, T* y, int64_t n, int64_t begin, int64_t end,
                                        uint64_t key, uint32_t first, T scale) {
  for (int64_t g = begin; g < end; ++g) {
    PhiloxGroup words;
    philox_group(key, static_cast<uint64_t>(g) * kPhiloxGroup, words);
    const uint32_t* w = words.words[0];
    const T* from = x + g * kPerGroup;
    T* to = y + g * kPerGroup;
    const int64_t count = std::min(kPerGroup, n - g * kPerGroup);
#pragma omp simd
    for (int64_t i = 0; i < std::min(count, kWords); ++i)
      to[i] = w[i] >= first ? from[i] * scale : T(0);
#pragma omp simd
    for (int64_t i = kWords; i < count; ++i) {
      const uint32_t word = w[i - kWords] >> 16 | w[i - kWords] << 16;
      to[i] = word >= first ? from[i] * scale : T(0);
    }
  }
}

}  // namespace

template <class T>
void dropout(const T* x, T* y, int64_t n, uint64_t key, uint32_t first, T scale) {
  const int64_t groups = (n + kPerGroup - 1) / kPerGroup;
  parallel_for(groups, kGrain / kPerGroup, [=](int64_t begin, int64_t end) {
    simd([=] { drop(x, y, n, begin, end, key, first, scale); });
  });
}

template void dropout(const float*, float*, int64_t, uint64_t, uint32_t, float);
template void dropout(const double*, double*, int64_t, uint64_t, uint32_t, double);

}  // namespace tern::kernels
