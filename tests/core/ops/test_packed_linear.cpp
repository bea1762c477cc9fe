// PackedLinear, products with packed weights in f32, bf16 and int8: against linear and the
// definition of int8, same bits by every way, and rows independent of each other.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/rng.h"
#include "tern/core/kernels/products/gemm_int8.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/products/packed_linear.h"
#include "tern/tests/support/threads.h"

namespace tern::test_packed_linear {
using kernels::Int8Way;

namespace {

std::vector<float> values(const Tensor& x) {
  return {x.data<float>(), x.data<float>() + x.numel()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Case {
  Tensor x, w, b, residual;
  int64_t rows() const { return x.size(0); }
  int64_t outputs() const { return w.size(0); }
  int64_t inputs() const { return w.size(1); }
};

Case make(int64_t rows, int64_t n, int64_t k) {
  Rng rng(static_cast<uint64_t>(rows * 1000 + n * 10 + k));
  return {randn({rows, k}, rng), randn({n, k}, rng), randn({n}, rng), randn({rows, n}, rng)};
}

std::vector<float> run(const Case& c, PackedType type, const Tensor& x,
                       const PackedLinearOptions& options = {}) {
  const PackedLinear linear(c.w, c.b, type);
  PackedRows rows;
  rows.assign(x.data<float>(), x.size(0), c.inputs(), type);
  std::vector<float> y(static_cast<size_t>(x.size(0) * c.outputs()), -7);
  linear(rows, y.data(), options);
  return y;
}

/// The rounding step of a row of k numbers: its largest size divided by 127.
float step_of(const float* x, int64_t k) {
  float largest = 0;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest / 127;
}

/// The int8 product by its definition: integer sums in 64 bits, then the scales and the bias.
std::vector<float> naive_int8(const Case& c) {
  std::vector<float> y;
  for (int64_t r = 0; r < c.rows(); ++r)
    for (int64_t j = 0; j < c.outputs(); ++j) {
      const float* x = c.x.data<float>() + r * c.inputs();
      const float* w = c.w.data<float>() + j * c.inputs();
      const float sx = step_of(x, c.inputs()), sw = step_of(w, c.inputs());
      const float ix = 127 / (step_of(x, c.inputs()) * 127), iw = 127 / (sw * 127);
      int64_t sum = 0;
      for (int64_t i = 0; i < c.inputs(); ++i) sum += std::lrint(x[i] * ix) * std::lrint(w[i] * iw);
      y.push_back(static_cast<float>(sum) * sx * sw + c.b.data<float>()[j]);
    }
  return y;
}

const std::vector<std::vector<int64_t>> kSizes = {
    {1, 1, 1}, {1, 33, 5}, {2, 32, 64}, {3, 31, 7}, {13, 65, 9}, {25, 96, 40}, {5, 300, 130}};

}  // namespace

TEST_CASE("packed linear: f32 agrees with linear at every level") {
  for (const VectorLevel level :
       {VectorLevel::kBaseline, VectorLevel::kAvx2, VectorLevel::kAvx512}) {
    const VectorLevelScope scope(level);
    for (const auto& s : kSizes) {
      const Case c = make(s[0], s[1], s[2]);
      const auto expected =
          values(linear(c.x, c.w, c.b, {.activation = Activation::relu, .residual = c.residual}));
      const auto y = run(c, PackedType::f32, c.x,
                         {.activation = Activation::relu, .residual = c.residual.data<float>()});
      for (size_t i = 0; i < y.size(); ++i)
        CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-5 * std::sqrt(s[2])));
    }
  }
}

/// x . w as one sum in order of k, with a fused multiply-add per term.
float fused_sum(const float* x, const float* w, int64_t k) {
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) sum = std::fma(x[i], w[i], sum);
  return sum;
}

/// x . w as 16 interleaved sums, which are then added in halves: 8, 4, 2, 1.
float sum_of_16(const float* x, const float* w, int64_t k) {
  std::vector<float> sums(16, 0);
  for (int64_t i = 0; i < k; ++i) {
    float& sum = sums[static_cast<size_t>(i % 16)];
    sum = std::fma(x[i], w[i], sum);
  }
  for (size_t half : {8, 4, 2, 1})
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

TEST_CASE("packed linear, linear, matmul: the order of sums in f32 is the documented one") {
  for (const VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512}) {
    const VectorLevelScope scope(level);
    if (products_by_blas()) continue;
    // The last column of (31, 385) forms its own panel.
    for (const auto& s : std::vector<std::vector<int64_t>>{{2, 2, 1},
                                                           {2, 3, 37},
                                                           {5, 2, 80},
                                                           {33, 65, 500},
                                                           {513, 700, 31},
                                                           {257, 1025, 40},
                                                           {31, 385, 512},
                                                           {1, 1, 3},
                                                           {1, 5, 90},
                                                           {1, 300, 127},
                                                           {6, 1, 70},
                                                           {700, 1, 129}}) {
      CAPTURE(s[0]);
      CAPTURE(s[1]);
      const Case c = make(s[0], s[1], s[2]);
      const int64_t k = c.inputs(), n = c.outputs();
      const bool vector = c.rows() == 1 || n == 1;
      std::vector<float> chain, lanes;
      for (int64_t i = 0; i < c.rows() * n; ++i) {
        const float* x = c.x.data<float>() + i / n * k;
        const float* w = c.w.data<float>() + i % n * k;
        chain.push_back(fused_sum(x, w, k));
        lanes.push_back(sum_of_16(x, w, k));
      }
      CHECK(same_bits(run({c.x, c.w, {}, {}}, PackedType::f32, c.x), chain));
      for (const int threads : {1, 5}) {
        const test::Threads scope(threads);
        CHECK(same_bits(values(linear(c.x, c.w, {})), vector ? lanes : chain));
        CHECK(same_bits(values(matmul(c.x, transpose(c.w, 0, 1))), vector ? lanes : chain));
      }
      if (!vector || c.rows() * n == 1) continue;
      // If the matrix is contiguous across the results, the sums are in order of k.
      const Tensor x = n == 1 ? transpose(transpose(c.x, 0, 1).contiguous(), 0, 1) : c.x;
      const Tensor w = n == 1 ? transpose(c.w, 0, 1) : transpose(c.w, 0, 1).contiguous();
      CHECK(same_bits(values(matmul(x, w)), chain));
    }
  }
}

TEST_CASE("packed linear: every activation") {
  const Case c = make(3, 40, 20);
  for (const Activation a :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
        Activation::silu, Activation::tanh, Activation::sigmoid}) {
    const auto expected = values(linear(c.x, c.w, c.b, {.activation = a}));
    const auto y = run(c, PackedType::f32, c.x, {.activation = a});
    for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("packed linear: a row's bits depend on neither other rows nor threads") {
  for (const PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8}) {
    const Case c = make(29, 700, 100);
    const auto all = run(c, type, c.x);
    {
      const test::Threads other(num_threads() == 1 ? 2 : 1);
      CHECK(same_bits(run(c, type, c.x), all));
    }
    for (const int64_t first : {0, 7, 28}) {
      const auto part = run(c, type, narrow(c.x, 0, first, 1).contiguous());
      CHECK(same_bits(part, {all.begin() + first * 700, all.begin() + (first + 1) * 700}));
    }
  }
}

TEST_CASE("packed linear: columns() and shortlists give outputs of the whole product") {
  for (const PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8}) {
    const Case c = make(4, 140, 37);
    const PackedLinear linear(c.w, c.b, type, Shortlists::yes);
    PackedRows rows;
    rows.assign(c.x.data<float>(), 4, 37, type);
    const auto all = run(c, type, c.x);
    std::vector<float> part(4 * 76);
    linear.columns(rows, 64, 76, part.data());
    for (int64_t r = 0; r < 4; ++r)
      CHECK(same_bits({part.begin() + r * 76, part.begin() + (r + 1) * 76},
                      {all.begin() + r * 140 + 64, all.begin() + (r + 1) * 140}));
    const std::vector<int64_t> list = {0, 3, 31, 32, 77, 139};
    std::vector<float> some(list.size());
    linear.some(rows, 2, list.data(), std::ssize(list), some.data());
    for (size_t i = 0; i < list.size(); ++i) {
      const float expected = all[static_cast<size_t>(2 * 140 + list[i])];
      if (type == PackedType::int8)
        CHECK(some[i] == expected);
      else
        CHECK(some[i] == doctest::Approx(expected).epsilon(1e-5));
    }
    CHECK_THROWS_WITH_AS(linear.columns(rows, 31, 2, part.data()),
                         doctest::Contains("must be a multiple of 32"), Error);
  }
}

TEST_CASE("packed linear: bf16 has the bits of linear in bf16, by every way") {
  for (auto s : kSizes) {
    for (const int64_t inputs : {s[2], int64_t{1030}, int64_t{0}}) {  // blocks of k; no inputs
      const Case c = make(s[0], s[1], inputs);
      const MatmulPrecisionScope precision(MatmulPrecision::bf16);
      for (const Activation a : {Activation::none, Activation::relu}) {
        const auto expected =
            values(linear(c.x, c.w, c.b, {.activation = a, .residual = c.residual}));
        for (const Bf16Way way : bf16_ways()) {
          CAPTURE(to_string(way));
          const Bf16WayScope scope(way);
          CHECK(same_bits(run(c, PackedType::bf16, c.x,
                              {.activation = a, .residual = c.residual.data<float>()}),
                          expected));
        }
      }
    }
  }
}

TEST_CASE("packed linear: bf16 takes half of the memory, and belongs to one way") {
  const Case c = make(2, 64, 96);
  const PackedLinear whole(c.w, c.b, PackedType::f32);
  for (const Bf16Way way : bf16_ways()) {
    const Bf16WayScope scope(way);
    const PackedLinear half(c.w, c.b, PackedType::bf16);
    if (way >= Bf16Way::avx512_bf16) CHECK(half.bytes() == whole.bytes() - 64 * 96 * 2);
    if (way == Bf16Way::portable) continue;
    PackedRows rows;
    {
      const Bf16WayScope other(Bf16Way::portable);
      rows.assign(c.x.data<float>(), 2, 96, PackedType::bf16);
    }
    std::vector<float> y(2 * 64);
    CHECK_THROWS_WITH_AS(half(rows, y.data()), doctest::Contains("rows are packed for plain code"),
                         Error);
  }
}

TEST_CASE("packed linear: bf16 shortlists have the same bits at every level, tiny numbers are 0") {
  Case c = make(1, 40, 70);
  c.x.mutable_data<float>()[3] = 1e-39f;
  c.w.mutable_data<float>()[3] = 1e38f;
  const std::vector<int64_t> list = {0, 7, 39};
  std::vector<float> first;
  for (const VectorLevel level :
       {VectorLevel::kAvx512, VectorLevel::kAvx2, VectorLevel::kBaseline}) {
    const VectorLevelScope scope(level);
    const PackedLinear linear(c.w, c.b, PackedType::bf16, Shortlists::yes);
    PackedRows rows;
    rows.assign(c.x.data<float>(), 1, 70, PackedType::bf16);
    std::vector<float> some(list.size());
    linear.some(rows, 0, list.data(), std::ssize(list), some.data());
    const auto all = run(c, PackedType::bf16, c.x);
    for (size_t i = 0; i < list.size(); ++i)
      CHECK(some[i] == doctest::Approx(all[static_cast<size_t>(list[i])]).epsilon(1e-4));
    if (first.empty()) first = some;
    CHECK(same_bits(some, first));
  }
}

TEST_CASE("packed linear: the residual may be the output") {
  const Case c = make(5, 300, 64);
  for (const PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8}) {
    const auto expected = run(c, type, c.x, {.residual = c.residual.data<float>()});
    const PackedLinear linear(c.w, c.b, type);
    PackedRows rows;
    rows.assign(c.x.data<float>(), 5, 64, type);
    std::vector<float> y = values(c.residual);
    linear(rows, y.data(), {.residual = y.data()});
    CHECK(same_bits(y, expected));
  }
}

TEST_CASE("int8: every way gives the bits of the definition") {
  for (const auto& s : kSizes) {
    const Case c = make(s[0], s[1], s[2]);
    CHECK(same_bits(run(c, PackedType::int8, c.x), naive_int8(c)));
    const int64_t stride = kernels::int8_inputs(s[2]);
    std::vector<uint8_t> packed(
        static_cast<size_t>(kernels::strips_of(s[1]) * kernels::kStrip * stride));
    std::vector<float> scales(static_cast<size_t>(kernels::strips_of(s[1]) * kernels::kStrip));
    kernels::pack_int8(c.w.data<float>(), s[1], s[2], packed.data(), scales.data());
    std::vector<int8_t> q(static_cast<size_t>(s[0] * stride));
    std::vector<float> x_scales(static_cast<size_t>(s[0])), bias(scales.size());
    std::vector<int32_t> begin(static_cast<size_t>(s[0]));
    std::copy_n(c.b.data<float>(), s[1], bias.begin());
    const kernels::Int8Rows x{q.data(), x_scales.data(), begin.data()};
    kernels::quantize_rows(c.x.data<float>(), s[0], s[2], s[2], x);
    const kernels::StripRange range{s[0], s[1], s[2], 0, kernels::strips_of(s[1])};
    std::vector<float> first;
    for (const bool relu : {false, true}) {
      first.clear();
      for (const Int8Way way :
           {Int8Way::kPlain, Int8Way::kAvx2, Int8Way::kAvxVnni, Int8Way::kAvx512Vnni}) {
        if (!kernels::int8_way_available(way)) continue;
        std::vector<float> y(static_cast<size_t>(s[0] * s[1]));
        kernels::multiply_int8(way, range, x, packed.data(), scales.data(), y.data(), s[1],
                               {bias.data(), relu, c.residual.data<float>(), s[1]});
        if (first.empty()) first = y;
        CHECK(same_bits(y, first));
      }
    }
  }
}

TEST_CASE("int8: scaling and rounding give the same bits at every level") {
  const Case c = make(9, 70, 50);
  const auto expected = run(c, PackedType::int8, c.x);
  for (const VectorLevel level : {VectorLevel::kBaseline, VectorLevel::kAvx2}) {
    const VectorLevelScope scope(level);
    CHECK(same_bits(run(c, PackedType::int8, c.x), expected));
  }
}

TEST_CASE("int8: largest sums, rows of zeros, NaN") {
  const int64_t k = kernels::kMaxInt8Inputs;
  Case c{full({1, k}, 2.0), full({2, k}, -3.0), zeros({2}), {}};
  const auto y = run(c, PackedType::int8, c.x);
  CHECK(y[0] == doctest::Approx(-6.0 * static_cast<double>(k)).epsilon(1e-6));
  c = {zeros({2, 8}), zeros({3, 8}), full({3}, 4.0), {}};
  for (const float v : run(c, PackedType::int8, c.x)) CHECK(v == 4);
  c = make(3, 33, 12);
  c.x.mutable_data<float>()[14] = NAN;
  const auto bad = run(c, PackedType::int8, c.x);
  CHECK(std::isfinite(bad[0]));
  CHECK(!std::isfinite(bad[33]));
  CHECK_THROWS_WITH_AS(PackedLinear(zeros({1, k + 1}), {}, PackedType::int8),
                       doctest::Contains("use f32"), Error);
  CHECK_THROWS_WITH_AS(PackedLinear(zeros({4}), {}, PackedType::f32),
                       doctest::Contains("needs weights f32 (N, K)"), Error);
}

}  // namespace tern::test_packed_linear
