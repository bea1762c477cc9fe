// The op table itself: it tries every pair of placings, and placed tensors hold the right numbers.
#include <doctest/doctest.h>

#include <set>

#include "tern/core/ops/einsum/einsum.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::test_op_table {
namespace {

using test::Array;
using test::Placing;

TEST_CASE("op table: a covering array has every pair of choices, in few rows") {
  for (const std::vector<int>& counts : std::vector<std::vector<int>>{
           {4}, {1, 1}, {5, 7}, {7, 8, 6}, {9, 3, 1, 8, 8}, {6, 6, 6, 6, 6, 6, 6, 6}}) {
    const auto rows = test::covering_array(counts);
    size_t pairs = 0, product = 1;
    for (size_t i = 0; i < counts.size(); ++i) {
      product *= static_cast<size_t>(counts[i]);
      for (size_t j = 0; j < i; ++j) {
        std::set<std::pair<int, int>> seen;
        for (const auto& row : rows) seen.emplace(row[i], row[j]);
        CHECK(seen.size() == static_cast<size_t>(counts[i] * counts[j]));
        pairs = std::max(pairs, seen.size());
      }
    }
    CHECK(rows.size() <= std::min(product, counts.size() == 1 ? product : 3 * pairs));
  }
}

TEST_CASE("op table: placings hold the numbers they are given") {
  Array a(Shape{2, 3});
  for (int64_t i = 0; i < 6; ++i) a[i] = static_cast<double>(i);
  const std::vector<Placing> all = test::placings(a.shape, true);
  CHECK(all.size() == 7);  // 4 without stride 0, 2 along one axis, 1 along both
  std::set<std::vector<int64_t>> strides;
  for (const Placing& p : all) {
    Array stored(p.stored(a.shape));
    for (int64_t i = 0; i < stored.numel(); ++i) stored[i] = a[i];
    Tensor t = test::lay_out<double>(stored, p);
    CHECK(test::to_array(t).v == stored.v);
    t = expand(t, a.shape);
    strides.emplace(t.strides().begin(), t.strides().end());
  }
  CHECK(strides.size() == 7);
  CHECK(test::placings(Shape{}, true).size() == 2);
  CHECK(test::placings(Shape{1, 4}, false).size() == 3);
}

}  // namespace
}  // namespace tern::test_op_table
