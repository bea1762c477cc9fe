// Learns the merges of Bpe: counted chunks become bytes, merge_learner.cpp chooses the pairs.
#include <algorithm>
#include <optional>

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/bpe_chunks.h"
#include "tern/data/text/bpe/merge_learner.h"

namespace tern::datasets::detail {

std::vector<Bpe::Merge> learn_merges(const WordCounts& counts, const BpeOptions& options) {
  check(options.merges >= 0 && options.merges <= kMostMerges, "Bpe::learn: {} merges; 0 to {}",
        options.merges, kMostMerges);
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<MergeChunk> chunks;
  for (const auto& [text, count] : sorted) {
    MergeChunk chunk{{}, count};
    chunk.ids.reserve(text.size());
    for (char c : text) chunk.ids.push_back(kByteIds + static_cast<unsigned char>(c));
    chunks.push_back(std::move(chunk));
  }
  std::vector<Bpe::Merge> merges;
  learn_merges(std::move(chunks), options.min_count,
               [&](int32_t left, int32_t right) -> std::optional<int32_t> {
                 if (std::ssize(merges) == options.merges) return std::nullopt;
                 merges.emplace_back(left, right);
                 return kMergeIds + static_cast<int32_t>(merges.size()) - 1;
               });
  return merges;
}

}  // namespace tern::datasets::detail
