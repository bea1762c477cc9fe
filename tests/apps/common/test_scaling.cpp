// --dry-run --gbit: the table of step time, memory and traffic by number of ranks.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "tern/apps/common/training/dry_run.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/linear.h"

namespace tern::apps::test_scaling {
namespace {

// The numbers of a row, without " %". One rank has no share of hidden communication.
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

TEST_CASE("scaling table: a network without cost leaves only computation; blocks limit the ranks") {
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
  CHECK(many[3] == "200.0");  // no faster: one rank still computes a whole block
  CHECK(table.find("4 blocks are for 4 ranks at most") != table.npos);
}

TEST_CASE("scaling table: a slow network determines the step time") {
  const Summary s = summary_of_layer();
  const OneMachine machine{.blocks = 4, .step = 0.004, .memory_bytes_per_second = 1e15};
  // 1,001,000 weights of four bytes, two blocks per rank: each way it sends half of them as nodes
  // of the block tree and half as sums: 4.004 MB at 3/4 of 1 Mbit/s, plus a few bytes and messages.
  const auto two = row(scaling_table(s, machine, {.gbit = 1e-3, .latency_us = 0}), 2);
  REQUIRE(two.size() == 10);
  CHECK(std::stod(two[4]) == doctest::Approx(4.004e6 * 8 / 0.75e6 * 1e3).epsilon(0.001));
  CHECK(std::stod(two[2]) > std::stod(two[4]));
  CHECK(two[8] == "4");
}

namespace {

// The table has three quarters of the weights.
struct Uneven {
  nn::Linear table, down;
  explicit Uneven(Rng& rng) : table(3000, 1000, rng), down(1000, 1000, rng) {}
  static void fields(auto& m, auto&& visit) { visit("table", m.table), visit("down", m.down); }
};

}  // namespace

TEST_CASE("scaling table: a sharded optimizer takes its largest shard; averages are not sharded") {
  Rng rng(0);
  const Uneven model(rng);
  const auto loss = [&] { return sum(model.down(model.table(ones({8, 3000})))); };
  SummaryOptions options{.learner = {.ema = 0.9, .check_graph = false}};
  const Summary whole = summary(model, loss, options);
  OneMachine machine{.blocks = 4, .step = 0.004, .memory_bytes_per_second = 1e15};
  const std::string plain = scaling_table(whole, machine, {.gbit = 1});
  machine.shard_optimizer = true;
  const std::string sharded = scaling_table(whole, machine, {.gbit = 1});
  for (const int ranks : {2, 4, 1024}) {
    CAPTURE(ranks);
    options.optimizer_ranks = ranks;
    const auto bytes = [](const Summary& s) {
      return static_cast<double>(s.cost.most[MemoryKind::optimizer]);
    };
    const double saved = bytes(whole) - bytes(summary(model, loss, options));
    // Megabytes, each rounded to a whole number.
    CHECK(std::abs(std::stod(row(plain, ranks)[9]) - std::stod(row(sharded, ranks)[9]) -
                   saved / 1e6) <= 1);
  }
  // The busiest of four ranks sends 3/4 of the gradients as nodes of the block tree, and 3/4 as
  // sums. It then sends the small matrix, which it updated, to three ranks, and one third of the
  // table, which it received, to two ranks.
  const double gradients = 4 * 4.002, table = 4 * 3.0, small = 4 * 1.0;
  const auto sent = [](const std::string& text) { return std::stod(row(text, 4)[8]); };
  CHECK(sent(plain) == doctest::Approx(1.5 * gradients).epsilon(0.02));
  CHECK(sent(sharded) ==
        doctest::Approx(1.5 * gradients + 3 * small + table * 2 / 3).epsilon(0.02));
}

}  // namespace tern::apps::test_scaling
