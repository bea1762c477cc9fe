// A small English-French grammar that makes pairs of sentences, for trying models without a file:
// numbers, tenses, questions, negation, gender and agreement, elision and contraction, adjectives
// before and after the noun, object pronouns before the verb. An English sentence always has the
// same French one.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/data/text/pairs.h"

namespace tern::apps::translate {

/// n pairs, English the source. The same seed gives the same pairs; few of them are equal.
std::vector<data::SentencePair> generate_pairs(int64_t n, uint64_t seed);

}  // namespace tern::apps::translate
