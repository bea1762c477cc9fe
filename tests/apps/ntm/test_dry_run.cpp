// ntm train --dry-run: the predicted peak memory against the allocator's peak in real steps.
#include <doctest/doctest.h>

#include "tern/apps/ntm/program.h"
#include "tern/tests/support/memory_checks.h"

namespace tern::apps::ntm::test_dry_run {
namespace {

// Runs all batches of one epoch.
void check_run(const NtmConfig& c) {
  const int64_t said = NtmProgram(c).summary().cost.peak();
  test::check_peak(said, [&] {
    NtmTraining training(c, {.terminal = false});
    while (!training.loop.epoch_trained()) training.loop.step();
  });
}

}  // namespace

TEST_CASE("ntm dry run: the machine and the baseline take the predicted memory") {
  NtmConfig c;
  c.batch = 32;
  c.sequences = c.every = 6 * c.batch;
  check_run(c);
  c.optimizer = "rmsprop";
  c.controller = "ff";
  c.clip = 10;
  check_run(c);
  c.task = "ngrams";  // all sequences have the same length
  c.baseline = true;
  c.layers = 3;
  c.hidden = 128;
  check_run(c);
}

TEST_CASE("ntm dry run: a step has at most the batches of an epoch") {
  NtmConfig c;
  c.batch = 2;
  c.sequences = c.every = 3 * c.batch;
  const auto flops = [&](int64_t accumulate) {
    c.accumulate = accumulate;
    return NtmProgram(c).summary().cost.forward_flops;
  };
  CHECK(flops(8) == flops(3));
  CHECK(flops(3) == 3 * flops(1));
}

}  // namespace tern::apps::ntm::test_dry_run
