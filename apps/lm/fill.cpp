// Predicts masked words with a BERT and formats the guesses.
#include "tern/apps/lm/fill.h"

#include <fmt/format.h>

#include <cmath>

#include "tern/core/base/error.h"

namespace tern::apps::lm {
FilledText fill_ids(const LoadedBert& bert, const std::vector<int64_t>& ids, int64_t guesses) {
  const datasets::WordPiece& pieces = bert.pieces;
  datasets::BertTokens in = datasets::bert_tokens(pieces, ids);
  check(std::ssize(in.tokens) <= bert.model.options.positions,
        "the text has {} tokens with [CLS] and [SEP]; the model takes {}", in.tokens.size(),
        bert.model.options.positions);
  FilledText out;
  for (const models::BertFilled& gap :
       models::fill_mask(bert.model, in.tokens, pieces.mask_id(), guesses)) {
    check(std::isfinite(gap.guesses[0].probability),
          "the probability of a word is {}: the weights are too large, sums overflow",
          gap.guesses[0].probability);
    out.gaps.emplace_back();
    for (const models::BertGuess& g : gap.guesses)
      // If the embedding table is longer than the vocabulary, some tokens have no text.
      if (g.token < pieces.size())
        out.gaps.back().push_back({pieces.piece(g.token), g.probability});
    if (gap.guesses[0].token < pieces.size()) in.tokens[gap.position] = gap.guesses[0].token;
  }
  check(!out.gaps.empty(), "there is no {} in \"{}\"", pieces.piece(pieces.mask_id()),
        pieces.decode(ids));
  out.text = pieces.decode(in.tokens);
  return out;
}

std::string describe_filled(const FilledText& filled) {
  std::string out = filled.text;
  for (size_t i = 0; i < filled.gaps.size(); ++i) {
    if (filled.gaps.size() > 1) out += fmt::format("\n  gap {}", i + 1);
    for (const FilledText::Guess& g : filled.gaps[i])
      out += fmt::format("\n  {:6.2f} %  {}", 100 * g.probability, g.piece);
  }
  return out;
}

}  // namespace tern::apps::lm
