// Attention of single queries against its definition in f64, in sets and alone, at all vector
// levels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/query_attention.h"
#include "tern/core/ops/ops.h"

namespace tern::test_query_attention {
namespace {

using detail::Query, detail::QueryAttention;

struct Case {
  int64_t heads, groups, dim, keys, queries, window;  // window 0: all keys before
};

/// A text, whose tokens lie in memory in any order, and the last queries of it.
struct Text {
  Case c;
  Tensor memory, q;
  std::vector<const float*> keys;
  static constexpr int64_t offset = 5;

  Text(const Case& sizes, Rng& rng)
      : c(sizes),
        memory(randn({c.keys, offset + 2 * c.groups * c.dim}, rng)),
        q(randn({c.queries, c.heads * c.dim}, rng) * 2) {
    for (int64_t t = 0; t < c.keys; ++t)
      keys.push_back(memory.data<float>() + t * 7 % c.keys * memory.size(1));
  }

  /// Queries first .. first + count - 1 by one call -> (count, H D).
  Tensor attend(int64_t first, int64_t count) const {
    Tensor out = full({count, c.heads * c.dim}, NAN);  // every place is written
    std::vector<Query> some;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t end = c.keys - c.queries + first + i + 1;
      const int64_t begin = c.window > 0 ? std::max<int64_t>(0, end - c.window) : 0;
      some.push_back({q.data<float>() + (first + i) * q.size(1),
                      out.mutable_data<float>() + i * q.size(1), begin, end});
    }
    std::vector<float> scores(
        static_cast<size_t>(QueryAttention::room(c.heads, c.groups, count, c.keys)), NAN);
    const QueryAttention attention{c.heads, c.groups, c.dim, some, keys.data(), offset};
    for (int64_t g = 0; g < c.groups; ++g) attention(g, g + 1, scores.data());
    return out;
  }

  /// By the definition.
  double want(int64_t query, int64_t head, int64_t channel) const {
    const int64_t end = c.keys - c.queries + query + 1;
    const int64_t begin = c.window > 0 ? std::max<int64_t>(0, end - c.window) : 0;
    const int64_t group = head / (c.heads / c.groups);
    double sum = 0, total = 0;
    for (int64_t t = begin; t < end; ++t) {
      const float* key = keys[static_cast<size_t>(t)] + offset + group * c.dim;
      double score = 0;
      for (int64_t i = 0; i < c.dim; ++i)
        score +=
            static_cast<double>(q.data<float>()[query * q.size(1) + head * c.dim + i]) * key[i];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(c.dim)));
      total += weight;
      sum += weight * key[c.groups * c.dim + channel];
    }
    return sum / total;
  }
};

const std::vector<Case> kCases = {
    {1, 1, 64, 1, 1, 0},    {4, 2, 16, 19, 5, 0},   {6, 2, 32, 33, 9, 0},
    {9, 3, 64, 70, 20, 0},  {8, 1, 128, 40, 6, 0},  {4, 4, 10, 37, 8, 0},
    {3, 1, 64, 100, 40, 7}, {40, 1, 16, 50, 3, 33}, {2, 2, 32, 64, 64, 16}};

}  // namespace

TEST_CASE("query attention: the softmax of the products with all keys, at every vector level") {
  Rng rng(1);
  for (const Case& c : kCases) {
    const Text text(c, rng);
    std::vector<Tensor> results;
    for (int level = 0; level <= static_cast<int>(detail::cpu().level); ++level) {
      const VectorLevelScope scope(static_cast<VectorLevel>(level));
      const Tensor all = text.attend(0, c.queries);
      double worst = 0;
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t h = 0; h < c.heads; ++h)
          for (int64_t channel = 0; channel < c.dim; ++channel)
            worst =
                std::max(worst, std::abs(all.data<float>()[(i * c.heads + h) * c.dim + channel] -
                                         text.want(i, h, channel)));
      CAPTURE(c.dim);
      CAPTURE(level);
      CHECK(worst < 2e-6);
      // A query's bits do not depend on those beside it.
      for (int64_t i = 0; i < c.queries; ++i)
        CHECK(all_close(text.attend(i, 1), narrow(all, 0, i, 1), 0, 0));
      results.push_back(all);
    }
    if (results.size() > 2) CHECK(all_close(results[1], results[2], 0, 0));  // AVX2, AVX-512
  }
}

}  // namespace tern::test_query_attention
