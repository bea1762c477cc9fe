// BLEU as sacreBLEU computes it: n-gram matches, smoothing, brevity penalty, signature. Also the
// score of d2l.ai.
#include "tern/data/scores/bleu.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/version.h"

namespace tern::datasets {
namespace {

using std::string_view;
using Counts = std::unordered_map<string_view, int64_t>;

constexpr double kLogOfZero = -9999999999;  // the value that sacreBLEU uses

// The tokens of a text with single spaces between them, so that an n-gram is one part of the text.
class Tokens {
 public:
  explicit Tokens(string_view text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      tokens_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  int64_t size() const { return std::ssize(tokens_); }

  Counts ngrams(int64_t n) const {
    Counts counts;
    for (int64_t i = 0; i + n <= size(); ++i) {
      const char* begin = tokens_[i].data();
      const string_view last = tokens_[i + n - 1];
      ++counts[string_view(begin, static_cast<size_t>(last.data() + last.size() - begin))];
    }
    return counts;
  }

 private:
  std::vector<string_view> tokens_;
};

std::string preprocess(const std::string& sentence, const BleuOptions& options) {
  const std::string text = options.lowercase ? lower_case(sentence) : sentence;
  return bleu_tokenize(strip_spaces(text), options.tokens);
}

void add_sentence(BleuScore& sum, const std::string& hypothesis, const std::string& reference,
                  const BleuOptions& options) {
  const std::string hypothesis_text = preprocess(hypothesis, options);
  const std::string reference_text = preprocess(reference, options);
  const Tokens hypothesis_tokens(hypothesis_text), reference_tokens(reference_text);
  sum.hypothesis_length += hypothesis_tokens.size();
  sum.reference_length += reference_tokens.size();
  for (int n = 1; n <= kBleuOrder; ++n) {
    const Counts wanted = reference_tokens.ngrams(n);
    for (const auto& [ngram, count] : hypothesis_tokens.ngrams(n)) {
      const auto found = wanted.find(ngram);
      sum.total[n - 1] += static_cast<double>(count);
      if (found != wanted.end())
        sum.correct[n - 1] += static_cast<double>(std::min(count, found->second));
    }
  }
}

double smoothing_value(const BleuOptions& options) {
  return options.smoothing_value.value_or(options.smoothing == BleuSmoothing::floor ? 0.1 : 1.0);
}

// BLEU = BP exp(mean_n log p_n), p_n = correct_n / total_n, BP = min(1, exp(1 - ref / hyp)).
void finish(BleuScore& s, const BleuOptions& options) {
  const auto hypothesis = static_cast<double>(s.hypothesis_length);
  const auto reference = static_cast<double>(s.reference_length);
  s.brevity_penalty = 1;
  if (hypothesis < reference)
    s.brevity_penalty = hypothesis > 0 ? std::exp(1 - reference / hypothesis) : 0;
  if (std::all_of(s.correct.begin(), s.correct.end(), [](double c) { return c == 0; })) return;
  int order = kBleuOrder;
  double halves = 1;
  for (int n = 0; n < kBleuOrder; ++n) {
    if (options.smoothing == BleuSmoothing::add_k && n > 0) {
      s.correct[n] += smoothing_value(options);
      s.total[n] += smoothing_value(options);
    }
    if (s.total[n] == 0) break;
    if (options.effective_order.value_or(false)) order = n + 1;
    if (s.correct[n] > 0)
      s.precision[n] = 100 * s.correct[n] / s.total[n];
    else if (options.smoothing == BleuSmoothing::exp)
      s.precision[n] = 100 / ((halves *= 2) * s.total[n]);
    else if (options.smoothing == BleuSmoothing::floor)
      s.precision[n] = 100 * smoothing_value(options) / s.total[n];
  }
  double sum = 0;
  for (int n = 0; n < order; ++n)
    sum += s.precision[n] == 0 ? kLogOfZero : std::log(s.precision[n]);
  s.score = s.brevity_penalty * std::exp(sum / order);
}

string_view name_of(BleuTokens tokens) {
  constexpr std::array<string_view, 3> kNames = {"13a", "char", "none"};
  return kNames[static_cast<size_t>(tokens)];
}

string_view name_of(BleuSmoothing smoothing) {
  constexpr std::array<string_view, 4> kNames = {"exp", "floor", "add-k", "none"};
  return kNames[static_cast<size_t>(smoothing)];
}

std::vector<string_view> split_single_spaces(string_view text) {
  std::vector<string_view> words;
  for (size_t end; (end = text.find(' ')) != text.npos; text.remove_prefix(end + 1))
    words.push_back(text.substr(0, end));
  words.push_back(text);
  return words;
}

std::string joined(std::span<const string_view> words) {
  std::string out;
  for (string_view word : words) out.append(word).append(1, ' ');
  return out;
}

}  // namespace

BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::string> references, const BleuOptions& options) {
  check(hypotheses.size() == references.size(), "corpus_bleu: {} hypotheses, but {} references",
        hypotheses.size(), references.size());
  check(!hypotheses.empty(), "corpus_bleu: no sentences");
  check(smoothing_value(options) >= 0, "corpus_bleu: the smoothing value {} is negative",
        smoothing_value(options));
  BleuScore score;
  for (size_t i = 0; i < hypotheses.size(); ++i)
    add_sentence(score, hypotheses[i], references[i], options);
  finish(score, options);
  return score;
}

BleuScore sentence_bleu(const std::string& hypothesis, const std::string& reference,
                        const BleuOptions& options) {
  BleuOptions of_sentence = options;
  of_sentence.effective_order = options.effective_order.value_or(true);
  return corpus_bleu({&hypothesis, 1}, {&reference, 1}, of_sentence);
}

std::string bleu_signature(const BleuOptions& options) {
  std::string smooth(name_of(options.smoothing));
  if (options.smoothing == BleuSmoothing::floor || options.smoothing == BleuSmoothing::add_k)
    smooth += fmt::format("[{:.2f}]", smoothing_value(options));
  return fmt::format("nrefs:1|case:{}|eff:{}|tok:{}|smooth:{}|version:tern-{}",
                     options.lowercase ? "lc" : "mixed",
                     options.effective_order.value_or(false) ? "yes" : "no",
                     name_of(options.tokens), smooth, kVersion);
}

std::string to_string(const BleuScore& s, const BleuOptions& options) {
  const double ratio = s.reference_length > 0 ? static_cast<double>(s.hypothesis_length) /
                                                    static_cast<double>(s.reference_length)
                                              : 0;
  const auto& p = s.precision;
  return fmt::format(
      "BLEU|{} = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} "
      "ref_len = {})",
      bleu_signature(options), s.score, p[0], p[1], p[2], p[3], s.brevity_penalty, ratio,
      s.hypothesis_length, s.reference_length);
}

double d2l_bleu(string_view predicted, string_view label, int64_t k) {
  check(k >= 1, "d2l_bleu: n-grams up to {}; at least 1", k);
  const std::vector<string_view> p = split_single_spaces(predicted);
  const std::vector<string_view> l = split_single_spaces(label);
  const int64_t lengths[] = {std::ssize(p), std::ssize(l)};
  double score = std::exp(
      std::min(0.0, 1 - static_cast<double>(lengths[1]) / static_cast<double>(lengths[0])));
  for (int64_t n = 1; n <= std::min(k, lengths[0]); ++n) {
    std::unordered_map<std::string, int64_t> left;
    const auto part = [n](auto& words, int64_t i) {
      return joined(std::span(words).subspan(static_cast<size_t>(i), static_cast<size_t>(n)));
    };
    for (int64_t i = 0; i + n <= lengths[1]; ++i) ++left[part(l, i)];
    int64_t matches = 0;
    for (int64_t i = 0; i + n <= lengths[0]; ++i) {
      const auto found = left.find(part(p, i));
      if (found == left.end() || found->second == 0) continue;
      --found->second;
      ++matches;
    }
    const double precision = static_cast<double>(matches) / static_cast<double>(lengths[0] - n + 1);
    score *= std::pow(precision, std::pow(0.5, static_cast<double>(n)));
  }
  return score;
}

}  // namespace tern::datasets
