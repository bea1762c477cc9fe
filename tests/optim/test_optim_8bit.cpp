// Optimizers with 8-bit states: the table and the rounding against their definitions, training
// against 32 bits, and saved states.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/optim/quantized.h"
#include "tern/tests/support/model_checks.h"
#include "tern/tests/support/numbers_with_error.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"

namespace tern::test::test_optim_8bit {
namespace {

/// The table by its definition, like create_dynamic_map of bitsandbytes.
std::vector<double> table(bool non_negative) {
  std::vector<double> t = {0, 1};
  for (int i = 0; i < 7; ++i) {
    const int n = 1 << (non_negative ? i + 1 : i);
    for (int k = 0; k < n; ++k) {
      const double low = 0.1 + 0.9 * k / n, high = 0.1 + 0.9 * (k + 1) / n;
      const double v = std::pow(10, i - 6) * (low + high) / 2;
      t.push_back(v);
      if (!non_negative) t.push_back(-v);
    }
  }
  std::sort(t.begin(), t.end());
  return t;
}

template <class T>
std::vector<T> round_trip(bool non_negative, const std::vector<T>& x) {
  const auto n = std::ssize(x);
  std::vector<uint8_t> codes(x.size());
  std::vector<float> scales(x.size() / optim::kQuantizedBlock + 1);
  std::vector<T> out(x.size());
  optim::quantize(non_negative, x.data(), n, codes.data(), scales.data());
  optim::dequantize(non_negative, codes.data(), scales.data(), out.data(), n);
  return out;
}

optim::AdamWOptions of_bits(int bits, double lr = 1e-2) {
  return {.lr = lr, .weight_decay = 0.01, .state_bits = bits};
}

/// Two layers. The first is large enough for an 8-bit state, whose last block is not full.
struct Net {
  nn::Linear up, down;
  explicit Net(Rng& rng) : up(67, 301, rng), down(301, 1, rng) {}
  Tensor operator()(const Tensor& x) const { return down(tanh(up(x))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("down", m.down);
  }
};

struct Training {
  Rng rng;
  Net net;
  optim::AdamW optimizer;
  std::vector<double> losses;

  explicit Training(int bits, uint64_t seed = 1)
      : rng(seed), net(rng), optimizer(nn::named_parameters(net), of_bits(bits)) {}
  void steps(int n, bool in_backward = false) {
    for (int i = 0; i < n; ++i) {
      const Tensor x = randn({64, 67}, rng);
      const Tensor y = sum(sin(narrow(x, 1, 0, 6)), {1}, true) * 0.5;
      const Tensor loss = mean(square(net(x) - y));
      losses.push_back(loss.item());
      if (in_backward)
        backward(loss, {.on_ready = optimizer.step_in_backward()});
      else
        backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  NamedTensors everything() const {
    NamedTensors out = nn::named_parameters(net);
    for (const auto& t : optimizer.state_dict()) out.push_back(t);
    return out;
  }
};

}  // namespace

TEST_CASE("8 bits: numbers become the nearest value of the table, but positive variances never 0") {
  for (const bool non_negative : {true, false}) {
    const std::vector<double> t = table(non_negative);
    REQUIRE(t.size() == 256);
    // The largest number of each block is 1, so that its scale is 1.
    Rng rng(3);
    std::vector<float> x = {1};
    for (const double v : t) x.push_back(static_cast<float>(v));
    for (int i = 0; i < 5000; ++i) {
      const double magnitude = std::pow(10, rng.uniform(-8, 0));
      x.push_back(static_cast<float>(non_negative || i % 2 ? magnitude : -magnitude));
      if (x.size() % optim::kQuantizedBlock == 0) x.push_back(1);
    }
    const std::vector<float> got = round_trip(non_negative, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      double best = kInf;
      for (const double c : t)
        if (!non_negative || v == 0 || c > 0) best = std::min(best, std::abs(v - c));
      // Beside rounding, the value is the nearest one.
      CHECK(std::abs(v - static_cast<double>(got[i])) <= best + 2e-7 * std::abs(v) + 1e-13);
    }
  }
}

TEST_CASE("8 bits: one scale per block; zeros, tiny and huge numbers, f64") {
  std::vector<float> x(600, 0.0f);
  for (size_t i = 256; i < 512; ++i) x[i] = 1e-30f * static_cast<float>(i);
  for (size_t i = 512; i < 600; ++i) x[i] = -3e38f;
  const std::vector<float> y = round_trip(false, x);
  for (size_t i = 0; i < 256; ++i) CHECK(y[i] == 0);
  for (size_t i = 256; i < 512; ++i) CHECK(y[i] == doctest::Approx(x[i]).epsilon(0.02));
  for (size_t i = 512; i < 600; ++i) CHECK(y[i] == doctest::Approx(x[i]).epsilon(0.01));
  const std::vector<double> d = round_trip(true, std::vector<double>{1e-300, 0, 2, 1e-3});
  CHECK(d[0] == 0);
  CHECK(d[2] == 2);
  CHECK(d[3] == doctest::Approx(1e-3).epsilon(0.05));
}

TEST_CASE("8 bits: a quarter of the memory; small parameters keep 32 bits") {
  Rng rng(0);
  const nn::Linear layer(512, 512, rng);
  auto bytes = [&](int bits) {
    trim_memory();
    const int64_t before = memory_stats().live;
    optim::AdamW optimizer(nn::named_parameters(layer), of_bits(bits));
    optimizer.allocate_state();
    return memory_stats().live - before;
  };
  const int64_t full = bytes(32), eighth = bytes(8);
  CHECK(full >= 2 * 4 * 512 * 512);
  CHECK(eighth < full / 4 + full / 50);
  optim::AdamW optimizer(nn::named_parameters(layer), of_bits(8));
  for (const auto& [name, p] : nn::named_parameters(layer)) p.set_grad(ones(p.shape()));
  optimizer.step();
  const NamedTensors state = optimizer.state_dict();
  auto find = [&](const std::string& name) {
    const auto at = std::find_if(state.begin(), state.end(),
                                 [&](const auto& named) { return named.first == name; });
    REQUIRE(at != state.end());
    return at->second;
  };
  CHECK(find("weight.exp_avg").dtype() == DType::u8);
  CHECK(find("weight.exp_avg.scale").shape() == Shape{1024});
  CHECK(find("weight.exp_avg_sq.scale").dtype() == DType::f32);
  CHECK(find("bias.exp_avg").dtype() == DType::f32);
}

TEST_CASE("8 bits: a saved state continues exactly, even if loaded over another state") {
  Training whole(8), first(8);
  whole.steps(20);
  first.steps(9);
  const NamedTensors state = copies(first.optimizer.state_dict());
  const NamedTensors weights = copies(nn::named_parameters(first.net));
  Training second(8, 99);
  second.steps(3);  // makes a state, which loading replaces
  nn::load_state_dict(second.net, weights);
  second.optimizer.load_state_dict(state);
  second.rng = first.rng;
  second.steps(11);
  check_same(whole.everything(), second.everything());
  // A 32-bit state does not fit.
  Training other(32);
  other.steps(1);
  CHECK_THROWS_WITH_AS(second.optimizer.load_state_dict(other.optimizer.state_dict()),
                       doctest::Contains("up.weight.exp_avg"), Error);
}

TEST_CASE("8 bits: same bits for steps inside backward, and on any number of threads") {
  Training after(8), inside(8);
  after.steps(6);
  inside.steps(6, true);
  check_same(after.everything(), inside.everything());
  check_threads([] {
    Training t(8);
    t.steps(4);
    return numbers_of(t.everything());
  });
}

TEST_CASE("8 bits: a small problem is learned as well as with 32 bits") {
  for (const uint64_t seed : {1, 2, 3}) {
    Training full(32, seed), eighth(8, seed);
    full.steps(400);
    eighth.steps(400);
    auto end = [](const std::vector<double>& losses) {
      double sum = 0;
      for (size_t i = losses.size() - 50; i < losses.size(); ++i) sum += losses[i] / 50;
      return sum;
    };
    CAPTURE(end(full.losses));
    CAPTURE(end(eighth.losses));
    CHECK(end(full.losses) < full.losses[0] / 4);
    CHECK(end(eighth.losses) < 1.1 * end(full.losses));
  }
}

TEST_CASE("8 bits: a rare gradient that is small for its block steps no further than with 32") {
  for (const double small : {1.0, 1e-2, 1e-3, 1e-4, 1e-5}) {
    CAPTURE(small);
    const Tensor table = zeros({64, 64}).set_requires_grad();  // a row is a quarter of a block
    optim::Adam optimizer(NamedTensors{{"table", table}}, {.lr = 1e-3, .state_bits = 8});
    for (int i = 0; i < 20; ++i) {
      const double rare = i == 0 ? small : 0;
      backward(sum(select(table, 0, 0)) + rare * sum(select(table, 0, 1)));
      const Tensor before = table.detach().clone();
      optimizer.step();
      optimizer.zero_grad();
      // With 32 bits the first steps of Adam are at most lr.
      CHECK(max(abs(table.detach() - before)).item() < 1.5e-3);
    }
  }
}

TEST_CASE("8 bits: Adam in f64, and an invalid number of bits") {
  Tensor w = (linspace(-1, 1, 5000, DType::f64)).set_requires_grad();
  optim::Adam adam(std::vector<Tensor>{w}, {.lr = 0.1, .state_bits = 8});
  for (int i = 0; i < 60; ++i) {
    adam.zero_grad();
    backward(sum(square(w)));
    adam.step();
  }
  CHECK(sum(square(w)).item() < 20);  // at first 1,667
  CHECK_THROWS_WITH_AS(optim::Adam(std::vector<Tensor>{w}, {.state_bits = 4}),
                       doctest::Contains("state_bits must be 32 or 8, it is 4"), Error);
}

/// Quantizes a block by the definition: each number becomes the nearest value of the table times
/// the largest number; a positive variance never becomes 0. If rounding decides between two values,
/// the error covers both. A number that overflows becomes unknown.
void keep_in_8_bits(Number* block, int64_t n, const std::vector<double>& table, bool non_negative) {
  Number scale;
  bool unsure = false;
  for (int64_t i = 0; i < n; ++i) {
    unsure = unsure || !block[i].known();
    if (std::abs(block[i].value) > scale.value)
      scale = Number(std::abs(block[i].value), block[i].error);
  }
  const double largest = scale.value, rounded = 4 * 0x1p-24;  // scales and tables are in f32
  unsure = unsure || largest > 3.4e38 || std::abs(largest - 1e-36) < 1e-41;
  for (int64_t i = 0; i < n; ++i) {
    Number& x = block[i];
    if (unsure || largest < 1e-36) {
      x = Number(unsure ? x.value : 0, unsure ? kInf : 0);
      continue;
    }
    const double a = x.value / largest;
    const double off =
        (x.error + std::abs(a) * scale.error + 0x1p-149) / largest + 1e-6 * std::abs(a);
    auto nearest = [&](double v) {
      const auto up = std::lower_bound(table.begin(), table.end(), v);
      if (up == table.end()) return table.back();
      if (up == table.begin()) return v > 0 ? table[1] : table[0];
      const bool lower = v - *(up - 1) < *up - v && !(non_negative && *(up - 1) == 0 && v > 0);
      return lower ? *(up - 1) : *up;
    };
    const double low = nearest(a - off), high = nearest(a + off), middle = nearest(a);
    x = Number(middle * largest, std::max(high - middle, middle - low) * largest +
                                     std::abs(middle) * (scale.error + rounded * largest));
  }
}

struct Kept {
  std::vector<Number> p, m, v;
};

/// A step by the definition, after which the moments are quantized to 8 bits.
template <class Rule>
void step_by_hand(const Rule& r, bool decoupled, Kept& k, const std::vector<double>& grads,
                  double t) {
  static const std::vector<double> kWithSign = table(false), kWithout = table(true);
  for (size_t i = 0; i < k.p.size(); ++i) {
    Number g = grads[i];
    if (decoupled)
      k.p[i] = k.p[i] * Number(1 - r.lr * r.weight_decay);
    else
      g = g + Number(r.weight_decay) * k.p[i];
    k.m[i] = average(k.m[i], g, r.beta1);
    k.v[i] = r.beta2 == 0 ? g * g : Number(r.beta2) * k.v[i] + Number(1 - r.beta2) * g * g;
    const Number below = root(k.v[i] / Number(1 - std::pow(r.beta2, t))) + Number(r.eps);
    k.p[i] = k.p[i] - Number(r.lr / (1 - std::pow(r.beta1, t))) * k.m[i] / below;
  }
  for (size_t at = 0; at < k.p.size(); at += optim::kQuantizedBlock) {
    keep_in_8_bits(&k.m[at], optim::kQuantizedBlock, kWithSign, false);
    keep_in_8_bits(&k.v[at], optim::kQuantizedBlock, kWithout, true);
  }
}

/// Each block has a different list of gradient sizes for the four steps; within a block the
/// gradients span nine decades.
template <class Rule>
void check_8_bits(Rule rule, bool decoupled, DType type) {
  type == DType::f32 ? Number::use_f32() : Number::use_f64();
  rule.state_bits = 8;
  std::vector<std::array<double, 4>> sizes;
  for (double g : {1e-30, 1e-20, 1e-15, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e15, 1e18, 1e20, 1e30}) {
    sizes.push_back({g, g, g, g});
    sizes.push_back({g, -1, 0.5, -0.25});
    sizes.push_back({-1, g, -g, 2});
  }
  const auto n = std::ssize(sizes) * optim::kQuantizedBlock;
  Tensor p = full({n}, 0.5, type).set_requires_grad();
  optim::OptimizerOf<Rule> optimizer(std::vector<Tensor>{p}, rule);
  Kept k{std::vector<Number>(static_cast<size_t>(n), 0.5),
         std::vector<Number>(static_cast<size_t>(n)), std::vector<Number>(static_cast<size_t>(n))};
  int64_t compared = 0;
  for (size_t t = 0; t < 4; ++t) {
    std::vector<double> g;
    for (int64_t i = 0; i < n; ++i)
      g.push_back(sizes[static_cast<size_t>(i / optim::kQuantizedBlock)][t] *
                  std::pow(-10.0, -(i % 9)) * (1 + 0.1 * static_cast<double>(i % 7)));
    p.set_grad(tensor(g).to(type));
    optimizer.step();
    step_by_hand(rule, decoupled, k, g, static_cast<double>(t + 1));
    const std::vector<double> got = p.to_vector<double>();
    int64_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      compared += k.p[i].known();
      wrong += k.p[i].known() ? !(std::abs(got[i] - k.p[i].value) <= k.p[i].error)
                              : !std::isfinite(got[i]) && rule.eps > 0;
      if (!k.p[i].known()) k.p[i] = Number(got[i]);
    }
    CAPTURE(t);
    CHECK(wrong == 0);
  }
  CHECK(compared > n);  // more than a quarter of the 4 n results
}

TEST_CASE("8 bits: Adam and AdamW equal their definitions at the limits of their coefficients") {
  for (DType type : {DType::f32, DType::f64})
    for (double beta1 : {0.0, 0.9})
      for (double beta2 : {0.0, 0.99})
        for (double eps : {0.0, 1e-8, 1.0})
          for (double decay : {0.0, 1.0}) {
            CAPTURE(beta1);
            CAPTURE(beta2);
            CAPTURE(eps);
            CAPTURE(decay);
            check_8_bits<optim::AdamOptions>(
                {.beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = decay}, false, type);
            check_8_bits<optim::AdamWOptions>(
                {.beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = decay}, true, type);
          }
}

TEST_CASE("optimizers: loading a state over another one needs no further memory") {
  Training t(32);
  t.steps(1);
  const NamedTensors state = copies(t.optimizer.state_dict());
  const int64_t live = memory_stats().live;
  reset_peak_memory();
  t.optimizer.load_state_dict(state);
  CHECK(memory_stats().live == live);
  CHECK(memory_stats().peak < live + 4096);
  // Parameters that a loaded state lacks have no state any more.
  const NamedTensors up(state.begin(), state.begin() + 3);
  t.optimizer.load_state_dict(up);
  CHECK(t.optimizer.state_dict().size() == 3);
  NamedTensors negative = state;
  negative[0].second = scalar(-1, DType::i64);
  const NamedTensors before = t.everything();
  CHECK_THROWS_WITH_AS(t.optimizer.load_state_dict(negative), doctest::Contains("negative: -1"),
                       Error);
  check_same(before, t.everything());
}

}  // namespace tern::test::test_optim_8bit
