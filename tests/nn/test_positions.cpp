// Positional encodings against closed formulas.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <sstream>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/positions.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_positions {
namespace {

using namespace nn;
using test::Array;
using test::close;
using test::for_each_index;
using test::same;

/// A table with fn(index) for every index.
template <class Fn>
Tensor table(const Shape& shape, Fn&& fn) {
  Array a(shape);
  for_each_index(shape, [&](const Dims& i) { a.at(i) = fn(i); });
  return tensor(a.v, shape);
}

bool near(const Tensor& a, const Tensor& b) { return close(a, b, 1e-10, 1e-10); }

void check_refused(const std::function<void()>& call, const char* text) {
  CHECK_THROWS_WITH_AS(call(), doctest::Contains(text), Error);
}

}  // namespace

TEST_CASE("positions: binary") {
  Tensor t = binary_positions(6);
  CHECK(t.shape() == Shape{3, 6});
  CHECK(t.to_vector<int>() ==
        std::vector<int>{0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1});
  for (int64_t tokens : {0, 1, 2, 3, 4, 5, 8, 9, 1000}) {
    const auto bits = static_cast<int64_t>(
        std::ceil(std::log2(static_cast<double>(std::max<int64_t>(tokens, 1)))));
    CHECK(binary_positions(tokens).shape() == Shape{bits, tokens});
  }
  Tensor far = binary_positions(5, 40, (int64_t{1} << 39) - 2);
  CHECK(far.shape() == Shape{40, 5});
  CHECK(select(far, 0, 39).to_vector<int>() == std::vector<int>{0, 0, 1, 1, 1});
  CHECK(select(far, 0, 0).to_vector<int>() == std::vector<int>{0, 1, 0, 1, 0});
  CHECK(same(binary_positions(4, 5, 20), narrow(binary_positions(24, 5), 1, 20, 4)));
  CHECK(binary_positions(4, 0, 13).size(0) == 5);  // token 16 needs a fifth bit
  check_refused([] { return binary_positions(-1); }, "got -1 tokens");
  check_refused([] { return binary_positions(3, 63); }, "63 bits");
  check_refused([] { return binary_positions(3, 2, -1); }, "-1");
}

TEST_CASE("positions: sinusoidal") {
  for (int64_t dim : {1, 2, 7, 8}) {
    Tensor want = table({40, dim}, [&](const Dims& i) {
      const double pair = static_cast<double>(i[1] / 2 * 2);
      const double angle =
          static_cast<double>(i[0]) / std::pow(1e4, pair / static_cast<double>(dim));
      return i[1] % 2 ? std::cos(angle) : std::sin(angle);
    });
    Tensor got = sinusoidal_positions(40, dim, {}, DType::f64);
    CHECK(near(got, want));
    CHECK(close(sinusoidal_positions(40, dim), want.to(DType::f32), 0, 1e-7));
    CHECK(same(sinusoidal_positions(7, dim, {.offset = 33}, DType::f64), narrow(got, 0, 33, 7)));
  }
  // f32 tables are as exact at far positions as at near ones.
  Tensor far = sinusoidal_positions(1, 2, {.offset = 1000000}, DType::f32);
  CHECK(far.to_vector<float>()[0] == doctest::Approx(std::sin(1e6)).epsilon(1e-6));
  CHECK(sinusoidal_positions(3, 4, {.base = 100}).to_vector<float>()[6] ==
        doctest::Approx(std::sin(0.1)));
  CHECK(sinusoidal_positions(0, 4).shape() == Shape{0, 4});
  CHECK(sinusoidal_positions(4, 0).shape() == Shape{4, 0});
  check_refused([] { return sinusoidal_positions(-1, 4); }, "got -1 tokens");
  check_refused([] { return sinusoidal_positions(4, 4, {.base = 0}); }, "the base is 0");
  check_refused([] { return sinusoidal_positions(4, 4, {}, DType::i64); }, "floating, got i64");
}

TEST_CASE("positions: sinusoidal, for given times") {
  for (int64_t dim : {0, 1, 2, 7, 8, 64}) {
    Tensor rows = sinusoidal_positions(50, dim), whole = arange(0, 50);
    CHECK(same(sinusoidal_positions(whole, dim), rows));
    CHECK(same(sinusoidal_positions(whole.to(DType::f32), dim), rows));
    CHECK(same(sinusoidal_positions(whole.to(DType::f64), dim, {.offset = 3, .base = 100}),
               sinusoidal_positions(50, dim, {.offset = 3, .base = 100}, DType::f64)));
    // Any shape and layout.
    Tensor grid = transpose(reshape(whole, {5, 10}), 0, 1);
    CHECK(same(sinusoidal_positions(grid, dim), transpose(reshape(rows, {5, 10, dim}), 0, 1)));
    CHECK(sinusoidal_positions(scalar(2.5), dim).shape() == Shape{dim});
    CHECK(sinusoidal_positions(zeros({0, 2}), dim).shape() == Shape{0, 2, dim});
  }
  Tensor times = tensor({0.25, -3.5, 999.75}, {3}, DType::f64);
  Tensor want = table({3, 5}, [&](const Dims& i) {
    const double angle =
        times[i[0]].item() * std::pow(1e4, -2.0 * static_cast<double>(i[1] / 2) / 5);
    return i[1] % 2 ? std::cos(angle) : std::sin(angle);
  });
  CHECK(near(sinusoidal_positions(times, 5), want));
  CHECK(sinusoidal_positions(times.to(DType::f32), 5).dtype() == DType::f32);
  Tensor leaf = tensor({0.25, -3.5}, {2}, DType::f64).set_requires_grad();
  auto of_times = [](const std::vector<Tensor>& x) { return sinusoidal_positions(x[0], 5); };
  CHECK_NOTHROW(gradcheck(of_times, {leaf}));
  check_refused([] { return sinusoidal_positions(zeros({2}), -1); }, "got -1");
  check_refused([] { return sinusoidal_positions(zeros({2}), 4, {.base = 0}); }, "the base is 0");
  check_refused([] { return sinusoidal_positions(Tensor(), 4); },
                "sinusoidal_positions: operand 1");
}

TEST_CASE("positions: on a grid") {
  Tensor got = sincos_2d_positions(3, 4, 8, {}, DType::f64);
  Tensor want = table({12, 8}, [](const Dims& i) {
    const double row = static_cast<double>(i[0] / 4), column = static_cast<double>(i[0] % 4);
    const double w = std::pow(1e4, -static_cast<double>(i[1] % 2) / 2);
    const double angle = (i[1] < 4 ? column : row) * w;
    return i[1] / 2 % 2 ? std::cos(angle) : std::sin(angle);
  });
  CHECK(near(got, want));
  Tensor part = sincos_2d_positions(2, 3, 8, {.row_offset = 1, .column_offset = 1}, DType::f64);
  Tensor grid = reshape(got, {3, 4, 8});
  CHECK(same(part, reshape(narrow(narrow(grid, 0, 1, 2), 1, 1, 3), {6, 8})));
  check_refused([] { return sincos_2d_positions(3, 4, 6); }, "6 channels are not a multiple of 4");
  check_refused([] { return sincos_2d_positions(-3, 4, 8); },
                "sincos_2d_positions: sizes must not be negative, got -3 x 4");
  check_refused([] { return sincos_2d_positions(3, 4, 8, {.base = -1}); }, "the base is -1");
}

TEST_CASE("positions: resizing to another grid, as in timm") {
  const SafeTensors file =
      load_safetensors(TERN_SOURCE_DIR "/tests/reference/vit/positions.safetensors");
  for (const auto& entry : file.metadata) {
    const std::string& name = entry.first;
    CAPTURE(name);
    std::istringstream in(entry.second);
    int64_t prefix = 0, h = 0, w = 0, rows = 0, columns = 0;
    in >> prefix >> h >> w >> rows >> columns;
    const Tensor from = file.find("from." + name)[0], want = file.find("to." + name)[0];
    const ResizeOptions options{.prefix = prefix, .old_rows = h, .old_columns = w};
    const Tensor got = resize_positions(from, rows, columns, options);
    // PyTorch computes the kernel's centres, up to 24, in f32: two errors of 1e-6, times slopes of
    // about 1 and values of up to 4.
    CHECK(close(got, want, 0, 1e-5));
    CHECK(same(narrow(got, 0, 0, prefix), narrow(from, 0, 0, prefix)));
    if (h == w) CHECK(same(resize_positions(from, rows, columns, {.prefix = prefix}), got));
    CHECK(same(resize_positions(from, h, w, options), from));
    const Tensor f64 = resize_positions(from.to(DType::f64), rows, columns, options);
    const Tensor patches = narrow(f64, 0, prefix, rows * columns);
    CHECK(near(reshape(patches, {rows, columns, 4}), file.find("exact." + name)));
  }
  CHECK(file.metadata.size() == 7);
  // A constant table stays constant at every size.
  CHECK(near(resize_positions(ones({13, 2}, DType::f64), 5, 3,
                              {.prefix = 1, .old_rows = 2, .old_columns = 6}),
             ones({16, 2}, DType::f64)));
  check_refused(
      [] {
        return resize_positions(zeros({8, 2}), 2, 2, {.prefix = 1});
      },
      "8 positions cannot be split");
  check_refused([] { return resize_positions(zeros({4, 2}), 0, 2); }, "got 0 x 2 patches");
  check_refused([] { return resize_positions(zeros({1, 4, 2}), 2, 2); }, "needs a table");
  check_refused([] { return resize_positions(zeros({4, 2}, DType::i64), 2, 2); }, "floating");
}

TEST_CASE("positions: learned") {
  Rng rng(1);
  LearnedPositions positions(10, 4, rng);
  CHECK(named_parameters(positions)[0].first == "weight");
  Tensor x = randn({2, 3, 4}, rng);
  const Tensor& weight = positions.weight;
  CHECK(same(positions(x), x + narrow(weight, 0, 0, 3)));
  CHECK(same(positions(x, 7), x + narrow(weight, 0, 7, 3)));
  test::check_leaves(sum(positions(x)), positions);
  Tensor y = positions(x, 2);
  sum(y * y.detach()).backward();
  CHECK(close(narrow(weight.grad(), 0, 2, 3), sum(y.detach(), 0)));
  CHECK(sum(abs(narrow(weight.grad(), 0, 5, 5))).item() == 0);
  LearnedPositions many(1000, 50, rng, 0.5);
  CHECK(std::abs(tern::std(many.weight).item() - 0.5) < 0.01);
  check_refused([&] { return positions(x, 8); }, "tokens 8 to 11 do not fit into 10 positions");
  check_refused([&] { return positions(x, -1); }, "tokens -1 to 2");
  check_refused(
      [&] {
        return positions(zeros({2, 3, 5}));
      },
      "needs (..., T, 4), the shape is (2, 3, 5)");
}

TEST_CASE("positions: rotary turns pairs; products depend only on distances") {
  Rng rng(2);
  Tensor q = randn({6}, rng, DType::f64), k = randn({6}, rng, DType::f64);
  for (RotaryPairs pairs : {RotaryPairs::neighbours, RotaryPairs::halves}) {
    const bool halves = pairs == RotaryPairs::halves;
    Tensor x = randn({2, 3, 5, 6}, rng, DType::f64);
    Array in = test::to_array(x);
    Tensor want = table(x.shape(), [&](const Dims& i) {
      const int64_t d = i[3], pair = halves ? d % 3 : d / 2;
      const bool second = halves ? d >= 3 : d % 2;
      const int64_t a = halves ? pair : 2 * pair, b = halves ? pair + 3 : 2 * pair + 1;
      const double angle =
          static_cast<double>(i[2] + 4) * std::pow(1e4, -2 * static_cast<double>(pair) / 6);
      const double u = in.at({i[0], i[1], i[2], a}), v = in.at({i[0], i[1], i[2], b});
      return second ? u * std::sin(angle) + v * std::cos(angle)
                    : u * std::cos(angle) - v * std::sin(angle);
    });
    CHECK(near(rotary(x, {.offset = 4, .pairs = pairs}), want));
    // An offset gives the tail of a longer sequence.
    Tensor whole = rotary(x, {.pairs = pairs});
    CHECK(same(rotary(narrow(x, 2, 2, 3), {.offset = 2, .pairs = pairs}), narrow(whole, 2, 2, 3)));
    // With the same query and key everywhere, the product at t and s depends only on t - s.
    const RotaryOptions at{.offset = 100, .pairs = pairs};
    Tensor products =
        matmul(rotary(expand(q, {8, 6}), at), transpose(rotary(expand(k, {8, 6}), at), 0, 1));
    for (int64_t d = -7; d <= 7; ++d) {
      Tensor line = diagonal(products, d);
      CHECK(max(line).item() - min(line).item() < 1e-10);
    }
    CHECK(max(products).item() - min(products).item() > 0.1);
    CHECK(diagonal(products)[0].item() == doctest::Approx(sum(q * k).item()));
    Tensor leaf = randn({2, 3, 4}, rng, DType::f64).set_requires_grad();
    auto run = [&](const std::vector<Tensor>& v) {
      return rotary(v[0], {.offset = 3, .base = 10, .pairs = pairs});
    };
    CHECK_NOTHROW(gradcheck(run, {leaf}));
    CHECK_NOTHROW(gradgradcheck(run, {leaf}));
  }
  CHECK(rotary(zeros({2, 0, 4})).shape() == Shape{2, 0, 4});
  CHECK(rotary(zeros({2, 3, 0})).shape() == Shape{2, 3, 0});
  check_refused([] { return rotary(zeros({2, 3})); }, "an even D, the shape is (2, 3)");
  check_refused([] { return rotary(zeros({4})); }, "the shape is (4,)");
  check_refused([] { return rotary(zeros({2, 4}, DType::i64)); }, "rotary: needs floating numbers");
  check_refused([] { return rotary(zeros({2, 4}), {.base = 0}); }, "the base is 0");
}

TEST_CASE("positions: rotary of some channels, with scaled angles") {
  Rng rng(3);
  const Tensor x = randn({2, 7, 10}, rng, DType::f64);
  const Array in = test::to_array(x);
  using Kind = RopeScaling::Kind;
  // Three pairs: with base 100 they turn once in 6.3, 29 and 135 tokens.
  RopeScaling linear{.kind = Kind::linear, .factor = 3};
  const RopeScaling llama3{.kind = Kind::llama3,
                           .factor = 8,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_context = 60};
  RopeScaling yarn{.kind = Kind::yarn, .factor = 8, .original_context = 60};
  yarn.beta_fast = 4, yarn.beta_slow = 0.5;
  RopeScaling longrope{.kind = Kind::longrope, .factor = 8, .original_context = 60};
  longrope.shorter = {1, 2, 4}, longrope.longer = {1, 5, 9};
  auto want = [&](const std::vector<double>& angles, double grown = 1) {
    return table(x.shape(), [&](const Dims& i) {
      if (i[2] >= 6) return in.at(i);
      const int64_t pair = i[2] % 3;
      const double angle = static_cast<double>(i[1] + 5) * angles[static_cast<size_t>(pair)];
      const double u = grown * in.at({i[0], i[1], pair}), v = grown * in.at({i[0], i[1], pair + 3});
      return i[2] >= 3 ? u * std::sin(angle) + v * std::cos(angle)
                       : u * std::cos(angle) - v * std::sin(angle);
    });
  };
  auto got = [&](const RopeScaling& scaling) {
    return rotary(x, {.offset = 5,
                      .base = 100,
                      .pairs = RotaryPairs::halves,
                      .channels = 6,
                      .scaling = scaling});
  };
  const double second = std::pow(100, -1 / 3.0), third = std::pow(100, -2 / 3.0);
  CHECK(near(got({}), want({1, second, third})));
  CHECK(near(got(linear), want({1 / 3.0, second / 3, third / 3})));
  // In 60 tokens the pairs turn 9.5, 2.06 and 0.44 times: fast, between, slow.
  const double share = (60 * second / (2 * std::numbers::pi) - 1) / 3;
  CHECK(share == doctest::Approx(0.352).epsilon(0.01));
  CHECK(near(got(llama3), want({1, second * (share + (1 - share) / 8), third / 8})));
  // Four turns end between pairs 0 and 1, half a turn between 1 and 2: the bounds are 0 and 2.
  CHECK(near(got(yarn), want({1, second * (0.5 + 0.5 / 8), third / 8}, 1 + std::log(8) / 10)));
  yarn.truncate = false, yarn.attention_factor = 1.25;
  const double first = 3 / std::log(100) * std::log(60 / (8 * std::numbers::pi));
  const double last = 3 / std::log(100) * std::log(60 / std::numbers::pi);
  const double slow = (1 - first) / (last - first);
  CHECK(near(got(yarn), want({1, second * (1 - slow + slow / 8), third / 8}, 1.25)));
  CHECK(near(got(longrope),
             want({1, second / 5, third / 9}, std::sqrt(1 + std::log(8) / std::log(60)))));
  longrope.factor = 1;
  CHECK(near(got(longrope), want({1, second / 2, third / 4})));
  longrope.longer.pop_back();
  check_refused([&] { return got(longrope); }, "a positive divisor for each of 3 pairs");
  yarn.attention_factor = 0;
  check_refused([&] { return got(yarn); }, "attention_factor of scaled rotary positions is 0");
  linear.attention_factor = 1.25;
  check_refused([&] { return got(linear); }, "attention_factor (1.25) is for yarn and longrope");
  check_refused([&] { return got({.factor = 2}); }, "is 2, but nothing is scaled by it");
  check_refused([&] { return rotary(x, {.channels = 5}); }, "the first 5 of 10 channels");
  check_refused([&] { return rotary(x, {.channels = 12}); }, "the first 12 of 10 channels");
  check_refused([&] { return rotary(x, {.scaling = {.kind = Kind::linear, .factor = -1}}); },
                "the factor of scaled rotary positions is -1");
  check_refused(
      [&] { return rotary(x, {.scaling = {.kind = Kind::llama3, .original_context = 0}}); },
      "original context of 0");
}

TEST_CASE("positions: alibi") {
  auto slopes = [](int64_t heads) {  // the penalty of a key one step back
    std::vector<double> out;
    Tensor bias = alibi_bias(heads, 2, 2, 0, DType::f64);
    for (int64_t h = 0; h < heads; ++h) out.push_back(-bias[h][1][0].item());
    return out;
  };
  // The paper's example for 8 heads. 6 and 12 heads are from the authors' get_slopes.
  CHECK(slopes(8) ==
        std::vector<double>{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8});
  CHECK(slopes(6) == std::vector<double>{0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3});
  CHECK(slopes(1) == std::vector<double>{0x1p-8});
  std::vector<double> twelve = slopes(12);
  CHECK(std::equal(twelve.begin(), twelve.begin() + 8, slopes(8).begin()));
  for (int i = 0; i < 4; ++i)
    CHECK(twelve[static_cast<size_t>(8 + i)] == doctest::Approx(std::exp2(-(2 * i + 1) / 2.0)));
  Tensor bias = alibi_bias(2, 3, 5, 2, DType::f64);
  CHECK(near(bias, table({2, 3, 5}, [](const Dims& i) {
               const double distance = std::abs(static_cast<double>(i[1] + 2 - i[2]));
               return -distance * (i[0] == 0 ? 0x1p-4 : 0x1p-8);
             })));
  CHECK(same(alibi_bias(6, 3, 9, 6), narrow(alibi_bias(6, 9, 9), 1, 6, 3)));
  // The mask combines with other masks.
  Rng rng(3);
  Tensor scores = randn({1, 2, 3, 5}, rng);
  Tensor want = softmax(scores + bias.to(DType::f32), -1, Mask::causal(2).dense({1, 2, 3, 5}));
  CHECK(close((alibi(2, 3, 5, 2) & Mask::causal(2)).softmax(scores), want));
  check_refused([] { return alibi_bias(0, 2, 2); }, "heads must be positive, got 0");
  check_refused([] { return alibi_bias(2, -1, 2); }, "got -1 queries");
}

}  // namespace tern::test_positions
