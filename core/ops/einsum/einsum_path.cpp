// The order in which einsum contracts: the optimum for few operands, else a greedy order.
#include <algorithm>
#include <limits>

#include "tern/core/ops/einsum/einsum_equation.h"

namespace tern {
namespace {

using detail::EinsumEquation;
using detail::Labels;
using detail::LabelSet;

constexpr size_t kMaxExhaustive = 8;

using Pair = std::pair<int, int>;

/// Converts n to an integer, at most the largest one.
int64_t elements(double n) {
  return n < 0x1p63 ? static_cast<int64_t>(n) : std::numeric_limits<int64_t>::max();
}

/// The labels of the reduced operands, and which of them a set of operands must keep.
struct Problem {
  explicit Problem(const EinsumEquation& e) : eq(e), output(detail::set_of(e.output)) {
    for (size_t i = 0; i < e.inputs.size(); ++i) labels.push_back(e.reduced(i));
  }
  const EinsumEquation& eq;
  LabelSet output;
  std::vector<LabelSet> labels;
};

/// Finds the cheapest contraction tree by dynamic programming over subsets of operands.
class Exhaustive {
 public:
  explicit Exhaustive(const Problem& p) : p_(p), n_(p.labels.size()), best_(size_t{1} << n_) {
    for (size_t set = 1; set < best_.size(); ++set) solve(set);
  }

  /// Pairs of positions among the remaining operands; each result is appended to them.
  std::vector<Pair> path() {
    std::vector<size_t> left(n_);
    for (size_t i = 0; i < n_; ++i) left[i] = size_t{1} << i;
    std::vector<Pair> out;
    visit(best_.size() - 1, left, out);
    return out;
  }

 private:
  struct Entry {
    double flops = std::numeric_limits<double>::infinity();
    size_t part = 0;
    LabelSet labels = 0;
  };

  void solve(size_t set) {
    Entry& e = best_[set];
    LabelSet inside = 0, outside = p_.output;
    for (size_t i = 0; i < n_; ++i) (set >> i & 1 ? inside : outside) |= p_.labels[i];
    e.labels = inside & outside;
    if ((set & (set - 1)) == 0) {
      e.flops = 0;
      return;
    }
    for (size_t part = (set - 1) & set; part > 0; part = (part - 1) & set) {
      const Entry &a = best_[part], &b = best_[set ^ part];
      double flops = a.flops + b.flops + p_.eq.flops(a.labels, b.labels, e.labels);
      if (flops >= e.flops || part < (set ^ part)) continue;
      e.flops = flops;
      e.part = part;
    }
  }

  void visit(size_t set, std::vector<size_t>& left, std::vector<Pair>& out) {
    const size_t part = best_[set].part;
    if (part == 0) return;
    visit(part, left, out);
    visit(set ^ part, left, out);
    auto place = [&](size_t s) {
      return static_cast<int>(std::find(left.begin(), left.end(), s) - left.begin());
    };
    Pair pair = std::minmax(place(part), place(set ^ part));
    out.push_back(pair);
    left.erase(left.begin() + pair.second);
    left.erase(left.begin() + pair.first);
    left.push_back(set);
  }

  const Problem& p_;
  size_t n_;
  std::vector<Entry> best_;
};

LabelSet kept(const Problem& p, const std::vector<LabelSet>& left, size_t i, size_t j) {
  LabelSet keep = p.output;
  for (size_t k = 0; k < left.size(); ++k)
    if (k != i && k != j) keep |= left[k];
  return (left[i] | left[j]) & keep;
}

/// Always contracts the pair that shrinks the operands most; among equals, the cheaper one.
std::vector<Pair> greedy_path(const Problem& p) {
  std::vector<LabelSet> left = p.labels;
  std::vector<Pair> out;
  while (left.size() > 1) {
    Pair best;
    std::pair<double, double> best_cost{std::numeric_limits<double>::infinity(), 0};
    for (size_t i = 0; i < left.size(); ++i)
      for (size_t j = i + 1; j < left.size(); ++j) {
        LabelSet result = kept(p, left, i, j);
        double growth = p.eq.size_of(result) - p.eq.size_of(left[i]) - p.eq.size_of(left[j]);
        std::pair<double, double> cost{growth, p.eq.flops(left[i], left[j], result)};
        if (cost >= best_cost) continue;
        best_cost = cost;
        best = {static_cast<int>(i), static_cast<int>(j)};
      }
    const auto i = static_cast<size_t>(best.first), j = static_cast<size_t>(best.second);
    const LabelSet result = kept(p, left, i, j);
    left.erase(left.begin() + best.second);
    left.erase(left.begin() + best.first);
    left.push_back(result);
    out.push_back(best);
  }
  return out;
}

std::vector<Pair> contract_in_order(const Problem& p) {
  return p.labels.size() <= kMaxExhaustive ? Exhaustive(p).path() : greedy_path(p);
}

/// The labels of a result: those of the left operand first.
Labels in_order(const Labels& a, const Labels& b, LabelSet keep) {
  Labels out;
  for (const Labels* labels : {&a, &b})
    for (detail::Label l : *labels)
      if ((keep & detail::bit(l)) && std::find(out.begin(), out.end(), l) == out.end())
        out.push_back(l);
  return out;
}

}  // namespace

std::vector<Pair> detail::contraction_order(const EinsumEquation& equation) {
  return contract_in_order(Problem(equation));
}

EinsumPath einsum_path(std::string_view equation, const std::vector<Shape>& shapes) {
  const EinsumEquation eq = detail::parse_einsum(equation, shapes);
  const Problem p(eq);
  const size_t n = eq.inputs.size();
  LabelSet all = 0;
  for (const Labels& labels : eq.inputs) all |= detail::set_of(labels);
  const bool sums = (all & ~p.output) != 0;
  EinsumPath path;
  path.naive_flops = eq.size_of(all) * static_cast<double>(n - 1 + (sums ? 1 : 0));
  if (n == 1) {
    path.flops = path.naive_flops;
    path.steps.push_back(
        {{0}, detail::to_string(eq.inputs, eq.output), path.flops, elements(eq.size_of(p.output))});
    return path;
  }
  std::vector<Labels> left = eq.inputs;
  std::vector<LabelSet> sets = p.labels;
  for (auto [a, b] : contract_in_order(p)) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    const LabelSet keep = kept(p, sets, i, j);
    Labels result = left.size() == 2 ? eq.output : in_order(left[i], left[j], keep);
    const double flops = eq.flops(sets[i], sets[j], keep);
    path.steps.push_back(
        {{a, b}, detail::to_string({left[i], left[j]}, result), flops, elements(eq.size_of(keep))});
    path.flops += flops;
    left.erase(left.begin() + b);
    left.erase(left.begin() + a);
    left.push_back(std::move(result));
    sets.erase(sets.begin() + b);
    sets.erase(sets.begin() + a);
    sets.push_back(keep);
  }
  return path;
}

std::string to_string(const EinsumPath& path) {
  std::string text =
      fmt::format("{:.4g} flops, {:.4g} in one loop\n", path.flops, path.naive_flops);
  for (const EinsumStep& s : path.steps)
    text += fmt::format("  {:<24} {:>10.4g} flops -> {} elements\n", s.equation, s.flops, s.size);
  return text;
}

}  // namespace tern
