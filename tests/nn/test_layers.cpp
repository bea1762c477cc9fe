// Basic layers against their definitions: linear, convolution, embedding, norms, dropout,
// Sequential, and the gating unit and tiny attention of gMLP.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"

namespace tern::test_layers {

namespace {

using Doubles = std::vector<double>;

Doubles values(const Tensor& t) { return t.to_vector<double>(); }

void check_close(const Tensor& got, const Doubles& want, double tolerance = 1e-12) {
  Doubles v = values(got);
  REQUIRE(v.size() == want.size());
  double worst = 0;
  for (size_t i = 0; i < v.size(); ++i) worst = std::max(worst, std::abs(v[i] - want[i]));
  CHECK(worst <= tolerance);
}

double largest(const Tensor& t) {
  double most = 0;
  for (double v : values(t)) most = std::max(most, std::abs(v));
  return most;
}

// Checks that gradients reach every parameter, and that the gradients are right.
template <class Layer>
void check_gradients(Layer& layer, const Tensor& x) {
  nn::to(layer, DType::f64);
  gradcheck([&](const std::vector<Tensor>& in) { return layer(in[0]); },
            {x.to(DType::f64).detach().set_requires_grad()});
  sum(layer(x.to(DType::f64))).backward();
  for (const auto& p : nn::named_parameters(layer))
    CHECK_MESSAGE(p.second.grad().defined(), p.first);
}

}  // namespace

TEST_CASE("layers: Linear") {
  Rng rng(1);
  nn::Linear layer(100, 50, rng);
  CHECK(layer.weight.shape() == Shape{50, 100});
  CHECK(largest(layer.weight) <= 0.1f);
  CHECK(largest(layer.weight) > 0.099);
  CHECK(largest(layer.bias) <= 0.1f);
  CHECK(largest(layer.bias) > 0.09);

  nn::Linear small(2, 2, rng);
  small.weight = tensor({1, 2, 3, -4}, {2, 2});
  small.bias = tensor({10, 20}, {2});
  CHECK(values(small(tensor({1, 1}, {2}))) == Doubles{13, 19});
  CHECK(values(small(tensor({1, -9}, {1, 2}), {.activation = Activation::relu})) == Doubles{0, 59});
  Tensor residual = tensor({100, 200}, {1, 2});
  CHECK(values(small(tensor({1, -9}, {1, 2}),
                     {.activation = Activation::relu, .residual = residual})) == Doubles{100, 259});
  nn::Linear plain(2, 2, rng, nn::Bias::no);
  CHECK_FALSE(plain.bias.defined());
  CHECK(nn::num_parameters(plain) == 4);
}

TEST_CASE("layers: Bilinear") {
  Rng rng(1);
  nn::Bilinear layer(25, 3, 40, rng);
  CHECK(layer.weight.shape() == Shape{40, 25, 3});
  CHECK(largest(layer.weight) <= 0.2f);
  CHECK(largest(layer.weight) > 0.199);
  CHECK(largest(layer.bias) <= 0.2f);
  const Tensor x = randn({2, 2, 25}, rng), z = randn({2, 2, 3}, rng);
  const Doubles w = values(layer.weight), b = values(layer.bias), u = values(x), v = values(z);
  Doubles want;
  for (size_t row = 0; row < 4; ++row)
    for (size_t o = 0; o < 40; ++o) {
      double sum = b[o];
      for (size_t i = 0; i < 25; ++i)
        for (size_t j = 0; j < 3; ++j)
          sum += u[row * 25 + i] * w[(o * 25 + i) * 3 + j] * v[row * 3 + j];
      want.push_back(sum);
    }
  check_close(layer(x, z), want, 1e-5);
  CHECK(nn::num_parameters(nn::Bilinear(2, 3, 4, rng, nn::Bias::no)) == 24);
  CHECK_THROWS_WITH_AS(layer(z, x), doctest::Contains("Bilinear: the last axes must be 25 and 3"),
                       Error);
}

TEST_CASE("layers: convolutions start in PyTorch's bounds and pass their options on") {
  Rng rng(1);
  nn::Conv1d one(4, 6, 3, rng, {.stride = 2, .padding = 1, .groups = 2});
  CHECK(one.weight.shape() == Shape{6, 2, 3});
  CHECK(one(zeros({2, 4, 9})).shape() == Shape{2, 6, 5});
  CHECK(largest(one.weight) <= 1 / std::sqrt(6.0) + 1e-7);
  nn::Conv2d two(3, 8, {3, 2}, rng, {.stride = {2, 1}, .padding = {1, 0}}, nn::Bias::no);
  CHECK(two.weight.shape() == Shape{8, 3, 3, 2});
  CHECK_FALSE(two.bias.defined());
  CHECK(two(zeros({1, 3, 5, 5})).shape() == Shape{1, 8, 3, 4});
  CHECK(largest(two.weight) <= 1 / std::sqrt(18.0) + 1e-7);
  CHECK(largest(two.weight) > 0.9 / std::sqrt(18.0));
  CHECK_THROWS_AS(nn::Conv2d(3, 8, {3, 3}, rng, {.groups = 2}), Error);
}

TEST_CASE("layers: Embedding's padding row is zero and is not trained") {
  Rng rng(1);
  nn::Embedding layer(5, 3, rng, {.padding_idx = 1});
  Tensor y = layer(tensor<int64_t>({4, 1}, {2}));
  CHECK(y.shape() == Shape{2, 3});
  CHECK(largest(select(y, 0, 1)) == 0);
  CHECK(largest(select(y, 0, 0)) > 0);
  sum(y).backward();
  CHECK(values(sum(layer.weight.grad(), {1})) == Doubles{0, 0, 0, 0, 3});
  CHECK_THROWS_AS(nn::Embedding(5, 3, rng, {.padding_idx = 5}), Error);

  nn::Embedding last(5, 3, rng, {.padding_idx = -1});  // counts from the end, as in torch.nn
  sum(last(tensor<int64_t>({4, 1, 4}, {3}))).backward();
  CHECK(values(sum(last.weight.grad(), {1})) == Doubles{0, 3, 0, 0, 0});
  CHECK(largest(select(last.weight, 0, 4)) == 0);
  CHECK_THROWS_AS(nn::Embedding(5, 3, rng, {.padding_idx = -6}), Error);
}

struct Named {
  nn::GroupNorm gn{2, 4};
  nn::BatchNorm2d bn{4};
  nn::InstanceNorm2d in{4, {.affine = true}};
  nn::Conv1d c1;
  nn::Conv2d c2;
  explicit Named(Rng& rng) : c1(4, 4, 1, rng), c2(4, 4, 1, rng) {}
  static void fields(auto& m, auto&& visit) {
    visit("gn", m.gn);
    visit("bn", m.bn);
    visit("in", m.in);
    visit("c1", m.c1);
    visit("c2", m.c2);
  }
};

TEST_CASE("layers: errors of norms and convolutions name the module and the op") {
  Rng rng(0);
  const Named net(rng);
  nn::named_parameters(net);
  const Tensor flat = zeros({4, 5, 5}), odd = zeros({2, 3, 5, 5});
  const auto says = [](const char* text, const auto& fn) {
    CHECK_THROWS_WITH_AS(static_cast<void>(fn()), doctest::Contains(text), Error);
  };
  says("gn: group_norm: 3 channels", [&] { return net.gn(odd); });
  says("gn: group_norm: x is f64", [&] { return net.gn(zeros({2, 4, 5}, DType::f64)); });
  says("bn: BatchNorm2d: needs (N, C, H, W)", [&] { return net.bn(flat); });
  says("in: InstanceNorm2d: needs 4 axes", [&] { return net.in(flat); });
  says("in: instance_norm: x is f64", [&] { return net.in(zeros({2, 4, 5, 5}, DType::f64)); });
  says("c1: conv1d: needs x (batch, in, length)", [&] { return net.c1(odd); });
  says("; unsqueeze(x, 0) makes a batch of one", [&] { return net.c1(zeros({4, 5})); });
  says("c2: conv2d: needs x (batch, in, height, width)", [&] { return net.c2(flat); });
}

TEST_CASE("layers: norms match their definitions") {
  Tensor x = tensor({1, 2, 4, -3, 0, 7}, {1, 2, 3}, DType::f64);
  Doubles v = values(x);
  nn::LayerNorm layer({3}, {.eps = 0.1});
  nn::to(layer, DType::f64);
  Doubles want, rms;
  for (size_t row = 0; row < 2; ++row) {
    double mean = 0, var = 0, square = 0;
    for (size_t i = 0; i < 3; ++i) mean += v[row * 3 + i] / 3;
    for (size_t i = 0; i < 3; ++i) var += std::pow(v[row * 3 + i] - mean, 2) / 3;
    for (size_t i = 0; i < 3; ++i) square += std::pow(v[row * 3 + i], 2) / 3;
    for (size_t i = 0; i < 3; ++i) want.push_back((v[row * 3 + i] - mean) / std::sqrt(var + 0.1));
    for (size_t i = 0; i < 3; ++i) rms.push_back(v[row * 3 + i] / std::sqrt(square + 0x1p-23));
  }
  check_close(layer(x), want);
  nn::RmsNorm root(3);
  nn::to(root, DType::f64);
  check_close(root(x), rms);
  nn::RmsNorm offset(3, {.eps = 0x1p-23, .offset = 1});
  nn::to(offset, DType::f64);
  check_close(offset.weight, {0, 0, 0});
  check_close(offset(x), rms);
  Rng rng(1);
  const nn::Dropout none(0, rng);
  check_close(offset.of_sum(x, zeros_like(x), none), rms);
  check_close(offset.with_sum(x, zeros_like(x), none).norm, rms);
  CHECK_FALSE(nn::RmsNorm(3, {.affine = false, .offset = 1}).factor().defined());
  // With one channel per group and three positions, the groups are the rows from above.
  nn::GroupNorm group(2, 2, {.eps = 0.1});
  nn::to(group, DType::f64);
  check_close(group(x), want);
  CHECK_THROWS_AS(nn::GroupNorm(2, 3), Error);
  CHECK_THROWS_WITH_AS(nn::LayerNorm(3, {.offset = 1}), doctest::Contains("is for RmsNorm"), Error);
  CHECK_THROWS_WITH_AS(nn::GroupNorm(2, 2, {.affine = false, .offset = 1}),
                       doctest::Contains("is for RmsNorm"), Error);
  nn::LayerNorm bare({3}, {.affine = false});
  CHECK(nn::num_parameters(bare) == 0);
  nn::LayerNorm unbiased({3}, {.bias = nn::Bias::no});
  CHECK(nn::num_parameters(unbiased) == 3);
  check_gradients(layer, x);
  check_gradients(group, x);
  check_gradients(root, x);
  check_gradients(offset, x);
}

TEST_CASE("layers: each norm has its own eps, also beside other options") {
  CHECK(nn::RmsNorm(4, {.affine = false}).eps == 0x1p-23);
  CHECK(nn::RmsNorm({2, 4}, {.affine = false}).eps == 0x1p-23);
  CHECK(nn::RmsNorm(4, {.offset = 1}).eps == 0x1p-23);
  CHECK(nn::LayerNorm(4, {.bias = nn::Bias::no}).eps == 1e-5);
  CHECK(nn::GroupNorm(2, 4, {.affine = false}).eps == 1e-5);
  CHECK(nn::RmsNorm(4, {.eps = 0}).eps == 0);
}

TEST_CASE("layers: BatchNorm2d uses the batch in training, running statistics in evaluation") {
  nn::BatchNorm2d layer(1);
  nn::to(layer, DType::f64);
  Tensor x = tensor({1, 2, 3, 6}, {2, 1, 1, 2}, DType::f64);  // mean 3, biased var 3.5
  double scale = 1 / std::sqrt(3.5 + 1e-5);
  check_close(layer(x), {-2 * scale, -scale, 0, 3 * scale});
  check_close(layer.running_mean, {0.3});
  check_close(layer.running_var, {0.9 + 0.1 * 14.0 / 3});
  CHECK(layer.num_batches_tracked.tensor().item<int64_t>() == 1);
  nn::set_training(layer, false);
  double running = 1 / std::sqrt(0.9 + 1.4 / 3 + 1e-5);
  check_close(layer(x), {0.7 * running, 1.7 * running, 2.7 * running, 5.7 * running});
  CHECK(layer.num_batches_tracked.tensor().item<int64_t>() == 1);
}

TEST_CASE("layers: a batch that a batch norm refuses or that is empty is not counted") {
  nn::BatchNorm1d layer(2, {.momentum = std::nullopt});
  const auto count = [&] { return layer.num_batches_tracked.tensor().item<int64_t>(); };
  CHECK_THROWS_AS(static_cast<void>(layer(ones({1, 2}))), Error);  // one row has no variance
  CHECK_THROWS_AS(static_cast<void>(layer(ones({4, 3}))), Error);
  static_cast<void>(layer(ones({0, 2})));
  CHECK(count() == 0);
  static_cast<void>(layer(ones({4, 2})));
  CHECK(count() == 1);
  CHECK_THROWS_WITH_AS(static_cast<void>(nn::BatchNorm2d(3)(ones({3, 3, 4}))),
                       doctest::Contains("needs (N, C, H, W), got (3, 3, 4)"), Error);
}

TEST_CASE("layers: Dropout keeps the expectation and draws from its own stream") {
  Rng rng(5);
  nn::Dropout layer(0.25, rng);
  Tensor y = layer(ones({100, 100}));
  int64_t zeros = 0;
  for (double v : values(y)) {
    CHECK((v == 0 || v == doctest::Approx(4.0 / 3)));
    zeros += v == 0;
  }
  CHECK(std::abs(static_cast<double>(zeros) - 2500) < 5 * std::sqrt(1e4 * 0.25 * 0.75));
  // The same seed gives the same layer, even if its source has drawn more numbers since.
  Rng again(5);
  nn::Dropout twin(0.25, again);
  again.normal();
  CHECK(values(twin(ones({100, 100}))) == values(y));
  nn::set_training(layer, false);
  CHECK(values(layer(ones({3}))) == Doubles{1, 1, 1});
  CHECK_THROWS_AS(nn::Dropout(1, rng), Error);
}

TEST_CASE("layers: DropPath drops whole samples") {
  Rng rng(5);
  nn::DropPath layer(0.5, rng);
  Tensor x = ones({200, 2, 3}).set_requires_grad();
  Tensor y = layer(x);
  Doubles v = values(y);
  int64_t dropped = 0;
  for (size_t i = 0; i < 200; ++i) {
    for (size_t k = 1; k < 6; ++k) CHECK(v[6 * i + k] == v[6 * i]);
    CHECK((v[6 * i] == 0 || v[6 * i] == 2));
    dropped += v[6 * i] == 0;
  }
  CHECK(std::abs(static_cast<double>(dropped) - 100) < 5 * std::sqrt(50.0));
  sum(y).backward();
  CHECK(values(x.grad()) == v);
  nn::set_training(layer, false);
  CHECK(values(layer(ones({2, 1}))) == Doubles{1, 1});
}

TEST_CASE("layers: Sequential and the activations") {
  Rng rng(1);
  nn::Sequential stack(nn::Flatten(), nn::Linear(4, 3, rng), nn::LeakyRelu{0.5},
                       [](const Tensor& x) { return x * 2; });
  Tensor x = randn({2, 2, 2}, rng);
  Tensor want = leaky_relu(linear(flatten(x, 1), stack.get<1>().weight, stack.get<1>().bias), 0.5);
  CHECK(values(stack(x)) == values(want * 2));
  CHECK(nn::named_parameters(stack)[1].first == "1.bias");
  CHECK(values(nn::Relu()(x)) == values(relu(x)));
  CHECK(values(nn::Gelu()(x)) == values(gelu(x)));
  CHECK(values(nn::GeluTanh()(x)) == values(gelu(x, Gelu::tanh)));
  CHECK(values(nn::Silu()(x)) == values(silu(x)));
  CHECK(values(nn::Tanh()(x)) == values(tanh(x)));
  CHECK(values(nn::Sigmoid()(x)) == values(sigmoid(x)));
  CHECK(values(nn::Softplus()(x)) == values(softplus(x)));
  CHECK(values(nn::Elu()(x)) == values(elu(x)));
  CHECK(values(nn::Relu6()(9 * x)) == values(relu6(9 * x)));
  CHECK(values(nn::Hardtanh{-2, 0.5}(x)) == values(hardtanh(x, -2, 0.5)));
  CHECK(values(nn::Hardsigmoid()(x)) == values(hardsigmoid(x)));
  CHECK(values(nn::Selu()(x)) == values(selu(x)));
  CHECK(values(nn::Celu{2}(x)) == values(celu(x, 2)));
  CHECK(values(nn::Softsign()(x)) == values(softsign(x)));
  CHECK(values(nn::Tanhshrink()(x)) == values(tanhshrink(x)));
  CHECK(values(nn::Softshrink{0.3}(x)) == values(softshrink(x, 0.3)));
  CHECK(values(nn::Hardshrink{0.3}(x)) == values(hardshrink(x, 0.3)));
  CHECK(values(nn::Softmax{1}(x)) == values(softmax(x, 1)));
  CHECK(values(nn::LogSoftmax{0}(x)) == values(log_softmax(x, 0)));
  CHECK(values(nn::Identity()(x)) == values(x));
}

namespace {

// The gating unit in loops, with the unit's weights; x (B,N,C) in f64.
Doubles naive_gating(const nn::SpatialGatingUnit& unit, const Tensor& x, const Doubles& added) {
  const nn::SpatialGatingOptions& o = unit.options;
  auto size = [&](int64_t axis) { return static_cast<size_t>(x.size(axis)); };
  size_t batch = size(0), n = size(1), c = size(2), gated = o.split ? c / 2 : c;
  size_t first_v = o.split ? c / 2 : 0, heads = static_cast<size_t>(o.heads), share = gated / heads;
  Doubles in = values(x), w = values(unit.weight), b = values(unit.bias), out(batch * n * gated);
  auto weight = [&](size_t h, size_t i, size_t j) {
    if (o.causal && j > i) return 0.0;
    if (o.matrix == nn::SpatialMatrix::toeplitz) return w[h * (2 * n - 1) + n - 1 + j - i];
    if (o.matrix == nn::SpatialMatrix::circulant) return w[h * n + (j + n - i) % n];
    return w[(h * n + i) * n + j];
  };
  for (size_t s = 0; s < batch; ++s) {
    Doubles v;  // LN of the gated channels, row by row
    for (size_t t = 0; t < n; ++t) {
      const double* row = &in[(s * n + t) * c + first_v];
      double mean = 0, var = 0;
      for (size_t k = 0; k < gated; ++k) mean += row[k] / static_cast<double>(gated);
      for (size_t k = 0; k < gated; ++k)
        var += std::pow(row[k] - mean, 2) / static_cast<double>(gated);
      for (size_t k = 0; k < gated; ++k) v.push_back((row[k] - mean) / std::sqrt(var + 1e-5));
    }
    for (size_t m = 0; m < n; ++m) {
      for (size_t k = 0; k < gated; ++k) {
        size_t h = k / share, at = (s * n + m) * gated + k;
        double f = b[h * n + m], u = in[(s * n + m) * c + k];
        for (size_t t = 0; t < n; ++t) f += weight(h, m, t) * v[t * gated + k];
        if (!added.empty()) f += added[at];
        out[at] = o.gate == nn::Gate::linear ? f : o.gate == nn::Gate::additive ? u + f : u * f;
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("SpatialGatingUnit equals its definition for every option") {
  using nn::Gate, nn::SpatialMatrix;
  int checked = 0;
  for (Gate gate : {Gate::multiplicative, Gate::additive, Gate::linear}) {
    for (bool split : {true, false}) {
      for (int64_t heads : {1, 2}) {
        for (auto m : {SpatialMatrix::full, SpatialMatrix::toeplitz, SpatialMatrix::circulant}) {
          for (bool causal : {false, true}) {
            if (gate == Gate::linear && split) continue;
            Rng rng(1);
            nn::SpatialGatingUnit unit(8, 5, rng, {gate, split, heads, m, causal, 0.5});
            nn::to(unit, DType::f64);
            Tensor x = randn({2, 5, 8}, rng, DType::f64);
            check_close(unit(x), naive_gating(unit, x, {}));
            Tensor added = randn({2, 5, split ? 4 : 8}, rng, DType::f64);
            check_close(unit(x, added), naive_gating(unit, x, values(added)));
            ++checked;
          }
        }
      }
    }
  }
  CHECK(checked == 5 * 12);
}

TEST_CASE("SpatialGatingUnit: shapes, start, gradients, causality") {
  Rng rng(1);
  nn::SpatialGatingUnit unit(8, 5, rng);
  CHECK(unit.weight.shape() == Shape{5, 5});
  CHECK(unit.bias.shape() == Shape{5});
  CHECK(largest(unit.weight) <= 0.05f);
  CHECK(values(unit.bias) == Doubles(5, 1));
  CHECK(nn::SpatialGatingUnit(8, 5, rng, {.heads = 4}).weight.shape() == Shape{4, 5, 5});
  CHECK(nn::SpatialGatingUnit(8, 5, rng, {.matrix = nn::SpatialMatrix::toeplitz}).weight.shape() ==
        Shape{9});
  CHECK_THROWS_AS(nn::SpatialGatingUnit(7, 5, rng), Error);
  CHECK_THROWS_AS(nn::SpatialGatingUnit(8, 5, rng, {.heads = 3}), Error);
  CHECK_THROWS_AS(nn::SpatialGatingUnit(8, 5, rng, {.gate = nn::Gate::linear}), Error);
  CHECK_THROWS_AS(unit(zeros({2, 4, 8})), Error);
  check_gradients(unit, randn({2, 5, 8}, rng));
  nn::SpatialGatingUnit heads(8, 3, rng, {.heads = 2, .matrix = nn::SpatialMatrix::circulant});
  check_gradients(heads, randn({2, 3, 8}, rng));

  // Later tokens do not change earlier results, bit for bit.
  nn::SpatialGatingUnit causal(8, 5, rng, {.causal = true});
  Tensor x = randn({1, 5, 8}, rng);
  Tensor other = cat({narrow(x, 1, 0, 3), randn({1, 2, 8}, rng)}, 1);
  CHECK(values(narrow(causal(x), 1, 0, 3)) == values(narrow(causal(other), 1, 0, 3)));
}

TEST_CASE("TinyAttention equals its definition") {
  Rng rng(1);
  for (bool causal : {false, true}) {
    nn::TinyAttention attention(6, 4, 3, rng, causal);
    nn::to(attention, DType::f64);
    Tensor x = randn({2, 5, 6}, rng, DType::f64);
    Doubles qkv = values(attention.to_qkv(x)), mixed(2 * 5 * 3);
    for (size_t b = 0; b < 2; ++b) {
      for (size_t i = 0; i < 5; ++i) {
        Doubles e(5, 0.0);
        double total = 0;
        for (size_t j = 0; j <= (causal ? i : 4); ++j) {
          for (size_t k = 0; k < 3; ++k)
            e[j] += qkv[(b * 5 + i) * 9 + k] * qkv[(b * 5 + j) * 9 + 3 + k];
          total += e[j] = std::exp(e[j] / std::sqrt(3.0));
        }
        for (size_t j = 0; j < 5; ++j)
          for (size_t k = 0; k < 3; ++k)
            mixed[(b * 5 + i) * 3 + k] += e[j] / total * qkv[(b * 5 + j) * 9 + 6 + k];
      }
    }
    Tensor want = attention.to_out(tensor(mixed, {2, 5, 3}));
    check_close(attention(x), values(want));
    check_gradients(attention, x);
  }
}

}  // namespace tern::test_layers
