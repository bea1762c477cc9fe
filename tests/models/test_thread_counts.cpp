// The threads of a program start in its first step and stay the same.
#include <doctest/doctest.h>

#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/decode.h"
#include "tern/decode/packed_gpt.h"
#include "tern/models/gpt.h"
#include "tern/optim/adam.h"
#include "tern/tests/support/threads.h"
#include "tern/tests/support/threads_alive.h"

namespace tern::test_thread_counts {
namespace {

/// Checks, for several numbers of threads, that only the first call of step() starts threads.
void check_threads(const std::function<void()>& step) {
  for (int threads : {2, 8, 16, 64}) {
    CAPTURE(threads);
    const test::Threads scope(threads);
    step();
    const auto first = test::threads_alive();
    CHECK(first.size() >= static_cast<size_t>(threads));
    for (int i = 0; i < 5; ++i) step();
    CHECK(test::threads_alive() == first);
  }
}

const models::GptOptions kForm = {
    .vocab = 4000, .context = 16, .dim = 64, .layers = 2, .heads = 2, .dropout = 0.1};

TEST_CASE("threads: training starts and ends no threads after its first step") {
  Rng rng(1);
  models::Gpt model(kForm, rng);
  optim::AdamW optimizer(nn::named_parameters(model));
  check_threads([&] {
    const Tensor tokens = randint(0, 50, {8, 16}, rng), labels = randint(0, 50, {8, 16}, rng);
    model.loss(tokens, labels).backward();
    optimizer.step();
    nn::zero_grad(model);
  });
}

TEST_CASE("threads: decoding starts and ends no threads after its first step") {
  Rng rng(2);
  models::Gpt model(kForm, rng);
  nn::set_training(model, false);
  const decoding::PackedGpt packed(model, PackedType::f32);
  NoGradGuard guard;
  const std::vector<int64_t> begin(8, 1);
  const decoding::GreedyOptions options{.begin = begin, .end = 7, .max_length = 8};
  check_threads([&] {
    decoding::greedy(model, model.encode(randint(0, 50, {8, 4}, rng)), options);
  });
  check_threads([&] {
    auto texts = packed.texts();
    texts->add(std::vector<std::vector<int64_t>>(8, {3, 4, 5}));
    decoding::greedy(*texts, options);
  });
}

}  // namespace
}  // namespace tern::test_thread_counts
