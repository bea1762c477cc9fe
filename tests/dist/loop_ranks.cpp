// loop_ranks: one rank of a training in a folder, for test_dist.cpp. Rank 0 prints the numbers of
// all epochs and a hash of the state.
//   loop_ranks FOLDER THREADS [EVENT RANK STEP]
// EVENT in a step of a rank: stop (SIGTERM), kill (SIGKILL), nan (a loss that is not a number);
// anew: no rank resumes.
#include <fmt/core.h>

#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "tern/tern.h"

using namespace tern;

namespace {

struct Sample {
  Tensor x, label;
  static void fields(auto& s, auto&& visit) { visit("x", s.x), visit("label", s.label); }
};

struct Net {
  nn::Linear up, down;
  nn::LayerNorm norm;
  nn::Dropout dropout;
  explicit Net(Rng& rng) : up(2, 16, rng), down(16, 2, rng), norm(16), dropout(0.2, rng) {}
  Tensor operator()(const Tensor& x) { return down(dropout(gelu(norm(up(x))))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up), visit("down", m.down), visit("norm", m.norm), visit("dropout", m.dropout);
  }
};

data::Dataset<Sample> samples(int64_t count, uint64_t seed) {
  return data::Dataset<Sample>(count, [seed](int64_t i) {
    Rng rng = Rng(seed).stream(static_cast<uint64_t>(i));
    const Tensor x = randn({2}, rng);
    return Sample{x, gt(norm(x), 1.18).to(DType::i64)};
  });
}

int run(int argc, char** argv) {
  set_num_threads(std::atoi(argv[2]));
  const std::string event = argc > 5 ? argv[3] : "";
  dist::World world({.timeout = 20});
  const bool mine = argc > 5 && world.rank() == std::atoll(argv[4]);
  const int64_t event_step = argc > 5 ? std::atoll(argv[5]) : -1;
  Rng rng(0);
  Net net(rng);
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-2});
  // Batches of 20, 20 and 5 samples: the last one leaves three of its eight blocks empty.
  auto loader = data::dataset_loader(samples(45, 1),
                                     [](Sample s, Rng& draw) {
                                       s.x = s.x + 0.1 * randn_like(s.x, draw);
                                       return s;
                                     },
                                     data::Stack{}, {.batch = 20, .seed = 3, .workers = 2});
  const Sample valid = *data::dataset_loader(samples(100, 2), data::Stack{}, {.batch = 100}).next();
  train::Learner learner(net, optimizer,
                         {.schedule = optim::cosine({.total = 12}), .clip = 1, .ema = 0.9});
  bool stopped = false;
  train::Loop loop(
      learner, loader,
      {.loss =
           [&](const Sample& s, train::Means& means) {
             const bool now = mine && learner.steps() + 1 == event_step;
             // Once, not for each block: a second signal ends a program at once.
             if (now && event == "stop" && !std::exchange(stopped, true)) std::raise(SIGTERM);
             if (now && event == "kill") std::raise(SIGKILL);
             const Tensor logits = net(s.x), loss = cross_entropy(logits, s.label);
             const Tensor right = eq(argmax(logits, 1), s.label).to(DType::f64);
             means.add("accuracy", sum(right).item<double>(), static_cast<double>(s.label.numel()));
             return now && event == "nan" ? loss * std::numeric_limits<double>::quiet_NaN() : loss;
           },
       .evaluate =
           [&] {
             return train::Metrics{{"valid_loss", cross_entropy(net(valid.x), valid.label).item()}};
           },
       .weight = [](const Sample& s) { return static_cast<double>(s.label.numel()); }},
      {.epochs = 4,
       .folder = argv[1],
       .best = {"valid_loss"},
       .checkpoint_steps = 1,
       .terminal = false,
       .parallel = {.world = &world, .blocks = 8}});
  if (event != "anew") loop.resume();
  if (loop.run() == train::Outcome::interrupted) return train::kExitInterrupted;
  if (!world.first()) return 0;
  for (const train::EpochRecord& e : loop.history())
    for (const auto& [name, value] : e.metrics) fmt::print("{} {} {:a}\n", e.epoch, name, value);
  for (const auto& [name, t] : nn::state_dict(net))
    for (const double v : t.to_vector<double>()) fmt::print("{} {:a}\n", name, v);
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
