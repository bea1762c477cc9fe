// Einstein summation and einops' patterns.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// einsum("b n d, m n -> b m d", {v, w}). Spaces are free, `...` stands for leading axes that
/// broadcast, an index repeated in one operand takes the diagonal, axes of size 1 broadcast,
/// without "->" the indices that occur once come out in alphabetical order. Any number of
/// operands: they are contracted pairwise in the cheapest order (see einsum_path).
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

struct EinsumStep {
  std::vector<int> operands;  ///< positions in the list of what is left; the result goes last
  std::string equation;       ///< what the step computes
  double flops;               ///< multiplications and additions
  int64_t size;               ///< elements of its result
};
struct EinsumPath {
  std::vector<EinsumStep> steps;
  double flops = 0;        ///< of all steps
  double naive_flops = 0;  ///< of one loop over all indices
};
/// The order einsum takes for operands of these shapes, with the cost of each step.
EinsumPath einsum_path(std::string_view equation, const std::vector<Shape>& shapes);
std::string to_string(const EinsumPath& path);

/// Sizes of axes that a pattern cannot infer: {{"h", 8}}.
using AxisSizes = std::vector<std::pair<std::string, int64_t>>;

/// einops' rearrange: "b (h w) c -> b c h w", with 1, () and ....
Tensor rearrange(const Tensor& x, std::string_view pattern, const AxisSizes& sizes = {});
enum class ReduceOp { sum, mean, max, min, prod };
/// einops' reduce: axes that do not appear on the right are reduced.
Tensor reduce(const Tensor& x, std::string_view pattern, ReduceOp op, const AxisSizes& sizes = {});
/// einops' repeat: axes that appear only on the right are new.
Tensor repeat(const Tensor& x, std::string_view pattern, const AxisSizes& sizes = {});

}  // namespace tern
