// Attention of single queries over keys and values at any addresses. Each sum has one order: a
// query's bits do not depend on other queries, nor on the blocks in which keys are read.
#include "tern/core/ops/attention/query_attention.h"

#include <cmath>
#include <limits>
#include <utility>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/vmath.h"
#include "tern/core/kernels/vectors.h"

namespace tern::detail {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kBlock = 2 * kLanes;  // keys that all queries read before the next ones

/// What all heads of a run share.
struct Keys {
  int64_t dim;
  const float* const* at;
  int64_t key, value;  ///< offsets of the head's channels from an address
  float scale;
};

/// One head of a query.
struct Head {
  const float* q;
  float* out;
  int64_t first, last;
  float* scores;  ///< of the keys first .. last - 1, with room for a multiple of kLanes
};

/// 16 numbers in kParts vectors: as wide as the registers of a processor.
template <int kParts>
struct Lanes {
  static constexpr int kWidth = static_cast<int>(kLanes) / kParts;
  typedef float Part __attribute__((vector_size(sizeof(float) * kLanes / kParts)));
  Part part[kParts];
};

template <int kParts>
[[gnu::always_inline]] inline Lanes<kParts> load(const float* p) {
  Lanes<kParts> x;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) kernels::load(x.part[i], p + i * Lanes<kParts>::kWidth);
  return x;
}
template <int kParts>
[[gnu::always_inline]] inline void store(float* p, const Lanes<kParts>& x) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) kernels::store(p + i * Lanes<kParts>::kWidth, x.part[i]);
}
template <int kParts>
[[gnu::always_inline]] inline void add_product(Lanes<kParts>& sum, const Lanes<kParts>& x,
                                               const Lanes<kParts>& y) {
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) sum.part[p] += x.part[p] * y.part[p];
}
template <int kParts>
[[gnu::always_inline]] inline void add_product(Lanes<kParts>& sum, float x,
                                               const Lanes<kParts>& y) {
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) sum.part[p] += x * y.part[p];
}

/// to = half `kHalf` (0 or 1) of each group of kGroup numbers, first of x, then of y: part p of it.
template <int kGroup, int kHalf, int p, int kParts, int... i>
[[gnu::always_inline]] inline void take_half(const Lanes<kParts>& x, const Lanes<kParts>& y,
                                             typename Lanes<kParts>::Part& to,
                                             std::integer_sequence<int, i...>) {
  constexpr int w = Lanes<kParts>::kWidth, n = kGroup / 2;
  // The number's place among those of x and y.
  constexpr auto place = [](int lane) { return lane / n * kGroup + lane % n + kHalf * n; };
  constexpr int first = place(p * w) / w, last = place(p * w + w - 1) / w;  // at most two parts
  const auto& a = first < kParts ? x.part[first % kParts] : y.part[first % kParts];
  const auto& b = last < kParts ? x.part[last % kParts] : y.part[last % kParts];
  to = __builtin_shufflevector(a, b,
                               place(p * w + i) % w + (place(p * w + i) / w == first ? 0 : w)...);
}

/// Adds the halves of each group, so that twice as many groups of x and y fit into the result.
template <int kGroup, int p = 0, int kParts>
[[gnu::always_inline]] inline void add_halves(const Lanes<kParts>& x, const Lanes<kParts>& y,
                                              Lanes<kParts>& sum) {
  constexpr std::make_integer_sequence<int, Lanes<kParts>::kWidth> each;
  typename Lanes<kParts>::Part upper;
  take_half<kGroup, 0, p>(x, y, sum.part[p], each);
  take_half<kGroup, 1, p>(x, y, upper, each);
  sum.part[p] += upper;
  if constexpr (p + 1 < kParts) add_halves<kGroup, p + 1>(x, y, sum);
}
template <int kGroup, int kParts>
[[gnu::always_inline]] inline Lanes<kParts> halved(const Lanes<kParts>& x, const Lanes<kParts>& y) {
  Lanes<kParts> sum;
  add_halves<kGroup>(x, y, sum);
  return sum;
}

/// The products of a query with kKeys keys: 16 / kKeys partial sums of each, side by side. The 16
/// partial sums of a key are halved step by step.
template <int kKeys, int kVectors, int kParts>
[[gnu::always_inline]] inline Lanes<kParts> products(const Lanes<kParts>* q,
                                                     const float* const* keys, int64_t offset) {
  if constexpr (kKeys == 1) {
    Lanes<kParts> sum{};  // from 0, since a sum of two products could be fused in two ways
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      add_product(sum, q[v], load<kParts>(keys[0] + offset + v * kLanes));
    return sum;
  } else {
    constexpr int n = kKeys / 2;
    return halved<static_cast<int>(kLanes) / n>(products<n, kVectors>(q, keys, offset),
                                                products<n, kVectors>(q, keys + n, offset));
  }
}

/// The scores of the keys from .. to - 1; writes up to 3 places more. kVectors: the head's channels
/// in vectors of 16; 0: any number of channels.
template <int kVectors, int kParts>
[[gnu::always_inline]] inline void score(const Keys& k, const Head& h, int64_t from, int64_t to) {
  float* scores = h.scores - h.first;
  if constexpr (kVectors > 0) {
    Lanes<kParts> q[kVectors];
    for (int v = 0; v < kVectors; ++v) q[v] = load<kParts>(h.q + v * kLanes);
    int64_t t = from;
    for (; t + kLanes <= to; t += kLanes)
      store(scores + t, products<kLanes, kVectors>(q, k.at + t, k.key));
    for (; t < to; t += 4) {
      const float* keys[4];  // filled up with the last one
      for (int64_t i = 0; i < 4; ++i) keys[i] = k.at[t + i < to ? t + i : to - 1];
      const Lanes<kParts> four = products<4, kVectors>(q, keys, k.key);
      const Lanes<kParts> two = halved<4>(four, four), one = halved<2>(two, two);
      __builtin_memcpy(scores + t, &one, 4 * sizeof(float));
    }
#pragma omp simd
    for (int64_t i = from; i < to; ++i) scores[i] *= k.scale;
  } else {
    for (int64_t t = from; t < to; ++t)
      scores[t] = k.scale *
                  kernels::lane_sum<float>(
                      k.dim, [q = h.q, key = k.at[t] + k.key](int64_t i) { return q[i] * key[i]; });
  }
}

/// scores = softmax(scores), and 0 in the padding.
[[gnu::always_inline]] inline void normalise(const Head& h) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const int64_t count = h.last - h.first, padded = ceil_div(count, kLanes) * kLanes;
  for (int64_t t = count; t < padded; ++t) h.scores[t] = kNever;
  const float max = kernels::max_of(h.scores, count);
  const float sum = kernels::lane_sum<float>(padded, [max, scores = h.scores](int64_t t) {
    return scores[t] = vmath::exp(scores[t] - max);
  });
  const float share = 1 / sum;
#pragma omp simd
  for (int64_t t = 0; t < padded; ++t) h.scores[t] *= share;
}

/// Adds the values of the keys from .. to - 1, times their scores, to the results of kHeads heads.
template <int kVectors, int kHeads, int kParts>
[[gnu::always_inline]] inline void add_values(const Keys& k, const Head* heads, int64_t from,
                                              int64_t to) {
  if constexpr (kVectors > 0) {
    Lanes<kParts> sum[kHeads * kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kHeads * kVectors; ++i)
      sum[i] = load<kParts>(heads[i / kVectors].out + i % kVectors * kLanes);
    for (int64_t t = from; t < to; ++t) {
      const float* value = k.at[t] + k.value;
#pragma GCC unroll 16
      for (int i = 0; i < kHeads * kVectors; ++i) {
        const Head& h = heads[i / kVectors];
        add_product(sum[i], h.scores[t - h.first], load<kParts>(value + i % kVectors * kLanes));
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kHeads * kVectors; ++i)
      store(heads[i / kVectors].out + i % kVectors * kLanes, sum[i]);
  } else {
    static_assert(kHeads == 1);
    float* out = heads[0].out;
    for (int64_t t = from; t < to; ++t) {
      const float* value = k.at[t] + k.value;
      const float share = heads[0].scores[t - heads[0].first];
#pragma omp simd
      for (int64_t i = 0; i < k.dim; ++i) out[i] += share * value[i];
    }
  }
}

/// The keys of a block that a head sees.
struct KeyRange {
  int64_t from, to;
};
[[gnu::always_inline]] inline KeyRange range_of(const Head& h, int64_t block) {
  const int64_t end = block + kBlock;
  return {h.first > block ? h.first : block, h.last < end ? h.last : end};
}

template <int kVectors, int kParts>
[[gnu::always_inline]] inline void attend(const Keys& k, const Head* heads, int64_t count) {
  int64_t first = heads[0].first, last = heads[0].last;
  for (int64_t h = 1; h < count; ++h) {
    first = heads[h].first < first ? heads[h].first : first;
    last = heads[h].last > last ? heads[h].last : last;
  }
  for (int64_t block = first; block < last; block += kBlock)
    for (int64_t h = 0; h < count; ++h) {
      const KeyRange seen = range_of(heads[h], block);
      if (seen.from < seen.to) score<kVectors, kParts>(k, heads[h], seen.from, seen.to);
    }
  for (int64_t h = 0; h < count; ++h) {
    normalise(heads[h]);
    for (int64_t i = 0; i < k.dim; ++i) heads[h].out[i] = 0;
  }
  // AVX-512 waits for sums unless two heads add the same values; AVX2 lacks the registers.
  constexpr int kTogether = kVectors > 0 && kParts == 1 ? 2 : 1;
  for (int64_t block = first; block < last; block += kBlock)
    for (int64_t h = 0; h < count;) {
      const KeyRange seen = range_of(heads[h], block);
      const KeyRange next = range_of(heads[h + 1 < count ? h + 1 : h], block);
      const bool two =
          kTogether == 2 && h + 1 < count && next.from == seen.from && next.to == seen.to;
      if (two && seen.from < seen.to)
        add_values<kVectors, kTogether, kParts>(k, heads + h, seen.from, seen.to);
      else if (seen.from < seen.to)
        add_values<kVectors, 1, kParts>(k, heads + h, seen.from, seen.to);
      h += two ? 2 : 1;
    }
}

/// The room of a head's scores.
int64_t stride_of(int64_t keys) { return ceil_div(keys + 3, kLanes) * kLanes; }
constexpr int64_t kMostHeads = 32;  // that read a block together

}  // namespace

int64_t QueryAttention::room(int64_t heads, int64_t groups, int64_t queries, int64_t keys) {
  return std::min(queries * (heads / groups), kMostHeads) * stride_of(keys);
}

void QueryAttention::operator()(int64_t first, int64_t last, float* scores) const {
  const int64_t group = heads / groups;
  const int64_t count = std::ssize(queries) * group;
  int64_t longest = 0;
  for (const Query& q : queries) longest = std::max(longest, q.keys());
  const int64_t stride = stride_of(longest);
  for (int64_t kv = first; kv < last; ++kv) {
    const int64_t key = offset + kv * dim;
    const Keys all{dim, keys, key, key + groups * dim, 1 / std::sqrt(static_cast<float>(dim))};
    for (int64_t begin = 0; begin < count; begin += kMostHeads) {
      Head each[kMostHeads];
      const int64_t many = std::min(kMostHeads, count - begin);
      for (int64_t i = 0; i < many; ++i) {
        const Query& q = queries[(begin + i) / group];
        const int64_t channel = (kv * group + (begin + i) % group) * dim;
        each[i] = {q.q + channel, q.out + channel, q.first, q.last, scores + i * stride};
      }
      auto run = [&]<int kVectors>() {
        auto with = [=, at = static_cast<const Head*>(each)]<int kParts>() {
          return [=]() __attribute__((always_inline)) { attend<kVectors, kParts>(all, at, many); };
        };
        simd(with.template operator()<1>(), with.template operator()<2>(),
             with.template operator()<4>());
      };
      if (dim == 16)
        run.template operator()<1>();
      else if (dim == 32)
        run.template operator()<2>();
      else if (dim == 64)
        run.template operator()<4>();
      else if (dim == 128)
        run.template operator()<8>();
      else
        run.template operator()<0>();
    }
  }
}

}  // namespace tern::detail
