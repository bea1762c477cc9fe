// The LSTM encoder-decoder: reversal of sources, loss, and single steps for decoding.
#include "tern/models/seq2seq.h"

#include "tern/models/parts.h"

namespace tern::models {
namespace {

nn::RnnOptions layers_of(const Seq2SeqOptions& o) {
  return {.layers = o.layers, .dropout = o.layers > 1 ? o.dropout : 0};
}

const Seq2SeqOptions& checked(const Seq2SeqOptions& o) {
  check_vocabularies("LstmSeq2Seq", o.source_vocab, o.target_vocab);
  return o;
}

}  // namespace

Tensor reverse_tokens(const Tensor& tokens, const Tensor& lengths) {
  check(tokens.ndim() == 2, "reverse_tokens: needs tokens (B, S), got {}", tokens.shape());
  if (!lengths.defined()) return flip(tokens, 1);
  Tensor at = unsqueeze(arange(0, tokens.size(1)), 0), length = unsqueeze(lengths, 1);
  return gather(tokens, 1, where(lt(at, length), length - 1 - at, at));
}

LstmSeq2Seq::LstmSeq2Seq(const Seq2SeqOptions& o, Rng& rng)
    : options(checked(o)),
      src_embed(o.source_vocab, o.embed, rng),
      tgt_embed(o.target_vocab, o.embed, rng),
      encoder(o.embed, o.hidden, rng, layers_of(o)),
      decoder(o.embed, o.hidden, rng, layers_of(o)),
      generator(o.hidden, o.target_vocab, rng) {
  if (o.dropout != 0) dropout.emplace(o.dropout, rng);
}

Tensor LstmSeq2Seq::embedded(const nn::Embedding& table, const Tensor& tokens) const {
  Tensor x = table(tokens);
  return dropout ? (*dropout)(x) : x;
}

nn::RnnState LstmSeq2Seq::encode(const Tensor& source, const Tensor& lengths) const {
  Tensor tokens = options.reverse_source ? reverse_tokens(source, lengths) : source;
  return encoder(embedded(src_embed, tokens), {.lengths = lengths}).state;
}

Tensor LstmSeq2Seq::operator()(const Tensor& source, const Tensor& lengths,
                               const Tensor& target) const {
  return generator(hidden(source, lengths, target));
}

Tensor LstmSeq2Seq::loss(const Tensor& source, const Tensor& lengths, const Tensor& target,
                         const Tensor& labels, const CrossEntropyOptions& o) const {
  return linear_cross_entropy(hidden(source, lengths, target), generator.weight, generator.bias,
                              labels, o);
}

// The input of the generator.
Tensor LstmSeq2Seq::hidden(const Tensor& source, const Tensor& lengths,
                           const Tensor& target) const {
  check(source.ndim() == 2 && target.ndim() == 2 && source.size(0) == target.size(0),
        "LstmSeq2Seq: needs tokens (B, S) and (B, T), got {} and {}", source.shape(),
        target.shape());
  nn::RnnState state = encode(source, lengths);
  return decoder(embedded(tgt_embed, target), {.state = state}).output;
}

LstmSeq2Seq::Step LstmSeq2Seq::step(const nn::RnnState& state, const Tensor& tokens) const {
  nn::RnnOutput out = decoder(embedded(tgt_embed, unsqueeze(tokens, 1)), {.state = state});
  return {generator(squeeze(out.output, 1)), out.state};
}

}  // namespace tern::models
