// Runs the rows of the op table: values and derivatives with all inputs placed alike, then with
// every pair of placings.
#include "tern/tests/core/ops/op_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "tern/core/base/cpu.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/foreign_memory.h"

namespace tern::test {
namespace {

int64_t linear(const Shape& shape, const Dims& index) {
  int64_t at = 0;
  for (int a = 0; a < shape.size(); ++a) at = at * shape[a] + index[a];
  return at;
}

// Numbers spread evenly over [low, high] in scrambled order. No two are close, so ties and kinks
// (max, sort, relu at 0) stay further away than the eps of central differences.
Array make_values(const Shape& shape, double low, double high, int seed) {
  Array a(shape);
  int64_t n = a.numel(), step = 1;
  for (int64_t s = n / 2 + 1 + seed; s < 2 * n + 2 + seed; ++s)
    if (std::gcd(s, n) == 1) {
      step = s;
      break;
    }
  for (int64_t i = 0; i < n; ++i)
    a[i] = low + (high - low) * (static_cast<double>(i * step % n) + 0.37 + 0.13 * seed) /
                     static_cast<double>(n + seed);
  return a;
}

/// A gradient and the scale of its rounding: the largest number in it before it was summed along
/// axes of stride 0, and the number of terms of these sums.
struct Gradient {
  Array array;
  double largest = 0, terms = 1;
};

/// An operand of an op: its layout, the stored numbers, and the numbers that the op sees.
struct Operand {
  Placing placing;
  Array stored, seen;             // differ if axes have stride 0
  std::optional<Edge> edge = {};  // in foreign memory

  Operand(const Shape& shape, Placing p, double low, double high, int seed)
      : placing(p),
        stored(make_values(p.stored(shape), low, high, seed)),
        seen(stretch(stored, shape)) {}

  static Array stretch(const Array& x, const Shape& shape) {
    Array y(shape);
    for_each_index(shape, [&](const Dims& i) { y.at(i) = x.broadcast_at(i); });
    return y;
  }
  /// The numbers as a leaf, either placed in memory or as a contiguous copy of what the op sees.
  template <class T>
  Tensor leaf(bool placed) const {
    const Tensor t = placed ? lay_out<T>(stored, placing) : lay_out<T>(seen, {});
    return edge ? in_foreign_memory(t, *edge) : t;
  }
  Tensor argument(const Tensor& leaf) const {
    return leaf.shape() == seen.shape ? leaf : expand(leaf, seen.shape);
  }
  /// A leaf's gradient, summed to the stored shape.
  Gradient folded(const Tensor& gradient) const {
    Array all = gradient.defined() ? to_array(gradient) : Array(seen.shape);
    double largest = 0;
    for (double v : all.v) largest = std::max(largest, std::abs(v));
    if (all.shape == stored.shape) return {all, largest};
    const auto terms = static_cast<double>(seen.numel()) / static_cast<double>(stored.numel());
    Array sum(stored.shape);
    for_each_index(all.shape, [&](const Dims& i) {
      Dims at = i;
      for (int a = 0; a < at.size(); ++a) at[a] = stored.shape[a] == 1 ? 0 : at[a];
      sum.at(at) += all.at(i);
    });
    return {sum, largest, terms};
  }
};

std::vector<Operand> make_operands(const OpRow& row, const std::vector<Shape>& shapes,
                                   const std::function<Placing(size_t)>& placing) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < shapes.size(); ++i)
    operands.emplace_back(shapes[i], placing(i), row.low, row.high, static_cast<int>(i));
  return operands;
}

Array naive_value(const OpRow& row, const std::vector<Operand>& inputs) {
  std::vector<Array> seen;
  for (const Operand& x : inputs) seen.push_back(x.seen);
  return row.naive(seen);
}

Tensor run(const OpRow& row, const std::vector<Operand>& inputs,
           const std::vector<Tensor>& leaves) {
  std::vector<Tensor> args;
  for (size_t i = 0; i < inputs.size(); ++i) args.push_back(inputs[i].argument(leaves[i]));
  return row.fn(args);
}

template <class T>
std::vector<Tensor> leaves_of(const std::vector<Operand>& operands, bool placed) {
  std::vector<Tensor> leaves;
  for (const Operand& x : operands) leaves.push_back(x.leaf<T>(placed));
  return leaves;
}

void compare(const Array& got, const Array& want, double rtol, double atol) {
  REQUIRE_MESSAGE(got.shape == want.shape, to_string(got.shape), " instead of ",
                  to_string(want.shape));
  for (int64_t i = 0; i < want.numel(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double error = std::abs(got[i] - want[i]);
    if (std::isfinite(want[i]) && error <= atol + rtol * std::abs(want[i])) continue;
    FAIL_CHECK("element ", i, ": got ", got[i], ", want ", want[i]);
    return;
  }
}

void compare_gradients(const char* what, const std::vector<Gradient>& got,
                       const std::vector<Gradient>& want, double rtol, double atol) {
  REQUIRE(got.size() == want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    INFO(what, " of operand ", k);
    const double tolerance = (atol + rtol * want[k].largest) * std::sqrt(want[k].terms);
    compare(got[k].array, want[k].array, 0, tolerance);
  }
}

double f32_tolerance(const OpRow& row) {
  return 1.3e-6 * std::sqrt(static_cast<double>(row.terms));
}

// ---- All inputs placed alike ---------------------------------------------------------------

void check_values(const OpRow& row, const std::vector<Operand>& inputs) {
  Array want = naive_value(row, inputs);
  compare(to_array(run(row, inputs, leaves_of<double>(inputs, true))), want, 1e-11, 1e-12);
  compare(to_array(run(row, inputs, leaves_of<float>(inputs, true))), want, f32_tolerance(row),
          1e-5);
}

void check_differences(const OpRow& row, const std::vector<Operand>& inputs) {
  std::vector<Tensor> leaves = leaves_of<double>(inputs, true);
  for (Tensor& t : leaves) t.set_requires_grad();
  auto fn = [&](const std::vector<Tensor>& x) { return run(row, inputs, x); };
  {
    const NoGradGuard guard;
    const Tensor y = fn(leaves);  // of contiguous() it may be the input itself
    const bool is_input =
        std::ranges::any_of(leaves, [&](auto& t) { return t.node() == y.node(); });
    CHECK((is_input || !y.requires_grad()));
  }
  if (!row.gradient) {
    CHECK_FALSE(fn(leaves).requires_grad());
    return;
  }
  CHECK_NOTHROW(gradcheck(fn, leaves));
  CHECK_NOTHROW(gradgradcheck(fn, leaves));
}

std::vector<Shape> empty_shapes(const OpRow& row) {
  if (!row.empty_shapes.empty()) return row.empty_shapes;
  std::vector<Shape> shapes = row.shapes;
  int64_t size = shapes.empty() || shapes[0].empty() ? -1 : shapes[0][0];
  for (Shape& s : shapes)
    if (!s.empty() && s[0] == size) s[0] = 0;
  return shapes;
}

void run_alike(const OpRow& row) {
  auto check = [&](const std::string& name, const std::vector<Shape>& shapes, Placing placing) {
    INFO(row.name, ", ", name);
    auto operands = make_operands(row, shapes, [&](size_t i) {
      const bool has = placing.kind != Placing::expanded || placing.axis < shapes[i].size();
      return has ? placing : Placing{};
    });
    CHECK_NOTHROW(check_values(row, operands));
    CHECK_NOTHROW(check_differences(row, operands));
  };
  for (Placing::Kind kind :
       {Placing::contiguous, Placing::transposed, Placing::sliced, Placing::flipped})
    check(to_string(Placing{kind}), row.shapes, {kind});
  int axes = 0;
  for (const Shape& s : row.shapes) axes = std::max(axes, s.size());
  for (int a = 0; a < axes && !row.skip_expanded; ++a)
    check(to_string(Placing{Placing::expanded, a}), row.shapes, {Placing::expanded, a});
  if (!row.skip_empty) check("empty", empty_shapes(row), {});
}

// ---- Every pair of placings ----------------------------------------------------------------

struct Derivatives {
  Array value;
  std::vector<Gradient> first;   // by the inputs
  std::vector<Gradient> second;  // by the inputs and by the gradient from above
};

Tensor constant_like(const Operand& x, DType type, bool placed, int seed) {
  Array u = make_values(x.stored.shape, 0.5, 1.5, seed);
  return (placed ? lay_out<double>(u, {}) : lay_out<double>(Operand::stretch(u, x.seen.shape), {}))
      .to(type);
}

/// `operands` are the inputs and, last, the gradient from above.
template <class T>
Derivatives differentiate(const OpRow& row, const std::vector<Operand>& operands, bool placed,
                          bool second) {
  std::vector<Tensor> leaves = leaves_of<T>(operands, placed);
  for (const Tensor& t : leaves) t.set_requires_grad();
  std::vector<Operand> inputs(operands.begin(), operands.end() - 1);
  std::vector<Tensor> wanted(leaves.begin(), leaves.end() - 1);
  Tensor y = run(row, inputs, wanted), dy = operands.back().argument(leaves.back());
  std::vector<Tensor> first = grad(
      {y}, wanted,
      {.create_graph = second, .allow_unused = true, .gradients = {second ? dy : dy.detach()}});
  Derivatives d{to_array(y), {}, {}};
  std::vector<Tensor> outputs, weights;
  for (size_t i = 0; i < inputs.size(); ++i) {
    d.first.push_back(inputs[i].folded(first[i]));
    if (!first[i].defined() || !first[i].requires_grad()) continue;
    outputs.push_back(first[i]);
    weights.push_back(constant_like(inputs[i], y.dtype(), placed, static_cast<int>(i)));
  }
  if (!second) return d;
  std::vector<Tensor> found(leaves.size());
  if (!outputs.empty()) found = grad(outputs, leaves, {.allow_unused = true, .gradients = weights});
  for (size_t i = 0; i < found.size(); ++i) d.second.push_back(operands[i].folded(found[i]));
  return d;
}

/// The derivatives with contiguous operands, cached by which axes are stretched.
class References {
 public:
  explicit References(const OpRow& row) : row_(row) {}
  const Derivatives& of(const std::vector<Operand>& operands) {
    std::vector<int> key;
    for (const Operand& x : operands)
      key.push_back(x.placing.kind == Placing::expanded ? x.placing.axis
                                                        : -1 - x.placing.stretches());
    auto [at, fresh] = known_.try_emplace(key);
    if (fresh) at->second = differentiate<double>(row_, operands, false, true);
    return at->second;
  }

 private:
  const OpRow& row_;
  std::map<std::vector<int>, Derivatives> known_;
};

void check_derivatives(const OpRow& row, const std::vector<Operand>& operands,
                       const Derivatives& want) {
  const std::vector<Operand> inputs(operands.begin(), operands.end() - 1);
  const Array value = naive_value(row, inputs);
  Derivatives got = differentiate<double>(row, operands, true, true);
  compare(got.value, value, 1e-11, 1e-12);
  compare_gradients("f64 gradient", got.first, want.first, 1e-10, 1e-11);
  compare_gradients("f64 second gradient", got.second, want.second, 1e-10, 1e-11);
  got = differentiate<float>(row, operands, true, false);
  compare(got.value, value, f32_tolerance(row), 1e-5);
  compare_gradients("f32 gradient", got.first, want.first, 1e-4, 1e-5);
}

/// The value in f32, and the gradients if the row has any. If not, `operands` has no gradient from
/// above.
Derivatives f32_outcome(const OpRow& row, const std::vector<Operand>& operands) {
  if (row.gradient) return differentiate<float>(row, operands, true, false);
  return {to_array(run(row, operands, leaves_of<float>(operands, true))), {}, {}};
}

/// Checks that AVX2 and AVX-512 give the same bits in f32.
void check_vector_levels(const OpRow& row, const std::vector<Operand>& operands) {
  auto at = [&](VectorLevel level) {
    const VectorLevelScope scope(level);
    return f32_outcome(row, operands);
  };
  const Derivatives narrow = at(VectorLevel::kAvx2), wide = at(VectorLevel::kAvx512);
  compare(narrow.value, wide.value, 0, 0);
  compare_gradients("f32 gradient with AVX2", narrow.first, wide.first, 0, 0);
}

/// The shapes of the inputs and, if the row has gradients, of the gradient from above.
std::vector<Shape> shapes_of_operands(const OpRow& row) {
  std::vector<Shape> shapes = row.shapes;
  if (row.gradient) {
    std::vector<Array> zeros;
    for (const Shape& s : shapes) zeros.push_back(make_values(s, row.low, row.high, 0));
    shapes.push_back(row.naive(zeros).shape);
  }
  return shapes;
}

constexpr int kVectorLevels = static_cast<int>(VectorLevel::kAvx512) + 1;

// The vector level changes from trial to trial.
void run_pairs(const OpRow& row) {
  const std::vector<Shape> shapes = shapes_of_operands(row);
  std::vector<std::vector<Placing>> choices;
  std::vector<int> counts;
  for (const Shape& s : shapes) {
    choices.push_back(placings(s, true));
    counts.push_back(static_cast<int>(choices.back().size()));
  }
  References references(row);
  int trial = 0;
  for (const std::vector<int>& pick : covering_array(counts)) {
    auto placing = [&](size_t i) { return choices[i][static_cast<size_t>(pick[i])]; };
    std::string name;
    for (size_t i = 0; i < pick.size(); ++i) name += ", " + to_string(placing(i));
    const VectorLevel level = static_cast<VectorLevel>(trial++ % kVectorLevels);
    INFO(row.name, name, ", ", to_string(level));
    VectorLevelScope scope(level);
    std::vector<Operand> operands = make_operands(row, row.shapes, placing);
    if (!row.gradient) {
      CHECK_NOTHROW(check_values(row, operands));
      if (level == VectorLevel::kAvx512) CHECK_NOTHROW(check_vector_levels(row, operands));
      continue;
    }
    const size_t last = row.shapes.size();
    operands.emplace_back(shapes[last], placing(last), 0.5, 1.5, static_cast<int>(last));
    CHECK_NOTHROW(check_derivatives(row, operands, references.of(operands)));
    if (level == VectorLevel::kAvx512) CHECK_NOTHROW(check_vector_levels(row, operands));
  }
}

// ---- Foreign memory ------------------------------------------------------------------------

// The same bits wherever the operands lie.
void run_foreign(const OpRow& row) {
  const std::vector<Shape> shapes = shapes_of_operands(row);
  for (Placing::Kind kind : {Placing::contiguous, Placing::sliced, Placing::flipped}) {
    std::vector<Operand> operands =
        make_operands(row, row.shapes, [&](size_t) { return Placing{kind}; });
    if (row.gradient) operands.emplace_back(shapes.back(), Placing{kind}, 0.5, 1.5, 3);
    const Derivatives want = f32_outcome(row, operands);
    for (Edge edge : {Edge::begin, Edge::end}) {
      INFO(row.name, ", ", to_string(Placing{kind}), " in foreign memory");
      for (Operand& x : operands) x.edge = edge;
      const Derivatives got = f32_outcome(row, operands);
      compare(got.value, want.value, 0, 0);
      compare_gradients("f32 gradient", got.first, want.first, 0, 0);
    }
  }
}

// ---- Undefined operands --------------------------------------------------------------------

// An undefined operand is an Error that says so. Operands after the first may be left out (a bias).
void run_undefined(const OpRow& row) {
  const std::vector<Operand> operands =
      make_operands(row, row.shapes, [](size_t) { return Placing(); });
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<Tensor> args = leaves_of<float>(operands, true);
    args[i] = Tensor();
    std::string error;
    try {
      row.fn(args);
    } catch (const Error& e) {
      error = e.what();
    }
    const bool named = error.find("undefined") != std::string::npos,
               left_out = error.empty() && i > 0;
    CHECK_MESSAGE((named || left_out), row.name, ", operand ", i, ": ", error);
  }
}

}  // namespace

double& Array::at(const Dims& index) { return v[static_cast<size_t>(linear(shape, index))]; }
double Array::at(const Dims& index) const { return v[static_cast<size_t>(linear(shape, index))]; }

double Array::broadcast_at(const Dims& index) const {
  Dims own;
  int skip = index.size() - shape.size();
  for (int a = 0; a < shape.size(); ++a) own.push_back(shape[a] == 1 ? 0 : index[a + skip]);
  return at(own);
}

void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& body) {
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t n = numel(shape); n > 0; --n) {
    body(index);
    for (int a = shape.size() - 1; a >= 0; --a) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
}

Array picked(const Array& x, const Shape& shape, const std::function<Dims(const Dims&)>& from) {
  Array out(shape);
  for_each_index(shape, [&](const Dims& i) { out.at(i) = x.at(from(i)); });
  return out;
}

Array to_array(const Tensor& t) {
  Array a(t.shape());
  a.v = t.to_vector<double>();
  return a;
}

void run_rows(const std::vector<OpRow>& rows) {
  for (const OpRow& row : rows) {
    run_alike(row);
    run_pairs(row);
    run_foreign(row);
    run_undefined(row);
  }
}

void OpRow::equals(const std::function<Array(const std::vector<Array>&)>& loop) {
  naive = loop;
  checked = true;
  run_rows({*this});
}

CheckedRow::~CheckedRow() { CHECK_MESSAGE(checked, name, ": equals() was not called"); }

}  // namespace tern::test
