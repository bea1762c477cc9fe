#include "tern/tests/op_table.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tern/core/autograd.h"
#include "tern/core/record.h"

namespace tern::test {
namespace {

int64_t linear(const Shape& shape, const Dims& index) {
  int64_t at = 0;
  for (int a = 0; a < shape.size(); ++a) at = at * shape[a] + index[a];
  return at;
}

// Numbers spread evenly over [low, high] in a scrambled order, so that no two are close: ties and
// kinks (max, sort, relu at 0) stay further away than the eps of central differences.
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

enum class Kind { contiguous, transposed, expanded, sliced, flipped, empty };
constexpr Kind kKinds[] = {Kind::contiguous, Kind::transposed, Kind::expanded,
                           Kind::sliced,     Kind::flipped,    Kind::empty};
const std::string kKindNames[] = {"contiguous", "transposed", "expanded",
                                  "sliced",     "flipped",    "empty"};

// Strides (and the offset they need) that lay `shape` out as `kind` says.
Layout make_layout(const Shape& shape, Kind kind, int64_t& buffer) {
  Layout l = Layout::contiguous(shape);
  int64_t step = 1;
  if (kind == Kind::transposed) {
    for (int a = 0; a < shape.size(); ++a) {
      l.strides[a] = step;
      step *= shape[a];
    }
  } else if (kind == Kind::sliced) {
    for (int a = 0; a < shape.size(); ++a) l.strides[a] = l.strides[a] * 2 + (a == 0 ? 1 : 0);
    l.offset = 3;
  } else if (kind == Kind::flipped) {
    for (int a = 0; a < shape.size(); ++a) {
      l.offset += (shape[a] - 1) * l.strides[a];
      l.strides[a] = -l.strides[a];
    }
  }
  buffer = extent(l).last + 1;
  return l;
}

// The numbers in a tensor of the given layout; the gaps hold NaN, so that reading one shows.
template <class T>
Tensor lay_out(const Array& a, Kind kind) {
  int64_t size = 0;
  Layout l = make_layout(a.shape, a.numel() ? kind : Kind::contiguous, size);
  std::vector<T> buffer(static_cast<size_t>(std::max<int64_t>(size, 0)),
                        std::numeric_limits<T>::quiet_NaN());
  for_each_index(a.shape, [&](const Dims& index) {
    int64_t p = l.offset;
    for (int k = 0; k < index.size(); ++k) p += index[k] * l.strides[k];
    buffer[static_cast<size_t>(p)] = static_cast<T>(a.at(index));
  });
  Tensor whole = tensor(buffer, Dims(static_cast<int64_t>(buffer.size())));
  return not_differentiable(Fresh::view(whole, l));
}

struct Case {
  const OpRow& row;
  Kind kind;
  std::vector<Array> stored;  // what the leaves hold
  std::vector<Array> seen;    // what the op sees: axis 0 repeated if expanded

  template <class T>
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> out;
    for (const Array& a : stored) out.push_back(lay_out<T>(a, kind));
    return out;
  }
  Tensor run(const std::vector<Tensor>& leaves) const {
    std::vector<Tensor> args = leaves;
    if (kind == Kind::expanded)
      for (size_t i = 0; i < args.size(); ++i) args[i] = expand(args[i], seen[i].shape);
    return row.fn(args);
  }
};

std::vector<Shape> shapes_of(const OpRow& row, Kind kind) {
  if (kind != Kind::empty) return row.shapes;
  if (!row.empty_shapes.empty()) return row.empty_shapes;
  std::vector<Shape> shapes = row.shapes;
  int64_t size = shapes.empty() || shapes[0].empty() ? -1 : shapes[0][0];
  for (Shape& s : shapes)
    if (!s.empty() && s[0] == size) s[0] = 0;
  return shapes;
}

Case make_case(const OpRow& row, Kind kind) {
  Case c{row, kind, {}, {}};
  int seed = 0;
  for (Shape shape : shapes_of(row, kind)) {
    Array seen(shape);
    if (kind == Kind::expanded && !shape.empty() && shape[0] > 1) shape[0] = 1;
    c.stored.push_back(make_values(shape, row.low, row.high, seed++));
    for_each_index(seen.shape,
                   [&](const Dims& i) { seen.at(i) = c.stored.back().broadcast_at(i); });
    c.seen.push_back(std::move(seen));
  }
  return c;
}

void compare(const Array& got, const Array& want, double rtol, double atol) {
  REQUIRE_MESSAGE(got.shape == want.shape, to_string(got.shape), " instead of ",
                  to_string(want.shape));
  for (int64_t i = 0; i < want.numel(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    if (std::abs(got[i] - want[i]) <= atol + rtol * std::abs(want[i])) continue;
    FAIL_CHECK("element ", i, ": got ", got[i], ", want ", want[i]);
    return;
  }
}

void check_values(const Case& c) {
  Array want = c.row.naive(c.seen);
  compare(to_array(c.run(c.leaves<double>())), want, 1e-11, 1e-12);
  double rtol = 1.3e-6 * std::sqrt(static_cast<double>(c.row.terms));
  compare(to_array(c.run(c.leaves<float>())), want, rtol, 1e-5);
}

void check_gradients(const Case& c) {
  std::vector<Tensor> inputs = c.leaves<double>();
  for (Tensor& t : inputs) t.set_requires_grad();
  auto fn = [&](const std::vector<Tensor>& x) { return c.run(x); };
  if (!c.row.gradient) {
    CHECK_FALSE(fn(inputs).requires_grad());
    return;
  }
  CHECK_NOTHROW(gradcheck(fn, inputs));
  if (c.row.second == Second::works)
    CHECK_NOTHROW(gradgradcheck(fn, inputs));
  else
    CHECK_THROWS_WITH_AS(gradgradcheck(fn, inputs), doctest::Contains("no second derivative"),
                         Error);
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
  for (const OpRow& row : rows)
    for (Kind kind : kKinds) {
      if (kind == Kind::empty && row.skip_empty) continue;
      if (kind == Kind::expanded && row.skip_expanded) continue;
      INFO(row.name, ", ", kKindNames[static_cast<int>(kind)]);
      Case c = make_case(row, kind);
      CHECK_NOTHROW(check_values(c));
      CHECK_NOTHROW(check_gradients(c));
    }
}

}  // namespace tern::test
