// SentencePiece's unigram language model (Kudo 2018, https://arxiv.org/abs/1804.10959) in
// tokenizer.json. Inside of data only.
#pragma once

#include "tern/data/text/detail/pretrained_parts.h"

namespace tern::datasets::detail {

/// Cuts a text into the pieces with the largest sum of scores, of equals into those with the
/// longest last piece. Characters without a piece are unknown, with a score ten below the lowest.
/// Neighbouring unknowns become one token, or with byte_fallback their bytes.
PretrainedModel read_unigram(const JsonValue& part);

/// The tokens <0x00> to <0xFF> of a text's bytes; none if one of them is missing.
std::vector<int64_t> byte_tokens(const std::unordered_map<std::string, int64_t>& ids,
                                 std::string_view text);

}  // namespace tern::datasets::detail
