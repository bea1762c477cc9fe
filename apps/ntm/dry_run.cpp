#include "tern/apps/ntm/dry_run.h"

#include "tern/apps/common/dry_run.h"
#include "tern/apps/ntm/training.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"

namespace tern::apps::ntm {
namespace {

// Lengths are drawn evenly from at most some dozens: the longest is soon among them.
data::SequenceBatch longest_batch(const NtmConfig& c) {
  constexpr int kLooked = 200;
  data::Loader<data::SequenceBatch> loader = training_batches(c);
  data::SequenceBatch longest;
  for (int i = 0; i < kLooked; ++i) {
    std::optional<data::SequenceBatch> batch = loader.next();
    if (!batch) break;
    if (!longest.input.defined() || batch->input.numel() > longest.input.numel())
      longest = std::move(*batch);
  }
  return longest;
}

}  // namespace

Summary summary_of_run(const NtmConfig& c) {
  const data::SequenceBatch longest = longest_batch(c);
  ShapeOnlyScope nothing;
  const SequenceModel model(c);
  data::SequenceBatch batch;
  auto make_batch = [&] {
    batch = {zeros_like(longest.input), zeros_like(longest.target), zeros_like(longest.mask)};
  };
  return summary(model, [&] { return data::cost_in_nats(model(batch.input), batch); },
                 {.batch = make_batch,
                  .optimizer = [&](const NamedTensors& p) { return make_optimizer(c, p); },
                  .learner = learner_options(c)});
}

int dry_run(const NtmConfig& c) {
  DryRunOptions options;
  {
    ShapeOnlyScope nothing;
    options.facts = describe(c, SequenceModel(c));
  }
  return report_dry_run(summary_of_run(c), options);
}

}  // namespace tern::apps::ntm
