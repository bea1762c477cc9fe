// Parallel loops and their pool of threads: coverage, nesting, exceptions, threads of the user's
// own, and a forked child.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tern/core/base/allocator.h"
#include "tern/core/base/error.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/threads.h"
#include "tern/tests/support/threads_alive.h"

namespace tern::test_threads {

namespace {
/// The number of times that parallel_for visits each of n elements.
std::vector<int> visits(int64_t n, int64_t grain) {
  std::vector<int> seen(n, 0);
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[i];
  });
  return seen;
}

/// Runs `regions` loops of random kinds and sizes, some with nested loops or exceptions. Returns
/// the number of loops whose result differs from that of a plain loop.
int wrong_regions(int regions, unsigned seed) {
  std::mt19937 random(seed);
  int wrong = 0;
  for (int r = 0; r < regions; ++r) {
    const int64_t n = random() % 300, grain = 1 + random() % 70, bad = random() % 900;
    const bool blocks = random() % 2, nested = random() % 4 == 0;
    std::vector<int> seen(n, 0);
    auto visit = [&](int64_t i) {
      if (nested) {
        std::atomic<int64_t> inner = 0;
        parallel_for(200, 1, [&](int64_t b, int64_t e) { inner += e - b; });
        seen[i] += inner == 200;
      } else {
        ++seen[i];
      }
      if (i == bad) throw std::out_of_range(std::to_string(i));
    };
    bool thrown = false;
    try {
      if (blocks)
        parallel_blocks(n, visit);
      else
        parallel_for(n, grain, [&](int64_t b, int64_t e) {
          for (; b < e; ++b) visit(b);
        });
    } catch (const std::out_of_range& e) {
      thrown = e.what() == std::to_string(bad);
    }
    const bool all = std::accumulate(seen.begin(), seen.end(), int64_t{0}) == n;
    wrong += thrown != (bad < n) || (!thrown && !all);
  }
  return wrong;
}
}  // namespace

TEST_CASE("threads: every element and block is visited once") {
  for (int threads : {1, 2, 3, 8}) {
    const test::Threads count(threads);
    for (int64_t n : {0, 1, 2, 7, 63, 64, 65, 129, 1000})
      for (int64_t grain : {0, 1, 5, 64, 100, 5000})
        CHECK(visits(n, grain) == std::vector<int>(n, 1));
    for (int64_t n : {0, 1, 5, 100}) {
      std::vector<int> seen(n, 0);
      parallel_blocks(n, [&](int64_t b) { ++seen[b]; });
      CHECK(seen == std::vector<int>(n, 1));
    }
  }
}

TEST_CASE("threads: ranges of a coarse loop start at multiples of 64") {
  const test::Threads count(3);
  std::atomic<int> ranges{0}, odd{0};
  parallel_for(1000, 64, [&](int64_t begin, int64_t) {
    ++ranges;
    odd += begin % 64 != 0;
  });
  CHECK(ranges == 3);
  CHECK(odd == 0);
}

TEST_CASE("threads: small loops, loops in loops and serial scopes stay on their thread") {
  const test::Threads count(4);
  auto stays = [](int64_t n, int64_t grain) {
    std::atomic<int> calls{0}, elsewhere{0};
    auto self = std::this_thread::get_id();
    parallel_for(n, grain, [&](int64_t, int64_t) {
      ++calls;
      elsewhere += std::this_thread::get_id() != self;
    });
    return calls == 1 && elsewhere == 0;
  };
  CHECK(stays(100, 100));
  CHECK_FALSE(stays(101, 100));
  {
    SerialScope outer;
    { SerialScope inner; }
    CHECK(in_serial());
    CHECK(stays(100, 1));
  }
  CHECK_FALSE(in_serial());
  std::atomic<int> wrong{0};
  parallel_blocks(8, [&](int64_t) { wrong += !in_serial() || !stays(100, 1); });
  CHECK(wrong == 0);
}

TEST_CASE("threads: an exception in a body reaches the caller") {
  for (int threads : {1, 4}) {
    const test::Threads count(threads);
    auto thrower = [](int64_t begin, int64_t end) {
      if (begin <= 77 && 77 < end) throw std::out_of_range("77");
    };
    CHECK_THROWS_WITH_AS(parallel_for(100, 1, thrower), "77", std::out_of_range);
    auto block = [](int64_t b) {
      if (b == 3) throw std::out_of_range("3");
    };
    CHECK_THROWS_WITH_AS(parallel_blocks(10, block), "3", std::out_of_range);
    CHECK(visits(100, 1) == std::vector<int>(100, 1));
  }
  CHECK_THROWS_AS(set_num_threads(0), Error);
}

TEST_CASE("threads: loops work in threads of the user's own and in a forked child") {
  const test::Threads count(4);
  CHECK(visits(100, 1) == std::vector<int>(100, 1));
  std::atomic<int> good{0};
  std::vector<std::thread> own;
  for (int i = 0; i < 3; ++i)
    own.emplace_back([&, i] {
      if (i == 0) good += visits(100, 1) == std::vector<int>(100, 1);
      SerialScope serial;
      if (i != 0) good += in_serial() && visits(100, 1) == std::vector<int>(100, 1);
    });
  for (auto& t : own) t.join();
  CHECK(good == 3);

  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);  // without its pool the child would wait forever
    bool ok = in_serial() && visits(100, 1) == std::vector<int>(100, 1);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("threads: a forked child computes, whatever the parent's other threads did meanwhile") {
  std::atomic<bool> stop{false};
  std::thread busy([&stop] {
    while (!stop) {
      trim_memory();  // holds the allocator's lock most of the time
      std::this_thread::sleep_for(std::chrono::microseconds(1));  // else fork() rarely gets it
    }
  });
  bool all = true;
  for (int i = 0; i < 10 && all; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // with a lock that nobody will free, the child would wait forever
      _exit(sum(ones({100, 100})).item() == 10000 ? 0 : 1);
    }
    int status = -1;
    all = child > 0 && waitpid(child, &status, 0) == child && status == 0;
  }
  stop = true;
  busy.join();
  CHECK(all);
}

TEST_CASE("threads: no thread starts or ends after the first loop, however many parts follow") {
  for (int threads : {2, 8, 16, 64}) {
    const test::Threads count(threads);
    visits(2, 1);
    const auto first = test::threads_alive();
    CHECK(first.size() >= static_cast<size_t>(threads));
    for (int64_t n : {64, 2, 64, 3, 16, 1000, 5}) {
      visits(n, 1);
      parallel_blocks(n, [](int64_t) {});
    }
    set_num_threads(2);
    visits(64, 1);
    set_num_threads(threads);
    visits(64, 1);
    CHECK(test::threads_alive() == first);
  }
}

TEST_CASE("threads: loops of random sizes, nested, with exceptions, from several threads") {
  for (int threads : {2, 5}) {
    const test::Threads count(threads);
    std::atomic<int> wrong{0};
    std::vector<std::thread> own;
    for (unsigned seed = 0; seed < 4; ++seed)
      own.emplace_back([&, seed] { wrong += wrong_regions(1250, seed); });
    for (auto& t : own) t.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads: the other threads compute the parts of a thread that is held up") {
  const test::Threads count(2);
  // The first block holds up its thread until all other blocks are computed.
  std::atomic<int> computed{0};
  parallel_blocks(100, [&](int64_t b) {
    if (b == 0)
      while (computed < 99) std::this_thread::yield();
    ++computed;
  });
  CHECK(computed == 100);
  // While one user thread holds up the pool, another computes its loop by itself.
  std::atomic<bool> release{false}, entered{false};
  std::thread other([&] {
    parallel_for(2, 1, [&](int64_t, int64_t) {
      entered = true;
      while (!release) std::this_thread::yield();
    });
  });
  while (!entered) std::this_thread::yield();
  CHECK(visits(100, 1) == std::vector<int>(100, 1));
  release = true;
  other.join();
}

}  // namespace tern::test_threads
