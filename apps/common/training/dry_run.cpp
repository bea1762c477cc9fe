// Estimates memory and time of a training without running it: measures a few steps in memory, and
// predicts the speed on several machines.
#include "tern/apps/common/training/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tern/apps/common/process/standard_streams.h"
#include "tern/core/base/ceil_div.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/step_plan.h"
#include "tern/optim/shards.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

std::string megabytes_up(int64_t bytes) {
  return training::grouped((bytes + 999'999) / 1'000'000) + " MB";
}

constexpr int64_t kMostRanks = 1024;
// Share of the nominal bandwidth that Open MPI reaches over TCP when a rank sends and receives at
// once.
constexpr double kReachedShare = 0.75;

double median(std::vector<double> x) {
  const auto middle = x.begin() + std::ssize(x) / 2;
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

template <class F>
double seconds_of(F call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double most(const Summary& s, MemoryKind kind) { return static_cast<double>(s.cost.most[kind]); }

// Bytes of the optimizer on the rank that holds the most. Ranks share its states, but each keeps
// whole averages.
double optimizer_memory(const Summary& s, const OneMachine& m, int64_t ranks) {
  double bytes = most(s, MemoryKind::optimizer);
  if (!m.shard_optimizer || s.optimizer_ranks > 1) return bytes;  // the summary has one share
  for (const optim::ShardItem& p : s.shard_items) bytes -= static_cast<double>(p.state_bytes);
  return bytes + static_cast<double>(optim::largest_shard(s.shard_items, ranks));
}

// How `ranks` such machines share a step.
dist::StepPlan plan_of(const Summary& s, const OneMachine& m, int64_t ranks) {
  return {s.parameters,
          {},
          {.blocks = std::max(m.blocks, ranks)},
          ranks,
          m.shard_optimizer ? optim::shard_owners(s.shard_items, ranks) : std::vector<int64_t>{}};
}

// Bytes of the rank that needs the most. It loads all of its blocks at once, and a pass holds the
// activations of one.
double rank_memory(const Summary& s, const OneMachine& m, const dist::StepPlan& plan) {
  const double pass = most(s, MemoryKind::activations) + most(s, MemoryKind::temporaries);
  return most(s, MemoryKind::weights) + optimizer_memory(s, m, plan.ranks()) +
         most(s, MemoryKind::batch) / static_cast<double>(plan.ranks()) +
         pass / static_cast<double>(m.blocks) + static_cast<double>(plan.memory());
}

// Operations per second of matrix products, in the precision and with the backend in use.
double measure_products() {
  const Tensor a = ones({1024, 512}), b = ones({512, 1024});
  NoGradGuard no_grad;
  double best = 1e9;
  for (int i = 0; i < 4; ++i)
    best = std::min(best, seconds_of([&] { static_cast<void>(matmul(a, b)); }));
  return 2.0 * 1024 * 512 * 1024 / best;
}

// "45 s", "45 min", "1.5 h".
std::string rough_time(double seconds) {
  if (seconds < 1) return "a second";
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 100 * 60) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / 86400);
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string megabytes(double bytes) {
  return training::grouped(static_cast<int64_t>(bytes / 1e6 + 0.5));
}

}  // namespace

int64_t needed_bytes(const Summary& s, int64_t more_batches,
                     const std::optional<SharedStep>& shared) {
  const double step =
      shared ? rank_memory(s, shared->machine, plan_of(s, shared->machine, shared->ranks))
             : static_cast<double>(s.cost.peak());
  // The allocator keeps free blocks for reuse: up to a quarter of those in use, plus 16 MiB.
  const int64_t peak = static_cast<int64_t>(step) + more_batches * s.cost.most[MemoryKind::batch];
  return peak + peak / 4 + (int64_t{16} << 20);
}

std::pair<std::string, bool> verdict(int64_t needed, const std::optional<FreeMemory>& free) {
  std::string text = fmt::format("needs up to {}; ", megabytes_up(needed));
  if (!free) return {text + "this system does not say how much is free", true};
  const bool fits = needed <= free->bytes;
  return {text + fmt::format("{} are free on {}: {}", megabytes_up(free->bytes), free->limit,
                             fits ? "it fits" : "it does NOT fit; take smaller batches"),
          fits};
}

Tensor copy_of(const Tensor& ids) {
  return ids.defined() ? tensor(ids.to_vector<int64_t>(), ids.shape()) : ids;
}

int report_dry_run(const Summary& s, const Facts& facts, int64_t more_batches,
                   const std::optional<SharedStep>& shared) {
  for (const auto& [heading, text] : facts) print(fmt::format("{:8} {}\n", heading, text));
  const auto [text, fits] = verdict(needed_bytes(s, more_batches, shared), free_memory());
  print(fmt::format("{}{}\n", s.text(), text));
  return fits ? 0 : 1;
}

void add_network_settings(Settings& s, NetworkFlags& f, bool dry_run) {
  const char* const why = "it is for --dry-run with --gbit";
  s.number("gbit", f.gbit, {0, 1e4, true},
           "with --dry-run: also say what a step takes on 1 to 1,024 machines whose network "
           "carries X gigabits per second; takes some steps in memory to measure one")
      .not_in_files()
      .only_if(dry_run, "it is for --dry-run");
  s.number("latency_us", f.latency_us, {0, 1e6}, "microseconds from one machine to another")
      .not_in_files()
      .only_if(dry_run && f.gbit > 0, why);
  s.number("step_ms", f.step_ms, {0, 1e9},
           "milliseconds of a step on one machine; 0: measured on this one")
      .not_in_files()
      .only_if(dry_run && f.gbit > 0, why);
}

std::string scaling_table(const Summary& s, const OneMachine& m, const NetworkFlags& flags) {
  const dist::Network network{.bytes_per_second = flags.gbit * 1e9 / 8 * kReachedShare,
                              .latency = flags.latency_us / 1e6,
                              .memory_bytes_per_second = m.memory_bytes_per_second};
  // The update reads gradients, weights and state, and writes weights and state.
  const double update = (2 * most(s, MemoryKind::weights) + 2 * most(s, MemoryKind::optimizer) +
                         most(s, MemoryKind::gradients)) /
                        m.memory_bytes_per_second;
  const double block = std::max(0.0, m.step - update) / static_cast<double>(m.blocks);
  std::string text = fmt::format(
      "one rank takes {:.1f} ms per step of {} blocks; ranks with {:g} Gbit/s and {:g} us between "
      "them, {} reached{}:\n{:>5} {:>6} {:>9} {:>9} {:>9} {:>7} {:>9} {:>10} {:>8} {:>9}\n",
      m.step * 1e3, m.blocks, flags.gbit, flags.latency_us, percent(kReachedShare),
      m.shard_optimizer ? ", the optimizer sharded" : "", "ranks", "blocks", "step ms", "compute",
      "network", "hidden", "speed-up", "efficiency", "sent MB", "memory MB");
  for (int64_t ranks = 1; ranks <= kMostRanks; ranks *= 2) {
    const int64_t blocks = std::max(m.blocks, ranks);
    const dist::StepPlan plan = plan_of(s, m, ranks);
    const dist::StepTime t = plan.time({.block = block, .update = update}, network);
    // The speed-up is relative to one rank, which computes all blocks one after the other.
    const double speed_up = (block * static_cast<double>(blocks) + update) / t.step;
    text += fmt::format("{:5} {:6} {:9.1f} {:9.1f} {:9.1f} {:>7} {:9.1f} {:>10} {:>8} {:>9}\n",
                        ranks, blocks, t.step * 1e3, t.compute * 1e3, t.communication * 1e3,
                        ranks > 1 ? percent(t.hidden() / t.communication) : "", speed_up,
                        percent(speed_up / static_cast<double>(ranks)),
                        megabytes(static_cast<double>(plan.most_traffic().sent)),
                        megabytes(rank_memory(s, m, plan)));
  }
  if (m.blocks < kMostRanks)
    text += fmt::format(
        "{0} blocks are for {0} ranks at most. The rows of more ranks have more blocks of the same "
        "size: a\nlarger batch, {1} times as large for {2} ranks\n",
        m.blocks, training::grouped(ceil_div(kMostRanks, m.blocks)), training::grouped(kMostRanks));
  return text;
}

double measure_step(training::Loop& loop, double most_seconds) {
  constexpr int64_t kMostSteps = 7;
  std::vector<double> seconds;
  double all = 0;
  while (!loop.epoch_trained() && std::ssize(seconds) < kMostSteps &&
         (seconds.size() < 2 || all < most_seconds))
    all += seconds.emplace_back(seconds_of([&] { loop.step(); }));
  if (seconds.size() > 1) seconds.erase(seconds.begin());  // the first step also allocates
  return median(seconds);
}

StepTime step_time(const Summary& s, const std::function<training::Loop&()>& make_loop) {
  constexpr double kMostEstimated = 2, kMostTimed = 5;  // seconds per step, and for all steps
  const double flops =
      static_cast<double>(s.cost.forward_flops + s.cost.backward_flops + s.cost.update_flops);
  const double least = flops / measure_products();
  if (least > kMostEstimated) return {.seconds = least, .gflops = flops / 1e9};
  return {.seconds = measure_step(make_loop(), kMostTimed), .gflops = flops / 1e9, .timed = true};
}

std::string run_time_text(const StepTime& t, int64_t steps) {
  const std::string all = rough_time(t.seconds * static_cast<double>(steps)),
                    count =
                        fmt::format("{} step{}", training::grouped(steps), steps == 1 ? "" : "s");
  if (t.timed)
    return fmt::format("about {} for {} of {}, without evaluations", all, count,
                       t.seconds < 0.1 ? fmt::format("{:.2g} ms", 1e3 * t.seconds)
                                       : fmt::format("{:.2g} s", t.seconds));
  return fmt::format("at least {} for {}, by their {} GFLOP each and the speed of products here",
                     all, count, training::grouped(static_cast<int64_t>(t.gflops + 0.5)));
}

double measure_memory() {
  const Tensor from = zeros({1 << 24}), to = zeros({1 << 24});
  NoGradGuard no_grad;
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(seconds_of([&] { copy_(to, from); }));
  return 2.0 * static_cast<double>(from.numel()) * 4 / median(seconds);
}

}  // namespace tern::apps
