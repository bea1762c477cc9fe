// ranks: one rank of a small training, for test_dist.cpp. Rank 0 prints losses and a hash of all
// weights and buffers.
//   ranks MODEL STEPS THREADS [EVENT RANK STEP]
// MODEL: dropout, batch_norm, or uneven (blocks of several sizes, empty ones among them, and a
// parameter that few blocks use). EVENT at a step of a rank: throw, outside (an exception
// between steps), nan, hang, exit, other_seed.
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>

#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/dist/gradient_sum.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"

using namespace tern;

namespace {

struct Net {
  nn::Linear up, down, rare;
  nn::BatchNorm1d norm;
  nn::Dropout dropout;
  bool with_norm, with_dropout;
  Net(const std::string& kind, Rng& rng)
      : up(5, 19, rng),
        down(19, 3, rng),
        rare(5, 3, rng),
        norm(19),
        dropout(0.3, rng),
        with_norm(kind == "batch_norm"),
        with_dropout(kind != "batch_norm") {}
  Tensor operator()(const Tensor& x, bool use_rare) {
    Tensor h = up(x);
    if (with_norm) h = norm(h);
    h = gelu(h);
    if (with_dropout) h = dropout(h);
    return use_rare ? down(h) + rare(x) : down(h);
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up), visit("down", m.down), visit("rare", m.rare);
    visit("norm", m.norm), visit("dropout", m.dropout);
  }
};

uint64_t hash_of(const NamedTensors& tensors) {
  uint64_t hash = 14695981039346656037ULL;
  for (const auto& [name, t] : tensors)
    for (const double v : t.to_vector<double>())
      for (const std::byte b : std::as_bytes(std::span(&v, 1)))
        hash = (hash ^ static_cast<uint64_t>(b)) * 1099511628211ULL;
  return hash;
}

int run(int argc, char** argv) {
  const std::string kind = argv[1], event = argc > 6 ? argv[4] : "";
  const int64_t steps = std::atoll(argv[2]);
  set_num_threads(std::atoi(argv[3]));
  const int64_t event_rank = argc > 6 ? std::atoll(argv[5]) : -1;
  const int64_t event_step = argc > 6 ? std::atoll(argv[6]) : -1;
  dist::World world({.timeout = 3});
  const bool mine = world.rank() == event_rank;
  Rng rng(mine && event == "other_seed" ? 1 : 0);
  Net net(kind, rng);
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-2});
  // Pieces of 100 bytes: parameters lie in several, and a piece has several.
  dist::GradientSum sum(world, net, {.blocks = 8, .bucket_bytes = 100});
  for (int64_t step = 0; step < steps; ++step) {
    const bool now = mine && step == event_step;
    if (now && event == "hang") sleep(60);
    if (now && event == "exit") _exit(9);
    if (now && event == "outside") fail("what the program does between steps");
    const double loss = sum.backward([&](int64_t block) {
      if (now && event == "throw") fail("the data of this rank are lost");
      Rng data = Rng(7).stream(static_cast<uint64_t>(step * 8 + block));
      const int64_t size = kind == "uneven" ? (step + 3 * block) % 5 : 4;
      if (size == 0) return dist::BlockLoss{};
      const Tensor x = randn({size, 5}, data), y = randint(0, 3, {size}, data);
      const Tensor logits = net(x, kind != "uneven" || block % 3 == 0);
      const double share = now && event == "nan" ? std::numeric_limits<double>::quiet_NaN() : 1;
      return dist::BlockLoss{cross_entropy(logits, y) * share, static_cast<double>(size)};
    });
    optimizer.step();
    optimizer.zero_grad();
    if (world.first()) fmt::print("{:.17g}\n", loss);
  }
  NamedTensors state = nn::state_dict(net);
  for (auto& entry : nn::generator_state(net)) state.push_back(entry);
  const std::string hash = fmt::format("{:016x}", hash_of(state));
  world.check_same("weights with the hash", hash);
  if (world.first()) fmt::print("{}\n", hash);
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
