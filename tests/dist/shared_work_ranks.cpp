// shared_work_ranks: one rank that calls dist/shared_work.h, for test_shared_work.cpp. Rank 0
// prints the results.
//   shared_work_ranks [EVENT]
// EVENT: stop (an item of the last rank returns nothing), throw (that item throws), slow (rank 1
// loads for longer than the timeout), fail (rank 1 throws while it loads).
#include <fmt/core.h>

#include <chrono>
#include <string>
#include <thread>

#include "tern/dist/shared_work.h"

using namespace tern;

namespace {

constexpr int64_t kItems = 21, kLast = 20;

void load(dist::World& world, const std::string& event) {
  if (world.rank() != 1) return;
  if (event == "slow") std::this_thread::sleep_for(std::chrono::seconds(4));
  check(event != "fail", "the data are lost");
}

int run(const std::string& event) {
  dist::World world({.timeout = 3});
  dist::take_time(world, "loading", [&] { load(world, event); });
  const auto numbers = dist::share_numbers(
      &world, "the items", kItems, [&](int64_t i) -> std::optional<dist::Numbers> {
        check(event != "throw" || i != kLast, "item {} is lost", i);
        if (event == "stop" && i == kLast) return std::nullopt;
        return dist::Numbers(static_cast<size_t>(i % 3), 1 / (1.0 + static_cast<double>(i)));
      });
  const auto texts = dist::share(&world, "no items", 0, [](int64_t) { return std::string(); });
  if (!world.first()) return 0;
  if (!numbers) fmt::print("stopped\n");
  for (const dist::Numbers& item : numbers.value_or(std::vector<dist::Numbers>())) {
    for (const double x : item) fmt::print("{:a} ", x);
    fmt::print("{}\n", item.size());
  }
  return texts && texts->empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    fmt::print("ERROR {}\n", e.what());
    return 1;
  }
}
