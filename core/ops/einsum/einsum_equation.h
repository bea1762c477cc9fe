// Parses einsum's equation into lists of labels and chooses the order of contraction.
// Inside of core only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/ops/einsum/einsum.h"

namespace tern::detail {

/// An index of an einsum. 0..51 are letters; 52 + d is axis d of the ellipsis, counted from the
/// right.
using Label = int;
using Labels = std::vector<Label>;
/// A set of labels, one bit each.
using LabelSet = uint64_t;
constexpr Label kEllipsis = 52;

inline LabelSet bit(Label l) { return LabelSet{1} << l; }
LabelSet set_of(const Labels& labels);

struct EinsumEquation {
  std::vector<Labels> inputs;  ///< one label per axis
  Labels output;
  std::array<int64_t, 64> sizes{};  ///< of each label, after broadcasting

  /// Product of the sizes of a set of labels.
  double size_of(LabelSet labels) const;
  /// The labels of operand i that survive the reduction before contraction: without those that
  /// broadcast and without those that neither the output nor another operand has.
  LabelSet reduced(size_t i) const;
  /// Multiplications and additions to contract two operands to the labels in `keep`.
  double flops(LabelSet a, LabelSet b, LabelSet keep) const;

  std::vector<LabelSet> broadcast;  ///< per operand: labels of axes that broadcast from 1
};

/// Parses an equation for operands of these shapes. Errors name the place in the equation.
EinsumEquation parse_einsum(std::string_view equation, const std::vector<Shape>& shapes);

/// The order that einsum chooses: pairs i < j of positions among the remaining operands. The result
/// of each pair is appended to them.
std::vector<std::pair<int, int>> contraction_order(const EinsumEquation& equation);

/// Writes "bnd,mn->bmd", with the ellipsis as "...".
std::string to_string(const std::vector<Labels>& inputs, const Labels& output);

}  // namespace tern::detail
