// How many processors and cores a process may use: affinity masks and CPU quotas of simulated
// machines, and OpenMP's settings in fresh processes.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/cores.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/error.h"
#include "tern/core/tools/profile.h"
#include "tern/tests/support/fake_machine.h"
#include "tern/tests/support/fresh_process.h"
#include "tern/tests/support/threads.h"

namespace tern::test_cores {
namespace {

/// 64 processors: numbers i and i + 32 share one core.
struct FakeMachine : test::FakeMachine {
  std::vector<int> all = std::vector<int>(64);

  FakeMachine() {
    std::iota(all.begin(), all.end(), 0);
    for (int i : all)
      write(fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", i),
            fmt::format("{},{}\n", i % 32, i % 32 + 32));
  }
  /// The text "<processors> <cores>".
  std::string found(const std::vector<int>& allowed) const {
    const detail::Cores cores = detail::usable_cores(allowed, root.string());
    return fmt::format("{} {}", cores.processors, cores.cores);
  }
  std::string found() const { return found(all); }
};

}  // namespace

TEST_CASE("cores: hyperthreads of a core count once, within the affinity mask") {
  const FakeMachine machine;
  CHECK(machine.found() == "64 32");
  CHECK(machine.found({0, 1, 2, 3}) == "4 4");
  CHECK(machine.found({0, 32, 5, 37}) == "4 2");
  CHECK(machine.found({7, 39}) == "2 1");
  CHECK(machine.found({100, 101}) == "2 2");  // the system does not describe these
  CHECK(machine.found({}) == "1 1");
}

TEST_CASE("cores: the CPU quota of control groups of version 2") {
  const FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/jobs/mine\n");
  machine.write("sys/fs/cgroup/jobs/mine/cpu.max", "max 100000\n");
  CHECK(machine.found() == "64 32");
  machine.write("sys/fs/cgroup/jobs/mine/cpu.max", "200000 100000\n");
  CHECK(machine.found() == "2 2");
  CHECK(machine.found({7, 39}) == "2 1");
  machine.write("sys/fs/cgroup/jobs/mine/cpu.max", "3900000 100000\n");
  CHECK(machine.found() == "39 32");
  machine.write("sys/fs/cgroup/jobs/cpu.max", "350000 100000\n");  // the parent group
  CHECK(machine.found() == "3 3");
  machine.write("sys/fs/cgroup/jobs/cpu.max", "50000 100000\n");  // half a processor
  CHECK(machine.found() == "1 1");
  for (const char* broken : {"", "nonsense\n", "200000\n", "200000 0\n", "-1 100000\n"}) {
    machine.write("sys/fs/cgroup/jobs/cpu.max", broken);
    CHECK(machine.found() == "39 32");
  }
}

TEST_CASE("cores: the CPU quota of control groups of version 1, and of a group in a container") {
  const FakeMachine machine;
  const std::string at = "sys/fs/cgroup/cpu,cpuacct/", quota = "cpu.cfs_quota_us";
  machine.write("proc/self/cgroup", "9:memory:/a\n4:cpuset:/a\n3:cpu,cpuacct:/f00/mine\n0::/\n");
  CHECK(machine.found() == "64 32");
  machine.write(at + "f00/mine/cpu.cfs_period_us", "100000\n");
  machine.write(at + "f00/mine/" + quota, "-1\n");
  CHECK(machine.found() == "64 32");
  machine.write(at + "f00/mine/" + quota, "200000\n");
  CHECK(machine.found() == "2 2");

  // Docker without a cgroup namespace: the container's own group is the root of the mount.
  const auto mount = [&](const std::string& top) {
    machine.write("proc/self/mountinfo", fmt::format("32 30 0:28 {} /sys/fs/cgroup/cpu,cpuacct rw "
                                                     "- cgroup cgroup rw,cpu,cpuacct\n",
                                                     top));
  };
  mount("/f00");
  CHECK(machine.found() == "64 32");
  machine.write(at + "mine/cpu.cfs_period_us", "100000\n");
  machine.write(at + "mine/" + quota, "300000\n");
  CHECK(machine.found() == "3 3");
  machine.write(at + "cpu.cfs_period_us", "100000\n");
  machine.write(at + quota, "100000\n");  // the container's quota
  CHECK(machine.found() == "1 1");
  mount("/f0");  // another group, whose name is a prefix
  machine.write(at + quota, "400000\n");
  CHECK(machine.found() == "4 4");
}

TEST_CASE("cores: a chosen number of threads is not divided") {
  const test::Threads six(6);
  share_cores(3);
  CHECK(num_threads() == 6);
  share_cores(1);
  CHECK_THROWS_AS(share_cores(0), Error);
}

TEST_CASE("cores: print what this process may use" * doctest::skip()) {
  const BlasScope blas;  // sets OpenMP's number of threads to 1
  std::vector<int> beside;
  std::thread([&] {
    detail::leave_place();
    const BlasScope calls_openmp;
    beside = test::processors_of_thread();
  }).join();
  fmt::print("{}, {}, {} threads", fmt::join(detail::allowed_processors(), " "),
             fmt::join(beside, " "), num_threads());
  Profile({.lost_threads = 5}).stop();  // counts for five threads
  share_cores(1024);
  fmt::print(", shared {}", num_threads());
}

TEST_CASE("cores: print where the second thread of two runs" * doctest::skip()) {
  std::thread([] {
    detail::bind_to_place(1, 2);
    const BlasScope calls_openmp;
    fmt::print("{}", fmt::join(test::processors_of_thread(), " "));
  }).join();
}

TEST_CASE("cores: a thread is bound to its own place, not to that of the thread that starts it") {
  const std::vector<int> own = test::processors_of_thread();
  CHECK(test::printed_by("cores: print where the second thread of two runs",
                         fmt::format("OMP_PLACES='{{{}}},{{{}}}'", own.front(), own.back())) ==
        fmt::format("{}", own.back()));
}

TEST_CASE("cores: OpenMP's settings for thread binding and number of threads") {
  const auto found = [](const std::string& variables) {
    return test::printed_by("cores: print what this process may use", variables);
  };
  const auto expected = [](const std::vector<int>& processors, int threads, int shared) {
    const std::string all = fmt::format("{}", fmt::join(processors, " "));
    return fmt::format("{}, {}, {} threads, shared {}", all, all, threads, shared);
  };
  const std::vector<int> own = test::processors_of_thread(), first{own.front()};
  const int cores = detail::usable_cores(own).cores;
  for (const std::string binding :
       {"", "OMP_PROC_BIND=false", "OMP_PROC_BIND=close", "OMP_PROC_BIND=spread",
        "OMP_PLACES=cores", "OMP_PLACES=threads"}) {
    CAPTURE(binding);
    CHECK(found(binding) == expected(own, cores, 1));
  }
  CHECK(found(fmt::format("OMP_PLACES='{{{}}}'", own.front())) == expected(first, 1, 1));
  for (const std::string chosen : {"3", "' 3 '", "3,2", "'3 , 2'"}) {
    CAPTURE(chosen);
    CHECK(found(fmt::format("OMP_NUM_THREADS={}", chosen)) == expected(own, 3, 3));
  }
  for (const std::string ignored : {"", "abc", "0", "-2", "4x", "99999999999999999999"}) {
    // LLVM's OpenMP library aborts on values that are not numbers.
    if (dlsym(RTLD_DEFAULT, "kmp_set_stacksize_s") && ignored != "0") continue;
    CAPTURE(ignored);
    CHECK(found(fmt::format("OMP_NUM_THREADS={}", ignored)) == expected(own, cores, 1));
  }
}

}  // namespace tern::test_cores
