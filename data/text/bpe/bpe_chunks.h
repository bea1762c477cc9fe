// Cuts text into chunks for BPE, and learns merges. Inside of data only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/data/text/bpe/bpe.h"
#include "tern/data/text/tokenizer/vocabulary.h"

namespace tern::datasets::detail {

/// Ids of the first byte and the first merge.
inline constexpr int32_t kByteIds = static_cast<int32_t>(kSpecials);
inline constexpr int32_t kMergeIds = kByteIds + 256;
inline constexpr int64_t kMostMerges = 1 << 24;

/// Cuts the text where end_of says that the chunk that begins at a place ends.
template <class End>
std::vector<std::string_view> chunks_by(std::string_view text, End end_of) {
  std::vector<std::string_view> chunks;
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of(at);
    chunks.push_back(text.substr(at, end - at));
    at = end;
  }
  return chunks;
}

/// The chunks of the text (see bpe.h); joined they give the text. Long runs are cut after about 128
/// bytes, between characters, since the time for a run grows with its square.
std::vector<std::string_view> bpe_chunks(std::string_view text);

/// The text as encode() reads it: with a space in front, unless it is empty.
std::string with_space(std::string_view text);

std::vector<Bpe::Merge> learn_merges(const WordCounts& chunks, const BpeOptions& options);

}  // namespace tern::datasets::detail
