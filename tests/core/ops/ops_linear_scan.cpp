// linear_scan, the recurrence h = a h + b along an axis, against plain loops: every way to cut
// lines and time into blocks, extreme factors, and a selective scan.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/scans/linear_scan.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_linear_scan {
namespace {

using test::Args, test::Array, test::Arrays, test::Doubles, test::for_each_index, test::kInf;

/// h from a, b and, if there is a third array, the initial state.
Array naive_scan(const Arrays& in, int axis, bool reverse) {
  const Shape shape = broadcast_shapes("naive", in[0].shape, in[1].shape);
  Array h(shape);
  for_each_index(shape, [&](const Dims& i) {
    if (i[axis] != 0) return;  // one whole line per first element
    Dims at = i, rest;
    for (int k = 0; k < i.size(); ++k)
      if (k != axis) rest.push_back(i[k]);
    double state = in.size() > 2 ? in[2].broadcast_at(rest) : 0;
    for (int64_t s = 0; s < shape[axis]; ++s) {
      at[axis] = reverse ? shape[axis] - 1 - s : s;
      state = in[0].broadcast_at(at) * state + in[1].broadcast_at(at);
      h.at(at) = state;
    }
  });
  return h;
}

test::OpRow row(const std::string& name, std::vector<Shape> shapes, int axis, bool reverse,
                std::vector<Shape> empty = {}) {
  return {.name = "linear_scan, " + name,
          .shapes = std::move(shapes),
          .fn =
              [=](const Args& x) {
                return linear_scan(x[0], x[1], axis,
                                   {.initial = x.size() > 2 ? x[2] : Tensor(), .reverse = reverse});
              },
          .naive = [=](const Arrays& x) { return naive_scan(x, axis, reverse); },
          .empty_shapes = std::move(empty)};
}

TEST_CASE("op table: linear_scan") {
  test::run_rows({
      row("one axis", {{5}, {5}, {}}, 0, false),
      row("first axis", {{4, 3}, {4, 3}}, 0, false),
      row("first axis, reverse, initial", {{4, 3}, {4, 3}, {3}}, 0, true),
      row("last axis, initial", {{2, 5}, {2, 5}, {2}}, 1, false),
      row("middle axis, reverse", {{2, 4, 3}, {2, 4, 3}}, 1, true),
      row("middle axis, initial", {{2, 4, 3}, {2, 4, 3}, {2, 3}}, 1, false),
      row("factors of channels", {{3}, {2, 4, 3}}, 1, false, {{3}, {0, 4, 3}}),
      row("terms of rows, a broadcast state", {{2, 4, 3}, {2, 1, 1}, {3}}, 1, false,
          {{2, 0, 3}, {2, 1, 1}, {3}}),
  });
}

struct Sizes {
  int64_t outer, n, inner;
};

// Adjacent lines and gathered lines, whole strips and remainders, time in one piece and in blocks
// of 512.
const Sizes kSizes[] = {{1, 1, 1},     {3, 2, 7},      {2, 17, 15},   {2, 33, 16},   {70, 40, 1},
                        {3, 9, 65},    {1, 1023, 1},   {1, 1024, 1},  {1, 1537, 64}, {5, 1025, 3},
                        {2, 1600, 17}, {1, 1100, 130}, {17, 1024, 64}};

/// a (factors in [low, 1]), b, the initial state, and the gradient from above.
Args operands(const Sizes& s, DType type, double low = -1) {
  Rng rng(static_cast<uint64_t>(s.outer * 1000000 + s.n * 1000 + s.inner));
  const Shape shape{s.outer, s.n, s.inner};
  return {uniform(shape, low, 1, rng).to(type), randn(shape, rng).to(type),
          randn({s.outer, s.inner}, rng).to(type), randn(shape, rng).to(type)};
}

/// h and the gradients of a, b and the initial state.
Args scanned(const Args& in, bool reverse) {
  Args x;
  for (size_t i = 0; i < 3; ++i) x.push_back(in[i].detach().set_requires_grad());
  Tensor h = linear_scan(x[0], x[1], 1, {.initial = x[2], .reverse = reverse});
  Args results = grad({h}, x, {.gradients = {in[3]}});
  results.push_back(h.detach());
  return results;
}

/// The results of scanned() by loops in double.
std::vector<Array> naive(const Args& in, bool reverse) {
  const Array a = test::to_array(in[0]), dy = test::to_array(in[3]);
  const Array start = test::to_array(in[2]);
  const Array h = naive_scan({a, test::to_array(in[1]), start}, 1, reverse);
  Array da(a.shape), db(a.shape), dstart(start.shape);
  const int64_t n = a.shape[1], way = reverse ? -1 : 1;
  for_each_index(start.shape, [&](const Dims& i) {
    double carry = 0;
    for (int64_t s = n - 1; s >= 0; --s) {
      const int64_t t = reverse ? n - 1 - s : s;
      const Dims at{i[0], t, i[1]}, before{i[0], t - way, i[1]};
      db.at(at) = dy.at(at) + carry;
      da.at(at) = db.at(at) * (s == 0 ? start.at(i) : h.at(before));
      carry = a.at(at) * db.at(at);
    }
    dstart.at(i) = carry;
  });
  return {da, db, dstart, h};
}

double largest_of(const Doubles& v) {
  double largest = 0;
  for (double x : v) largest = std::max(largest, std::abs(x));
  return largest;
}

// Factors near 1 carry state across all blocks. Factors of 1/2 on average let errors fade: 2 u per
// step add up to 4 u. A step rounds its result at most twice and no factor exceeds 1, so n steps
// have an error of at most 2 n u max|h|; blocks add the rounding of the product of their factors, u
// each.
TEST_CASE("linear_scan: any cut of lines and time agrees with loops in double") {
  for (const Sizes& s : kSizes)
    for (double low : {-1.0, 0.999})
      for (bool reverse : {false, true})
        for (DType type : {DType::f32, DType::f64}) {
          const Args in = operands(s, type, low), got = scanned(in, reverse);
          const std::vector<Array> want = naive(in, reverse);
          const double steps = low < 0 ? 4 : static_cast<double>(s.n);
          const double off = 4 * steps * (type == DType::f32 ? 0x1p-24 : 0x1p-53);
          const double h = std::max(largest_of(want[3].v), largest_of(in[2].to_vector<double>()));
          for (size_t k = 0; k < want.size(); ++k) {
            INFO(s.outer, " x ", s.n, " x ", s.inner, ", from ", low, ", reverse ", reverse,
                 ", result ", k);
            REQUIRE(got[k].shape() == want[k].shape);
            const Doubles v = got[k].to_vector<double>();
            double error = 0;
            for (size_t i = 0; i < v.size(); ++i)
              error = std::max(error, std::abs(v[i] - want[k].v[i]));
            // da = db h has the errors of both.
            CHECK(error <= off * (k == 0 ? 2 * h * largest_of(want[1].v) : largest_of(want[k].v)));
          }
        }
}

TEST_CASE("linear_scan: same bits on any number of threads") {
  for (const Sizes& s :
       {Sizes{1, 5000, 1}, Sizes{3, 2100, 40}, Sizes{90, 300, 1}, Sizes{4, 99, 500}})
    for (bool reverse : {false, true})
      test::check_threads(
          {3, 8}, [&] { return test::numbers_of(scanned(operands(s, DType::f32), reverse)); });
}

// Products of many factors may overflow, cancel or meet infinities where single steps do not.
TEST_CASE("linear_scan: blocks of time give the results of single steps") {
  const int64_t n = 2048;
  Tensor twice = full({n}, 2), one = ones(Shape{}), minus = full({n}, -1);
  Tensor h = linear_scan(twice, minus, 0, {.initial = one});
  CHECK(all_close(h, ones({n}), 0, 0));
  Tensor huge = linear_scan(full({n}, 1e30), zeros({n}), 0);
  CHECK(all_close(huge, zeros({n}), 0, 0));

  auto with = [&](double value, int64_t at, double factor) {
    Tensor b = zeros({n});
    NoGradGuard guard;
    fill_(b[at], value);
    return linear_scan(full({n}, factor), b, 0).to_vector<double>();
  };
  const Doubles infinite = with(kInf, 100, 0.5), nan = with(std::nan(""), 700, 0.5);
  for (int64_t t = 0; t < n; ++t) {
    CHECK(infinite[static_cast<size_t>(t)] == (t < 100 ? 0 : kInf));
    CHECK(std::isnan(nan[static_cast<size_t>(t)]) == (t >= 700));
  }
  // In the second block, the terms overflow unless the state at its start is included.
  for (bool reverse : {false, true}) {
    Tensor b = zeros({n});
    NoGradGuard guard;
    auto at = [&](int64_t t) { return reverse ? n - 1 - t : t; };
    fill_(b[at(0)], -3e38);
    for (int64_t t : {600, 700}) fill_(b[at(t)], 3e38);
    const Tensor sums = linear_scan(ones({n}), b, 0, {.reverse = reverse});
    for (int64_t t = 0; t < n; ++t)
      CHECK(sums[at(t)].item() == (t < 600 ? -3e38f : t < 700 ? 0 : 3e38f));
  }
  // A factor of 0 resets the state. A NaN factor does not affect earlier steps.
  Tensor a = full({n}, 0.5);
  {
    NoGradGuard guard;
    fill_(a[1500], std::nan(""));
  }
  const Doubles later = linear_scan(a, ones({n}), 0).to_vector<double>();
  for (int64_t t = 0; t < n; ++t) CHECK(std::isnan(later[static_cast<size_t>(t)]) == (t >= 1500));
  const Doubles fades =
      linear_scan(zeros({n}), arange(0, n, 1, DType::f32), 0, {.initial = one}).to_vector<double>();
  for (int64_t t = 0; t < n; ++t) CHECK(fades[static_cast<size_t>(t)] == static_cast<double>(t));
}

TEST_CASE("linear_scan: one tensor as both operands, a sum, gradients by some inputs") {
  Rng rng(3);
  Tensor x = randn({3, 6}, rng, DType::f64).set_requires_grad();
  auto both = [](const Args& in) { return linear_scan(in[0], in[0], 1); };
  CHECK_NOTHROW(gradcheck(both, {x}));
  CHECK_NOTHROW(gradgradcheck(both, {x}));
  Tensor b = randn({3, 600}, rng, DType::f64);
  CHECK(all_close(linear_scan(ones({1}, DType::f64), b, -1), cumsum(b, 1), 1e-13, 1e-13));
  // Only one operand requires a gradient. The gradient from above must not be changed.
  Tensor up = ones({3, 6}, DType::f64), kept = up.clone();
  Tensor rest = full({3, 6}, 0.5, DType::f64);
  CHECK(grad({linear_scan(x, rest, 1)}, {x}, {.gradients = {up}})[0].shape() == x.shape());
  Tensor db = grad({linear_scan(rest, x, 1)}, {x}, {.gradients = {up}})[0];
  CHECK(db.to_vector<double>()[5] == 1);
  CHECK(db.to_vector<double>()[4] == 1.5);
  CHECK(all_close(up, kept, 0, 0));
}

TEST_CASE("linear_scan: a selective scan equals its recurrence") {
  Rng rng(4);
  const int64_t batch = 2, times = 11, channels = 3, states = 4;
  Tensor x = randn({batch, times, channels}, rng, DType::f64);
  Tensor delta = softplus(randn({batch, times, channels}, rng, DType::f64));
  Tensor decay = -exp(randn({channels, states}, rng, DType::f64));
  Tensor in = randn({batch, times, states}, rng, DType::f64);
  Tensor out = randn({batch, times, states}, rng, DType::f64);
  Tensor d = unsqueeze(delta, -1);
  Tensor h = linear_scan(exp(d * decay), d * unsqueeze(in, 2) * unsqueeze(x, -1), 1);
  Tensor y = einsum("b t d n, b t n -> b t d", {h, out});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < channels; ++c) {
      Doubles state(static_cast<size_t>(states), 0.0);
      for (int64_t t = 0; t < times; ++t) {
        double sum = 0;
        const double step = delta[b][t][c].item();
        for (int64_t n = 0; n < states; ++n) {
          double& s = state[static_cast<size_t>(n)];
          s = std::exp(step * decay[c][n].item()) * s +
              step * in[b][t][n].item() * x[b][t][c].item();
          sum += s * out[b][t][n].item();
        }
        CHECK(y[b][t][c].item() == doctest::Approx(sum).epsilon(1e-12));
      }
    }
}

TEST_CASE("linear_scan: takes no memory in a ShapeOnlyScope") {
  ShapeOnlyScope scope;
  Tensor a = empty({4, 1 << 20, 1 << 10}).set_requires_grad();
  Tensor h = linear_scan(a, a, 1, {.initial = empty({4, 1 << 10})});
  CHECK(h.shape() == a.shape());
  backward(sum(h));
  CHECK(a.grad().shape() == a.shape());
}

TEST_CASE("linear_scan: errors") {
  auto refused = [](const char* text, const auto& fn) {
    CHECK_THROWS_WITH_AS(static_cast<void>(fn()), doctest::Contains(text), Error);
  };
  Tensor x = zeros({2, 3});
  refused("linear_scan: types differ: a f32, b f64",
          [&] { return linear_scan(x, x.to(DType::f64), 0); });
  refused("initial f64", [&] { return linear_scan(x, x, 0, {.initial = zeros({3}, DType::f64)}); });
  refused("needs f32 or f64, got i64", [] { return linear_scan(arange(0, 3), arange(0, 3), 0); });
  refused("linear_scan: ", [&] { return linear_scan(x, zeros({2, 4}), 0); });
  refused("linear_scan: axis 2", [&] { return linear_scan(x, x, 2); });
  refused("needs an axis", [] { return linear_scan(zeros({}), zeros({}), 0); });
  refused("the initial state (2,) does not broadcast to (3,), a step of (2, 3)",
          [&] { return linear_scan(x, x, 0, {.initial = zeros({2})}); });
  refused("the initial state (2, 3) does not broadcast to (3,)",
          [&] { return linear_scan(x, x, 0, {.initial = x}); });
  refused("linear_scan", [&] { return linear_scan(Tensor(), x, 0); });
}

}  // namespace
}  // namespace tern::ops_linear_scan
