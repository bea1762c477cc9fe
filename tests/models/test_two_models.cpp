// Two user threads at once: training and reading models gives the same bits as on one thread, and
// tensors may be freed on another thread.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tern/core/base/allocator.h"
#include "tern/core/base/threads.h"
#include "tern/models/sentence.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_two_models {
namespace {

/// The weights after a training of `steps` steps.
std::vector<double> trained(int steps) {
  Training t;
  for (int i = 0; i < steps; ++i) t.step();
  return numbers_of(nn::named_parameters(t.model));
}

/// A model whose ops all use several threads: attention, convolution, norms.
struct Wide {
  nn::Linear up;
  nn::MultiHeadAttention attention;
  nn::LayerNorm norm;
  nn::Conv2d conv;
  explicit Wide(Rng& rng)
      : up(32, 64, rng),
        attention(64, rng, {.heads = 4}),
        norm({64}),
        conv(1, 4, 3, rng, {.padding = 1}) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor h = norm(up(x));
    const Tensor y = gelu(h + attention(h));
    return sum(square(conv(unsqueeze(y, 1))), {1, 2, 3});
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("attention", m.attention);
    visit("norm", m.norm);
    visit("conv", m.conv);
  }
};

std::vector<double> trained_wide() {
  Rng rng(5);
  Wide model(rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.01});
  for (int i = 0; i < 3; ++i) {
    mean(model(randn({16, 40, 32}, rng))).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return numbers_of(nn::named_parameters(model));
}

}  // namespace

TEST_CASE("two models: wide ones, whose ops use all threads") {
  const auto alone = trained_wide();
  std::vector<double> first, second;
  std::thread other([&] { second = trained_wide(); });
  first = trained_wide();
  other.join();
  CHECK(first == alone);
  CHECK(second == alone);
}

TEST_CASE("two models: trained at once on two threads, each has the bits of one alone") {
  const auto alone = trained(5);
  std::vector<double> first, second;
  std::thread other([&] { second = trained(5); });
  first = trained(5);
  other.join();
  CHECK(first == alone);
  CHECK(second == alone);
}

TEST_CASE("two models: two threads run one model at once") {
  Rng rng(1);
  const nn::Linear layer(64, 256, rng);
  const Tensor x = randn({512, 64}, rng);
  const auto forward = [&] {
    NoGradGuard no_grad;
    return sum(gelu(layer(x))).item();
  };
  const double alone = forward();
  double seen = 0;
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) seen = forward();
  });
  for (int i = 0; i < 5; ++i) CHECK(forward() == alone);
  other.join();
  CHECK(seen == alone);
}

TEST_CASE("two models: threads share an encoder that is in evaluation") {
  Rng rng(2);
  models::Bert model({.vocab = 20, .dim = 16, .layers = 1, .heads = 2, .ffn = 32, .positions = 8},
                     rng);
  nn::set_training(model, false);
  const std::vector<std::vector<int64_t>> texts = {{1, 2, 3, 4}, {5, 6}};
  const auto run = [&] {
    std::vector<double> all = models::embed(model, texts).to_vector<double>();
    const std::vector<models::BertFilled> filled = models::fill_mask(model, texts[0], 3);
    for (const auto& guess : filled[0].guesses) all.push_back(guess.probability);
    all.push_back(static_cast<double>(nn::num_parameters(model)));
    return all;
  };
  const auto alone = run();
  std::vector<double> seen = alone;
  std::thread other([&] {
    for (int i = 0; i < 10 && seen == alone; ++i) seen = run();
  });
  for (int i = 0; i < 10; ++i) CHECK(run() == alone);
  other.join();
  CHECK(seen == alone);
}

TEST_CASE("two models: tensors made on one thread are freed on another") {
  std::vector<Tensor> made(100);
  std::atomic<int> ready = 0;
  std::thread maker([&] {
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = full({static_cast<int64_t>(1000 * (i % 7) + 1)}, static_cast<double>(i));
      ready.store(static_cast<int>(i) + 1, std::memory_order_release);
    }
  });
  for (size_t i = 0; i < made.size(); ++i) {
    while (ready.load(std::memory_order_acquire) <= static_cast<int>(i)) std::this_thread::yield();
    const Tensor mine = std::move(made[i]);
    made[i] = {};
    CHECK(mine[0].item() == static_cast<double>(i));
    if (i % 10 == 0) trim_memory();
  }
  maker.join();
}

}  // namespace tern::test::test_two_models
