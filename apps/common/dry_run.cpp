#include "tern/apps/common/dry_run.h"

#include <fmt/format.h>

#include "tern/apps/common/standard_streams.h"
#include "tern/core/ops/ops.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

std::string megabytes(int64_t bytes) {
  return train::grouped((bytes + 999'999) / 1'000'000) + " MB";
}

}  // namespace

int64_t needed_bytes(const Summary& s, const DryRunOptions& o) {
  // The allocator keeps blocks for reuse up to a quarter beside those in use, and 16 MiB.
  const int64_t peak = s.cost.peak() + o.waiting_batches * s.cost.most[MemoryKind::batch];
  return peak + peak / 4 + (int64_t{16} << 20);
}

std::pair<std::string, bool> verdict(int64_t needed, const std::optional<FreeMemory>& free) {
  std::string text = fmt::format("needs up to {}; ", megabytes(needed));
  if (!free) return {text + "this system does not say how much is free", true};
  const bool fits = needed <= free->bytes;
  return {text + fmt::format("{} are free on {}: {}", megabytes(free->bytes), free->limit,
                             fits ? "it fits" : "it does NOT fit; take smaller batches"),
          fits};
}

Tensor copy_of(const Tensor& ids) {
  return ids.defined() ? tensor(ids.to_vector<int64_t>(), ids.shape()) : ids;
}

int report_dry_run(const Summary& s, const DryRunOptions& o) {
  for (const auto& [heading, text] : o.facts) print(fmt::format("{:8} {}\n", heading, text));
  const auto [text, fits] = verdict(needed_bytes(s, o), free_memory());
  print(fmt::format("{}{}\n", s.text(), text));
  return fits ? 0 : 1;
}

}  // namespace tern::apps
