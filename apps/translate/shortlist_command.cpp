// Learns which words translate which.
#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/translate/commands.h"
#include "tern/apps/translate/translator.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lexicon.h"
#include "tern/data/text/pairs.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

/// What is said of lists of so many translations a token.
struct Coverage {
  double found;   ///< share of the target tokens that are on their sentences' lists
  double length;  ///< of a list, in the mean
};

Coverage coverage(const data::Lexicon& lexicon, const std::vector<data::EncodedPair>& pairs,
                  int64_t best) {
  int64_t found = 0, tokens = 0, length = 0;
  for (const data::EncodedPair& p : pairs) {
    const std::vector<int64_t> list = lexicon.candidates(p.source, best);
    for (const int64_t t : p.target) found += std::binary_search(list.begin(), list.end(), t);
    tokens += std::ssize(p.target);
    length += std::ssize(list);
  }
  return {static_cast<double>(found) / static_cast<double>(tokens),
          static_cast<double>(length) / static_cast<double>(pairs.size())};
}

}  // namespace

int learn_shortlist(const TranslateOptions& o) {
  const ModelFiles files{o.model};
  const TrainConfig config = load_config(files);
  const Tokenizers tokenizers = load_tokenizers(files, config);
  check(config.model.model == "transformer", "shortlist: only a transformer decodes so, {} is a {}",
        o.model, config.model.model);
  data::PairReport read;
  const data::EncodedPairs pairs = [&] {
    const data::Pairs text = data::read_pairs(o.source, o.target);
    read = text.report;
    return data::encode_pairs(text.pairs, tokenizers.source, tokenizers.target);
  }();
  for (const data::PairReport& report : {read, pairs.report})
    if (report.kept < report.lines) train::say(report.summary(), stderr);
  check(!pairs.pairs->empty(), "--source, --target: there is no pair with tokens on both sides");
  const auto lexicon = data::Lexicon::learn(
      *pairs.pairs,
      {.source_vocab = tokenizers.source.size(), .target_vocab = tokenizers.target.size()});
  save_safetensors(files.lexicon(), lexicon.state());
  train::say(fmt::format("{}: learned from {} pairs", files.lexicon(),
                         train::grouped(std::ssize(*pairs.pairs))));
  for (const int64_t best : {10, 20, 50, 100}) {
    const Coverage c = coverage(lexicon, *pairs.pairs, best);
    train::say(
        fmt::format("--shortlist {:<4} {:.2f} % of these pairs' words, lists of {:.0f} of {}", best,
                    100 * c.found, c.length, tokenizers.target.size()));
  }
  return 0;
}

}  // namespace tern::apps::translate
