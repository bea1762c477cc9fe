// SentencePiece's unigram language model (Kudo 2018, https://arxiv.org/abs/1804.10959) in
// tokenizer.json. Inside of data only.
#pragma once

#include "tern/data/text/pretrained/pretrained_parts.h"

namespace tern::datasets::detail {

/// Cuts a text into the pieces with the largest sum of scores, and among equals into those with the
/// longest last piece. Characters without a piece are unknown, with a score ten below the lowest.
/// Neighbouring unknowns become one token, or with byte_fallback their bytes.
PretrainedModel read_unigram(const JsonValue& part);

/// The tokens <0x00> to <0xFF> of a text's bytes; none if one of them is missing. `find` gives the
/// id of a token, if there is one.
std::vector<int64_t> byte_tokens(
    std::string_view text, const std::function<std::optional<int64_t>(const std::string&)>& find);

}  // namespace tern::datasets::detail
