// Made-up English sentences with their French translations, for trying models without a file:
// "Did these birds sing in my school?", "Est-ce que ces oiseaux ont chanté dans mon école ?"
// French asks for gender and number, adjectives before or behind the noun, tenses, and elision.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/data/text/pairs.h"

namespace tern::apps::translate {

/// n different pairs, English the source; at most a million. The same seed gives the same pairs,
/// and fewer pairs are the first ones of more.
std::vector<data::SentencePair> generate_pairs(int64_t n, uint64_t seed);

}  // namespace tern::apps::translate
