// The airbench94 network: its definition, whitening of the first layer, and the published training
// against PyTorch (tests/reference/airbench).
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/ops.h"
#include "tern/models/airbench.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/model_checks.h"
#include "tern/train/learner.h"
#include "tern/train/schedule.h"

namespace tern::test_airbench {
using models::Airbench, models::AirbenchOptions;

namespace {

AirbenchOptions tiny() { return {.image = 11, .widths = {25, 30}, .classes = 3}; }

// Images whose neighbouring pixels are similar.
Tensor smooth_images(int64_t count, int64_t side, Rng& rng) {
  const Tensor x = randn({count, 3, side + 2, side + 2}, rng);
  Tensor sum = zeros({count, 3, side, side});
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j)
      sum = sum + narrow(narrow(x, 2, i, side), 3, j, side) * (i == 1 ? 2. : 1.);
  return sum;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& named : tensors) names.push_back(named.first);
  return names;
}

}  // namespace

TEST_CASE("airbench: weights, names and shapes") {
  Rng rng(0);
  const Airbench model(models::airbench_options("airbench94"), rng);
  // Counted by hand: 24 filters of 12 weights and their biases, 9 weights per pair of channels, a
  // bias per channel of a norm, and the head.
  const int64_t convs = 9 * (24 * 64 + 64 * 64 + 64 * 256 + 256 * 256 + 2 * 256 * 256);
  CHECK(nn::num_parameters(model) == 24 * 12 + 24 + convs + 2 * (64 + 256 + 256) + 256 * 10);
  CHECK(names_of(nn::named_parameters(Airbench(tiny(), rng))) ==
        std::vector<std::string>{
            "whitening.weight", "whitening.bias", "blocks.0.conv1.weight", "blocks.0.norm1.bias",
            "blocks.0.conv2.weight", "blocks.0.norm2.bias", "blocks.1.conv1.weight",
            "blocks.1.norm1.bias", "blocks.1.conv2.weight", "blocks.1.norm2.bias", "head.weight"});
  CHECK(model(randn({2, 3, 32, 32}, rng)).shape() == Shape{2, 10});
  CHECK_THROWS_WITH_AS(model(zeros({2, 3, 31, 31})), doctest::Contains("(B, 3, 32, 32)"), Error);
  AirbenchOptions small = tiny();
  small.image = 5;
  CHECK(Airbench(small, rng)(zeros({2, 3, 5, 5})).shape() == Shape{2, 3});
  small.image = 4;
  CHECK_THROWS_WITH_AS(Airbench(small, rng), doctest::Contains("at least 5 pixels per side"),
                       Error);
  CHECK_THROWS_AS(models::airbench_options("airbench93"), Error);
}

TEST_CASE("airbench: equals its definition, op by op") {
  Rng rng(1);
  const Airbench m(tiny(), rng);
  const Tensor x = randn({4, 3, 11, 11}, rng);
  const auto norm = [](const nn::BatchNorm2d& n, const Tensor& v) {
    const Tensor mean = tern::mean(v, {0, 2, 3}, true), d = v - mean;
    return d / sqrt(tern::mean(square(d), {0, 2, 3}, true) + 1e-12) +
           reshape(n.bias.tensor(), {-1, 1, 1});
  };
  Tensor h = gelu(conv2d(x, m.whitening.weight, m.whitening.bias));
  for (const models::AirbenchBlock& b : m.blocks) {
    h = gelu(norm(b.norm1, max_pool2d(conv2d(h, b.conv1.weight, {}, {.padding = 1}))));
    h = gelu(norm(b.norm2, conv2d(h, b.conv2.weight, {}, {.padding = 1})));
  }
  const Tensor want = matmul(amax(h, {2, 3}), transpose(m.head.weight.tensor(), 0, 1)) / 9;
  CHECK(test::close(m(x), want, 1e-4, 1e-5));
}

TEST_CASE("airbench: convolutions of blocks start as the identity") {
  Rng rng(2);
  const Airbench m(tiny(), rng);  // 24 -> 25 channels
  const Tensor x = randn({2, 24, 5, 5}, rng), y = m.blocks[0].conv1(x);
  CHECK(test::same(narrow(y, 1, 0, 24), x));
  CHECK(sum(abs(select(y, 1, 24))).item() > 0.1);
}

TEST_CASE("airbench: whitened images have the identity as second moments") {
  Rng rng(3);
  Airbench m(tiny(), rng);
  const Tensor images = smooth_images(70, 11, rng);
  m.whiten(images);
  const Tensor y = m.whitening(images);  // (B, 24, 10, 10); the bias is 0
  const Tensor columns = reshape(transpose(y, 0, 1), {24, -1});
  const Tensor moments =
      matmul(columns, transpose(columns, 0, 1)) / static_cast<double>(columns.size(1));
  const Tensor positive = narrow(narrow(moments, 0, 0, 12), 1, 0, 12);
  CHECK(test::close(positive, eye(12), 0, 3e-3));  // eps is 5e-4; eigenvalues are 1 or more
  CHECK(test::same(narrow(y, 1, 12, 12), -narrow(y, 1, 0, 12)));
}

TEST_CASE("airbench: the first weights stay frozen; the first bias can be frozen") {
  Rng rng(4);
  Airbench m(tiny(), rng);
  optim::Sgd optimizer(nn::named_parameters(m), {.lr = 0.1, .momentum = 0.85, .nesterov = true});
  const Tensor x = randn({6, 3, 11, 11}, rng), labels = tensor({0, 1, 2, 0, 1, 2});
  const auto step = [&] {
    cross_entropy(m(x), labels).backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  const Tensor weight = m.whitening.weight.tensor().detach().clone();
  const auto bias = [&] { return m.whitening.bias.tensor().detach().clone(); };
  step();
  const Tensor first = bias();
  CHECK(sum(abs(first)).item() > 0);
  m.train_whitening_bias(false);
  step();
  CHECK(test::same(bias(), first));
  m.train_whitening_bias(true);
  step();
  CHECK_FALSE(test::same(bias(), first));
  CHECK(test::same(m.whitening.weight.tensor().detach(), weight));
  const Airbench copy = m;
  CHECK_FALSE(copy.whitening.weight.own().requires_grad());
}

TEST_CASE("airbench: running statistics forget fast") {
  Rng rng(5);
  const Airbench m(tiny(), rng);
  const Tensor x = randn({4, 3, 11, 11}, rng);
  (void)m(x);
  const Tensor mean = tern::mean(max_pool2d(m.blocks[0].conv1(gelu(m.whitening(x)))), {0, 2, 3});
  CHECK(test::close(m.blocks[0].norm1.running_mean.tensor(), mean * 0.4, 1e-4, 1e-6));
}

TEST_CASE("airbench: the published training matches PyTorch step by step") {
  const SafeTensors file =
      load_safetensors(TERN_SOURCE_DIR "/tests/reference/airbench/steps.safetensors");
  const auto state_at = [&](const std::string& place) {
    NamedTensors state;
    for (const auto& [name, t] : file.tensors)
      if (name.starts_with(place)) state.emplace_back(name.substr(place.size()), t);
    return state;
  };
  Rng rng(0);
  Airbench m({.image = 9, .channels = 1, .widths = {9, 10}, .classes = 3}, rng);
  m.whiten(file.find("images"));
  CHECK(test::close(m.whitening.weight.tensor().detach(), file.find("start.whitening.weight")));
  nn::load_state_dict(m, state_at("start."));
  // The recipe's rates for 1024 images, scaled to 8 (apps/train_cifar/classifier.cpp).
  const double lr = 1.5 * 8 / 1024, decay = 0.0153 / 11.5;
  optim::Sgd sgd(optim::scale_norm_biases(nn::named_parameters(m), 64, lr, decay),
                 {.lr = lr, .momentum = 0.85, .weight_decay = decay, .nesterov = true});
  training::Learner learner(m, sgd,
                            {.schedule = training::make_schedule({.name = "triangle"}, 12),
                             .lookahead = optim::LookaheadOptions{.total = 12}});
  const auto losses = file.find("losses").to_vector<double>();
  for (int64_t step = 0; step < 12; ++step) {
    m.train_whitening_bias(step < 7);
    const Tensor loss =
        cross_entropy(m(narrow(file.find("images"), 0, 8 * step, 8)),
                      narrow(file.find("labels"), 0, 8 * step, 8), {.label_smoothing = 0.2});
    CHECK(loss.item() == doctest::Approx(losses[static_cast<size_t>(step)]).epsilon(2e-6));
    learner.backward(loss);
    learner.step();
  }
  const NamedTensors end = state_at("end.");
  for (const auto& own : nn::state_dict(m)) {
    const auto same =
        std::find_if(end.begin(), end.end(), [&](const auto& e) { return e.first == own.first; });
    REQUIRE(same != end.end());
    CHECK_MESSAGE(test::close(own.second, same->second, 1e-4, 1e-5), own.first);
  }
}

}  // namespace tern::test_airbench
