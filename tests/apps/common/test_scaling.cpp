// --dry-run --gbit: the table of numbers of ranks.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tern/apps/common/scaling.h"
#include "tern/core/base/rng.h"
#include "tern/nn/linear.h"

namespace tern::apps::test_scaling {
namespace {

// A row's numbers, without " %" and the hidden share, which one rank has not.
std::vector<std::string> row(const std::string& table, int ranks) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> row;
    for (std::string word; words >> word;)
      if (word != "%") row.push_back(word);
    if (row.size() >= 9 && row[0] == std::to_string(ranks)) return row;
  }
  return {};
}

Summary summary_of_layer() {
  Rng rng(0);
  const nn::Linear layer(1000, 1000, rng);
  return summary(layer, Shape{8, 1000});
}

}  // namespace

TEST_CASE("scaling table: an endless network leaves computing, and blocks end it") {
  const Summary s = summary_of_layer();
  const OneMachine machine{.blocks = 4, .step = 0.8, .memory_bytes_per_second = 1e15};
  const std::string table = scaling_table(s, machine, {.gbit = 1e9, .latency_us = 0});
  // ranks, blocks, step, compute, network, [hidden,] speed-up, efficiency, sent, memory
  const auto one = row(table, 1), four = row(table, 4), many = row(table, 1024);
  REQUIRE(one.size() == 9);
  REQUIRE(four.size() == 10);
  REQUIRE(many.size() == 10);
  CHECK(one[2] == "800.0");
  CHECK(four[1] == "4");
  CHECK(four[3] == "200.0");
  CHECK(many[1] == "1024");
  CHECK(many[3] == "200.0");  // a block of the same size
  CHECK(table.find("4 blocks are for 4 ranks at most") != table.npos);
}

TEST_CASE("scaling table: a slow network is what a step takes") {
  const Summary s = summary_of_layer();
  const OneMachine machine{.blocks = 4, .step = 0.004, .memory_bytes_per_second = 1e15};
  // 1,001,000 weights of four bytes in two blocks a rank: each way half of them as nodes and half
  // as sums, 4.004 MB at 3/4 of 1 Mbit/s, besides some bytes and messages.
  const auto two = row(scaling_table(s, machine, {.gbit = 1e-3, .latency_us = 0}), 2);
  REQUIRE(two.size() == 10);
  CHECK(std::stod(two[4]) == doctest::Approx(4.004e6 * 8 / 0.75e6 * 1e3).epsilon(0.001));
  CHECK(std::stod(two[2]) > std::stod(two[4]));
  CHECK(two[8] == "4");
}

}  // namespace tern::apps::test_scaling
