#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/threads.h"

using namespace tern;

namespace {
struct ThreadCount {
  explicit ThreadCount(int n) : before(num_threads()) { set_num_threads(n); }
  ~ThreadCount() { set_num_threads(before); }
  int before;
};

/// How often parallel_for visits each of n elements.
std::vector<int> visits(int64_t n, int64_t grain) {
  std::vector<int> seen(n, 0);
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[i];
  });
  return seen;
}
}  // namespace

TEST_CASE("threads: every element and block is visited once") {
  for (int threads : {1, 2, 3, 8}) {
    ThreadCount count(threads);
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
  ThreadCount count(3);
  std::atomic<int> ranges{0}, odd{0};
  parallel_for(1000, 64, [&](int64_t begin, int64_t) {
    ++ranges;
    odd += begin % 64 != 0;
  });
  CHECK(ranges == 3);
  CHECK(odd == 0);
}

TEST_CASE("threads: small loops, loops in loops and serial scopes stay on their thread") {
  ThreadCount count(4);
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
    ThreadCount count(threads);
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

TEST_CASE("threads: loops work in threads of one's own and in a forked child") {
  ThreadCount count(4);
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
    alarm(20);  // a lost pool would wait for ever
    bool ok = in_serial() && visits(100, 1) == std::vector<int>(100, 1);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
