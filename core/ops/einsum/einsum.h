// Einstein summation and einops' patterns.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// einsum("b n d, m n -> b m d", {v, w}). Spaces are ignored. `...` stands for leading axes that
/// broadcast. An index repeated in one operand takes the diagonal. Axes of size 1 broadcast.
/// Without "->" the result has the indices that occur once, in alphabetical order. Takes any number
/// of operands and contracts them pairwise in the cheapest order (see einsum_path).
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

struct EinsumStep {
  std::vector<int> operands;  ///< positions among the remaining operands; the result is appended
  std::string equation;       ///< what the step computes
  double flops;               ///< multiplications and additions
  int64_t size;               ///< number of elements of its result
};
struct EinsumPath {
  std::vector<EinsumStep> steps;
  double flops = 0;        ///< total of all steps
  double naive_flops = 0;  ///< of a single loop over all indices
};
/// The order that einsum chooses for operands of these shapes, with the cost of each step.
EinsumPath einsum_path(std::string_view equation, const std::vector<Shape>& shapes);
std::string to_string(const EinsumPath& path);

/// Sizes of axes that a pattern cannot infer: {{"h", 8}}.
using AxisSizes = std::vector<std::pair<std::string, int64_t>>;

/// einops' rearrange: "b (h w) c -> b c h w". Patterns may contain 1, () and `...`.
Tensor rearrange(const Tensor& x, std::string_view pattern, const AxisSizes& sizes = {});
enum class ReduceOp { sum, mean, max, min, prod };
/// einops' reduce: axes that do not appear on the right are reduced.
Tensor reduce(const Tensor& x, std::string_view pattern, ReduceOp op, const AxisSizes& sizes = {});
/// einops' repeat: axes that appear only on the right are new.
Tensor repeat(const Tensor& x, std::string_view pattern, const AxisSizes& sizes = {});

}  // namespace tern
