// Recurrent subjects: GRU, LSTM, RNN, seq2seq, Bahdanau, neural Turing machine.
#include "tern/models/bahdanau.h"
#include "tern/models/ntm.h"
#include "tern/models/seq2seq.h"
#include "tern/nn/rnn.h"
#include "tern/tests/parity/subjects.h"

namespace tern::parity {
namespace {

// The reference has its network in the field "rnn".
template <class Network>
struct RnnField {
  Network rnn;
  static void fields(auto& m, auto&& visit) { visit("rnn", m.rnn); }
};

template <class Network>
Subject network_subject(const Reference& r, Rng& rng) {
  const nn::RnnOptions options{.layers = r.option("layers", 1),
                               .bidirectional = r.config.value("bidirectional", false)};
  const int64_t in = r.param("rnn.weight_ih_l0").size(1);
  RnnField<Network> m{Network(in, r.param("rnn.weight_hh_l0").size(1), rng, options)};
  return make(r, std::move(m), [](const auto& n, const Inputs& x) { return n.rnn(x[0]).output; });
}

Subject seq2seq_subject(const Reference& r, Rng& rng) {
  models::Seq2SeqOptions o;
  o.source_vocab = r.param("src_embed.weight").size(0);
  o.target_vocab = r.param("tgt_embed.weight").size(0);
  o.embed = r.option("embed");
  o.hidden = r.option("hidden");
  o.layers = r.option("layers");
  Subject s = make(r, models::LstmSeq2Seq(o, rng),
                   [](const auto& m, const Inputs& x) { return m(x[0], {}, x[1]); });
  s.loss = token_loss(r);
  return s;
}

Subject bahdanau_subject(const Reference& r, Rng& rng) {
  models::BahdanauOptions o;
  o.source_vocab = r.param("encoder.embedding.weight").size(0);
  o.target_vocab = r.param("decoder.embedding.weight").size(0);
  o.embed = r.option("embed");
  o.hidden = r.option("hidden");
  Subject s = make(r, models::Bahdanau(o, rng),
                   [](const auto& m, const Inputs& x) { return m(x[0], x[1], x[2]); });
  s.loss = token_loss(r);
  return s;
}

Subject ntm_subject(const Reference& r, Rng& rng) {
  models::NtmOptions o;
  o.inputs = r.inputs[0].size(2);
  o.outputs = r.param("output.weight").size(0);
  o.locations = r.option("N");
  o.width = r.option("M");
  o.hidden = r.option("controller");
  o.read_heads = r.option("read_heads");
  o.write_heads = r.option("write_heads");
  o.shift = r.option("shift");
  Subject s = make(r, models::Ntm(o, rng));
  s.loss = [](const Inputs& y, const Inputs& t) { return bce_with_logits(y[0], t[0]); };
  return s;
}

}  // namespace

std::optional<Subject> recurrent_subject(const Reference& r, Rng& rng) {
  auto is = [&](const char* name) { return r.name == name; };
  if (is("gru_bi2")) return network_subject<nn::Gru>(r, rng);
  if (is("lstm2")) return network_subject<nn::Lstm>(r, rng);
  if (is("rnn_tanh")) return network_subject<nn::Rnn>(r, rng);
  if (is("lstm_seq2seq")) return seq2seq_subject(r, rng);
  if (is("bahdanau")) return bahdanau_subject(r, rng);
  if (is("ntm") || is("ntm_heads")) return ntm_subject(r, rng);
  return std::nullopt;
}

}  // namespace tern::parity
