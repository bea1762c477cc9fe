// A subject is an op that is described once: its name, the shapes of its inputs, and the call.
// subjects.cpp lists them, and test_subjects.cpp checks each property of all of them, at sizes that
// leave a remainder in every loop. A new property is one loop. Fused ops are subjects, and so are
// ops whose kernels have threads or vector code of their own. The op table (op_table.h) compares
// all ops with naive loops at small sizes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::test {

using Inputs = std::vector<Tensor>;

/// Stands for n in the shapes of a subject: {3, 2 * N + 1}.
inline constexpr int64_t N = 1'000'000;

struct Subject {
  std::string name;
  std::vector<Shape> shapes;  ///< of the floating inputs
  TensorFunction fn;
  TensorFunction composed = {};  ///< the same function, made of other ops
  int64_t terms = 1;             ///< terms per sum, as a multiple of n: sets the f32 tolerance
  int64_t large = 131;           ///< the n at which levels and threads are compared
  int products = 0;              ///< products of matrices in sequence, which bf16 changes
  int rounded = 0;               ///< storages that bf16 rounds for backward if nobody holds them

  /// This subject, compared at n = `size`.
  Subject at(int64_t size) const;
  Subject bf16(int products_in_sequence, int storages_rounded) const;
};

/// A fused op and its composed definition. `call` gets one of the two, and the inputs.
template <class Op, class Call>
Subject both(const std::string& name, std::vector<Shape> shapes, Op fused, Op composed, Call call,
             int64_t terms = 1) {
  return {name, std::move(shapes), [=](const Inputs& x) { return call(fused, x); },
          [=](const Inputs& x) { return call(composed, x); }, terms};
}

const std::vector<Subject>& subjects();

/// The inputs in f32, drawn from `rng`.
Inputs inputs_of(const Subject& subject, int64_t n, Rng& rng);

/// The value of fn, and the gradients by `leaves`: of the result with the gradient `up` from above,
/// or of the sum of its squares.
std::vector<Tensor> outcome(const TensorFunction& fn, const Inputs& leaves, const Tensor& up = {});

/// Checks that each number of `got` is within rounding of `want`, the outcome in f64.
void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, DType type,
                 double terms);

/// Checks values and gradients of subjects with a composed definition against that in f64: in f32
/// and f64, at every vector level of this processor, for n = kSizes, with contiguous and with
/// strided inputs. Both start from the same f32 numbers.
void check_composed(const std::vector<Subject>& subjects);
inline constexpr int64_t kSizes[] = {1, 7, 17, 65};

/// A (rows, n) mask of 0 and 1. Row 1, if there is one, is all 0.
Tensor mask_rows(int64_t rows, int64_t n);

}  // namespace tern::test
