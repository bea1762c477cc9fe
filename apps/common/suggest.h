// "Did you mean --epochs": the known word that a misspelt one is likeliest to be.
#pragma once

#include <string>
#include <vector>

namespace tern::apps {

/// The word of `known` that is nearest to `word`: few letters away (a swap of neighbours is one
/// step, capitals and _ for - are none), or with more or fewer letters at its end. Dashes in front
/// do not count. Empty if none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

/// "; did you mean WORD?", or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace tern::apps
