// Compares every fused op with its composed definition (core/ops/composed.h): values and gradients,
// in f32 and f64, at every vector level of this processor, for sizes with a remainder in every
// loop, with contiguous and with strided inputs. A new fused op is one more row.
//
// The expectation is the composed definition in f64. Both sides start from the same f32 numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/core/ops/composed.h"

namespace tern::test {

using Inputs = std::vector<Tensor>;
using Shapes = std::vector<Shape>;

inline constexpr int64_t kSizes[] = {1, 7, 17, 65};

struct FusedRow {
  std::string name;
  std::function<Shapes(int64_t n)> shapes;  // shapes of the floating inputs
  TensorFunction fused, composed;
  int64_t terms = 1;  // terms per sum, as a multiple of n: sets the f32 tolerance
};

/// A row whose `call` receives one of the two functions and the inputs.
template <class Op, class Call>
FusedRow fused_row(const std::string& name, std::function<Shapes(int64_t)> shapes, Op fused,
                   Op composed, Call call, int64_t terms = 1) {
  return {name, std::move(shapes), [=](const Inputs& x) { return call(fused, x); },
          [=](const Inputs& x) { return call(composed, x); }, terms};
}

struct Results {
  std::vector<double> value;
  std::vector<std::vector<double>> gradients;
};

/// Checks that each number of `got` is within rounding of `want`.
void compare(const Results& got, const Results& want, DType type, double terms);

void run_fused(const FusedRow& row);
void run_fused(const std::vector<FusedRow>& rows);

/// A (rows, n) mask of 0 and 1. Row 1, if there is one, is all 0.
Tensor mask_rows(int64_t rows, int64_t n);

}  // namespace tern::test
