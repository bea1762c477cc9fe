// tern_bench [--only NAME] [--threads 2] [--reps 9] [--precision f32|bf16]: prints the machine's
// peak speed of matrix products, and then for every case a line of JSON with the time of one
// training step (forward, backward, AdamW).
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/apps/common/training/training_options.h"
#include "tern/bench/cases.h"
#include "tern/core/base/allocator.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/products.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tools/step_cost.h"

extern char** environ;

namespace tern::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string only, precision = "f32", matmul = "tiles";
  int threads = 2, reps = 9;
  apps::MemoryOptions memory_use;
};

template <class Fn>
double seconds(Fn&& fn) {
  auto start = std::chrono::steady_clock::now();
  static_cast<void>(fn());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double rounded(double v, double digits) { return std::round(v * digits) / digits; }

// GFLOP/s of the fastest of a dozen products of 2048 x 2048 matrices, in the precision in use: an
// upper bound for every step.
double sgemm_peak() {
  NoGradGuard guard;
  Rng rng(0);
  Tensor a = randn({2048, 2048}, rng), b = randn({2048, 2048}, rng);
  double best = 1e9;
  for (int i = 0; i < 12; ++i) best = std::min(best, seconds([&] { return matmul(a, b); }));
  return 2.0 * 2048 * 2048 * 2048 / best / 1e9;
}

// The peak resident memory of this process.
int64_t peak_rss_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) / 1024;
  return 0;
}

// Operations of a step's matrix products and convolutions, without recomputation.
double gflop_of(const Case& c) {
  ShapeOnlyScope nothing;
  const Workload work = c.make(nn::Recompute::none);
  const StepCost cost = step_cost({.loss = work.loss}, work.parameters);
  return static_cast<double>(cost.forward_flops + cost.backward_flops) / 1e9;
}

void run_case(const Case& c, const Flags& flags) {
  Workload work = c.make(nn::recompute_named(flags.memory_use.recompute));
  int64_t count = 0;
  for (const auto& [name, t] : work.parameters) count += t.numel();
  TrainingStep step(c, std::move(work), static_cast<int>(flags.memory_use.optimizer_bits),
                    flags.memory_use.step_in_backward);
  reset_peak_memory();
  std::vector<double> times;
  for (int r = 0; r < flags.reps + 3; ++r) times.push_back(seconds(step));
  int64_t peak = memory_stats().peak / (1 << 20);
  int64_t rss = peak_rss_mb();  // before sgemm_peak(), which needs memory too
  times.erase(times.begin(), times.begin() + 3);
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2], gflop = gflop_of(c), gflops = gflop / median;
  Json line{{"model", c.name},
            {"precision", flags.precision},
            {"params", count},
            {"ms", rounded(median * 1e3, 100)},
            {"min_ms", rounded(times[0] * 1e3, 100)},
            {"items_per_s", rounded(static_cast<double>(c.items) / median, 10)},
            {"gemm_gflop", rounded(gflop, 100)},
            {"gflops", rounded(gflops, 1)},
            {"peak_rss_mb", rss},
            {"peak_mb", peak},
            {"percent_of_peak", rounded(100 * gflops / sgemm_peak(), 10)}};
  fmt::print("{}\n", line.dump());
}

// Runs one case in a new process, so that every case has its own memory.
void run_apart(const std::string& name, const Flags& flags) {
  std::string threads = std::to_string(flags.threads), reps = std::to_string(flags.reps);
  std::vector<std::string> words = {"tern_bench",
                                    "--only",
                                    name,
                                    "--threads",
                                    threads,
                                    "--reps",
                                    reps,
                                    "--precision",
                                    flags.precision,
                                    "--recompute",
                                    flags.memory_use.recompute,
                                    "--optimizer-bits",
                                    std::to_string(flags.memory_use.optimizer_bits)};
  if (flags.matmul != "tiles") words.insert(words.end(), {"--matmul", flags.matmul});
  if (flags.memory_use.step_in_backward) words.emplace_back("--step-in-backward");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  int status = 0;
  check(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), environ) == 0 &&
            waitpid(pid, &status, 0) == pid && status == 0,
        "{} failed", name);
}

void add_settings(apps::Settings& s, Flags& flags) {
  s.text("only", flags.only, "TEXT", "cases whose name contains this");
  apps::add_threads(s, flags.threads);
  s.number("reps", flags.reps, {1, 100000}, "steps timed, after three that are not");
  apps::add_precision(s, flags.precision);
  apps::add_matmul(s, flags.matmul, flags.precision);
  apps::add_memory_settings(s, flags.memory_use);
}

int run(const Flags& flags) {
  std::vector<Case> cases = all_cases();
  for (const Case& c : cases)
    if (c.name == flags.only) {
      run_case(c, flags);
      return 0;
    }
  BuildInfo info = build_details();
  fmt::print("{}\n", Json{{"sgemm_peak_gflops", rounded(sgemm_peak(), 1)},
                          {"threads", num_threads()},
                          {"cpu", info.cpu},
                          {"vector", info.vector},
                          {"blas", info.blas},
                          {"blas_kernels", info.blas_kernels},
                          {"precision", flags.precision},
                          {"products", products_in_use()}}
                         .dump());
  std::fflush(stdout);
  for (const Case& c : cases)
    if (c.name.find(flags.only) != std::string::npos) run_apart(c.name, flags);
  return 0;
}

apps::Program program(Flags& flags, int, char**) {
  const apps::Command command{.settings = [&](apps::Settings& s) { add_settings(s, flags); },
                              .run = [&] { return run(flags); }};
  return {"tern_bench", "Times training steps of tern's models.", {command}};
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) {
  return tern::apps::run_program("tern_bench", tern::bench::program, argc, argv);
}
