// ranks_bench: times training steps that ranks share (dist/gradient_sum.h). ddp.py does the same
// with PyTorch.
//   mpirun -np 2 --bind-to none ranks_bench gmlp-4m THREADS [STEPS [BLOCKS [BUCKET_KB]]]
// All ranks together have a batch of 32 pictures, in BLOCKS blocks (0, the default: one per rank).
// Rank 0 prints a line of JSON with the median milliseconds of a step and the time of exchanges.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/dist/gradient_sum.h"
#include "tern/models/gmlp.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"

using namespace tern;

namespace {

constexpr int64_t kBatch = 32, kWarmUp = 3;

double milliseconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

int run(int argc, char** argv) {
  check(argc >= 3, "usage: ranks_bench PRESET THREADS [STEPS [BLOCKS [BUCKET_KB]]]");
  const std::string preset = argv[1];
  set_num_threads(std::atoi(argv[2]));
  const int64_t steps = argc > 3 ? std::atoll(argv[3]) : 9;
  dist::World world;
  const int64_t given = argc > 4 ? std::atoll(argv[4]) : 0;
  dist::GradientSumOptions options{.blocks = given > 0 ? given : world.size()};
  if (argc > 5) options.bucket_bytes = std::atoll(argv[5]) << 10;
  const int64_t blocks = options.blocks;
  Rng rng(0);
  models::Gmlp model(models::gmlp_options(preset), rng);
  const Tensor images = randn({kBatch, 3, 32, 32}, rng), labels = randint(0, 10, {kBatch}, rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-3});
  dist::GradientSum sum(world, model, options);
  std::vector<double> step_ms, sum_ms;
  dist::Traffic before;
  for (int64_t s = 0; s < kWarmUp + steps; ++s) {
    if (s == kWarmUp) before = world.traffic();
    double backward_ms = 0;
    const double ms = milliseconds([&] {
      backward_ms = milliseconds([&] {
        sum.backward([&](int64_t b) {
          const int64_t from = kBatch * b / blocks, end = kBatch * (b + 1) / blocks;
          return dist::BlockLoss{
              cross_entropy(model(slice(images, 0, from, end)), slice(labels, 0, from, end)),
              static_cast<double>(end - from)};
        });
      });
      optimizer.step();
      optimizer.zero_grad();
    });
    if (s < kWarmUp) continue;
    step_ms.push_back(ms), sum_ms.push_back(backward_ms);
  }
  const dist::Traffic after = world.traffic();
  const auto median = [](std::vector<double> x) {
    std::nth_element(x.begin(), x.begin() + std::ssize(x) / 2, x.end());
    return x[x.size() / 2];
  };
  const double n = static_cast<double>(steps);
  const double busy = after.seconds - before.seconds, waited = after.waited - before.waited;
  if (world.first())
    fmt::print(
        "{{\"model\": \"{}/b{}\", \"ranks\": {}, \"threads\": {}, \"blocks\": {}, \"ms\": {:.1f}, "
        "\"gradients_ms\": {:.1f}, \"exchange_ms\": {:.1f}, \"waited_ms\": {:.1f}, \"mb_sent\": "
        "{:.1f}, \"early\": \"{}/{}\"}}\n",
        preset, kBatch, world.size(), num_threads(), blocks, median(step_ms), median(sum_ms),
        busy * 1e3 / n, waited * 1e3 / n, static_cast<double>(after.bytes - before.bytes) / 1e6 / n,
        sum.buckets().early, sum.buckets().all);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "ERROR {}\n", e.what());
    return 1;
  }
}
