// PackedLinear, products with packed weights in f32, bf16, int8 and int4: against linear and the
// definitions of int8 and int4, same bits by every way, and rows independent of each other.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/rng.h"
#include "tern/core/kernels/products/gemm_quantized.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/products/packed_linear.h"
#include "tern/tests/support/foreign_memory.h"
#include "tern/tests/support/threads.h"

namespace tern::test_packed_linear {
using kernels::QuantizedForm, kernels::QuantizedWay;

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

/// The smallest f16 with 11 significant bits that is not below x > 0; exponents do not matter here.
float half_above(float x) {
  int exponent;
  const double fraction = std::frexp(x, &exponent);
  return static_cast<float>(std::ldexp(std::ceil(fraction * 2048), exponent - 11));
}

/// The nearest number with 11 significant bits; ties to even.
float half(float x) {
  int exponent;
  const double fraction = std::frexp(x, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(fraction * 2048), exponent - 11));
}

float largest(const float* x, int64_t k) {
  float found = 0;
  for (int64_t i = 0; i < k; ++i) found = std::max(found, std::abs(x[i]));
  return found;
}

/// The int8 product by its definition: integer sums of each 32 inputs in 64 bits, then the scales,
/// block by block, and the bias.
std::vector<float> naive_int8(const Case& c) {
  std::vector<float> y;
  for (int64_t r = 0; r < c.rows(); ++r)
    for (int64_t j = 0; j < c.outputs(); ++j) {
      float total = 0;
      for (int64_t first = 0; first < c.inputs(); first += 32) {
        const int64_t k = std::min<int64_t>(32, c.inputs() - first);
        const float* x = c.x.data<float>() + r * c.inputs() + first;
        const float* w = c.w.data<float>() + j * c.inputs() + first;
        const float sx = largest(x, k) / 127, sw = half_above(largest(w, k) / 127);
        int64_t sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += std::lrint(x[i] * (127 / largest(x, k))) * std::lrint(w[i] / sw);
        total = std::fma(static_cast<float>(sum), sx * sw, total);
      }
      y.push_back(total + c.b.data<float>()[j]);
    }
  return y;
}

/// One block of int4 weights with w = scale q + min, and its squared error.
struct Four {
  float scale, min;
  std::vector<int64_t> q;
  double error = 0;

  Four(const std::vector<float>& w, float step, float low) : scale(half(step)), min(half(low)) {
    for (const float v : w) {
      const float exact = scale == 0 ? 0 : (v - min) / scale;
      q.push_back(std::lrint(std::clamp(exact, 0.0f, 15.0f)));
      error += std::pow(v - (scale * static_cast<float>(q.back()) + min), 2);
    }
  }
};

/// The int4 product by its definition. Fits from the smallest to the largest weight, and with 0 in
/// the middle as Q4_0; the better one is taken.
std::vector<float> naive_int4(const Case& c) {
  std::vector<float> y;
  for (int64_t r = 0; r < c.rows(); ++r)
    for (int64_t j = 0; j < c.outputs(); ++j) {
      float total = 0;
      for (int64_t first = 0; first < c.inputs(); first += 32) {
        const int64_t k = std::min<int64_t>(32, c.inputs() - first);
        const float* x = c.x.data<float>() + r * c.inputs() + first;
        const float* row = c.w.data<float>() + j * c.inputs() + first;
        std::vector<float> w(32, row[k - 1]);
        std::copy_n(row, k, w.begin());
        const float low = *std::min_element(w.begin(), w.end());
        const float high = *std::max_element(w.begin(), w.end());
        const float far = -low > high ? low : high;
        const Four a(w, (high - low) / 15, low), b(w, far / -8, far);
        const Four& best = b.error < a.error ? b : a;
        const float sx = largest(x, k) / 127;
        int64_t sum = 0, x_sum = 0;
        for (int64_t i = 0; i < k; ++i) {
          const int64_t q = std::lrint(x[i] * (127 / largest(x, k)));
          sum += q * best.q[static_cast<size_t>(i)];
          x_sum += q;
        }
        total = std::fma(static_cast<float>(sum), sx * best.scale, total);
        total = std::fma(best.min, sx * static_cast<float>(x_sum), total);
      }
      y.push_back(total + c.b.data<float>()[j]);
    }
  return y;
}

const std::vector<std::vector<int64_t>> kSizes = {{1, 1, 1},     {1, 33, 5},    {2, 32, 64},
                                                  {3, 31, 7},    {13, 65, 9},   {25, 96, 40},
                                                  {5, 300, 130}, {200, 200, 64}};

}  // namespace

TEST_CASE("packed linear: weights and rows in foreign memory give the same bits") {
  for (const Case& c : {make(3, 37, 129), make(1, 65, 32)})
    for (PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8, PackedType::int4})
      for (test::Edge edge : {test::Edge::begin, test::Edge::end}) {
        const auto placed = [&](const Tensor& t) { return test::in_foreign_memory(t, edge); };
        const Case foreign{placed(c.x), placed(c.w), placed(c.b), placed(c.residual)};
        CHECK(same_bits(run(foreign, type, foreign.x), run(c, type, c.x)));
      }
}

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
  for (const PackedType type :
       {PackedType::f32, PackedType::bf16, PackedType::int8, PackedType::int4}) {
    const Case c = make(300, 700, 100);  // threads share strips and rows
    const PackedLinearOptions with[] = {{.residual = c.residual.data<float>()},
                                        {.activation = Activation::gelu}};
    std::vector<float> before[2];
    for (const int threads : {1, 2, 16}) {
      const test::Threads scope(threads);
      for (size_t i = 0; i < 2; ++i) {
        const auto all = run(c, type, c.x, with[i]);
        if (threads == 1) before[i] = all;
        CHECK(same_bits(all, before[i]));
      }
    }
    CHECK(run(c, type, narrow(c.x, 0, 0, 0).contiguous()).empty());
    const auto all = run(c, type, c.x);
    for (const int64_t first : {0, 7, 64, 255, 299}) {
      const auto part = run(c, type, narrow(c.x, 0, first, 1).contiguous());
      CHECK(same_bits(part, {all.begin() + first * 700, all.begin() + (first + 1) * 700}));
    }
  }
}

TEST_CASE("packed linear: weights read in blocks give the outputs of their parts") {
  constexpr int64_t kInputs = 8192, kOutputs = 300, kFirst = 128;  // outputs of the first block
  const Case c = make(3, kOutputs, kInputs);
  for (const PackedType type :
       {PackedType::f32, PackedType::bf16, PackedType::int8, PackedType::int4}) {
    std::vector<int64_t> read;
    const PackedLinear linear(
        kOutputs, kInputs,
        [&](int64_t begin, int64_t end) {
          read.push_back(begin);
          return narrow(c.w, 0, begin, end - begin);
        },
        c.b, type);
    CHECK(read == std::vector<int64_t>{0, kFirst, 2 * kFirst});
    PackedRows rows;
    rows.assign(c.x.data<float>(), 3, kInputs, type);
    std::vector<float> y(3 * kOutputs);
    linear(rows, y.data());
    for (int64_t first = 0; first < kOutputs; first += 100) {
      auto part = [&](const Tensor& x) { return narrow(x, 0, first, 100).contiguous(); };
      const auto want = run({c.x, part(c.w), part(c.b), c.residual}, type, c.x);
      for (int64_t r = 0; r < 3; ++r)
        CHECK(same_bits({y.begin() + r * kOutputs + first, y.begin() + r * kOutputs + first + 100},
                        {want.begin() + r * 100, want.begin() + (r + 1) * 100}));
    }
  }
  auto reads = [&](auto change) {
    return PackedLinear(
        4, 3,
        [&](int64_t begin, int64_t end) {
          return change(zeros({end - begin, 3}));
        },
        Tensor(), PackedType::int8);
  };
  CHECK(reads([](const Tensor& x) { return x; }).outputs() == 4);
  CHECK_THROWS_WITH_AS(reads([](const Tensor& x) { return narrow(x, 0, 0, 3); }),
                       doctest::Contains("rows 0 to 4 are f32 (4, 3), got f32 (3, 3)"), Error);
  CHECK_THROWS_WITH_AS(reads([](const Tensor& x) { return x.to(DType::f64); }),
                       doctest::Contains("got f64"), Error);
}

TEST_CASE("packed linear: columns() and shortlists give outputs of the whole product") {
  for (const PackedType type :
       {PackedType::f32, PackedType::bf16, PackedType::int8, PackedType::int4}) {
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
      if (type == PackedType::int8 || type == PackedType::int4)
        CHECK(some[i] == expected);
      else
        CHECK(some[i] == doctest::Approx(expected).epsilon(1e-5));
    }
    CHECK_THROWS_WITH_AS(linear.columns(rows, 31, 2, part.data()),
                         doctest::Contains("must be a multiple of 32"), Error);
  }
}

TEST_CASE("packed linear: bf16 has the bits of linear in bf16, by every way") {
  const test::Threads threads(3);
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
  for (const PackedType type :
       {PackedType::f32, PackedType::bf16, PackedType::int8, PackedType::int4}) {
    const auto expected = run(c, type, c.x, {.residual = c.residual.data<float>()});
    const PackedLinear linear(c.w, c.b, type);
    PackedRows rows;
    rows.assign(c.x.data<float>(), 5, 64, type);
    std::vector<float> y = values(c.residual);
    linear(rows, y.data(), {.residual = y.data()});
    CHECK(same_bits(y, expected));
  }
}

/// Numbers with outliers, large and small, and weights around 2^exponent.
Case make_uneven(int64_t rows, int64_t n, int64_t k, int exponent) {
  Case c = make(rows, n, k);
  for (int64_t i = 0; i < rows * k; i += 41) c.x.mutable_data<float>()[i] *= i % 3 ? 1000 : 1e-9f;
  for (int64_t i = 0; i < n * k; ++i) {
    float& w = c.w.mutable_data<float>()[i];
    w = std::ldexp(w, exponent);
    if (i % 37 == 0) w *= 50;
  }
  return c;
}

/// Every way against the expected y without ReLU and residual.
void check_ways(QuantizedForm form, const Case& c, const std::vector<float>& expected) {
  const int64_t rows = c.rows(), n = c.outputs(), k = c.inputs();
  const int64_t blocks = kernels::quantized_blocks(k), strips = kernels::strips_of(n);
  const int64_t bytes = kernels::quantized_strip_bytes(form, k);
  std::vector<uint8_t> packed(static_cast<size_t>(strips * bytes));
  std::vector<float> units(static_cast<size_t>(strips * kernels::kStrip)), bias(units.size());
  for (int64_t i = 0; i < strips; ++i)
    kernels::pack_quantized(form, c.w.data<float>(), n, k, i, packed.data() + i * bytes,
                            units.data() + i * kernels::kStrip);
  std::copy_n(c.b.data<float>(), n, bias.begin());
  std::vector<kernels::QuantizedInputs> x(static_cast<size_t>(rows * blocks));
  kernels::quantize_rows(c.x.data<float>(), rows, k, x.data());
  const kernels::StripRange range{rows, n, k, 0, strips};
  for (const bool relu : {false, true})
    for (const QuantizedWay way : kernels::kQuantizedWays) {
      if (!kernels::quantized_way_available(way)) continue;
      CAPTURE(static_cast<int>(way));
      std::vector<float> y(expected.size()), ended = expected;
      for (size_t i = 0; i < ended.size(); ++i)
        ended[i] = (relu && ended[i] < 0 ? 0 : ended[i]) + c.residual.data<float>()[i];
      kernels::multiply_quantized(form, way, range, x.data(), packed.data(), units.data(), y.data(),
                                  n, {bias.data(), relu, c.residual.data<float>(), n});
      CHECK(same_bits(y, ended));
    }
}

TEST_CASE("int8, int4: every way gives the bits of the definition") {
  for (const auto& s : kSizes)
    for (const int exponent : {0, -60, 60}) {
      const Case c = make_uneven(s[0], s[1], s[2], exponent);
      const auto eight = naive_int8(c), four = naive_int4(c);
      CHECK(same_bits(run(c, PackedType::int8, c.x), eight));
      CHECK(same_bits(run(c, PackedType::int4, c.x), four));
      check_ways(QuantizedForm::int8, c, eight);
      check_ways(QuantizedForm::int4, c, four);
    }
}

TEST_CASE("int8, int4: scaling and rounding give the same bits at every level") {
  const Case c = make_uneven(9, 70, 50, 0);
  for (const PackedType type : {PackedType::int8, PackedType::int4}) {
    const auto expected = run(c, type, c.x);
    for (const VectorLevel level : {VectorLevel::kBaseline, VectorLevel::kAvx2}) {
      const VectorLevelScope scope(level);
      CHECK(same_bits(run(c, type, c.x), expected));
    }
  }
}

TEST_CASE("int8: an outlier costs precision only among its 32 inputs") {
  // One input is 1e6 times as large as the others, but its weights are 0.
  Case c = make(1, 50, 96);
  c.b = zeros({50});
  c.x.mutable_data<float>()[40] = 1e6f;
  for (int64_t j = 0; j < 50; ++j)
    for (int64_t i = 32; i < 64; ++i) c.w.mutable_data<float>()[j * 96 + i] = 0;
  const auto y = run(c, PackedType::int8, c.x);
  for (int64_t j = 0; j < 50; ++j) {
    double exact = 0, bound = 1e-6;
    for (int64_t i = 0; i < 96; ++i) {
      const double x = c.x.data<float>()[i], w = c.w.data<float>()[j * 96 + i];
      exact += x * w;
      if (i / 32 == 1) continue;
      // Half a step for each factor; a step is at most 4 / 127.
      bound += (std::abs(x) + std::abs(w)) * 2 / 127 + 4.0 / 127 / 127;
    }
    CHECK(std::abs(y[static_cast<size_t>(j)] - exact) < bound);
  }
}

TEST_CASE("int8: weights that are f16 scales times integers stay exact") {
  // As in GGUF's Q8_0. x is one of the inputs, so y is one of the weights.
  const int64_t k = 70;
  for (const float scale : {0.00147247314453125f, 1.0f, 31104.0f, 5.9604644775390625e-8f}) {
    Rng rng(3);
    Case c{zeros({k, k}), empty({33, k}), zeros({33}), {}};
    for (int64_t i = 0; i < 33 * k; ++i)  // each 32 inputs hold 127
      c.w.mutable_data<float>()[i] =
          scale * static_cast<float>(i % k % 32 == 5 ? 127 : std::lrint(rng.uniform(-127, 127)));
    for (int64_t i = 0; i < k; ++i) c.x.mutable_data<float>()[i * k + i] = 127;
    const auto y = run(c, PackedType::int8, c.x);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < 33; ++j)
        CHECK(y[static_cast<size_t>(i * 33 + j)] == 127 * c.w.data<float>()[j * k + i]);
  }
}

TEST_CASE("int8, int4: largest sums, zeros, tiny numbers, no inputs, NaN") {
  for (const PackedType type : {PackedType::int8, PackedType::int4}) {
    constexpr int64_t k = 200000;
    Case c{full({1, k}, 2.0), full({2, k}, -3.0), zeros({2}), {}};
    const auto y = run(c, type, c.x);
    CHECK(y[0] == doctest::Approx(-6.0 * k).epsilon(2e-3));  // f16 scales: 1/2048
    c = {zeros({2, 8}), zeros({3, 8}), full({3}, 4.0), {}};
    for (const float v : run(c, type, c.x)) CHECK(v == 4);
    c = {full({2, 8}, 1e-40), full({3, 8}, 1e-40), full({3}, 4.0), {}};
    for (const float v : run(c, type, c.x)) CHECK(v == 4);
    c = {zeros({2, 0}), zeros({3, 0}), full({3}, 4.0), {}};
    for (const float v : run(c, type, c.x)) CHECK(v == 4);
    c = make(0, 3, 8);
    CHECK(run(c, type, c.x).empty());
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      c = make(3, 40, 70);
      c.x.mutable_data<float>()[75] = bad;   // row 1
      c.w.mutable_data<float>()[145] = bad;  // output 2
      const auto found = run(c, type, c.x);
      for (int64_t i = 0; i < 3 * 40; ++i) {
        CAPTURE(i);
        CHECK(std::isnan(found[static_cast<size_t>(i)]) == (i / 40 == 1 || i % 40 == 2));
      }
    }
  }
  CHECK_THROWS_WITH_AS(PackedLinear(zeros({4}), {}, PackedType::f32),
                       doctest::Contains("needs weights f32 (N, K)"), Error);
}

TEST_CASE("int8, int4: 8.5 and 5 bits per weight") {
  const Case c = make(1, 64, 96);
  // and one bias and one unit of 4 bytes for each output
  CHECK(PackedLinear(c.w, c.b, PackedType::int8).bytes() == 64 * 96 * 17 / 16 + 64 * 8);
  CHECK(PackedLinear(c.w, c.b, PackedType::int4).bytes() == 64 * 96 * 5 / 8 + 64 * 8);
}

TEST_CASE("int4: weights of Q4_0 and Q4_1 stay exact") {
  const int64_t k = 70;
  for (const float scale : {0.00147247314453125f, 1.0f, -0.01715087890625f, 5.9604644775390625e-8f})
    for (const float min : {0.0f, -9.5f, 3.0f}) {  // in scales; 0: Q4_0
      Rng rng(3);
      Case c{zeros({k, k}), empty({33, k}), zeros({33}), {}};
      for (int64_t i = 0; i < 33 * k; ++i) {
        const int64_t at = i % k % 32;  // each 32 inputs hold 0 and, in Q4_1, 15
        const auto q = static_cast<float>(at == 1 ? 0 : at == 5 && min != 0 ? 15 : rng.below(15));
        c.w.mutable_data<float>()[i] =
            min == 0 ? scale * (q - 8) : std::abs(scale) * q + half(std::abs(scale) * min);
      }
      for (int64_t i = 0; i < k; ++i) c.x.mutable_data<float>()[i * k + i] = 127;
      const auto y = run(c, PackedType::int4, c.x);
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < 33; ++j)
          CHECK(y[static_cast<size_t>(i * 33 + j)] == 127 * c.w.data<float>()[j * k + i]);
    }
}

TEST_CASE("packed linear: weights that are read again give the products with single inputs") {
  const PackedType types[] = {PackedType::f32, PackedType::bf16, PackedType::int8,
                              PackedType::int4};
  for (const Shape& size : {Shape{37, 5}, {32, 32}, {70, 67}, {1, 1}, {33, 1100}})
    for (const PackedType type : types)
      for (const Bf16Way way : type == PackedType::bf16 ? bf16_ways() : std::vector{bf16_way()}) {
        CAPTURE(size);
        CAPTURE(to_string(way));
        const Bf16WayScope scope(way);
        const int64_t n = size[0], k = size[1];
        Case c = make(k, n, k);
        c.b = zeros({n});
        // int8 and int4 keep 127 as it is, and their products are exact but for int4's last step.
        const float one = type == PackedType::int8 || type == PackedType::int4 ? 127 : 1;
        const Tensor single = eye(k) * one;
        const std::vector<float> y = run(c, type, single);
        const PackedLinear linear(c.w, c.b, type);
        std::vector<float> w(static_cast<size_t>(k));
        for (int64_t j = 0; j < n; ++j) {
          linear.copy_weights(j, w.data());
          for (int64_t i = 0; i < k; ++i) {
            const float error = std::abs(y[static_cast<size_t>(i * n + j)] - one * w[i]);
            CHECK(error <= (type == PackedType::int4 ? 0x1p-22f * one * std::abs(w[i]) : 0));
          }
        }
        CHECK_THROWS_AS(linear.copy_weights(n, w.data()), Error);
        CHECK_THROWS_AS(linear.copy_weights(-1, w.data()), Error);
      }
}

}  // namespace tern::test_packed_linear
