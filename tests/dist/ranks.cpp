// ranks: one rank of a small training, for test_dist.cpp. Rank 0 prints losses and a hash of all
// weights and buffers.
//   ranks MODEL STEPS THREADS [EVENT RANK STEP]
//   ranks threads: prints the default number of threads of rank 0
// MODEL: dropout, batch_norm, frozen (a layer is not trained), checkpoint (a layer is recomputed in
// the backward pass), or uneven (blocks of several sizes, some of them empty, and a parameter that
// few blocks use). EVENT at a step of a rank: throw, in_backward, outside (an exception between
// steps), nan, hang, exit, drift (changes a weight), drift_state (changes the optimizer's state);
// at the start of a rank: avx2 (does not use AVX-512), other_seed, other_options, other_model; on
// all ranks: time (each prints the bytes that it sent).
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "tern/core/base/cpu.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/gradients/gradient_hook.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/gradient_sum.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"

using namespace tern;

namespace {

struct Net {
  nn::Linear up, down, rare;
  nn::BatchNorm1d norm;
  nn::Dropout dropout;
  bool with_norm, with_dropout, with_checkpoint, fails_in_backward = false;
  Net(const std::string& kind, int64_t hidden, Rng& rng)
      : up(5, hidden, rng),
        down(hidden, 3, rng),
        rare(5, 3, rng),
        norm(hidden),
        dropout(0.3, rng),
        with_norm(kind == "batch_norm" || kind == "checkpoint"),
        with_dropout(kind != "batch_norm"),
        with_checkpoint(kind == "checkpoint") {
    if (kind == "frozen")
      for (const auto& [name, p] : nn::named_parameters(up)) p.set_requires_grad(false);
  }
  Tensor hidden(const Tensor& x) {
    const Tensor h = up(x);
    return gelu(with_norm ? norm(h) : h);
  }
  Tensor operator()(const Tensor& x, bool use_rare) {
    Tensor h = with_checkpoint
                   ? checkpoint([this](std::span<const Tensor> in) { return hidden(in[0]); }, {x})
                   : hidden(x);
    if (fails_in_backward)
      h = on_gradient(h, [](const Tensor&) -> Tensor { fail("in the midst of backward"); });
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
  if (kind == "threads") {
    const dist::World world;
    if (world.first()) fmt::print("{}\n", num_threads());
    return 0;
  }
  const int64_t steps = std::atoll(argv[2]);
  set_num_threads(std::atoi(argv[3]));
  const int64_t event_rank = argc > 6 ? std::atoll(argv[5]) : -1;
  const int64_t event_step = argc > 6 ? std::atoll(argv[6]) : -1;
  dist::World world({.timeout = 3, .exit_code = [](const std::exception&) { return 7; }});
  check(dist::launched_rank() == world.rank(), "mpirun says that this is rank {}",
        dist::launched_rank());
  const bool mine = world.rank() == event_rank;
  std::optional<VectorLevelScope> level;
  if (mine && event == "avx2") level.emplace(VectorLevel::kAvx2);
  Rng rng(mine && event == "other_seed" ? 1 : 0);
  Net net(kind, mine && event == "other_model" ? 20 : 19, rng);
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-2});
  // With buckets of 100 bytes most parameters fill one or more buckets, and some share one.
  dist::GradientSum sum(world, net,
                        {.blocks = mine && event == "other_options" ? 9 : 8,
                         .bucket_bytes = 100,
                         .check_every = event.starts_with("drift") ? 2 : 0,
                         .check_also = [&] { return optimizer.state_dict(); }});
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
      // Fails in the last block of the rank, while other gradients are being sent.
      net.fails_in_backward = now && event == "in_backward" && block + 1 == sum.end_block();
      const Tensor logits = net(x, kind != "uneven" || block % 3 == 0);
      const double share = now && event == "nan" ? std::numeric_limits<double>::quiet_NaN() : 1;
      return dist::BlockLoss{cross_entropy(logits, y) * share, static_cast<double>(size)};
    });
    // If the last block is not empty, its backward pass sends all gradients.
    const dist::BucketCount buckets = sum.buckets();
    check(buckets.all >= 2 && (kind == "uneven" || buckets.early == buckets.all),
          "{} of {} buckets were sent early", buckets.early, buckets.all);
    optimizer.step();
    optimizer.zero_grad();
    NoGradGuard no_grad;
    if (now && event == "drift") add_(select(net.down.weight, 0, 1), ones({}));
    if (now && event == "drift_state")
      for (const auto& [name, t] : optimizer.state_dict())
        if (name == "rare.bias.exp_avg") mul_(t, full({}, -1.0));
    if (world.first()) fmt::print("{:.17g}\n", loss);
  }
  if (event == "time") {
    const dist::Traffic t = world.traffic();
    check(t.seconds > 0 && t.waited > 0 && t.hidden() >= 0 && t.hidden() < 1, "no time");
    fmt::print("sent {}\n", t.bytes);
    return 0;
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
  } catch (const dist::RankError& e) {
    fmt::print(stderr, "ERROR {}\nexit code {}\n", e.what(), e.code());
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "ERROR {}\n", e.what());
    return 1;
  }
}
