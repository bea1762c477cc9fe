// chrF2 as sacreBLEU computes it: the F-score of character n-grams over a corpus.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/scores/bleu.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/version.h"

namespace tern::datasets {
namespace {

using std::string_view;

constexpr int kOrder = 6;
constexpr double kBeta = 2;

struct OrderCounts {
  int64_t hypothesis = 0, reference = 0, match = 0;
};
using Statistics = std::array<OrderCounts, kOrder>;

// A sentence without its white space. Its n-grams are parts of the text.
class Characters {
 public:
  Characters(const std::string& sentence, bool lowercase) {
    const std::string text = lowercase ? lower_case(sentence) : sentence;
    for (string_view word : split_spaces(text)) text_ += word;
    for (size_t at = 0; at < text_.size(); next_code_point(text_, at)) offsets_.push_back(at);
    offsets_.push_back(text_.size());
  }

  int64_t ngrams(int64_t n) const { return std::max<int64_t>(0, std::ssize(offsets_) - n); }

  std::unordered_map<string_view, int64_t> count(int64_t n) const {
    std::unordered_map<string_view, int64_t> counts;
    for (int64_t i = 0; i < ngrams(n); ++i)
      ++counts[string_view(text_).substr(offsets_[i], offsets_[i + n] - offsets_[i])];
    return counts;
  }

 private:
  std::string text_;
  std::vector<size_t> offsets_;  // offsets of the characters and of the end
};

void add_sentence(Statistics& sum, const Characters& hypothesis, const Characters& reference) {
  for (int n = 1; n <= kOrder; ++n) {
    OrderCounts& counts = sum[n - 1];
    const auto wanted = reference.count(n);
    // As in sacreBLEU: n-grams of the hypothesis count only if the reference has some.
    if (!wanted.empty()) counts.hypothesis += hypothesis.ngrams(n);
    counts.reference += reference.ngrams(n);
    for (const auto& [ngram, count] : hypothesis.count(n)) {
      const auto found = wanted.find(ngram);
      if (found != wanted.end()) counts.match += std::min(count, found->second);
    }
  }
}

// F = (1 + b^2) P R / (b^2 P + R); P and R are means over the orders that both sides have.
double f_score(const Statistics& statistics) {
  double precision = 0, recall = 0;
  int orders = 0;
  for (const OrderCounts& c : statistics) {
    if (c.hypothesis == 0 || c.reference == 0) continue;
    precision += static_cast<double>(c.match) / static_cast<double>(c.hypothesis);
    recall += static_cast<double>(c.match) / static_cast<double>(c.reference);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  constexpr double factor = kBeta * kBeta;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

}  // namespace

double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
                   const ChrfOptions& options) {
  check(hypotheses.size() == references.size(), "corpus_chrf: {} hypotheses, but {} references",
        hypotheses.size(), references.size());
  check(!hypotheses.empty(), "corpus_chrf: no sentences");
  Statistics sum{};
  for (size_t i = 0; i < hypotheses.size(); ++i)
    add_sentence(sum, Characters(hypotheses[i], options.lowercase),
                 Characters(references[i], options.lowercase));
  return f_score(sum);
}

std::string chrf_signature(const ChrfOptions& options) {
  return fmt::format("nrefs:1|case:{}|eff:yes|nc:6|nw:0|space:no|version:tern-{}",
                     options.lowercase ? "lc" : "mixed", kVersion);
}

}  // namespace tern::datasets
