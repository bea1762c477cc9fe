// --dry-run: how much memory there is, and whether a run fits.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tern/apps/common/dry_run.h"
#include "tern/nn/linear.h"
#include "tern/tests/support/fake_machine.h"

namespace tern::apps::test_dry_run {
namespace {

constexpr int64_t kGiga = int64_t{1} << 30;

struct FakeMachine : test::FakeMachine {
  std::optional<FreeMemory> free() const { return free_memory(root.string()); }
};

}  // namespace

TEST_CASE("free memory: that of the machine, or what control groups leave") {
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

TEST_CASE("free memory: control groups of version 1, in a container, and files that say nothing") {
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

TEST_CASE("dry run: the verdict, and what is needed beside a step") {
  CHECK(verdict(3'999'999, FreeMemory{5'000'000, "this machine"}) ==
        std::pair<std::string, bool>("needs up to 4 MB; 5 MB are free on this machine: it fits",
                                     true));
  CHECK_FALSE(verdict(6'000'000, FreeMemory{5'000'000, "this machine"}).second);
  CHECK(verdict(6'000'000, std::nullopt).second);
  Rng rng(0);
  const nn::Linear layer(8, 8, rng);
  const Summary s = summary(layer, Shape{1000, 8});
  const int64_t bare = needed_bytes(s, {});
  CHECK(bare > s.cost.peak());
  CHECK(needed_bytes(s, {.waiting_batches = 4}) == bare + 5 * 32768);  // a quarter more is kept
}

}  // namespace tern::apps::test_dry_run
