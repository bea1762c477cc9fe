#include "tern/apps/common/suggest.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

namespace tern::apps {
namespace {

constexpr size_t kLongest = 64;     // longer words are not compared
constexpr size_t kLeastPrefix = 3;  // letters that two words must have in common

std::string plain(const std::string& word) {
  std::string out = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  for (char& c : out)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Steps from one word to the other: a letter put in, left out, changed, or swapped with its
// neighbour (Damerau and Levenshtein; no letter is touched twice).
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  const std::string a = plain(word);
  if (a.empty() || a.size() > kLongest) return "";
  std::string best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string& k : known) {
    const std::string b = plain(k);
    const size_t common = std::min(a.size(), b.size());
    size_t steps = distance(a, b);
    const bool near = steps <= std::max<size_t>(1, common / 3) && steps < common;
    const bool prefix = common >= kLeastPrefix && a.compare(0, common, b, 0, common) == 0;
    if (prefix) steps = std::min<size_t>(steps, 2);  // before what is as near by chance
    if ((near || prefix) && steps < least) {
      least = steps;
      best = k;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string best = nearest_word(word, known);
  return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace tern::apps
