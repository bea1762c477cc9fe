// Inside of data only: the unigram language model of SentencePiece (Kudo 2018,
// https://arxiv.org/abs/1804.10959) as tokenizer.json has it.
#pragma once

#include "tern/data/text/detail/pretrained_parts.h"

namespace tern::data::detail {

/// Of all ways to cut a text into pieces the one with the largest sum of scores; of equal ones the
/// one whose last piece is longest. Characters without a piece are unknown, ten below the lowest
/// score; neighbours that are unknown become one, or with byte_fallback their bytes.
PretrainedModel read_unigram(const nlohmann::json& part);

/// The tokens <0x00> to <0xFF> of a text's bytes; none if one of them is not there.
std::vector<int64_t> byte_tokens(const std::unordered_map<std::string, int64_t>& ids,
                                 std::string_view text);

}  // namespace tern::data::detail
