// scaling --model NAME [--precision f32|bf16] [--threads 1,2,4,8,16,32,64,128] [--reps 3]
//         [--loop-us X] [--measure]: predicts the time of a training step on machines with more
// cores than this one.
//
// For each number of threads N, the step runs with its loops divided for N threads, but only one
// part at once (loop_times.h). Then the parts are scheduled on N threads as the pool would do it
// (core/tools/schedule.h). Each loop also costs the pool's overhead: that on two threads, measured
// here, times log2 N.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/bench/cases.h"
#include "tern/bench/loop_times.h"
#include "tern/core/base/threads.h"
#include "tern/core/tools/schedule.h"

namespace tern::bench {
namespace {

struct Flags {
  std::string model, precision = "f32";
  std::vector<int64_t> threads = {1, 2, 4, 8, 16, 32, 64, 128};
  int reps = 3;
  double loop_us = 0;
  bool measure = false;
};

using detail::Loss;
using detail::loss_of_loop;
using detail::makespan;

struct Lost {
  Loss loss;
  int64_t loops = 0;
};

struct Prediction {
  double seconds = 0;
  std::map<std::string, Lost> lost;  ///< by op
};

Prediction predict(const TimedStep& step, int threads, double cost) {
  Prediction out;
  const double share = 1 - 1.0 / threads;
  for (const TimedLoop& loop : step.loops) {
    out.seconds += loop.before;
    out.lost[loop.op_before].loss.serial += loop.before * share;
    if (loop.parts.empty()) continue;
    Lost& lost = out.lost[loop.op];
    ++lost.loops;
    out.seconds += makespan(loop.parts, threads, loop.own_parts);
    if (threads == 1) continue;
    out.seconds += cost;
    lost.loss += loss_of_loop(loop.parts, threads, loop.own_parts, cost);
  }
  return out;
}

void print_losers(const Prediction& p, int threads) {
  constexpr size_t kMost = 10;
  std::vector<std::pair<std::string, Lost>> ops(p.lost.begin(), p.lost.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
    return a.second.loss.sum() > b.second.loss.sum();
  });
  ops.resize(std::min(ops.size(), kMost));
  fmt::print("\nLargest losses on {} threads, in ms per step, by reason:\n", threads);
  fmt::print("{:>8} {:>6} {:>7} {:>7} {:>7} {:>7}  {:<14} {}\n", "lost ms", "loops", "few",
             "uneven", "small", "serial", "mostly", "op");
  for (const auto& [op, lost] : ops) {
    const Loss& l = lost.loss;
    fmt::print("{:>8.3f} {:>6} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f}  {:<14} {}\n", 1e3 * l.sum(),
               lost.loops, 1e3 * l.few, 1e3 * l.uneven, 1e3 * l.small, 1e3 * l.serial, l.reason(),
               op);
  }
}

/// The shortest time of some real steps on this machine.
double measured(const std::function<void()>& step, int threads, int reps) {
  set_num_threads(threads);
  double best = 1e9;
  for (int r = -1; r < reps; ++r) {
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (r >= 0) best = std::min(best, took.count());
  }
  return best;
}

const Case& case_named(const std::vector<Case>& cases, const std::string& name) {
  std::string names;
  for (const Case& c : cases) {
    if (c.name == name) return c;
    names += (names.empty() ? "" : ", ") + c.name;
  }
  fail(fmt::format("no model is called '{}'; there are {}", name, names));
}

int run(const Flags& flags) {
  const std::vector<Case> cases = all_cases();
  const Case& c = case_named(cases, flags.model);
  Workload work = c.make(nn::Recompute::none);
  int64_t weights = 0;
  for (const auto& [name, t] : work.parameters) weights += t.numel() * item_size(t.dtype());
  TrainingStep training(c, std::move(work), 32, false);
  const std::function<void()> step = [&] { training(); };

  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const double cost = flags.loop_us > 0 ? 1e-6 * flags.loop_us
                      : cores > 1       ? measure_loop_cost(2)
                                        : 3e-6;
  step();
  const int64_t allocated = allocated_by(step);
  const TimedStep alone = time_loops(step, 1, flags.reps);
  const double one = alone.seconds();
  fmt::print("{} in {}: {:.1f} ms on one thread. A loop costs {:.1f} us{}.\n\n", c.name,
             flags.precision, 1e3 * one, 1e6 * cost,
             flags.loop_us > 0 ? "" : " on two threads, and log2(N) times as much on N");
  fmt::print("{:>7} {:>10} {:>9} {:>10} {:>11} {:>11} {:>6}{}\n", "threads", "ms", "speed-up",
             "efficiency", "outside ms", "of one's", "work", flags.measure ? "  measured ms" : "");
  Prediction last;
  int last_threads = 1;
  for (int64_t n : flags.threads) {
    const int threads = static_cast<int>(n);
    const TimedStep timed = threads == 1 ? alone : time_loops(step, threads, flags.reps);
    const double per_loop =
        flags.loop_us > 0 ? cost : cost * std::log2(static_cast<double>(threads));
    last = predict(timed, last_threads = threads, per_loop);
    const double speed_up = one / last.seconds;
    fmt::print("{:>7} {:>10.2f} {:>9.2f} {:>10.2f} {:>11.3f} {:>10.2f}% {:>6.3f}", threads,
               1e3 * last.seconds, speed_up, speed_up / threads, 1e3 * timed.outside(),
               100 * timed.outside() / one, timed.seconds() / one);
    if (flags.measure && threads <= cores)
      fmt::print("  {:>11.2f}", 1e3 * measured(step, threads, 3 * flags.reps));
    fmt::print("\n");
    std::fflush(stdout);
  }
  fmt::print(
      "\nwork: time of all parts on one thread, relative to the step on one thread. outside: "
      "code\noutside of loops of several parts.\n");
  if (last_threads > 1) print_losers(last, last_threads);
  const double mb = 1e-6 * static_cast<double>(allocated);
  const double state = 4e-6 * static_cast<double>(weights);  // weights, gradients, two moments
  fmt::print(
      "\nThe step takes {:.0f} MB of new tensors and working memory, and has {:.0f} MB of "
      "weights,\ngradients and moments. It writes and reads each at least once: {:.0f} MB or more "
      "move between\ncores and caches, or memory where a cache does not hold them.\nLeft out: the "
      "bandwidth of memory and shared caches, NUMA, and clocks that fall as more cores\nwork. The "
      "parts ran one after another: those of thread 0 on one core, the others on\nanother.\n",
      mb, state, 2 * (mb + state));
  return 0;
}

void add_settings(apps::Settings& s, Flags& f) {
  s.text("model", f.model, "NAME", "a training step by its name in tern_bench").must_be_given();
  apps::add_precision(s, f.precision);
  s.numbers("cores", f.threads, {1, 1024}, "N,...", "numbers of threads to predict for")
      .flag("--threads");
  s.number("reps", f.reps, {1, 1000}, "steps timed; the shortest time of each part counts");
  s.number("loop_us", f.loop_us, {0, 1000},
           "what a loop costs in microseconds, on any number of threads; 0: measured");
  s.toggle("measure", f.measure, "also run the step on as many threads as this machine has cores");
}

apps::Program program(Flags& flags, int, char**) {
  const apps::Command command{.settings = [&](apps::Settings& s) { add_settings(s, flags); },
                              .run = [&] { return run(flags); }};
  return {"scaling", "Predicts training steps of tern's models on more cores.", {command}};
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) {
  return tern::apps::run_program("scaling", tern::bench::program, argc, argv);
}
