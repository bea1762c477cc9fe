// Training step of an LSTM language model on 32 texts of 35 tokens, built from layers of nn.
#include "tern/bench/cases.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 32, kTokens = 35, kVocab = 10000, kDim = 512;

/// A language model of two LSTM layers (Zaremba et al. 2014), without dropout.
struct LstmLanguageModel {
  nn::Embedding embed;
  nn::Lstm lstm;
  nn::Linear head;
  explicit LstmLanguageModel(Rng& rng)
      : embed(kVocab, kDim, rng), lstm(kDim, kDim, rng, {.layers = 2}), head(kDim, kVocab, rng) {}
  Tensor operator()(const Tensor& tokens) const { return head(lstm(embed(tokens)).output); }
  static void fields(auto& m, auto&& visit) {
    visit("embed", m.embed), visit("lstm", m.lstm), visit("head", m.head);
  }
};

Workload make_lstm_lm(nn::Recompute) {
  Rng rng(0);
  auto model = std::make_shared<LstmLanguageModel>(rng);
  const Tensor tokens = randint(0, kVocab, {kBatch, kTokens}, rng);
  const Tensor next = randint(0, kVocab, {kBatch, kTokens}, rng);
  return {nn::named_parameters(*model),
          [=] { return cross_entropy(flatten((*model)(tokens), 0, 1), flatten(next)); }};
}

}  // namespace

std::vector<Case> lstm_lm_cases() { return {{"lstm-lm/b32x35", kBatch * kTokens, make_lstm_lm}}; }

}  // namespace tern::bench
