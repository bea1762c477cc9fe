// The generated English-French pairs: phrases correspond, pairs are distinct, vowels are elided.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/apps/translate/corpus.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::test_grammar {
using namespace tern::apps::translate;
using tern::datasets::SentencePair;

namespace {

// In lower case, with a space before and after every word.
std::string spaced(const std::string& line) {
  const size_t end = line.find_last_not_of(" .?") + 1;
  return " " + datasets::lower_case(line.substr(0, end)) + " ";
}

}  // namespace

TEST_CASE("grammar: a phrase in the English sentence has its translation in the French one") {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const SentencePair& pair : generate_pairs(100'000, 1))
    lines.emplace_back(spaced(pair.source), spaced(pair.target));
  const std::pair<std::string, std::string> rows[] = {
      {"the girl", "la fille"},
      {"the egg", "l'œuf"},
      {"the horse", "le cheval"},
      {"the horses", "les chevaux"},
      {"the old men", "les vieux hommes"},
      {"in a garden", "dans un jardin"},
      {"behind an old hotel", "derrière un vieil hôtel"},
      {"in front of this hotel", "devant cet hôtel"},
      {"this beautiful bird", "ce bel oiseau"},
      {"this strange man", "cet homme étrange"},
      {"these small children", "ces petits enfants"},
      {"this forest", "cette forêt"},
      {"my school", "mon école"},
      {"my old school", "ma vieille école"},
      {"my quiet mice", "mes souris silencieuses"},
      {"ten beautiful cats", "dix beaux chats"},
      {"the cats sleep on sundays", "les chats dorment le dimanche"},
      {"she did not hear", "elle n'a pas entendu"},
      {"he will not look for", "il ne cherchera pas"},
      {"did not lose a dog", "pas perdu de chien"},
      {"did not lose an egg", "pas perdu d'œuf"},
      {"did he forget", "est-ce qu'il a oublié"},
      {"will they draw", "est-ce qu'ils dessineront"},
      {"do the girls see", "est-ce que les filles voient"},
      {"the houses were not big", "les maisons n'étaient pas grandes"},
      {"is she beautiful", "est-ce qu'elle est belle"},
  };
  for (const auto& [english, french] : rows) {
    int64_t found = 0, missed = 0;
    for (const auto& [source, target] : lines)
      if (source.find(" " + english + " ") != std::string::npos) {
        ++found;
        missed += target.find(" " + french + " ") == std::string::npos;
      }
    const std::string& word = english;  // clang 14 cannot capture a structured binding
    CAPTURE(word);
    CHECK(found > 0);
    CHECK(missed == 0);
  }
}

TEST_CASE(
    "grammar: pairs are distinct, a smaller set is a prefix of a larger one, vowels are elided") {
  const std::vector<SentencePair> pairs = generate_pairs(20'000, 3);
  CHECK(std::ranges::equal(generate_pairs(500, 3), std::span(pairs).first(500)));
  CHECK(generate_pairs(5, 2) != generate_pairs(5, 3));
  CHECK(generate_pairs(0, 1).empty());
  CHECK_THROWS_AS(generate_pairs(-1, 1), Error);
  CHECK_THROWS_AS(generate_pairs(1'000'001, 1), Error);
  std::set<std::string> sources;
  for (const auto& [source, target] : pairs) {
    CHECK(sources.insert(source).second);
    CHECK((source[0] >= 'A' && source[0] <= 'Z' && target[0] >= 'A' && target[0] <= 'Z'));
    CHECK(source.back() == target.back());
    const std::string line = spaced(target);
    for (const char* word : {" le ", " la ", " ne ", " de ", " que ", " ma ", " ce ", "  "})
      if (const size_t at = line.find(word); at != std::string::npos)
        for (const char* vowel : {"a", "e", "é", "h", "i", "o", "œ", " "})
          CHECK_FALSE(line.substr(at + std::string_view(word).size()).starts_with(vowel));
  }
}

}  // namespace tern::test_grammar
