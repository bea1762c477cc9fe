// The listener of a thread's parallel loops, and the schedule that predicts how long the parts of a
// loop take on N threads.
#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tern/core/base/loop_listener.h"
#include "tern/core/tools/schedule.h"
#include "tern/tests/support/threads.h"

namespace tern::test_loop_listener {
namespace {

using Parts = std::vector<std::pair<int64_t, int64_t>>;

/// Records every loop and runs its parts, the last part first.
struct Heard : detail::LoopListener {
  explicit Heard(int count) : threads(count) { detail::loop_listener = this; }
  ~Heard() override { detail::loop_listener = nullptr; }
  void run(const detail::Loop& loop) override {
    loops.push_back(loop);
    for (int64_t p = loop.parts(); p-- > 0;) loop.run(p);
  }
  std::vector<detail::Loop> loops;
  const test::Threads threads;
};

}  // namespace

TEST_CASE("loop listener: receives each loop with its cut into parts, and runs the parts") {
  Heard heard(4);
  Parts ranges;
  parallel_for(1000, 100, [&](int64_t begin, int64_t end) { ranges.push_back({begin, end}); });
  CHECK(ranges == Parts{{768, 1000}, {512, 768}, {256, 512}, {0, 256}});
  std::vector<int64_t> blocks;
  parallel_blocks(5, [&](int64_t b) { blocks.push_back(b); });
  CHECK(blocks == std::vector<int64_t>{4, 3, 2, 1, 0});
  REQUIRE(heard.loops.size() == 2);
  CHECK((heard.loops[0].own_parts && !heard.loops[1].own_parts));
  CHECK((heard.loops[0].parts() == 4 && heard.loops[1].parts() == 5));
}

TEST_CASE("loop listener: sees loops nested in a loop of one part, not of several") {
  Heard heard(3);
  int64_t sum = 0;
  auto inner = [&] { parallel_for(300, 1, [&](int64_t b, int64_t e) { sum += e - b; }); };
  parallel_blocks(2, [&](int64_t) { inner(); });
  CHECK((heard.loops.size() == 1 && sum == 600));
  parallel_blocks(1, [&](int64_t) { inner(); });
  REQUIRE(heard.loops.size() == 3);
  CHECK((heard.loops[1].parts() == 1 && heard.loops[2].parts() == 3 && sum == 900));
  const SerialScope serial;
  inner();
  CHECK(heard.loops.size() == 3);
}

TEST_CASE("loop listener: exceptions reach the caller; loops of other threads are not seen") {
  Heard heard(3);
  auto fails = [](int64_t) { throw std::runtime_error("part"); };
  CHECK_THROWS_AS(parallel_blocks(4, fails), std::runtime_error);
  CHECK(!in_serial());
  std::thread([] { parallel_blocks(4, [](int64_t) {}); }).join();
  CHECK(heard.loops.size() == 1);
}

TEST_CASE("loop listener: loops are cut finer than the grain only for many threads") {
  const auto parts = [](int threads, int64_t n, int64_t grain) {
    Heard heard(threads);
    std::vector<int> seen(static_cast<size_t>(n), 0);
    parallel_for(n, grain, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) ++seen[static_cast<size_t>(i)];
    });
    CHECK(seen == std::vector<int>(static_cast<size_t>(n), 1));
    return heard.loops.at(0).parts();
  };
  CHECK(parts(64, 512, 1024) == 1);    // too short for more threads
  CHECK(parts(64, 4096, 1024) == 32);  // an eighth of the grain each
  CHECK(parts(64, 1 << 20, 1024) == 64);
  CHECK(parts(64, 5, 1) == 5);
  CHECK(parts(4, 4096, 1024) == 4);
  CHECK(parts(4, 1024, 1024) == 1);
}

// The expected times are computed by hand.
TEST_CASE("schedule: when the last part ends") {
  using detail::makespan;
  const std::vector<double> parts{5, 1, 1, 3};
  CHECK(makespan(parts, 1, true) == 10);
  CHECK(makespan(parts, 1, false) == 10);
  CHECK(makespan(parts, 4, true) == 5);
  CHECK(makespan(parts, 64, false) == 5);
  // On two threads: 5 | 1 1 3. With static parts, which go to the threads in turn: 5 + 1 | 1 + 3.
  CHECK(makespan(parts, 2, false) == 5);
  CHECK(makespan(parts, 2, true) == 6);
  // The long part comes last: 1 | 1 3, then 5 on the first free thread, at time 1.
  CHECK(makespan(std::vector<double>{1, 1, 3, 5}, 2, false) == 6);
  CHECK(makespan(std::vector<double>{}, 3, false) == 0);
  // Nine equal parts take three rounds on four threads, and also on three.
  CHECK(makespan(std::vector<double>(9, 2.0), 4, false) == 6);
  CHECK(makespan(std::vector<double>(9, 2.0), 3, false) == 6);
}

TEST_CASE("schedule: why a loop loses time") {
  using detail::loss_of_loop;
  // Two equal parts of 4 on four threads: 4 instead of 2. The loss is not due to uneven parts.
  detail::Loss few = loss_of_loop(std::vector<double>{4, 4}, 4, true, 0.5);
  CHECK((few.few == 2 && few.uneven == 0 && few.small == 0.5 && few.serial == 0));
  CHECK(std::string(few.reason()) == "too few parts");
  // Parts of 6 and 2 on two threads: 6 instead of 4.
  detail::Loss uneven = loss_of_loop(std::vector<double>{6, 2}, 2, true, 0.5);
  CHECK((uneven.few == 0 && uneven.uneven == 2));
  CHECK(std::string(uneven.reason()) == "uneven parts");
  // Enough even parts: only the cost of the thread pool is lost.
  detail::Loss small = loss_of_loop(std::vector<double>{1, 1, 1, 1}, 2, false, 0.5);
  CHECK((small.sum() == 0.5 && std::string(small.reason()) == "too small"));
  detail::Loss all = few;
  all += uneven;
  all.serial = 9;
  CHECK((all.sum() == 2 + 2 + 0.5 + 0.5 + 9 && std::string(all.reason()) == "serial"));
}

}  // namespace tern::test_loop_listener
