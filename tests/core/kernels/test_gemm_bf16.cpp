// Matrix products of operands rounded to bfloat16: every way to compute them (portable, AVX2,
// AVX-512, AMX) gives the bits that base/precision.h defines.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/kernels/bf16/gemm_bf16.h"
#include "tern/core/kernels/convolution/conv_windows.h"
#include "tern/core/kernels/products/gemm.h"
#include "tern/tests/support/threads.h"

namespace tern::kernels::test_gemm_bf16 {
namespace {

uint32_t bits_of(float x) {
  uint32_t b;
  std::memcpy(&b, &x, sizeof b);
  return b;
}

float float_of(uint32_t b) {
  float x;
  std::memcpy(&x, &b, sizeof x);
  return x;
}

float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; }

// Rounds to 8 bits of mantissa by comparing the distances to both neighbours.
float rounded(float x) {
  if (std::isnan(x) || std::isinf(x)) return x;
  if (std::fabs(x) < 0x1p-126f) return std::copysign(0.f, x);
  const uint32_t low = bits_of(x) & 0xffff0000u, high = low + 0x10000u;
  const double below = std::fabs(double(x) - double(float_of(low)));
  const bool overflows = (high & 0x7f800000u) == 0x7f800000u;
  const double next = overflows ? std::copysign(0x1p128, double(x)) : double(float_of(high));
  const double above = std::fabs(next - double(x));
  if (below != above) return float_of(below < above ? low : high);
  return float_of(low & 0x10000u ? high : low);
}

// One element of the product, as base/precision.h defines it.
float element(const std::vector<float>& a, const std::vector<float>& b, float start) {
  float s = flushed(start);
  for (size_t group = 0; group < a.size(); group += 32) {
    float sums[2] = {0, 0};
    for (size_t k = 0; k < 32; ++k) {
      const bool in = group + k < a.size();
      const float x = in ? rounded(a[group + k]) : 0, y = in ? rounded(b[group + k]) : 0;
      sums[k % 2] = flushed(std::fma(x, y, sums[k % 2]));
    }
    s = flushed(s + flushed(sums[0] + sums[1]));
  }
  return s;
}

struct Sizes {
  int64_t m, n, k;
};

enum class Numbers { usual, tiny, huge, any };

std::vector<float> numbers(int64_t n, uint64_t seed, Numbers kind) {
  std::vector<float> x(static_cast<size_t>(n));
  Rng rng(seed);
  rng.fill_uniform(x.data(), n, -1, 1);
  if (kind == Numbers::usual) return x;
  std::vector<float> y(x.size());
  rng.fill_uniform(y.data(), n, -1, 1);
  for (size_t i = 0; i < x.size(); ++i) {
    if (kind == Numbers::tiny) x[i] = std::ldexp(x[i], -62 + static_cast<int>(6 * y[i]));
    if (kind == Numbers::huge) x[i] = std::ldexp(x[i], 62 + static_cast<int>(4 * y[i]));
    if (kind == Numbers::any) x[i] = std::ldexp(x[i], static_cast<int>(149 * y[i]));
  }
  return x;
}

bool same(float x, float y) { return bits_of(x) == bits_of(y) || (std::isnan(x) && std::isnan(y)); }

MatrixStrides layout(int64_t rows, int64_t cols, bool by_rows, int64_t gap) {
  return by_rows ? MatrixStrides{cols + gap, 1} : MatrixStrides{1, rows + gap};
}

// C computed by `way`. Its rows are longer than n, so that writes beyond a row are seen.
std::vector<float> product(Bf16Way way, Sizes z, Factor a, MatrixStrides sa, Factor b,
                           MatrixStrides sb, float beta, std::vector<float> c, int64_t ldc,
                           bool together = false) {
  const Bf16WayScope scope(way);
  if (together)
    multiply_bf16_together({z.m, z.n, z.k, {a, sa}, {b, sb}, c.data(), ldc, beta}, {});
  else
    multiply_bf16({z.m, z.n, z.k, {a, sa}, {b, sb}, c.data(), ldc, beta});
  return c;
}

std::vector<Bf16> stored(const std::vector<float>& x) {
  std::vector<Bf16> words;
  for (float v : x) words.push_back({static_cast<uint16_t>(bits_of(rounded(v)) >> 16)});
  return words;
}

void check_ways(Sizes z, bool a_by_rows, bool b_by_rows, float beta, Numbers kind) {
  CAPTURE(z.m);
  CAPTURE(z.n);
  CAPTURE(z.k);
  CAPTURE(a_by_rows);
  CAPTURE(b_by_rows);
  CAPTURE(beta);
  const int64_t gap = z.k % 3, ldc = z.n + 2;
  const MatrixStrides sa = layout(z.m, z.k, a_by_rows, gap), sb = layout(z.k, z.n, b_by_rows, gap);
  const std::vector<float> a = numbers((z.m + gap) * (z.k + gap), 1, kind);
  const std::vector<float> b = numbers((z.k + gap) * (z.n + gap), 2, kind);
  std::vector<float> c = numbers(z.m * ldc, 3, Numbers::usual);
  if (beta == 0)
    for (int64_t i = 0; i < z.m; ++i)
      std::fill_n(c.begin() + i * ldc, z.n, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> want = c;
  for (int64_t i = 0; i < z.m; ++i)
    for (int64_t j = 0; j < z.n; ++j) {
      std::vector<float> x, y;
      for (int64_t k = 0; k < z.k; ++k) {
        x.push_back(a[static_cast<size_t>(i * sa.row + k * sa.col)]);
        y.push_back(b[static_cast<size_t>(k * sb.row + j * sb.col)]);
      }
      float& at = want[static_cast<size_t>(i * ldc + j)];
      at = element(x, y, beta == 0 ? 0 : at * beta);
    }
  const std::vector<Bf16> a16 = stored(a), b16 = stored(b);
  const std::pair<Factor, Factor> operands[] = {
      {a.data(), b.data()}, {a16.data(), b.data()}, {a.data(), b16.data()}};
  for (Bf16Way way : bf16_ways())
    for (const std::pair<Factor, Factor>& both : operands)
      for (bool together : {false, true}) {
        CAPTURE(to_string(way));
        CAPTURE(both.first.bf16);
        CAPTURE(both.second.bf16);
        const std::vector<float> got =
            product(way, z, both.first, sa, both.second, sb, beta, c, ldc, together);
        int64_t wrong = 0;
        for (size_t i = 0; i < got.size(); ++i) wrong += !same(got[i], want[i]);
        CHECK(wrong == 0);
      }
}

TEST_CASE("bf16 products: every way gives the documented bits") {
  const Sizes sizes[] = {{1, 1, 1},    {1, 40, 33},  {33, 1, 70},   {16, 16, 32},  {32, 32, 64},
                         {17, 31, 40}, {35, 33, 31}, {14, 65, 96},  {65, 17, 63},  {3, 5, 2},
                         {48, 48, 3},  {31, 16, 65}, {70, 100, 17}, {5, 37, 1030}, {40, 20, 700}};
  for (const Sizes& z : sizes)
    for (bool a : {true, false})
      for (bool b : {true, false})
        for (float beta : {0.f, 1.f, -.5f}) check_ways(z, a, b, beta, Numbers::usual);
}

TEST_CASE("bf16 products: the documented bits also for tiny, huge and infinite sums") {
  for (Numbers kind : {Numbers::tiny, Numbers::huge, Numbers::any})
    for (const Sizes& z : {Sizes{33, 35, 64}, Sizes{20, 18, 45}, Sizes{16, 16, 33}})
      for (bool rows : {true, false})
        for (float beta : {0.f, 1.f}) check_ways(z, rows, !rows, beta, kind);
}

TEST_CASE("bf16 products: AMX turns no product with windows, which have no matrix to turn") {
  const float x[8] = {};
  float c[8];
  const ConvFactors windows;
  Product<float> p{.m = 4, .n = 36, .k = 2, .a = {x, {2, 1}}, .b = {}, .c = c, .ldc = 36};
  CHECK(is_turned_by_amx(p));
  p.conv = &windows;
  CHECK_FALSE(is_turned_by_amx(p));
}

TEST_CASE("bf16 products: numbers are rounded to nearest, ties to even") {
  std::vector<float> x;
  for (uint32_t high : {0x3f80u, 0x3f81u, 0x7f7fu, 0x0080u, 0x007fu, 0x0000u, 0xbf80u, 0xff7fu})
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(float_of(high << 16 | low));
  for (float special : {std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN(), float_of(0x7f800001u)})
    x.push_back(special);
  const int64_t n = static_cast<int64_t>(x.size());
  const std::vector<float> one = {1};
  for (Bf16Way way : bf16_ways()) {
    CAPTURE(to_string(way));
    // The numbers as the left operand, then as the right one.
    const std::vector<float> zero(x.size(), 0.f);
    const auto left = product(way, {n, 1, 1}, x.data(), {1, 1}, one.data(), {1, 1}, 0, zero, 1);
    const auto right = product(way, {1, n, 1}, one.data(), {1, 1}, x.data(), {n, 1}, 0, zero, n);
    for (size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      CHECK(same(left[i], rounded(x[i]) + 0.f));
      CHECK(same(right[i], rounded(x[i]) + 0.f));
    }
  }
}

TEST_CASE("bf16 products: many threads, which pack operands in pieces, give the bits of one") {
  const int64_t m = 223, n = 650, k = 1300;
  const auto a = numbers(m * k, 1, Numbers::usual), b = numbers(k * n, 2, Numbers::usual);
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  for (MatrixStrides of_a : {MatrixStrides{k, 1}, MatrixStrides{1, m}})
    for (MatrixStrides of_b : {MatrixStrides{n, 1}, MatrixStrides{1, k}}) {
      const Gemm g{m, n, k, of_a, of_b, {n, 1}, {}};
      std::vector<float> one(static_cast<size_t>(m * n)), many = one;
      const test::Threads single(1);
      gemm<float>(g, a.data(), b.data(), one.data());
      for (int threads : {7, 64}) {
        const test::Threads several(threads);
        std::fill(many.begin(), many.end(), 0.f);
        gemm<float>(g, a.data(), b.data(), many.data());
        CHECK(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0);
      }
    }
}

TEST_CASE("bf16 products: an element's bits depend on neither other elements nor threads") {
  const int64_t m = 150, n = 130, k = 257;
  const auto a = numbers(m * k, 1, Numbers::usual), b = numbers(k * n, 2, Numbers::usual);
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  auto multiply = [&](int64_t first, int64_t rows, int64_t column, int64_t columns) {
    Gemm g{rows, columns, k, {k, 1}, {n, 1}, {columns, 1}, {}};
    std::vector<float> c(static_cast<size_t>(rows * columns));
    gemm<float>(g, a.data() + first * k, b.data() + column, c.data());
    return c;
  };
  const test::Threads single(1);
  const std::vector<float> whole = multiply(0, m, 0, n);
  const test::Threads three(3);
  const std::vector<float> again = multiply(0, m, 0, n);
  CHECK(std::memcmp(whole.data(), again.data(), whole.size() * sizeof(float)) == 0);
  const int64_t pieces[][4] = {{0, 1, 0, n}, {149, 1, 7, 1}, {33, 20, 50, 33}, {0, m, 129, 1}};
  for (auto [first, rows, column, columns] : pieces) {
    const std::vector<float> piece = multiply(first, rows, column, columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        CHECK(bits_of(piece[static_cast<size_t>(i * columns + j)]) ==
              bits_of(whole[static_cast<size_t>((first + i) * n + column + j)]));
  }
}

TEST_CASE("bf16 products: every way gives the same bits in large and in summed products") {
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  BatchAxes sums;
  sums.add(3, 40 * 2000, 2000 * 24, 0);
  // Threads share A in the first two products, split into parts in the second, and B in the third.
  const Gemm problems[] = {{200, 400, 1100, {1100, 1}, {1, 1100}, {400, 1}, {}},
                           {250, 24, 7300, {1, 250}, {24, 1}, {24, 1}, {}},
                           {600, 40, 1100, {1100, 1}, {1, 1100}, {40, 1}, {}},
                           {40, 24, 2000, {1, 40}, {24, 1}, {24, 1}, sums},
                           {7, 5, 30000, {30000, 1}, {5, 1}, {1, 7}, {}}};
  for (const Gemm& g : problems) {
    const int64_t terms = g.batch.sizes.empty() ? 1 : g.batch.sizes[0];
    const auto a = numbers(terms * g.m * g.k, 1, Numbers::usual);
    const auto b = numbers(terms * g.k * g.n, 2, Numbers::usual);
    std::vector<float> first;
    for (Bf16Way way : bf16_ways()) {
      CAPTURE(to_string(way));
      const Bf16WayScope scope(way);
      std::vector<float> c(static_cast<size_t>(g.m * g.n), 0.5f);
      gemm<float>(g, a.data(), b.data(), c.data(), 1);
      if (first.empty()) first = c;
      CHECK(std::memcmp(first.data(), c.data(), c.size() * sizeof(float)) == 0);
      const std::vector<Bf16> a16 = stored(a), b16 = stored(b);
      std::fill(c.begin(), c.end(), 0.5f);
      gemm<float>(g, a16.data(), b16.data(), c.data(), 1);
      CHECK(std::memcmp(first.data(), c.data(), c.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("bf16 products: sums of parts below the smallest normal number become zero") {
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  for (int64_t k : {64, 4096, 1 << 20}) {  // the last sum is cut into parts
    CAPTURE(k);
    const Gemm g{2, 2, k, {k, 1}, {2, 1}, {2, 1}, {}};
    std::vector<float> a(static_cast<size_t>(2 * k)), b(static_cast<size_t>(2 * k), 1.f), c(4);
    a.front() = 0x1.8p-126f, a[static_cast<size_t>(k - 1)] = -0x1p-126f;
    for (Bf16Way way : bf16_ways()) {
      CAPTURE(to_string(way));
      const Bf16WayScope scope(way);
      gemm<float>(g, a.data(), b.data(), c.data());
      CHECK(bits_of(c[0]) == 0);
      CHECK(bits_of(c[1]) == 0);
    }
  }
}

TEST_CASE("bf16 products: the vector level limits the ways") {
  {
    VectorLevelScope level(VectorLevel::kAvx2);
    CHECK(bf16_way() <= Bf16Way::avx2);
  }
  CHECK(bf16_ways().front() == Bf16Way::portable);
  CHECK(bf16_ways().back() == bf16_way());
  // Packed operands are bfloat16 where an instruction takes them, even if another way is faster.
  const std::vector<Bf16Way> ways = bf16_ways();
  CHECK(bf16_packing_way() == *std::max_element(ways.begin(), ways.end()));
}

}  // namespace
}  // namespace tern::kernels::test_gemm_bf16
