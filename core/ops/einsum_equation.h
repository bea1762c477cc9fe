// Inside einsum: the equation as lists of labels, and the order of contraction.
// Inside of core only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/ops/einsum.h"

namespace tern::detail {

/// An index of an einsum: 0..51 are letters, 52 + d is axis d of the ellipsis, counted from the
/// right.
using Label = int;
using Labels = std::vector<Label>;
/// A set of labels, a bit each.
using LabelSet = uint64_t;
constexpr Label kEllipsis = 52;

inline LabelSet bit(Label l) { return LabelSet{1} << l; }
LabelSet set_of(const Labels& labels);

struct EinsumEquation {
  std::vector<Labels> inputs;  ///< one label an axis
  Labels output;
  std::array<int64_t, 64> sizes{};  ///< of each label, 1s broadcast

  /// Product of the sizes of a set of labels.
  double size_of(LabelSet labels) const;
  /// The labels of operand i without those that broadcast and those that only it has and the
  /// output has not: what is left of it before operands meet.
  LabelSet reduced(size_t i) const;
  /// Multiplications and additions to contract two operands to the labels in `keep`.
  double flops(LabelSet a, LabelSet b, LabelSet keep) const;

  std::vector<LabelSet> broadcast;  ///< of each operand: labels whose axis there is 1, but not all
};

/// Reads an equation for operands of these shapes; errors name the place in the equation.
EinsumEquation parse_einsum(std::string_view equation, const std::vector<Shape>& shapes);

/// The order einsum takes: pairs i < j of positions in the list of what is left; results go last.
std::vector<std::pair<int, int>> contraction_order(const EinsumEquation& equation);

/// "bnd,mn->bmd"; the ellipsis as "...".
std::string to_string(const std::vector<Labels>& inputs, const Labels& output);

}  // namespace tern::detail
