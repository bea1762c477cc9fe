// translate train --dry-run: the predicted peak memory against the allocator's peak in real steps.
#include <doctest/doctest.h>

#include "tern/apps/translate/program.h"
#include "tern/tests/support/memory_checks.h"

namespace tern::apps::translate::test_dry_run {
namespace {

// Runs several short epochs: the peak is that of the largest batch, together with the optimizer's
// state, which exists from the second step on.
void check_preset(const std::string& preset) {
  CAPTURE(preset);
  TrainConfig c;
  apply_preset(preset, c);
  c.first = 80;
  c.hold_out = 0;
  if (c.batch > 0) c.batch = 40;
  if (c.batch_tokens > 0) c.batch_tokens = 300;
  if (c.accumulate > 1) c.accumulate = 2;
  c.warmup = 0;
  c.schedule = "constant";
  TranslateProgram program(c);
  program.load(nullptr);
  test::check_peak(program.summary().cost.peak(), [&] {
    TranslationTraining training(program.config, program.corpus, program.tokenizers,
                                 {.terminal = false});
    for (int epoch = 0; epoch < 2; ++epoch) {
      while (!training.loop.epoch_trained()) training.loop.step();
      training.loop.close_epoch();
    }
  });
}

}  // namespace

TEST_CASE("translate dry run: every preset takes the predicted memory") {
  for (const std::string& preset : preset_names())
    if (preset != "base") check_preset(preset);  // 63 million weights take half a minute
}

}  // namespace tern::apps::translate::test_dry_run
