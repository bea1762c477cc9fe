// train_cifar --dry-run: the predicted peak memory against the allocator's peak in real steps.
#include <doctest/doctest.h>

#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/program.h"
#include "tern/tests/support/memory_checks.h"

namespace tern::apps::train_cifar::test_dry_run {
TEST_CASE("train_cifar dry run: every model takes the predicted memory") {
  const datasets::Cifar10 data = draw_cifar10(40, 10, 1);
  for (const ClassifierEntry& entry : classifiers()) {
    const bool is_large = entry.side > 32 && entry.name != "resnet18";
    if (is_large && entry.name != "vit_tiny_patch16_224") continue;
    CAPTURE(entry.name);
    TrainOptions o;
    o.model = entry.name;
    o.dropout = entry.dropout;
    o.batch = 20;
    o.cutmix = 1;
    o.clip = 1;
    o.ema = entry.name == "gmlp-small" ? 0.9 : 0;
    CifarProgram program(o);
    program.data = data;
    test::check_peak(program.summary().cost.peak(), [&] {
      CifarTraining training(o, data, make_model(o), {.terminal = false});
      training.loop.step();
      training.loop.step();
    });
  }
}

TEST_CASE("train_cifar dry run: the numbers of pictures, and a batch of more than there are") {
  CifarFlags f;
  f.options.model = "gmlp-small";
  f.train.dry_run = true;
  CifarProgram program(f);
  program.load(nullptr);
  CHECK(program.describe()[1].second == "10,000 training and 2,000 test images of 10 classes");
  program.config.limit = 100;  // pictures beyond the limit are not counted
  program.config.hold_out = 0.25;
  CHECK(program.describe()[1].second ==
        "75 training, 25 held-out and 100 test images of 10 classes");
  program.config.batch = 50;  // two batches make an epoch
  program.config.accumulate = 2;
  const int64_t flops = program.summary().cost.forward_flops;
  program.config.accumulate = 8;
  CHECK(program.summary().cost.forward_flops == flops);
  f.options.batch = 1'000'000'000;
  f.options.limit = 500;
  CHECK(train_classifier(f) == 0);  // the batch holds at most 500 images, which memory has room for
}

}  // namespace tern::apps::train_cifar::test_dry_run
