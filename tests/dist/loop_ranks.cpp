// loop_ranks: one rank of a training in a folder, for test_dist.cpp and test_loop_ranks.cpp. Rank 0
// prints the numbers of all epochs, the weights, and a hash of each tensor of the checkpoint.
//   loop_ranks [--OPTION ...] FOLDER THREADS [EVENT RANK STEP]
// EVENT in a step of a rank: stop (SIGTERM), kill (SIGKILL), nan (a loss that is not a number);
// drift (a weight changes on this rank only, and every second step compares the ranks); update (an
// error before the weights are updated; rank 0 continues only after it has made rank 1 fail);
// anew: no rank resumes; seed, epochs, clip, rate, metric: this rank has a different one.
// OPTION: sharded; local=N (ranks that train apart); batch=N; plain: SGD in f64 without dropout,
// and outer steps that take the mean of the weights; eight: AdamW with an 8-bit state, and a layer
// that is large enough; watch: prints after each step whether the ranks' weights are the same;
// alike: all samples are the same; count: prints the number of exchanges; keep=N: keeps the files
// of N epochs; thaw: the norm is frozen in the first epoch; stepwise: eleven steps, with an
// evaluation after every four; after=N: resumes after epoch N; slow=NAME: on rank 0 the sync of the
// first file with that name takes longer than the timeout of the ranks.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tern/tern.h"

using namespace tern;

namespace {

std::string slow_file;  // for fsync() below

}  // namespace

extern "C" int fsync(int file) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file), error);
  if (!slow_file.empty() && path.filename().string().starts_with(slow_file)) {
    slow_file.clear();
    ::sleep(5);
  }
  return 0;
}

namespace {

struct Sample {
  Tensor x, label;
  static void fields(auto& s, auto&& visit) { visit("x", s.x), visit("label", s.label); }
};

// Besides weights it has a running mean of its inputs and their number.
struct Net {
  nn::Linear up, down;
  nn::LayerNorm norm;
  nn::Dropout dropout;
  nn::Buffer seen{zeros({2})}, passes{zeros({}, DType::i64)};
  Net(int64_t hidden, Rng& rng)
      : up(2, hidden, rng), down(hidden, 2, rng), norm(hidden), dropout(0.2, rng) {}
  Tensor operator()(const Tensor& x) {
    if (dropout.training) {
      NoGradGuard no_grad;
      copy_(seen, seen * 0.9 + mean(x, {0}) * 0.1);
      copy_(passes, passes + 1);
    }
    return down(dropout(gelu(norm(up(x)))));
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up), visit("down", m.down), visit("norm", m.norm), visit("dropout", m.dropout);
    visit("seen", m.seen), visit("passes", m.passes);
  }
};

struct Options {
  bool sharded = false, plain = false, eight = false, watch = false, alike = false, count = false;
  bool thaw = false, stepwise = false;
  int64_t local_steps = 0, batch = 20, keep = 1, after = 0;

  training::LoopOptions settings(const std::string& folder, dist::World& world) const {
    training::LoopOptions settings{.epochs = 4,
                                   .folder = folder,
                                   .best = {"valid_loss"},
                                   .keep = keep,
                                   .checkpoint_steps = 1,
                                   .terminal = false};
    settings.parallel = {.world = &world, .blocks = 8};
    settings.parallel.shard_optimizer = sharded;
    settings.parallel.local_steps = local_steps;
    if (plain) settings.parallel.outer_lr = 1, settings.parallel.outer_momentum = 0;
    if (stepwise) settings.epochs = 1, settings.steps = 11, settings.evaluate_steps = 4;
    if (watch || count) settings.folder.clear(), settings.keep = settings.checkpoint_steps = 0;
    if (sharded || batch != 20) settings.checkpoint_steps = 0;
    if (sharded) settings.checkpoint_seconds = 0;  // a checkpoint after each step
    return settings;
  }
};

uint64_t hash_of(const Tensor& t) {
  uint64_t hash = 14695981039346656037ULL;
  for (const double v : t.to_vector<double>())
    for (const std::byte b : std::as_bytes(std::span(&v, 1)))
      hash = (hash ^ static_cast<uint64_t>(b)) * 1099511628211ULL;
  return hash;
}

datasets::Dataset<Sample> samples(int64_t count, uint64_t seed, bool alike = false) {
  return datasets::Dataset<Sample>(count, [seed, alike](int64_t i) {
    Rng rng = Rng(seed).stream(alike ? 0 : static_cast<uint64_t>(i));
    const Tensor x = randn({2}, rng);
    return Sample{x, gt(norm(x), 1.18).to(DType::i64)};
  });
}

void drift(Net& net) {
  NoGradGuard no_grad;
  add_(net.up.bias, full({16}, 1e-6));
}

// Removes the options from the arguments and returns them.
Options options_of(int& argc, char**& argv) {
  Options o;
  for (; argc > 1 && std::string(argv[1]).starts_with("--"); --argc, ++argv) {
    const std::string text = argv[1];
    o.sharded |= text == "--sharded";
    o.plain |= text == "--plain";
    o.watch |= text == "--watch";
    o.alike |= text == "--alike";
    o.eight |= text == "--eight";
    o.count |= text == "--count";
    o.thaw |= text == "--thaw";
    o.stepwise |= text == "--stepwise";
    if (text.starts_with("--batch=")) o.batch = std::atoll(text.c_str() + 8);
    if (text.starts_with("--local=")) o.local_steps = std::atoll(text.c_str() + 8);
    if (text.starts_with("--keep=")) o.keep = std::atoll(text.c_str() + 7);
    if (text.starts_with("--after=")) o.after = std::atoll(text.c_str() + 8);
    if (text.starts_with("--slow=")) slow_file = text.substr(7);
  }
  return o;
}

// Rank 0 prints whether the weights and buffers of all ranks are the same.
void watch(dist::World& world, const Net& net) {
  std::string hashes;
  for (const auto& [name, t] : nn::state_dict(net)) hashes += fmt::format("{:x} ", hash_of(t));
  bool same = true;
  for (const std::string& other : world.gather("hashes", hashes)) same &= other == hashes;
  if (world.first()) fmt::print("{}\n", same ? "same" : "apart");
}

void print_results(const training::Loop& loop, const Net& net) {
  for (const training::EpochRecord& e : loop.history())
    for (const auto& [name, value] : e.metrics) fmt::print("{} {} {:a}\n", e.epoch, name, value);
  for (const training::StepRecord& r : loop.step_history())
    fmt::print("step {} {:a}\n", r.step, r.loss);
  for (const auto& [name, t] : nn::state_dict(net))
    for (const double v : t.to_vector<double>()) fmt::print("{} {:a}\n", name, v);
  if (loop.folder().path.empty()) return;
  for (const auto& [name, t] : training::load_checkpoint(loop.folder().checkpoint()).tensors)
    fmt::print("{} {:x}\n", name, hash_of(t));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& o, const Net& net, double lr) {
  const NamedTensors parameters = nn::named_parameters(net);
  if (o.plain) return std::make_unique<optim::Sgd>(parameters, optim::SgdOptions{.lr = lr});
  return std::make_unique<optim::AdamW>(
      parameters, optim::AdamWOptions{.lr = lr, .state_bits = o.eight ? 8 : 32});
}

// Fails before an update on the rank with `fails`, while rank 1 waits for that rank's weights. Rank
// 0 sends its weights only after the file `told` says that rank 1 has failed and freed its buffers.
void fail_before_update(training::Learner& learner, int64_t step, int64_t rank, bool fails,
                        const std::string& told) {
  learner.on_gradient([=, &learner](const std::string&, const Tensor&) {
    if (learner.steps() + 1 != step) return;
    check(!fails, "lost before the update");
    while (rank == 0 && !std::filesystem::exists(told))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

int run(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  set_num_threads(std::atoi(argv[2]));
  const std::string event = argc > 5 ? argv[3] : "";
  dist::World world({.timeout = slow_file.empty() ? 20.0 : 3.0});
  const bool mine = argc > 5 && world.rank() == std::atoll(argv[4]);
  const int64_t event_step = argc > 5 ? std::atoll(argv[5]) : -1;
  const auto other = [&](const std::string& what) { return mine && event == what; };
  Rng rng(0);
  Net net(options.eight ? 2048 : 16, rng);
  if (options.plain) nn::to(net, DType::f64), net.dropout.p = 0;
  if (options.thaw) nn::set_requires_grad(net.norm, false);
  const auto optimizer = make_optimizer(options, net, other("rate") ? 2e-2 : 1e-2);
  // Batches of 20, 20 and 5 samples: the last one leaves three of its eight blocks empty.
  auto loader = datasets::dataset_loader(
      samples(45, 1, options.alike),
      [&](Sample s, Rng& draw) {
        if (!options.alike) s.x = s.x + 0.1 * randn_like(s.x, draw);
        return s;
      },
      datasets::Stack{}, {.batch = options.batch, .seed = 3U + other("seed"), .workers = 2});
  Sample valid =
      *datasets::dataset_loader(samples(100, 2), datasets::Stack{}, {.batch = 100}).next();
  training::Learner learner(net, *optimizer,
                            {.schedule = optim::cosine({.total = 12}),
                             .clip = options.plain ? 0.0 : 1.0,
                             .ema = options.plain ? 0 : 0.9,
                             .allocate_state = !options.sharded});
  const DType dtype = options.plain ? DType::f64 : DType::f32;
  valid.x = valid.x.to(dtype);
  training::LoopOptions settings = options.settings(argv[1], world);
  settings.epochs += other("epochs");
  if (options.thaw) settings.on_epoch = [&](const auto&) { nn::set_requires_grad(net.norm, true); };
  if (event == "drift") settings.parallel.check_every = 2;
  if (event == "update")
    fail_before_update(learner, event_step, world.rank(), mine, settings.folder + ".told");
  bool stopped = false;
  training::Loop loop(
      learner, loader,
      {.loss =
           [&](const Sample& s, training::Means& means) {
             const bool now = mine && learner.steps() + 1 == event_step;
             // Only once, not for each block: a second signal ends a program at once.
             if (now && event == "stop" && !std::exchange(stopped, true)) std::raise(SIGTERM);
             if (now && event == "kill") std::raise(SIGKILL);
             if (now && event == "drift") drift(net);
             const Tensor logits = net(s.x.to(dtype)), loss = cross_entropy(logits, s.label);
             const Tensor right = eq(argmax(logits, 1), s.label).to(DType::f64);
             means.add("accuracy", sum(right).item<double>(), static_cast<double>(s.label.numel()));
             return now && event == "nan" ? loss * std::numeric_limits<double>::quiet_NaN() : loss;
           },
       .evaluate =
           [&] {
             const double loss = cross_entropy(net(valid.x), valid.label).item();
             return training::Metrics{{"valid_loss", loss + (other("metric") ? 1.0 : 0.0)}};
           },
       .weight = [](const Sample& s) { return static_cast<double>(s.label.numel()); }},
      settings);
  while (options.watch && !loop.finished()) {
    for (; !loop.epoch_trained(); watch(world, net)) loop.step();
    loop.close_epoch();
  }
  if (options.after > 0)
    loop.resume(options.after);
  else if (event != "anew" && !options.watch)
    loop.resume();
  if (!options.watch && loop.run() == training::Outcome::interrupted)
    return training::kExitInterrupted;
  if (world.first()) print_results(loop, net);
  if (world.first() && options.count) fmt::print("exchanges {}\n", world.traffic().exchanges);
  return 0;
}

// Writes the file for which rank 0 waits in fail_before_update().
void tell_of_error(int argc, char** argv) {
  options_of(argc, argv);
  if (argc > 5 && argv[3] == std::string("update") && dist::launched_rank() == 1)
    std::ofstream(std::string(argv[1]) + ".told") << "1";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "ERROR {}\n", e.what());
    tell_of_error(argc, argv);
    return 1;
  }
}
