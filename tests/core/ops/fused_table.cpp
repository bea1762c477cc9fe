// Runs the rows of the table of fused ops: fused and composed, f32 and f64, at every vector level.
#include "tern/tests/core/ops/fused_table.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"

namespace tern::test {
namespace {

/// The same numbers with stride 2 along the last axis and NaNs between them.
Tensor with_gaps(const Tensor& x) {
  return select(stack({x, full(x.shape(), std::nan(""), x.dtype())}, -1), -1, 0);
}

Results results(const TensorFunction& fn, const Inputs& inputs, const Tensor& up, DType type,
                bool strided) {
  auto placed = [&](const Tensor& x) { return strided ? with_gaps(x.to(type)) : cast(x, type); };
  Inputs leaves;
  for (const Tensor& x : inputs) leaves.push_back(placed(x).set_requires_grad());
  Tensor y = fn(leaves);
  Results r{y.to_vector<double>(), {}};
  for (const Tensor& g : grad({y}, leaves, {.gradients = {placed(up)}}))
    r.gradients.push_back(g.to_vector<double>());
  return r;
}

double largest_of(const std::vector<double>& v) {
  double largest = 0;
  for (double x : v) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
  return largest;
}

void compare(const std::string& what, const std::vector<double>& got,
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

}  // namespace

void compare(const Results& got, const Results& want, DType type, double terms) {
  const bool f64 = type == DType::f64;
  compare("value", got.value, want.value, f64 ? 1e-11 : 1.3e-6 * std::sqrt(terms),
          f64 ? 1e-12 : 1e-5);
  REQUIRE(got.gradients.size() == want.gradients.size());
  for (size_t k = 0; k < got.gradients.size(); ++k) {
    const double relative = f64 ? 1e-11 : 1e-4, least = f64 ? 1e-12 : 1e-5;
    compare("gradient " + std::to_string(k), got.gradients[k], want.gradients[k], 0,
            least + relative * largest_of(want.gradients[k]));
  }
}

void run_fused(const FusedRow& row) {
  SerialScope serial;  // waiting for threads would cost more than small ops
  for (int64_t n : kSizes) {
    Rng rng(static_cast<uint64_t>(n));
    Inputs inputs;
    for (const Shape& s : row.shapes(n)) inputs.push_back(randn(s, rng));
    const Tensor up = randn(row.composed(inputs).shape(), rng);
    const Results want = results(row.composed, inputs, up, DType::f64, false);
    const auto terms = static_cast<double>(n * row.terms);
    for (DType type : {DType::f64, DType::f32}) {
      INFO(row.name, ", n = ", n, ", ", fmt::format("{}", type));
      if (type == DType::f32)
        compare(results(row.composed, inputs, up, type, true), want, type, terms);
      for (int level = 0; level <= static_cast<int>(detail::cpu().level); ++level)
        for (bool strided : {false, true}) {
          VectorLevelScope scope{static_cast<VectorLevel>(level)};
          INFO(to_string(static_cast<VectorLevel>(level)), std::string(strided ? ", strided" : ""));
          compare(results(row.fused, inputs, up, type, strided), want, type, terms);
        }
    }
  }
}

void run_fused(const std::vector<FusedRow>& rows) {
  for (const FusedRow& row : rows) run_fused(row);
}

Tensor mask_rows(int64_t rows, int64_t n) {
  Tensor pattern = ne(remainder(arange(0, rows * n), 3), 1);
  return logical_and(reshape(pattern, {rows, n}), ne(reshape(arange(0, rows), {rows, 1}), 1));
}

}  // namespace tern::test
