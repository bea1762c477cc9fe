// einsum by public ops: diagonals and early sums, then pairs of operands, each as one batched
// matrix product. Axes are only renamed and reordered, as views. The kernel merges axes whose
// strides allow it, so most contractions copy nothing and write their result in the wanted order.
#include "tern/core/ops/einsum/einsum.h"

#include <algorithm>
#include <limits>

#include "tern/core/kernels/products/gemm.h"
#include "tern/core/ops/einsum/einsum_equation.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/products/matmul.h"

namespace tern {
namespace {

using detail::bit;
using detail::EinsumEquation;
using detail::Label;
using detail::Labels;
using detail::LabelSet;
using detail::set_of;

/// A tensor with a distinct label for each axis.
struct Labelled {
  Tensor tensor;
  Labels labels;

  int axis(Label l) const {
    auto at = std::find(labels.begin(), labels.end(), l);
    return at == labels.end() ? -1 : static_cast<int>(at - labels.begin());
  }
  int64_t size(Label l) const { return axis(l) < 0 ? 1 : tensor.size(axis(l)); }
  int64_t stride(Label l) const { return axis(l) < 0 ? 0 : tensor.strides()[axis(l)]; }
};

void add_missing(Labels& to, const Labels& from, LabelSet wanted) {
  for (Label l : from)
    if ((wanted & bit(l)) && !(set_of(to) & bit(l))) to.push_back(l);
}

/// Views the tensor with the axes `wanted`, in this order; missing axes get size 1.
Tensor arrange(const Labelled& x, const Labels& wanted) {
  Dims axes;
  Shape shape;
  bool moved = false;
  for (Label l : wanted) {
    shape.push_back(x.size(l));
    if (x.axis(l) < 0) continue;
    moved |= x.axis(l) != axes.size();
    axes.push_back(x.axis(l));
  }
  Tensor t = moved ? permute(x.tensor, axes) : x.tensor;
  return t.shape() == shape ? t : view(t, shape);
}

/// Takes diagonals, drops axes that broadcast and sums axes that neither the output nor another
/// operand has.
Labelled prepare(const EinsumEquation& eq, size_t i, const Tensor& tensor) {
  Labelled x{tensor, eq.inputs[i]};
  for (size_t a = 0; a < x.labels.size(); ++a)
    for (size_t b = x.labels.size() - 1; b > a; --b) {
      if (x.labels[a] != x.labels[b]) continue;
      x.tensor = diagonal(x.tensor, 0, static_cast<int64_t>(a), static_cast<int64_t>(b));
      x.labels.push_back(x.labels[a]);
      x.labels.erase(x.labels.begin() + static_cast<std::ptrdiff_t>(b));
      x.labels.erase(x.labels.begin() + static_cast<std::ptrdiff_t>(a));
      a = static_cast<size_t>(-1);  // restart: positions have changed
      break;
    }
  Dims summed;
  Labels left;
  for (size_t k = 0; k < x.labels.size(); ++k) {
    if (eq.reduced(i) & bit(x.labels[k]))
      left.push_back(x.labels[k]);
    else
      summed.push_back(static_cast<int64_t>(k));
  }
  if (!summed.empty()) x.tensor = sum(x.tensor, summed);
  x.labels = std::move(left);
  return x;
}

/// Whether BLAS accepts the axes `row` and `col` of x in place.
bool takes(const Labelled& x, Label row, Label col) {
  return kernels::blas_takes(x.size(row), x.size(col), {x.stride(row), x.stride(col)});
}

constexpr Label kNone = 63;  // an axis of size 1 that no operand has

/// The row, column and summed axis of a product. Other axes are batch axes or further sums.
struct Roles {
  Label m = kNone, n = kNone, k = kNone;
};

/// Chooses the row axis and the summed axis that need the fewest copies; among equals, the largest.
Roles choose_roles(const Labelled& a, const Labelled& b, Label n, const Labels& rows,
                   const Labels& sums) {
  Roles best;
  int fewest = std::numeric_limits<int>::max();
  int64_t largest = 0;
  for (Label m : rows.empty() ? Labels{kNone} : rows)
    for (Label k : sums) {
      const int copies = !takes(a, m, k) + !takes(b, k, n);
      const int64_t size = a.size(m) * a.size(k);
      if (copies > fewest || (copies == fewest && size <= largest)) continue;
      fewest = copies;
      largest = size;
      best = {m, n, k};
    }
  return best;
}

Labels select(const Labels& labels, LabelSet wanted) {
  Labels out;
  for (Label l : labels)
    if (wanted & bit(l)) out.push_back(l);
  return out;
}

/// a b with the axes `order`, by elementwise multiplication and a sum over `sums`.
Labelled multiply(const Labelled& a, const Labelled& b, const Labels& order, const Labels& sums) {
  Labels all = order;
  all.insert(all.end(), sums.begin(), sums.end());
  Tensor t = mul(arrange(a, all), arrange(b, all));
  Dims axes;
  for (size_t i = order.size(); i < all.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return {axes.empty() ? t : sum(t, axes), order};
}

/// a (batch, sums, M, K) b (batch, sums, K, N) -> batch, M, N, stored in the order `order`.
Labelled product(const Labelled& a, const Labelled& b, const Roles& roles, const Labels& order,
                 const Labels& sums) {
  Labels axes = select(order, ~(bit(roles.m) | bit(roles.n)));
  const size_t batches = axes.size();
  axes.insert(axes.end(), sums.begin(), sums.end());
  std::erase(axes, roles.k);
  Labels left = axes, right = axes, result = axes;
  left.insert(left.end(), {roles.m, roles.k});
  right.insert(right.end(), {roles.k, roles.n});
  result.insert(result.end(), {roles.m, roles.n});
  Shape batch, kept;
  Dims memory;
  for (size_t i = 0; i < axes.size(); ++i)
    batch.push_back(i >= batches ? 1 : a.axis(axes[i]) >= 0 ? a.size(axes[i]) : b.size(axes[i]));
  for (size_t i = 0; i < result.size(); ++i)  // axes of size 1, then the wanted order
    if (!(set_of(order) & bit(result[i]))) memory.push_back(static_cast<int64_t>(i));
  for (Label l : order)
    memory.push_back(std::find(result.begin(), result.end(), l) - result.begin());
  Tensor c = matmul_to(arrange(a, left), arrange(b, right), batch, memory);
  Labelled out{c, select(result, set_of(order))};
  for (size_t i = 0; i < result.size(); ++i)
    if (set_of(order) & bit(result[i])) kept.push_back(c.size(static_cast<int64_t>(i)));
  if (kept != c.shape()) out.tensor = view(c, kept);
  return {arrange(out, order), order};
}

/// Contracts two operands to the labels in `keep`, in the order `wanted` unless that is empty.
Labelled contract(const Labelled& x, const Labelled& y, LabelSet keep, const Labels& wanted) {
  const LabelSet sx = set_of(x.labels), sy = set_of(y.labels);
  const Labels sums = select(x.labels, sx & sy & ~keep);
  Labels order = wanted;
  if (order.empty()) {
    add_missing(order, x.labels, keep & sy);
    add_missing(order, x.labels, keep);
    add_missing(order, y.labels, keep);
  }
  const LabelSet alone = (sx ^ sy) & keep;
  if (sums.empty() || alone == 0) return multiply(x, y, order, sums);
  // The result's innermost axis must be one that only one operand has: its columns.
  Labels memory = order;
  if (!(alone & bit(memory.back())))
    std::stable_partition(memory.begin(), memory.end(), [&](Label l) { return !(alone & bit(l)); });
  const bool y_last = (sy & bit(memory.back())) != 0;
  const Labelled &a = y_last ? x : y, &b = y_last ? y : x;
  const Roles roles = choose_roles(a, b, memory.back(), select(a.labels, alone), sums);
  Labelled c = product(a, b, roles, memory, sums);
  if (memory == order) return c;
  return {arrange(c, order), order};
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  check_all_defined("einsum", operands);
  std::vector<Shape> shapes;
  for (const Tensor& t : operands) {
    check(t.dtype() == operands[0].dtype(),
          "einsum: \"{}\" mixes {} and {}; convert one with .to()", equation, operands[0].dtype(),
          t.dtype());
    shapes.push_back(t.shape());
  }
  check(operands.size() < 2 || operands[0].dtype() != DType::u8,
        "einsum: u8 products would wrap around; convert with .to(DType::i64)");
  const EinsumEquation eq = detail::parse_einsum(equation, shapes);
  std::vector<Labelled> left;
  for (size_t i = 0; i < operands.size(); ++i) left.push_back(prepare(eq, i, operands[i]));
  if (left.size() == 1) return arrange(left[0], eq.output);
  for (const auto& [i, j] : detail::contraction_order(eq)) {
    LabelSet keep = set_of(eq.output);
    for (int k = 0; k < static_cast<int>(left.size()); ++k)
      if (k != i && k != j) keep |= set_of(left[static_cast<size_t>(k)].labels);
    const Labelled &x = left[static_cast<size_t>(i)], &y = left[static_cast<size_t>(j)];
    Labelled c = contract(x, y, keep, left.size() == 2 ? eq.output : Labels());
    left.erase(left.begin() + j);
    left.erase(left.begin() + i);
    left.push_back(std::move(c));
  }
  return left[0].tensor;
}

}  // namespace tern
