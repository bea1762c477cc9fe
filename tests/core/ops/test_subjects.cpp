// The properties that hold for every subject (subjects.h), one loop each.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/tape/op.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/core/ops/subjects.h"
#include "tern/tests/support/foreign_memory.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"

namespace tern::test {
namespace {

constexpr MatmulPrecision kF32 = MatmulPrecision::f32, kBf16 = MatmulPrecision::bf16;

/// The sizes at which bf16 and layouts are compared: the latter where the code for large operands
/// runs.
constexpr int64_t kMiddle = 33, kLayouts = 66;

Inputs leaves_of(const Inputs& inputs) {
  Inputs leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.detach().clone().set_requires_grad());
  return leaves;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool all = a.size() == b.size();
  for (size_t i = 0; all && i < a.size(); ++i) all = same_bits(a[i], b[i]);
  return all;
}

void check_numbers(const std::string& what, const std::vector<double>& got,
                   const std::vector<double>& want, double rtol, double atol) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    const bool finite = std::isfinite(want[i]);  // infinity and NaN must be equal
    if (got[i] == want[i] || (finite && error <= atol + rtol * std::abs(want[i]))) continue;
    FAIL_CHECK(what, ", element ", i, ": got ", got[i], ", want ", want[i]);
    return;
  }
}

/// The same numbers with stride 2 along the last axis and NaNs between them.
Tensor with_gaps(const Tensor& x) {
  return select(stack({x, full(x.shape(), std::nan(""), x.dtype())}, -1), -1, 0);
}

std::vector<VectorLevel> levels() {
  std::vector<VectorLevel> all;
  for (int level = 0; level <= static_cast<int>(detail::cpu().level); ++level)
    all.push_back(static_cast<VectorLevel>(level));
  return all;
}

}  // namespace

std::vector<Tensor> outcome(const TensorFunction& fn, const Inputs& leaves, const Tensor& up) {
  const Tensor y = fn(leaves);
  std::vector<Tensor> all =
      up.defined() ? grad({y}, leaves, {.gradients = {up}}) : grad({sum(square(y))}, leaves);
  all.insert(all.begin(), y);
  return all;
}

void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, DType type,
                 double terms) {
  REQUIRE(got.size() == want.size());
  const bool f64 = type == DType::f64;
  for (size_t k = 0; k < got.size(); ++k) {
    const std::vector<double> x = got[k].to_vector<double>(), y = want[k].to_vector<double>();
    const double least = f64 ? 1e-12 : 1e-5;
    if (k == 0) {
      check_numbers("value", x, y, f64 ? 1e-11 : 1.3e-6 * std::sqrt(terms), least);
      continue;
    }
    double largest = 0;
    for (double v : y) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
    check_numbers("gradient " + std::to_string(k - 1), x, y, 0,
                  least + (f64 ? 1e-11 : 1e-4) * largest);
  }
}

void check_composed(const std::vector<Subject>& subjects) {
  const SerialScope serial;  // waiting for threads would cost more than small ops
  for (const Subject& s : subjects)
    for (int64_t n : kSizes) {
      if (!s.composed) continue;
      Rng rng(static_cast<uint64_t>(n));
      const Inputs inputs = inputs_of(s, n, rng);
      const Tensor up = randn(s.composed(inputs).shape(), rng);
      auto run = [&](const TensorFunction& fn, DType type, bool strided) {
        auto placed = [&](const Tensor& x) {
          return strided ? with_gaps(x.to(type)) : cast(x, type);
        };
        Inputs leaves;
        for (const Tensor& x : inputs) leaves.push_back(placed(x).set_requires_grad());
        return outcome(fn, leaves, placed(up));
      };
      const std::vector<Tensor> want = run(s.composed, DType::f64, false);
      const auto terms = static_cast<double>(n * s.terms);
      for (DType type : {DType::f64, DType::f32}) {
        INFO(s.name, ", n = ", n, ", ", fmt::format("{}", type));
        if (type == DType::f32) check_close(run(s.composed, type, true), want, type, terms);
        for (VectorLevel level : levels())
          for (bool strided : {false, true}) {
            const VectorLevelScope scope(level);
            INFO(to_string(level), std::string(strided ? ", strided" : ""));
            check_close(run(s.fn, type, strided), want, type, terms);
          }
      }
    }
}

TEST_CASE("subjects: fused ops equal their composed definitions") { check_composed(subjects()); }

// Rows are longer than registers and of odd lengths.
TEST_CASE("subjects: same bits in f32 with AVX2 and AVX-512, on any threads, in foreign memory") {
  for (const Subject& s : subjects()) {
    CAPTURE(s.name);
    Rng rng(7);
    const Inputs inputs = inputs_of(s, s.large, rng);
    const std::vector<Tensor> first = outcome(s.fn, leaves_of(inputs));
    for (VectorLevel level : {VectorLevel::kAvx2, VectorLevel::kAvx512})
      for (int threads : {1, 3})
        for (const std::optional<Edge> edge :
             {std::optional<Edge>(), std::optional(Edge::begin), std::optional(Edge::end)}) {
          CAPTURE(to_string(level));
          CAPTURE(threads);
          CAPTURE(edge.has_value());
          const VectorLevelScope scope(level);
          const Threads several(threads);
          Inputs leaves;
          for (const Tensor& x : inputs)
            leaves.push_back((edge ? in_foreign_memory(x, *edge) : x.clone()).set_requires_grad());
          CHECK(same(outcome(s.fn, leaves), first));
        }
  }
}

namespace {

/// Numbers in every placing of a shape, and the same as an op sees them, as contiguous f64.
struct Operand {
  std::vector<Placing> placings;
  Inputs leaves, copies;

  Operand(const Shape& shape, uint64_t seed) : placings(test::placings(shape, true)) {
    Rng rng(seed);
    for (const Placing& p : placings) {
      const Tensor values = uniform(p.stored(shape), -1, 1, rng);
      leaves.push_back(lay_out<float>(to_array(values), p).set_requires_grad());
      copies.push_back(expand(values.to(DType::f64), shape).clone().set_requires_grad());
    }
  }
};

/// Checks that `got`, the gradient by the stored elements, is within rounding of `want`, the
/// gradient by the elements that the op sees. An element of `got` is a sum over all seen elements
/// that share it and over its share of the `outputs`. Errors of different terms mostly cancel.
/// Equal terms have the same error, half an ulp of numbers up to 8 (log_softmax), which adds up
/// where the sum itself is 0.
void check_summed(const std::string& what, const Tensor& got, const Tensor& want, int64_t outputs) {
  const auto summed = static_cast<double>(std::max(want.numel(), outputs));
  const double terms = std::max(1.0, summed / static_cast<double>(got.numel()));
  const Tensor sums = sum_to(want, got.shape()), numbers = got.to(DType::f64);
  const double largest = max(abs(where(isfinite(want), want, 0))).item();
  const Tensor error = max(abs(where(eq(numbers, sums), 0, numbers - sums)));  // infinities, too
  const double rounding = (1e-5 + 1e-4 * largest) * std::sqrt(terms) + terms * 0x1p-21;
  const bool close = error.item() <= rounding;
  CHECK_MESSAGE(close, what, ": off by ", error.item(), ", the largest is ", largest);
}

}  // namespace

TEST_CASE("subjects: every pair of layouts of two operands gives the same values and gradients") {
  for (const Subject& s : subjects()) {
    std::vector<Operand> operands;
    Inputs sample;
    Rng rng(0);
    for (const Tensor& x : inputs_of(s, kLayouts, rng)) {
      operands.emplace_back(x.shape(), operands.size());
      sample.push_back(operands.back().copies[0].detach());
    }
    operands.emplace_back(s.fn(sample).shape(), 99);  // the gradient from above
    std::vector<int> counts;
    for (const Operand& x : operands) counts.push_back(static_cast<int>(x.placings.size()));
    for (const std::vector<int>& pick : covering_array(counts)) {
      Inputs leaves, args, copies;
      std::string name = s.name;
      for (size_t i = 0; i < operands.size(); ++i) {
        const auto p = static_cast<size_t>(pick[i]);
        name += ", " + to_string(operands[i].placings[p]);
        leaves.push_back(operands[i].leaves[p]);
        copies.push_back(operands[i].copies[p]);
        args.push_back(expand(leaves.back(), copies.back().shape()));
      }
      INFO(name);
      const Tensor up = args.back().detach(), up_copy = copies.back().detach();
      for (Inputs* list : {&leaves, &args, &copies}) list->pop_back();
      const Tensor got = s.fn(args), want = s.fn(copies);
      check_summed("value", got, want, 1);
      const Inputs g = grad({got}, leaves, {.gradients = {up}});
      const Inputs w = grad({want}, copies, {.gradients = {up_copy}});
      for (size_t i = 0; i < g.size(); ++i)
        check_summed("gradient " + std::to_string(i), g[i], w[i], got.numel());
    }
  }
}

TEST_CASE("subjects, bf16: gradients use the precision of the forward pass") {
  for (const Subject& s : subjects()) {
    if (s.products == 0) continue;
    CAPTURE(s.name);
    Rng rng(7);
    const Inputs inputs = inputs_of(s, kMiddle, rng);
    auto run = [&](MatmulPrecision forward, MatmulPrecision back) {
      const Inputs leaves = leaves_of(inputs);
      std::optional<MatmulPrecisionScope> scope(forward);
      const Tensor y = s.fn(leaves);
      scope.reset();
      scope.emplace(back);
      std::vector<Tensor> all = grad({sum(square(y))}, leaves);
      all.push_back(y);
      return all;
    };
    const std::vector<Tensor> f32 = run(kF32, kF32), bf16 = run(kBf16, kBf16);
    CHECK_FALSE(same_bits(f32.back(), bf16.back()));
    CHECK(same(run(kF32, kBf16), f32));
    CHECK(same(run(kBf16, kF32), bf16));
  }
}

// Rounding an operand to bf16 changes it by at most a relative 2^-9.
TEST_CASE("subjects, bf16: as close to f64 as 8 bits of mantissa allow") {
  for (const Subject& s : subjects()) {
    if (s.products == 0) continue;
    CAPTURE(s.name);
    Rng rng(7);
    const Inputs inputs = inputs_of(s, kMiddle, rng);
    Inputs wide;
    for (const Tensor& t : inputs) wide.push_back(t.to(DType::f64));
    const MatmulPrecisionScope scope(kBf16);
    const Tensor want = s.fn(wide);
    {
      const MatmulPrecisionScope f32(kF32);
      CHECK(same_bits(s.fn(wide), want));  // the setting does not affect f64
    }
    const Tensor got = s.fn(inputs).to(DType::f64);
    const double error = sqrt(mean(square(got - want))).item<double>();
    const double size = sqrt(mean(square(want))).item<double>();
    CHECK(error < s.products * 0x1p-8 * size);
    CHECK(error > 0x1p-12 * size);
  }
}

namespace {

/// Counts the storages that are rounded.
struct Roundings : Observer {
  int count = 0;
  void begin(const OpScope& op) override {
    count += op.name() == std::string("rounding for backward");
  }
};

struct Rounded {
  std::vector<Tensor> outcome;
  int count = 0;
};

/// With `held`, the op's inputs stay alive until the end of the backward pass.
Rounded run_operands(const Subject& s, bool held, MatmulPrecision precision = kBf16) {
  const MatmulPrecisionScope scope(precision);
  Rng rng(7);
  const Inputs leaves = leaves_of(inputs_of(s, kMiddle, rng));
  Inputs handed, kept;
  for (const Tensor& x : leaves) handed.push_back(x * 1.5);
  if (held) kept = handed;
  Roundings roundings;
  Rounded r;
  {
    const ObserverScope watching(roundings);
    r.outcome.push_back(s.fn(handed));
    handed.clear();
  }
  r.count = roundings.count;
  for (const Tensor& g : grad({sum(square(r.outcome[0]))}, leaves)) r.outcome.push_back(g);
  return r;
}

}  // namespace

TEST_CASE("subjects, bf16: operands without another owner are rounded, with the same gradients") {
  for (const Subject& s : subjects()) {
    CAPTURE(s.name);
    const Rounded held = run_operands(s, true), let_go = run_operands(s, false);
    CHECK(same(held.outcome, let_go.outcome));
    CHECK(run_operands(s, false, kF32).count == 0);
    if (s.rounded == 0) continue;
    CHECK(held.count < let_go.count);
    CHECK(let_go.count == s.rounded);
  }
}

TEST_CASE("subjects, bf16: same bits by every way and on any number of threads") {
  for (const Subject& s : subjects()) {
    if (s.products == 0 && s.rounded == 0) continue;
    CAPTURE(s.name);
    const Rounded first = run_operands(s, true);
    for (Bf16Way way : bf16_ways())
      for (int threads : {1, 3})
        for (bool held : {true, false}) {
          CAPTURE(to_string(way));
          CAPTURE(threads);
          CAPTURE(held);
          const Bf16WayScope scope(way);
          const Threads several(threads);
          CHECK(same(run_operands(s, held).outcome, first.outcome));
        }
  }
}

// The weights are fused only if no gradient is needed.
TEST_CASE("fused and composed: the weights of attention") {
  for (int64_t n : kSizes) {
    Rng rng(static_cast<uint64_t>(n));
    const Tensor q = randn({2, 2, n, 5}, rng), k = randn({2, 1, n, 5}, rng),
                 v = randn({2, 1, n, n}, rng);
    auto attend = [&](DType type, bool fused) -> std::vector<Tensor> {
      Inputs in{q.to(type), k.to(type), v.to(type)};
      if (!fused) in[0] = in[0].clone().set_requires_grad();
      const Attended y = attention_with_weights(in[0], in[1], in[2], {.mask = {.causal = -1}});
      CHECK(y.weights.requires_grad() == !fused);
      return {y.context, y.weights};
    };
    const std::vector<Tensor> want = attend(DType::f64, false);
    for (DType type : {DType::f64, DType::f32})
      for (VectorLevel level : levels()) {
        const VectorLevelScope scope(level);
        check_close(attend(type, true), want, type, static_cast<double>(2 * n));
      }
  }
}

}  // namespace tern::test
