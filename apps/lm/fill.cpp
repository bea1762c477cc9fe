// Predicts masked words and formats the guesses.
#include "tern/apps/lm/fill.h"

#include <fmt/format.h>

#include <cmath>

#include "tern/core/base/error.h"

namespace tern::apps::lm {
FilledText fill_ids(const models::Bert& model, const EncoderTokenizer& tokenizer,
                    std::vector<int64_t> ids, int64_t guesses) {
  check(std::ssize(ids) <= model.options.positions,
        "the text has {} tokens with the special ones around it; the model takes {}", ids.size(),
        model.options.positions);
  FilledText out;
  const std::vector<models::BertFilled> gaps =
      models::fill_mask(model, ids, tokenizer.mask.value(), guesses);
  check(!gaps.empty(), "there is no {} in \"{}\"", tokenizer.token(*tokenizer.mask),
        tokenizer.decode(ids));
  for (const models::BertFilled& gap : gaps) {
    check(std::isfinite(gap.guesses[0].probability),
          "the probability of a word is {}: the weights are too large, sums overflow",
          gap.guesses[0].probability);
    out.gaps.emplace_back();
    for (const models::BertGuess& g : gap.guesses)
      // If the embedding table is longer than the vocabulary, some tokens have no text.
      if (g.token < tokenizer.size)
        out.gaps.back().push_back({tokenizer.token(g.token), g.probability});
    if (gap.guesses[0].token < tokenizer.size) ids[gap.position] = gap.guesses[0].token;
  }
  out.text = tokenizer.decode(ids);
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
