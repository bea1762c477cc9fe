// Language models whose answers are known in advance, and a small GPT, with a tokenizer of bytes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tern/apps/lm/family.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"
#include "tern/nn/module.h"

namespace tern::apps::lm {

/// p(next | last) from a table, without a cache. Records the longest input.
struct Table {
  nn::Parameter table;  // logits (V, V)
  int64_t* longest = nullptr;

  Tensor operator()(const Tensor& tokens) const {
    if (longest) *longest = std::max(*longest, tokens.size(1));
    return embedding(tokens, table);
  }
  models::Heatmaps heatmaps(const Tensor& tokens) const {
    return {"Matrices", "Rows & columns.", {{"Layer 1", ones({2, tokens.size(1), 3})}}};
  }
  static void fields(auto& m, auto&& visit) { visit("table", m.table); }
};

/// Predicts the next byte: a, b, c, ...; `end` after z.
inline LanguageModel alphabet(const datasets::ByteBpe& bpe, int64_t context,
                              int64_t* longest = nullptr) {
  std::vector<float> logits(static_cast<size_t>(bpe.size() * bpe.size()), -9);
  auto set = [&](const std::string& from, const std::string& to) {
    logits[static_cast<size_t>(*bpe.id(from) * bpe.size() + *bpe.id(to))] = 9;
  };
  for (char c = 'a'; c < 'z'; ++c) set(std::string(1, c), std::string(1, static_cast<char>(c + 1)));
  set("z", kEndOfText);
  set(kEndOfText, "a");
  Table model{nn::Parameter(tensor(logits, {bpe.size(), bpe.size()})), longest};
  return {{.vocab = bpe.size(), .context = context}, std::move(model)};
}

inline datasets::ByteBpe bytes() {
  return datasets::ByteBpe::learn(std::vector<std::string>{}, {.size = 257});
}

/// Weights are large, so that each token matters.
inline LanguageModel small_gpt(int64_t vocab, int64_t context) {
  ModelConfig c{.vocab = vocab, .context = context, .layers = 2, .dim = 16, .heads = 2};
  LanguageModel model = make_model(c, 1);
  nn::set_training(model, false);
  NoGradGuard guard;
  for (const Tensor& p : nn::parameters(model))
    for (int64_t i = 0; i < p.numel() && p.ndim() > 1; ++i) p.mutable_data<float>()[i] *= 10;
  return model;
}

}  // namespace tern::apps::lm
