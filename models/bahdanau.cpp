// Bahdanau's encoder-decoder and the simpler form of Dive into Deep Learning. Products of the
// target's embeddings are computed for all steps at once.
#include "tern/models/bahdanau.h"

#include "tern/core/ops/attention/additive.h"
#include "tern/core/tape/substitution.h"
#include "tern/models/parts.h"

namespace tern::models {
namespace {

const BahdanauOptions& checked(const BahdanauOptions& o) {
  check_vocabularies("Bahdanau", o.source_vocab, o.target_vocab);
  check(o.layers == 1 || (o.layers > 1 && !o.paper()),
        "Bahdanau: the paper's form has one layer, got {}; use .form = BahdanauForm::d2l",
        o.layers);
  return o;
}

/// Dropout between layers; with one layer there is none.
double between_layers(const BahdanauOptions& o) { return o.layers > 1 ? o.layer_dropout : 0; }

std::optional<nn::Dropout> dropout_of(double p, Rng& rng) {
  return p != 0 ? std::optional<nn::Dropout>(std::in_place, p, rng) : std::nullopt;
}

Tensor dropped(const std::optional<nn::Dropout>& layer, const Tensor& x) {
  return layer ? (*layer)(x) : x;
}

/// Views of the decoder's weights that every step uses, made once.
struct DecoderWeights {
  Tensor of_token, of_context;  // columns of the first layer's weight_ih
  Tensor v;                     // (H)

  explicit DecoderWeights(const BahdanauDecoder& d)
      : of_token(narrow(d.rnn[0].parameters.weight_ih, 1, 0, d.options.embed)),
        of_context(narrow(d.rnn[0].parameters.weight_ih, 1, d.options.embed, d.options.memory())),
        v(flatten(d.attention.w_v.weight)) {
    tern::detail::check_unhooked("Bahdanau", d.rnn[0].parameters.weight_ih, "use a WeightsInstead");
  }
};

struct Alignment {
  Tensor context;    // (B, M)
  Tensor alignment;  // (B, 1, S)
};

Alignment attend(const BahdanauDecoder& d, const DecoderWeights& w, const BahdanauState& state) {
  Tensor query = unsqueeze(d.attention.w_q(state.hidden.back()), 1);
  Tensor alignment = softmax(additive_scores(query, state.keys, w.v), -1, state.mask);
  Tensor context = matmul(dropped(d.attention_dropout, alignment), state.memory);
  return {squeeze(context, 1), alignment};
}

/// The layers' states after one step. of_token (B, 3H) is the token's part of the first layer's
/// gates, with bias.
std::vector<Tensor> advance(const BahdanauDecoder& d, const DecoderWeights& w,
                            const std::vector<Tensor>& hidden, const Tensor& of_token,
                            const Tensor& context) {
  const nn::RnnParameters& first = d.rnn[0].parameters;
  Tensor of_x = linear(context, w.of_context, {}, {.residual = of_token});
  std::vector<Tensor> next;
  next.push_back(gru_cell(of_x, linear(hidden[0], first.weight_hh, first.bias_hh), hidden[0]));
  for (size_t i = 1; i < d.rnn.size(); ++i)
    next.push_back(d.rnn[i](dropped(d.layer_dropout, next.back()), hidden[i]));
  return next;
}

}  // namespace

BahdanauState BahdanauState::select_rows(const Tensor& rows) const {
  auto pick = [&](const Tensor& t) { return t.defined() ? index_select(t, 0, rows) : t; };
  BahdanauState s{pick(memory), pick(keys), pick(mask), {}};
  for (const Tensor& h : hidden) s.hidden.push_back(pick(h));
  return s;
}

BahdanauEncoder::BahdanauEncoder(const BahdanauOptions& o, Rng& rng)
    : embedding(o.source_vocab, o.embed, rng),
      rnn(o.embed, o.hidden, rng,
          {.layers = o.layers, .bidirectional = o.paper(), .dropout = between_layers(o)}),
      dropout(dropout_of(o.dropout, rng)) {
  if (o.paper()) fc.emplace(2 * o.hidden, o.hidden, rng);
}

BahdanauEncoder::Output BahdanauEncoder::operator()(const Tensor& source,
                                                    const Tensor& lengths) const {
  check(source.ndim() == 2, "Bahdanau: the source must be tokens (B, S), got {}", source.shape());
  nn::RnnOutput out = rnn(dropped(dropout, embedding(source)), {.lengths = lengths});
  if (!fc) {
    std::vector<Tensor> hidden;
    for (int64_t i = 0; i < rnn.layers; ++i) hidden.push_back(select(out.state.h, 0, i));
    return {out.output, hidden};
  }
  Tensor both = cat({select(out.state.h, 0, 0), select(out.state.h, 0, 1)}, 1);
  return {out.output, {(*fc)(both, {.activation = Activation::tanh})}};
}

BahdanauAttention::BahdanauAttention(const BahdanauOptions& o, Rng& rng)
    : w_q(o.hidden, o.hidden, rng, nn::Bias::no),
      w_k(o.memory(), o.hidden, rng, nn::Bias::no),
      w_v(o.hidden, 1, rng, nn::Bias::no) {}

BahdanauDecoder::BahdanauDecoder(const BahdanauOptions& o, Rng& rng)
    : options(o),
      embedding(o.target_vocab, o.embed, rng),
      attention(o, rng),
      out(o.paper() ? o.hidden + o.memory() + o.embed : o.hidden, o.target_vocab, rng),
      dropout(dropout_of(o.dropout, rng)),
      layer_dropout(dropout_of(between_layers(o), rng)),
      attention_dropout(dropout_of(o.attention_dropout, rng)) {
  for (int64_t i = 0; i < o.layers; ++i)
    rnn.emplace_back(i == 0 ? o.embed + o.memory() : o.hidden, o.hidden, rng);
}

BahdanauDecoder::Output BahdanauDecoder::operator()(const BahdanauState& start,
                                                    const Tensor& tokens) const {
  Output y = hidden(start, tokens);
  y.logits = out(y.logits);
  return y;
}

BahdanauDecoder::Output BahdanauDecoder::hidden(const BahdanauState& start,
                                                const Tensor& tokens) const {
  check(tokens.ndim() == 2 && tokens.size(0) == start.memory.size(0) && tokens.size(1) > 0,
        "Bahdanau: the target must be tokens (B = {}, T > 0), got {}", start.memory.size(0),
        tokens.shape());
  const DecoderWeights w(*this);
  BahdanauState state = start;
  // Time first, so that a step's part is contiguous.
  Tensor y = dropped(dropout, embedding(transpose(tokens, 0, 1)));
  Tensor of_tokens = linear(y, w.of_token, rnn[0].parameters.bias_ih);
  std::vector<Tensor> hidden, contexts, alignments;
  for (int64_t t = 0; t < tokens.size(1); ++t) {
    Alignment a = attend(*this, w, state);
    state.hidden = advance(*this, w, state.hidden, select(of_tokens, 0, t), a.context);
    hidden.push_back(state.hidden.back());
    contexts.push_back(a.context);
    alignments.push_back(a.alignment);
  }
  Tensor seen = stack(hidden, 1);
  if (options.paper()) seen = cat({seen, stack(contexts, 1), transpose(y, 0, 1)}, 2);
  return {seen, cat(alignments, 1), state};
}

Bahdanau::Bahdanau(const BahdanauOptions& o, Rng& rng)
    : encoder(checked(o), rng), decoder(o, rng) {}

BahdanauState Bahdanau::encode(const Tensor& source, const Tensor& lengths) const {
  BahdanauEncoder::Output e = encoder(source, lengths);
  Tensor mask;
  if (lengths.defined())
    mask = gt(reshape(lengths, {-1, 1, 1}), reshape(arange(0, source.size(1)), {1, 1, -1}));
  return {e.memory, decoder.attention.w_k(e.memory), mask, e.hidden};
}

Tensor Bahdanau::loss(const Tensor& source, const Tensor& lengths, const Tensor& target,
                      const Tensor& labels, const CrossEntropyOptions& o) const {
  const Tensor hidden = decoder.hidden(encode(source, lengths), target).logits;
  return linear_cross_entropy(hidden, decoder.out.weight, decoder.out.bias, labels, o);
}

BahdanauDecoder::Output Bahdanau::align(const Tensor& source, const Tensor& lengths,
                                        const Tensor& target) const {
  return decoder(encode(source, lengths), target);
}

Tensor Bahdanau::operator()(const Tensor& source, const Tensor& lengths,
                            const Tensor& target) const {
  return align(source, lengths, target).logits;
}

Bahdanau::Step Bahdanau::step(const BahdanauState& state, const Tensor& tokens) const {
  BahdanauDecoder::Output out = decoder(state, unsqueeze(tokens, 1));
  return {squeeze(out.logits, 1), squeeze(out.alignments, 1), out.state};
}

}  // namespace tern::models
