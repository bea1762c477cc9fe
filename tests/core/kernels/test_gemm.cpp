// gemm, the kernel behind every matrix product, against plain loops: layouts, batches, tiles,
// packed operands, and the same bits on any number of threads.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/rng.h"
#include "tern/core/kernels/products/gemm.h"
#include "tern/core/kernels/products/gemm_plan.h"
#include "tern/core/kernels/products/gemm_tiles.h"
#include "tern/tests/support/threads.h"

namespace tern::kernels::test_gemm {
namespace {

struct Problem {
  Gemm g;
  std::vector<float> a, b, c;
};

int64_t end_of(int64_t rows, int64_t cols, MatrixStrides s, const Dims& sizes,
               const Dims& strides) {
  int64_t end = (rows - 1) * s.row + (cols - 1) * s.col + 1;
  for (int i = 0; i < sizes.size(); ++i) end += (sizes[i] - 1) * strides[i];
  return std::max<int64_t>(end, 0);
}

std::vector<float> random(int64_t n, uint64_t seed) {
  std::vector<float> v(static_cast<size_t>(n));
  Rng(seed).fill_uniform(v.data(), n, -1, 1);
  return v;
}

Problem make(const Gemm& g) {
  return {g, random(end_of(g.m, g.k, g.a, g.batch.sizes, g.batch.a), 1),
          random(end_of(g.k, g.n, g.b, g.batch.sizes, g.batch.b), 2),
          random(end_of(g.m, g.n, g.c, g.batch.sizes, g.batch.c), 3)};
}

/// Calls body(offset in a, in b, in c) for every product of the batch.
template <class Body>
void each_product(const BatchAxes& batch, Body body) {
  int64_t n = 1;
  for (int64_t s : batch.sizes) n *= s;
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, a = 0, b = 0, c = 0;
    for (int x = batch.sizes.size() - 1; x >= 0; --x) {
      int64_t at = rest % batch.sizes[x];
      rest /= batch.sizes[x];
      a += at * batch.a[x];
      b += at * batch.b[x];
      c += at * batch.c[x];
    }
    body(a, b, c);
  }
}

std::vector<double> naive(const Problem& p, float beta) {
  const Gemm& g = p.g;
  std::vector<double> c(p.c.begin(), p.c.end());
  auto at = [](int64_t i) { return static_cast<size_t>(i); };
  BatchAxes results = g.batch;
  for (int i = 0; i < results.sizes.size(); ++i)
    if (results.c[i] == 0) results.sizes[i] = 1;
  each_product(results, [&](int64_t, int64_t, int64_t oc) {
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        size_t x = at(oc + i * g.c.row + j * g.c.col);
        c[x] = beta == 0 ? 0 : beta * static_cast<double>(p.c[x]);
      }
  });
  each_product(g.batch, [&](int64_t oa, int64_t ob, int64_t oc) {
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j)
        for (int64_t l = 0; l < g.k; ++l)
          c[at(oc + i * g.c.row + j * g.c.col)] +=
              static_cast<double>(p.a[at(oa + i * g.a.row + l * g.a.col)]) *
              static_cast<double>(p.b[at(ob + l * g.b.row + j * g.b.col)]);
  });
  return c;
}

int64_t terms_of(const Gemm& g) {
  int64_t n = g.k;
  for (int i = 0; i < g.batch.sizes.size(); ++i)
    if (g.batch.c[i] == 0) n *= g.batch.sizes[i];
  return n;
}

void check_close(const std::vector<float>& got, const std::vector<double>& want, int64_t terms) {
  REQUIRE(got.size() == want.size());
  // Terms are at most 1 each, so rounding errors grow as the root of the number of terms.
  double allowed = 1.3e-6 * std::sqrt(static_cast<double>(terms + 1));
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - want[i]) <= allowed * std::max(1.0, std::abs(want[i])))) {
      FAIL_CHECK("element ", i, ": got ", got[i], ", want ", want[i]);
      return;
    }
}

void check_gemm(const Gemm& g, float beta = 0) {
  INFO("m ", g.m, " n ", g.n, " k ", g.k, " a ", g.a.row, ",", g.a.col, " b ", g.b.row, ",",
       g.b.col, " c ", g.c.row, ",", g.c.col, " batch ", to_string(g.batch.sizes), " beta ", beta);
  Problem p = make(g);
  std::vector<double> want = naive(p, beta);
  if (beta == 0)  // beta = 0 must not read C
    each_product(g.batch, [&](int64_t, int64_t, int64_t oc) {
      for (int64_t i = 0; i < g.m; ++i)
        for (int64_t j = 0; j < g.n; ++j)
          p.c[static_cast<size_t>(oc + i * g.c.row + j * g.c.col)] =
              std::numeric_limits<float>::quiet_NaN();
    });
  for (MatmulBackend backend : {MatmulBackend::tiles, MatmulBackend::blas})
    for (VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512}) {
      const MatmulBackendScope computed_by(backend);
      const VectorLevelScope scope(level);
      INFO(to_string(backend), ", ", to_string(level));
      std::vector<float> c = p.c;
      gemm<float>(g, p.a.data(), p.b.data(), c.data(), beta);
      check_close(c, want, terms_of(g));
    }
}

enum class Side { rows, columns, rows_with_gap, columns_with_gap };

MatrixStrides strides(int64_t rows, int64_t cols, Side side) {
  switch (side) {
    case Side::rows:
      return {cols, 1};
    case Side::columns:
      return {1, rows};
    case Side::rows_with_gap:
      return {cols + 3, 1};
    case Side::columns_with_gap:
      return {1, rows + 5};
  }
  fail_unhandled("Side", side);
}

constexpr Side kSides[] = {Side::rows, Side::columns, Side::rows_with_gap, Side::columns_with_gap};

Gemm product(int64_t m, int64_t n, int64_t k, Side a = Side::rows, Side b = Side::rows,
             Side c = Side::rows) {
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a = strides(m, k, a);
  g.b = strides(k, n, b);
  g.c = strides(m, n, c);
  return g;
}

TEST_CASE("gemm: all layouts of all three matrices, odd sizes") {
  const int64_t sizes[][3] = {{1, 1, 1}, {7, 5, 3},   {1, 33, 17}, {33, 1, 17},
                              {5, 6, 1}, {65, 64, 9}, {1, 1, 70}};
  for (auto [m, n, k] : sizes)
    for (Side a : kSides)
      for (Side b : kSides)
        for (Side c : kSides)
          for (float beta : {0.f, 1.f, -0.5f}) check_gemm(product(m, n, k, a, b, c), beta);
}

// A vector load that wrongly assumes alignment crashes only at unaligned addresses.
TEST_CASE("gemm: matrices at every address") {
  for (Side side : {Side::rows, Side::columns}) {
    const Problem p = make(product(15, 33, 18, side, side));
    const std::vector<double> want = naive(p, 1);
    for (size_t shift = 0; shift < 16; ++shift) {
      auto shifted = [&](std::vector<float> v) {
        v.insert(v.begin(), shift, 0);
        return v;
      };
      const std::vector<float> a = shifted(p.a), b = shifted(p.b);
      std::vector<float> c = shifted(p.c);
      gemm<float>(p.g, a.data() + shift, b.data() + shift, c.data() + shift, 1);
      check_close({c.begin() + static_cast<std::ptrdiff_t>(shift), c.end()}, want, p.g.k);
    }
  }
}

/// Numbers between two protected pages: they begin right after the first page or end right before
/// the second.
template <class T>
class Fenced {
 public:
  Fenced(const std::vector<T>& numbers, bool at_end) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t bytes = numbers.size() * sizeof(T), inner = (bytes + page - 1) / page * page;
    bytes_ = inner + 2 * page;
    void* const at = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    all_ = static_cast<std::byte*>(at);
    REQUIRE(::mprotect(all_ + page, inner, PROT_READ | PROT_WRITE) == 0);
    data_ = reinterpret_cast<T*>(all_ + page + (at_end ? inner - bytes : 0));
    std::copy(numbers.begin(), numbers.end(), data_);
  }
  ~Fenced() { ::munmap(all_, bytes_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  T* data() { return data_; }

 private:
  size_t bytes_ = 0;
  std::byte* all_ = nullptr;
  T* data_ = nullptr;
};

template <class T>
void check_fenced(const Problem& p, const std::vector<T>& a, const std::vector<T>& b, bool at_end) {
  INFO("m ", p.g.m, " n ", p.g.n, " k ", p.g.k, " at the end ", at_end);
  Fenced x(a, at_end), y(b, at_end);
  Fenced z(p.c, at_end);
  gemm<float>(p.g, x.data(), y.data(), z.data(), 1);
}

// An access beyond a matrix ends the test with a signal.
TEST_CASE("gemm: nothing beyond the matrices is read or written") {
  const int64_t sizes[][3] = {{1, 1, 1},   {1, 17, 33},   {5, 15, 16},  {6, 16, 17},
                              {7, 33, 32}, {13, 31, 64},  {14, 32, 65}, {15, 49, 15},
                              {33, 1, 40}, {90, 170, 130}};
  for (auto [m, n, k] : sizes)
    for (Side a : {Side::rows, Side::columns})
      for (Side b : {Side::rows, Side::columns})
        for (bool at_end : {false, true}) {
          const Problem p = make(product(m, n, k, a, b));
          for (VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512}) {
            const VectorLevelScope scope(level);
            check_fenced(p, p.a, p.b, at_end);
          }
          const MatmulPrecisionScope rounding(MatmulPrecision::bf16);
          const std::vector<Bf16> words_a(p.a.size()), words_b(p.b.size());
          for (Bf16Way way : bf16_ways()) {
            const Bf16WayScope scope(way);
            check_fenced(p, p.a, p.b, at_end);
            check_fenced(p, words_a, words_b, at_end);
          }
        }
}

TEST_CASE("gemm: empty sums scale C, empty results do nothing") {
  for (float beta : {0.f, 1.f, 2.f}) {
    check_gemm(product(4, 3, 0), beta);
    check_gemm(product(4, 1, 0), beta);
    Gemm g = product(4, 3, 2);
    g.batch.add(0, 8, 6, 0);
    check_gemm(g, beta);
  }
  check_gemm(product(0, 3, 2));
  check_gemm(product(3, 0, 2));
}

TEST_CASE("gemm: batches, broadcast and summed, folded or not") {
  const int64_t m = 6, n = 7, k = 5, s = 3;
  struct Strides {
    int64_t a, b, c;
  };
  const Strides axes[] = {
      {m * k, k * n, m * n},  // every operand moves
      {m * k, 0, m * n},      // more rows of A and C
      {0, k * n, m * n},      // more columns of B and C
      {m * k, k * n, 0},      // summed into one C
  };
  for (Side a : kSides)
    for (Side b : kSides)
      for (auto [sa, sb, sc] : axes)
        for (auto [ta, tb, tc] : axes) {
          Gemm g = product(m, n, k, a, b);
          // The outer axis steps beyond the inner one, with gaps.
          g.batch.add(2, ta * 7, tb * 7, tc * s);
          g.batch.add(s, sa * 2, sb * 2, sc);
          check_gemm(g, 1);
        }
  // Batch axes that fold into rows, columns or sums.
  Gemm rows = product(m, n, k);
  rows.batch.add(s, m * k, 0, m * n);
  Gemm inner_rows = product(m, n, k);
  inner_rows.a.row = s * k;
  inner_rows.c.row = s * n;
  inner_rows.batch.add(s, k, 0, n);
  Gemm columns = product(m, n, k);
  columns.b = {s * n, 1};
  columns.c = {s * n, 1};
  columns.batch.add(s, 0, n, n);
  Gemm sums = product(m, n, k, Side::columns);
  sums.batch.add(s, m * k, k * n, 0);
  Gemm vectors = product(1, n, k);
  vectors.batch.add(s, k, 0, n);
  for (const Gemm& g : {rows, inner_rows, columns, sums, vectors}) {
    GemmPlan plan = plan_gemm(g, false);
    CHECK(plan.batches * plan.terms == 1);
    CHECK(plan.g.m * plan.g.n * plan.g.k == g.m * g.n * g.k * s);
    check_gemm(g, 0);
    check_gemm(g, 1);
  }
}

TEST_CASE("gemm: same bits on any number of threads, with panels and with split sums") {
  Gemm small_batch = product(17, 96, 17);
  small_batch.batch.add(40, 17 * 17, 17 * 96, 17 * 96);
  Gemm long_sum = product(17, 17, 1024, Side::rows, Side::columns);
  long_sum.batch.add(32, 17 * 1024 + 8, 17 * 1024 + 8, 0);
  const Gemm cases[] = {product(150, 130, 200, Side::rows, Side::columns),
                        product(256, 300, 240, Side::columns),
                        product(32, 256, 300),
                        product(3, 5, 300000),
                        product(1, 900, 700),
                        product(900, 1, 700),
                        product(223, 650, 537, Side::columns, Side::columns),
                        product(77, 2100, 300),
                        product(307, 97, 150),
                        product(49, 290, 400),
                        small_batch,
                        long_sum};
  for (const Gemm& g : cases) {
    INFO("m ", g.m, " n ", g.n, " k ", g.k);
    Problem p = make(g);
    std::vector<double> want = naive(p, 1);
    std::vector<float> first = p.c;
    const test::Threads single(1);
    gemm<float>(g, p.a.data(), p.b.data(), first.data(), 1);
    check_close(first, want, terms_of(g));
    for (int threads : {2, 3, 8, 16, 64}) {
      const test::Threads several(threads);
      std::vector<float> c = p.c;
      gemm<float>(g, p.a.data(), p.b.data(), c.data(), 1);
      CHECK(c == first);
    }
  }
  CHECK(plan_gemm(long_sum, false).splits > 1);
  CHECK(plan_gemm(product(3, 5, 300000), false).splits > 1);
}

TEST_CASE("gemm: many small products make at least as many tasks as there are threads") {
  Gemm g = product(24, 512, 1);
  g.batch.add(64, 24, 512, 24 * 512);
  const GemmPlan plan = plan_gemm(g, /*tiles=*/true, /*threads=*/16);
  CHECK(plan.batches == 64);
  CHECK(plan.batches / plan.group >= 16);
  CHECK(plan.batches / plan_gemm(g, /*tiles=*/true, /*threads=*/64).group >= 64);
}

// Tiles of 1 to 14 rows, strips of 1 to 32 columns, several blocks of k and of rows.
TEST_CASE("gemm: tiles of every size") {
  for (int64_t m = 2; m < 32; ++m) check_gemm(product(m, 37, 5));
  for (int64_t n = 2; n < 67; n += 3) {
    check_gemm(product(30, n, 20, Side::columns, Side::columns), 1);
    check_gemm(product(30, n, 150, Side::rows, Side::rows_with_gap), -2);
  }
  for (int64_t k : {1, 2, 15, 16, 17, 33, 63, 64, 65, 511, 512, 513, 1100})
    for (Side a : kSides)
      for (Side b : kSides) check_gemm(product(45, 35, k, a, b));
  check_gemm(product(200, 70, 30, Side::columns));
}

// The bits of an element do not depend on the other elements of the product.
TEST_CASE("gemm: a row of a product is the product of the row") {
  if (products_by_blas()) return;
  Gemm g = product(100, 200, 500, Side::rows, Side::columns);
  Problem p = make(g);
  gemm<float>(g, p.a.data(), p.b.data(), p.c.data());
  Gemm few = g;
  few.m = 3;
  std::vector<float> c(3 * 200);
  for (int64_t row : {0, 50, 97}) {
    gemm<float>(few, p.a.data() + row * 500, p.b.data(), c.data());
    CHECK(std::equal(c.begin(), c.end(), p.c.begin() + row * 200));
  }
}

void check_together(const Gemm& g) {
  INFO("m ", g.m, " n ", g.n, " k ", g.k, " a ", g.a.row, ",", g.a.col, " b ", g.b.row, ",",
       g.b.col);
  Problem p = make(g);
  std::vector<float> alone = p.c;
  Product<float> whole{g.m,          g.n, g.k,  {p.a.data(), g.a}, {p.b.data(), g.b},
                       alone.data(), g.n, -0.5f};
  multiply_tiles(whole);
  for (float& v : alone) v += 1;
  whole.c = p.c.data();
  multiply_tiles_together(whole, [&](const Panel& panel) {
    for (int64_t i = 0; i < panel.rows; ++i)
      for (int64_t j = 0; j < panel.cols; ++j)
        p.c[static_cast<size_t>(panel.offset + i * panel.stride + j)] += 1;
  });
  CHECK(p.c == alone);
}

// Tiles of different sizes, with remainders of rows and columns; vectors; sums over several blocks
// of k; split sums.
TEST_CASE("gemm: every vector unit with fused multiply-adds gives the same bits") {
  const int64_t sizes[][3] = {{1, 70, 1300}, {70, 1, 1300},   {45, 35, 1100},
                              {13, 17, 31},  {300, 260, 700}, {3, 4, 30000}};
  for (auto [m, n, k] : sizes)
    for (Side a : kSides)
      for (Side b : kSides) {
        const Gemm g = product(m, n, k, a, b);
        CAPTURE(g.m);
        const Problem p = make(g);
        std::vector<float> wide = p.c, narrow = p.c;
        gemm<float>(g, p.a.data(), p.b.data(), wide.data(), 0.5f);
        const VectorLevelScope scope(VectorLevel::kAvx2);
        gemm<float>(g, p.a.data(), p.b.data(), narrow.data(), 0.5f);
        CHECK(wide == narrow);
      }
}

// Products with a packed B have the bits of unpacked products with the same blocks of k.
void check_packed(const Problem& p, const PackedTiles& b, int64_t m, int64_t n, int64_t k) {
  INFO("B ", b.rows, "x", b.columns, " m ", m, " n ", n, " k ", k);
  std::vector<float> c(static_cast<size_t>(m * n), 7.f), apart = c;
  multiply_packed_tiles({.m = m, .n = n, .k = k, .a = {p.a.data(), p.g.a}, .c = c.data(), .ldc = n},
                        b);
  for (int64_t first = 0; first < k; first += 512)
    multiply_tiles({m,
                    n,
                    std::min<int64_t>(512, k - first),
                    {p.a.data() + first * p.g.a.col, p.g.a},
                    {p.b.data() + first * p.g.b.row, p.g.b},
                    apart.data(),
                    n,
                    first > 0 ? 1.f : 0.f});
  CHECK(c == apart);
}

TEST_CASE("gemm: a packed B gives products with its first rows and columns") {
  if (products_by_blas()) return;
  const int64_t sizes[][2] = {{64, 300}, {1100, 40}, {2, 2}, {513, 17}};
  for (VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512})
    for (Side side : {Side::rows, Side::columns, Side::rows_with_gap, Side::columns_with_gap})
      for (auto [rows, columns] : sizes) {
        const VectorLevelScope scope(level);
        const Problem p = make(product(70, columns, rows, Side::rows, side));
        std::vector<float> packed(static_cast<size_t>(PackedTiles::size(rows, columns)));
        const PackedTiles b{rows, columns, packed.data()};
        pack_tiles({p.b.data(), p.g.b}, b);
        check_packed(p, b, 70, columns, rows);
        check_packed(p, b, 14, 1, 1);
        check_packed(p, b, 1, columns - 1, rows - 1);
        check_packed(p, b, 29, (columns + 1) / 2, (rows + 1) / 2);
      }
}

// Threads share A in the first three products, split into parts in the second. They share B in the
// others; in the last it has over 64 strips and two blocks of k, also in parts.
TEST_CASE("gemm: threads together compute the same as one thread") {
  if (products_by_blas()) return;
  const int64_t sizes[][3] = {
      {61, 2200, 1000}, {512, 40, 3700}, {600, 1300, 600}, {520, 70, 700}, {1030, 2100, 1100}};
  for (auto [m, n, k] : sizes)
    for (Side a : {Side::rows, Side::columns_with_gap})
      for (Side b : {Side::rows_with_gap, Side::columns})
        for (int threads : {1, 3}) {
          const VectorLevelScope scope(threads == 1 ? VectorLevel::kAvx2 : VectorLevel::kAvx512);
          const test::Threads several(threads);
          check_together(product(m, n, k, a, b));
        }
}

TEST_CASE("gemm: `done` sees every element of C once, after its last update") {
  Gemm batch = product(9, 40, 8);
  batch.batch.add(5, 9 * 8, 8 * 40, 9 * 40);
  for (const Gemm& g : {product(300, 200, 100), product(3, 4, 300000), batch, product(2, 3, 0)}) {
    Problem p = make(g);
    std::vector<double> want = naive(p, 0);
    for (double& v : want) v = 2 * v + 1;
    gemm<float>(g, p.a.data(), p.b.data(), p.c.data(), 0, [&](const Panel& panel) {
      for (int64_t i = 0; i < panel.rows; ++i)
        for (int64_t j = 0; j < panel.cols; ++j) {
          float& v = p.c[static_cast<size_t>(panel.offset + i * panel.stride + j)];
          v = 2 * v + 1;
        }
    });
    check_close(p.c, want, 4 * terms_of(g));
  }
}

TEST_CASE("gemm: integers") {
  Gemm g = product(3, 4, 5, Side::rows, Side::columns);
  std::vector<int64_t> a(15), b(20), c(12, 7);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int64_t>(i) - 7;
  for (size_t i = 0; i < b.size(); ++i) b[i] = (int64_t{1} << 40) + static_cast<int64_t>(i);
  gemm<int64_t>(g, a.data(), b.data(), c.data());
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 4; ++j) {
      int64_t want = 0;
      for (size_t l = 0; l < 5; ++l) want += a[i * 5 + l] * b[j * 5 + l];
      CHECK(c[i * 4 + j] == want);
    }
}

}  // namespace
}  // namespace tern::kernels::test_gemm
