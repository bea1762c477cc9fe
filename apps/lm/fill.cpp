#include "tern/apps/lm/fill.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/attention_record.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::lm {
namespace {

constexpr size_t kMostFilledTokens = 40;  // tokens of a picture of attention

}  // namespace

FilledText fill_ids(const LoadedBert& bert, const std::vector<int64_t>& ids, int64_t guesses) {
  const data::WordPiece& pieces = bert.pieces;
  data::BertTokens in = data::bert_tokens(pieces, ids);
  check(std::ssize(in.tokens) <= bert.model.options.positions,
        "the text has {} tokens with [CLS] and [SEP]; the model takes {}", in.tokens.size(),
        bert.model.options.positions);
  FilledText out;
  for (const models::BertFilled& gap :
       models::fill_mask(bert.model, in.tokens, pieces.mask_id(), guesses)) {
    out.gaps.emplace_back();
    for (const models::BertGuess& g : gap.guesses)
      // A table that is longer than the vocabulary has words without a name.
      if (g.token < pieces.size())
        out.gaps.back().push_back({pieces.piece(g.token), g.probability});
    if (gap.guesses[0].token < pieces.size()) in.tokens[gap.position] = gap.guesses[0].token;
  }
  check(!out.gaps.empty(), "there is no {} in \"{}\"", pieces.piece(pieces.mask_id()),
        pieces.decode(ids));
  out.text = pieces.decode(in.tokens);
  return out;
}

FilledText fill_text(const LoadedBert& bert, const std::string& text, int64_t guesses) {
  return fill_ids(bert, bert.pieces.encode(text), guesses);
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

AttentionSentence explain_bert(const LoadedBert& bert, const std::string& text) {
  NoGradGuard no_grad;
  AttentionSentence s{text, "", "", {}};
  std::vector<int64_t> ids = data::bert_tokens(bert.pieces, bert.pieces.encode(text)).tokens;
  ids.resize(
      std::min({ids.size(), kMostFilledTokens, static_cast<size_t>(bert.model.options.positions)}));
  std::vector<std::string> tokens;
  for (int64_t id : ids) tokens.push_back(bert.pieces.piece(id));
  const std::vector<Tensor> layers =
      bert.model.attend({.tokens = tensor(ids, {1, std::ssize(ids)})});
  for (size_t i = 0; i < layers.size(); ++i)
    record_attention(s, "Self-attention", static_cast<int64_t>(i) + 1, layers[i][0], tokens,
                     tokens);
  return s;
}

}  // namespace tern::apps::lm
