// --dry-run: free memory by /proc and control groups, the predicted time, and whether a run fits.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tern/apps/common/training/dry_run.h"
#include "tern/nn/linear.h"
#include "tern/tests/support/fake_machine.h"

namespace tern::apps::test_dry_run {
namespace {

constexpr int64_t kGiga = int64_t{1} << 30;

struct FakeMachine : test::FakeMachine {
  std::optional<FreeMemory> free() const { return free_memory(root.string()); }
};

struct Pair {
  nn::Linear a, b;
  static void fields(auto& m, auto&& visit) {
    visit("a", m.a);
    visit("b", m.b);
  }
};

}  // namespace

TEST_CASE("free memory: the machine's, or what its control groups leave") {
  const FakeMachine machine;
  CHECK_FALSE(machine.free());
  machine.write("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    2097152 kB\n");
  CHECK(machine.free()->bytes == 2 * kGiga);
  CHECK(machine.free()->limit == "this machine");

  machine.write("proc/self/cgroup", "0::/jobs/mine\n");
  machine.write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  machine.write("sys/fs/cgroup/jobs/mine/memory.current", "1000\n");
  CHECK(machine.free()->bytes == 2 * kGiga);
  machine.write("sys/fs/cgroup/jobs/memory.max", fmt::format("{}\n", 3 * kGiga));
  machine.write("sys/fs/cgroup/jobs/memory.current", fmt::format("{}\n", 2 * kGiga));
  CHECK(machine.free()->bytes == kGiga);
  CHECK(machine.free()->limit == "the control group /jobs");
  machine.write("sys/fs/cgroup/jobs/memory.stat",
                fmt::format("anon 12\ninactive_file {}\n", kGiga / 2));
  CHECK(machine.free()->bytes == kGiga + kGiga / 2);
  machine.write("sys/fs/cgroup/jobs/memory.current", fmt::format("{}\n", 9 * kGiga));
  CHECK(machine.free()->bytes == 0);
}

TEST_CASE("free memory: control groups of version 1, in a container, and files without an answer") {
  const FakeMachine machine;
  machine.write("proc/meminfo", "MemAvailable: 2097152 kB\n");
  machine.write("proc/self/cgroup", "nonsense\n12:cpu,cpuacct:/a\n9:memory:/docker/f00\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", fmt::format("{}\n", kGiga));
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", fmt::format("{}\n", kGiga / 4));
  machine.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n");
  CHECK(machine.free()->bytes == kGiga - kGiga / 4);
  CHECK(machine.free()->limit == "the control group /");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(machine.free()->bytes == 2 * kGiga);
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "-5\n");
  machine.write("proc/meminfo", "MemAvailable: many kB\n");
  CHECK_FALSE(machine.free());
}

TEST_CASE("dry run: the time of all steps, measured or estimated from operations") {
  const auto timed = [](double seconds, int64_t steps) {
    return run_time_text({.seconds = seconds, .gflops = 3, .timed = true}, steps);
  };
  CHECK(timed(2.0769, 1300) == "about 45 min for 1,300 steps of 2.1 s, without evaluations");
  CHECK(timed(0.0123, 1) == "about a second for 1 step of 12 ms, without evaluations");
  CHECK(timed(0.5, 100) == "about 50 s for 100 steps of 0.5 s, without evaluations");
  CHECK(timed(1, 9000) == "about 2.5 h for 9,000 steps of 1 s, without evaluations");
  CHECK(timed(1, 864000) == "about 10 days for 864,000 steps of 1 s, without evaluations");
  CHECK(run_time_text({.seconds = 9, .gflops = 2499.7}, 1200) ==
        "at least 3.0 h for 1,200 steps, by their 2,500 GFLOP each and the speed of products here");
}

TEST_CASE("dry run: a short step is measured, a long one only estimated") {
  Rng rng(0);
  const nn::Linear layer(8, 8, rng);
  Summary s = summary(layer, Shape{4, 8});
  struct Taken {};
  const auto make_loop = []() -> training::Loop& { throw Taken{}; };
  CHECK_THROWS_AS(step_time(s, make_loop), Taken);
  s.cost.backward_flops = int64_t{1} << 60;
  const StepTime time = step_time(s, make_loop);
  CHECK_FALSE(time.timed);
  CHECK(time.gflops == doctest::Approx(1.153e9).epsilon(1e-3));
  CHECK(time.seconds > 2);
}

TEST_CASE("dry run: the verdict, and memory needed besides a step") {
  CHECK(verdict(3'999'999, FreeMemory{5'000'000, "this machine"}) ==
        std::pair<std::string, bool>("needs up to 4 MB; 5 MB are free on this machine: it fits",
                                     true));
  CHECK_FALSE(verdict(6'000'000, FreeMemory{5'000'000, "this machine"}).second);
  CHECK(verdict(6'000'000, std::nullopt).second);
  Rng rng(0);
  const nn::Linear layer(8, 8, rng);
  const Summary s = summary(layer, Shape{1000, 8});
  const int64_t bare = needed_bytes(s, 0);
  CHECK(bare > s.cost.peak());
  CHECK(needed_bytes(s, 4) == bare + 5 * 32768);  // 4 batches, 1/4 for reuse
  // A pass holds one of the blocks, so a large batch needs less memory.
  const int64_t blocks = needed_bytes(s, 0, SharedStep{{.blocks = 8}, 1});
  CHECK(blocks < bare);
  // But the sums of gradients take more than a small batch saves.
  const nn::Linear large(512, 512, rng);
  const Summary few = summary(large, Shape{8, 512});
  CHECK(needed_bytes(few, 0, SharedStep{{.blocks = 8}, 1}) > needed_bytes(few, 0) + 512 * 512 * 4);
  // Ranks that share the optimizer: a summary of all of it, and one of a rank's share.
  const Pair pair{{512, 512, rng}, {512, 512, rng}};
  const auto loss = [&] { return sum(pair.b(pair.a(ones({8, 512})))); };
  const Summary all = summary(pair, loss), share = summary(pair, loss, {.optimizer_ranks = 2});
  const SharedStep two{{.blocks = 8, .shard_optimizer = true}, 2};
  constexpr int64_t kWeight = 512 * 512 * 4;
  const int64_t apart = needed_bytes(all, 0, SharedStep{{.blocks = 8}, 2});
  CHECK(apart - needed_bytes(all, 0, two) >= 2 * kWeight);  // the moments of one weight
  CHECK(std::abs(needed_bytes(share, 0, two) - needed_bytes(all, 0, two)) < kWeight / 4);
}

}  // namespace tern::apps::test_dry_run
