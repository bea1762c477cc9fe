// Optimizers that need a whole parameter (LAMB, Muon, Adafactor) with coefficients at 0 and 1 and
// gradients from 1e-30 to 1e30, against their definitions on numbers in f64, which also track the
// rounding error of the type.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tern/core/ops/ops.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/numbers_with_error.h"

namespace tern::test_optim_whole_extremes {
using test::average;
using test::Number;
using test::root;

namespace {

using Doubles = std::vector<double>;
using Numbers = std::vector<Number>;

constexpr size_t kSteps = 4;

/// Lists of factors: in each of four steps the gradient is the pattern times the factor.
std::vector<Doubles> size_lists() {
  std::vector<Doubles> lists;
  for (double g : {1e-30, 1e-24, 1e-20, 1e-15, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e15, 1e18, 1e20, 1e30}) {
    lists.push_back({g, g, g, g});
    lists.push_back({g, -1, 0.5, -0.25});
    lists.push_back({-1, g, -g, 2});
  }
  return lists;
}

/// A parameter with the state that an optimizer keeps for it.
struct Kept {
  Numbers p, m, v, row = {}, col = {};
  int64_t rows = 0, cols = 0;
};

bool known(const Numbers& x) {
  return std::all_of(x.begin(), x.end(), [](const Number& n) { return n.known(); });
}

Number sum_of_squares(const Numbers& x) {
  Number s;
  for (const Number& v : x) s = s + v * v;
  return s;
}

/// The root of the sum of squares, without overflow.
Number norm_of(const Numbers& x) {
  Number most;
  for (const Number& v : x)
    if (std::abs(v.value) > most.value) most = {std::abs(v.value), v.error};
  if (most.value == 0) return most;
  Numbers scaled;
  for (const Number& v : x) scaled.push_back(v / Number(most.value));
  return root(sum_of_squares(scaled)) * Number(most.value);
}

Number at_least(Number x, double least) { return {std::max(x.value, least), x.error}; }

/// Takes the steps of every list of sizes and compares them with by_hand(kept, gradient, t).
/// Results that by_hand cannot know (an overflow of the type) must be finite. At least `share` of
/// all steps must be known.
template <class Optimizer, class Rule, class ByHand>
void check_steps(const Rule& rule, const Shape& shape, DType type, double share, ByHand by_hand) {
  type == DType::f32 ? Number::use_f32() : Number::use_f64();
  const auto n = static_cast<size_t>(numel(shape));
  const Doubles pattern = {1, -0.5, 0.25, 2, -1, 0.75}, start = {0.5, -0.25, 1, 0, 0.125, -1};
  const std::vector<Doubles> lists = size_lists();
  std::vector<Tensor> parameters;
  std::vector<Kept> all;
  auto of = [&](const Doubles& v, double scale) {
    Doubles out;
    for (size_t i = 0; i < n; ++i) out.push_back(scale * v[i % v.size()]);
    return out;
  };
  for (size_t i = 0; i < lists.size(); ++i) {
    const Doubles p = of(start, 1);
    parameters.push_back(tensor(p, shape).to(type).set_requires_grad());
    Kept k{.p = {p.begin(), p.end()}, .m = Numbers(n), .v = Numbers(n)};
    k.cols = shape.back(), k.rows = shape.size() > 1 ? shape[0] : 1;
    k.row.resize(static_cast<size_t>(k.rows)), k.col.resize(static_cast<size_t>(k.cols));
    all.push_back(k);
  }
  Optimizer optimizer(parameters, rule);
  double compared = 0;
  for (size_t t = 0; t < kSteps; ++t) {
    for (size_t i = 0; i < lists.size(); ++i)
      parameters[i].set_grad(tensor(of(pattern, lists[i][t]), shape).to(type));
    optimizer.step();
    for (size_t i = 0; i < lists.size(); ++i) {
      const Doubles g = of(pattern, lists[i][t]), got = parameters[i].to_vector<double>();
      by_hand(all[i], Numbers(g.begin(), g.end()), static_cast<double>(t + 1));
      const std::string sizes = fmt::format("{}", fmt::join(lists[i], " "));
      CAPTURE(sizes);
      CAPTURE(t);
      const bool compare = known(all[i].p);
      compared += compare;
      for (size_t e = 0; e < n; ++e) {
        Number& p = all[i].p[e];
        if (compare) CHECK(std::abs(got[e] - p.value) <= p.error);
        CHECK(std::isfinite(got[e]));
        if (!compare) p = Number(got[e]);  // continue from the real value
      }
    }
  }
  CHECK(compared >= share * static_cast<double>(kSteps * lists.size()));
}

void adam_moments(const auto& r, Kept& k, const Numbers& g) {
  for (size_t i = 0; i < g.size(); ++i) {
    k.m[i] = average(k.m[i], g[i], r.beta1);
    k.v[i] =
        r.beta2 == 0 ? g[i] * g[i] : Number(r.beta2) * k.v[i] + Number(1 - r.beta2) * g[i] * g[i];
  }
}

void lamb_by_hand(const optim::LambOptions& r, Kept& k, const Numbers& g, double t) {
  adam_moments(r, k, g);
  const double first = r.bias_correction ? 1 - std::pow(r.beta1, t) : 1;
  const double second = r.bias_correction ? 1 - std::pow(r.beta2, t) : 1;
  Numbers d;
  for (size_t i = 0; i < g.size(); ++i)
    d.push_back(k.m[i] / Number(first) / (root(k.v[i] / Number(second)) + Number(r.eps)) +
                Number(r.weight_decay) * k.p[i]);
  Number ratio = 1;
  if (r.weight_decay != 0 || r.always_adapt) {
    const Number of_p = norm_of(k.p), of_d = norm_of(d);
    if (of_p.value > 0 && of_d.value > 0) ratio = of_p / of_d;
    if (r.trust_clip) ratio.value = std::min(ratio.value, 1.0);
  }
  for (size_t i = 0; i < g.size(); ++i) k.p[i] = k.p[i] - Number(r.lr) * ratio * d[i];
}

TEST_CASE("Lamb at the limits of its coefficients") {
  auto check = [](const optim::LambOptions& r) {
    // Without eps, results with squares that are too small are unknown.
    const double share = r.eps == 0 ? 0.4 : 0.6;
    for (DType type : {DType::f32, DType::f64})
      check_steps<optim::Lamb>(r, {2, 3}, type, share, [&](Kept& k, const Numbers& g, double t) {
        lamb_by_hand(r, k, g, t);
      });
  };
  for (double beta1 : {0.0, 0.9})
    for (double beta2 : {0.0, 0.99})
      for (double eps : {0.0, 1e-6, 1.0})
        for (double decay : {0.0, 1.0})
          for (bool adapt : {false, true})
            check({.beta1 = beta1,
                   .beta2 = beta2,
                   .eps = eps,
                   .weight_decay = decay,
                   .always_adapt = adapt});
  for (double lr : {0.0, 1.0}) check({.lr = lr});
  check({.bias_correction = false, .trust_clip = true});
  check({.eps = 0, .trust_clip = true, .always_adapt = true});
}

/// a (rows, inner) times b (inner, cols), or times the transpose of b.
Numbers product(const Numbers& a, const Numbers& b, int64_t rows, int64_t inner, int64_t cols,
                bool transposed) {
  Numbers out(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t i = 0; i < inner; ++i) {
        Number& sum = out[static_cast<size_t>(r * cols + c)];
        sum = sum + a[static_cast<size_t>(r * inner + i)] *
                        b[static_cast<size_t>(transposed ? c * inner + i : i * cols + c)];
      }
  return out;
}

/// X / |X|, then a X + (b X X^T + c (X X^T)^2) X, transposed if that makes X X^T smaller.
Numbers orthogonal(Numbers x, int64_t rows, int64_t cols, const optim::MuonOptions& r) {
  auto transpose_of = [](const Numbers& m, int64_t n, int64_t k) {
    Numbers out;
    for (int64_t c = 0; c < k; ++c)
      for (int64_t i = 0; i < n; ++i) out.push_back(m[static_cast<size_t>(i * k + c)]);
    return out;
  };
  if (rows > cols)
    return transpose_of(orthogonal(transpose_of(x, rows, cols), cols, rows, r), cols, rows);
  const Number norm = at_least(norm_of(x), r.eps);
  for (Number& v : x) v = v / norm;
  const auto [a, b, c] = r.ns_coefficients;
  for (int step = 0; step < r.ns_steps; ++step) {
    const Numbers gram = product(x, x, rows, cols, rows, true);
    Numbers mix = product(gram, gram, rows, rows, rows, false);
    for (size_t i = 0; i < gram.size(); ++i) mix[i] = Number(b) * gram[i] + Number(c) * mix[i];
    const Numbers rest = product(mix, x, rows, rows, cols, false);
    for (size_t i = 0; i < x.size(); ++i) x[i] = Number(a) * x[i] + rest[i];
  }
  return x;
}

void muon_by_hand(const optim::MuonOptions& r, Kept& k, const Numbers& g, double) {
  Numbers x;
  auto moved = [&](Number m, Number to) {
    return r.momentum == 1 ? m : average(m, to, r.momentum);
  };
  for (size_t i = 0; i < g.size(); ++i) {
    k.m[i] = moved(k.m[i], g[i]);
    x.push_back(r.nesterov ? moved(k.m[i], g[i]) : k.m[i]);
  }
  const int64_t width = static_cast<int64_t>(g.size()) / k.rows;  // of a convolution: in h w
  const Numbers d = orthogonal(x, k.rows, width, r);
  const auto rows = static_cast<double>(k.rows), cols = static_cast<double>(width);
  const double factor = r.rate == optim::MuonRate::original ? std::sqrt(std::max(1.0, rows / cols))
                        : r.rate == optim::MuonRate::match_rms_adamw
                            ? 0.2 * std::sqrt(std::max(rows, cols))
                            : std::sqrt(rows / cols);
  for (size_t i = 0; i < g.size(); ++i)
    k.p[i] = Number(1 - r.lr * r.weight_decay) * k.p[i] - Number(r.lr * factor) * d[i];
}

void check_muon(const optim::MuonOptions& r) {
  CAPTURE(r.momentum);
  CAPTURE(r.ns_steps);
  CAPTURE(r.eps);
  for (const Shape& shape : {Shape{2, 3}, Shape{3, 2}, Shape{1, 1}, Shape{1, 4}, Shape{3, 2, 1, 2}})
    for (DType type : {DType::f32, DType::f64}) {
      auto by_hand = [&](Kept& k, const Numbers& g, double t) { muon_by_hand(r, k, g, t); };
      check_steps<optim::Muon>(r, shape, type, 0.8, by_hand);
      check_steps<optim::MuonWithAdamW>(optim::MuonOrAdamWOptions(r), shape, type, 0.8, by_hand);
    }
}

TEST_CASE("Muon at the limits of its coefficients, alone and as MuonWithAdamW") {
  using optim::MuonRate;
  for (double momentum : {0.0, 0.95, 1.0})
    for (bool nesterov : {false, true})
      for (int steps : {0, 1, 5})
        check_muon({.momentum = momentum, .nesterov = nesterov, .ns_steps = steps});
  for (double end : {0.0, 1.0}) {
    check_muon({.lr = end});
    check_muon({.weight_decay = end});
    check_muon({.ns_coefficients = {end, 1 - end, end}, .ns_steps = 1});
    check_muon({.eps = end + 1e-30});
  }
  for (MuonRate rate :
       {MuonRate::original, MuonRate::match_rms_adamw, MuonRate::spectral_unclamped})
    check_muon({.rate = rate});
}

void adamw_by_hand(const optim::AdamWOptions& r, Kept& k, const Numbers& g, double t) {
  adam_moments(r, k, g);
  for (size_t i = 0; i < g.size(); ++i)
    k.p[i] = Number(1 - r.lr * r.weight_decay) * k.p[i] -
             Number(r.lr / (1 - std::pow(r.beta1, t))) * k.m[i] /
                 (root(k.v[i] / Number(1 - std::pow(r.beta2, t))) + Number(r.eps));
}

TEST_CASE("AdamW in MuonWithAdamW at the limits of its coefficients") {
  for (double beta1 : {0.0, 0.9})
    for (double beta2 : {0.0, 0.99})
      for (double lr : {0.0, 1.0})
        for (double decay : {0.0, 1.0}) {
          const optim::AdamWOptions r{
              .lr = lr, .beta1 = beta1, .beta2 = beta2, .weight_decay = decay};
          for (DType type : {DType::f32, DType::f64})
            check_steps<optim::MuonWithAdamW>(
                optim::MuonOrAdamWOptions(r), {6}, type, 0.6,
                [&](Kept& k, const Numbers& g, double t) { adamw_by_hand(r, k, g, t); });
        }
}

/// Updates rows and columns of squares, or for a vector the squares. Returns 1 / root of the second
/// moment of each element.
Numbers adafactor_scales(const optim::AdafactorOptions& r, Kept& k, const Numbers& g, double w,
                         bool matrix, DType type) {
  const double epsilon = type == DType::f32 ? 0x1p-23 : 0x1p-52, eps = r.eps1.value_or(epsilon);
  const double normal = type == DType::f32 ? 0x1p-126 : 0x1p-1022,
               least = std::max(eps * eps, normal);
  Numbers out;
  auto scale = [&](Number v) { return Number(1) / root(at_least(v, least)); };
  if (!matrix) {
    for (size_t i = 0; i < g.size(); ++i) {
      k.v[i] = average(k.v[i], g[i] * g[i], 1 - w);
      out.push_back(scale(k.v[i]));
    }
    return out;
  }
  Numbers rows(k.row.size()), cols(k.col.size());
  for (size_t i = 0; i < g.size(); ++i) {
    const size_t row = i / cols.size(), col = i % cols.size();
    rows[row] = rows[row] + g[i] * g[i] / Number(static_cast<double>(k.cols));
    cols[col] = cols[col] + g[i] * g[i] / Number(static_cast<double>(k.rows));
  }
  Number mean;
  for (size_t i = 0; i < rows.size(); ++i) {
    k.row[i] = average(k.row[i], rows[i], 1 - w);
    mean = mean + k.row[i] / Number(static_cast<double>(k.rows));
  }
  for (size_t i = 0; i < cols.size(); ++i) k.col[i] = average(k.col[i], cols[i], 1 - w);
  mean = at_least(mean, eps);
  for (const Number& row : k.row)
    for (const Number& col : k.col) out.push_back(scale(row / mean * col));
  return out;
}

void adafactor_by_hand(const optim::AdafactorOptions& r, Kept& k, const Numbers& g, double t,
                       bool matrix, DType type) {
  const Number n(static_cast<double>(g.size()));
  const Numbers scales = adafactor_scales(r, k, g, std::pow(t, r.beta2_decay), matrix, type);
  Numbers u;
  for (size_t i = 0; i < g.size(); ++i) u.push_back(g[i] * scales[i]);
  const Number size =
      Number(std::min(r.lr, 1 / std::sqrt(t))) * at_least(root(sum_of_squares(k.p) / n), r.eps2);
  const Number rate = size / at_least(root(sum_of_squares(u) / n) / Number(r.d), 1);
  for (size_t i = 0; i < g.size(); ++i)
    k.p[i] = Number(1 - r.lr * r.weight_decay) * k.p[i] - rate * u[i];
}

TEST_CASE("Adafactor at the limits of its coefficients") {
  auto check = [](const optim::AdafactorOptions& r) {
    for (const Shape& shape : {Shape{2, 3}, Shape{3, 2}, Shape{6}, Shape{1, 1}})
      for (DType type : {DType::f32, DType::f64}) {
        const bool matrix = shape.size() > 1;
        check_steps<optim::Adafactor>(r, shape, type, 0.5,
                                      [&](Kept& k, const Numbers& g, double t) {
                                        adafactor_by_hand(r, k, g, t, matrix, type);
                                      });
      }
  };
  check({});
  for (double end : {0.0, 1.0}) {
    check({.lr = end});
    check({.beta2_decay = -end});
    check({.eps2 = end});
    check({.weight_decay = end});
    check({.lr = 1, .weight_decay = end});
  }
  for (double eps1 : {1e-30, 1.0})
    for (double d : {1.0, 10.0}) check({.eps1 = eps1, .d = d});
}

}  // namespace

}  // namespace tern::test_optim_whole_extremes
