#include "tern/apps/translate/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tern/core/error.h"

namespace tern::apps {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, model, form, layers, dim, hidden, heads, ffn,
                                   norm_first, final_norm, tie, reverse_source, dropout,
                                   source_vocab, target_vocab, length_ratio)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainConfig, pairs, source, target, valid_source, valid_target,
                                   reverse, first, hold_out, max_length, tokens, bpe, shared,
                                   min_freq, lowercase, preset, model, epochs, batch, batch_tokens,
                                   lr, schedule, warmup, beta2, weight_decay, label_smoothing, clip,
                                   ema, accumulate, best, seed)

namespace {

using Preset = void (*)(TrainConfig&);

// Dive into Deep Learning, first edition, sections 9.7 to 10.7, the settings of its translation
// models: words between spaces, rare ones unknown, Adam at 0.005, nothing held out.
void d2l(TrainConfig& c) {
  c.tokens = "d2l";
  c.hold_out = 0;
  c.batch = 64;
  c.lr = 0.005;
  c.clip = 1;
  c.model.dropout = 0.1;
  c.model.layers = 2;
  c.model.dim = c.model.hidden = 32;
}

void d2l_bahdanau(TrainConfig& c) {
  d2l(c);
  c.model.model = "bahdanau";
  c.model.form = "d2l";
  c.epochs = 250;
}

void d2l_transformer(TrainConfig& c) {
  d2l(c);
  c.model.heads = 4;
  c.model.ffn = 64;
  c.model.final_norm = false;
  c.epochs = 200;
}

void multi30k_transformer(TrainConfig& c) {
  c.model.layers = 3;
  c.model.dim = 256;
  c.model.heads = 8;
  c.model.ffn = 512;
  c.lr = 5e-4;
  c.ema = 0.995;
  c.best = "bleu";
}

void multi30k_bahdanau(TrainConfig& c) {
  c.model.model = "bahdanau";
  c.model.dim = 256;
  c.model.hidden = 512;
  c.model.dropout = 0.5;
  c.lr = 1e-3;
  c.ema = 0.995;
  c.best = "bleu";
}

// The recipe of our own for small corpora: few channels, one BPE vocabulary and one table for both
// languages and the generator, smoothing, averaged weights.
void multi30k_best(TrainConfig& c) {
  c.tokens = "bpe";
  c.bpe = 8000;
  c.shared = true;
  c.model = {.layers = 4, .dim = 128, .heads = 4, .ffn = 256, .norm_first = true, .tie = "all"};
  c.model.dropout = 0.3;
  c.epochs = 32;
  c.batch = 0;
  c.batch_tokens = 2048;
  c.lr = 5e-3;
  c.schedule = "inverse-sqrt";
  c.warmup = 2000;
  c.beta2 = 0.98;
  c.label_smoothing = 0.1;
  c.ema = 0.999;
  c.best = "bleu";
}

// Vaswani et al. 2017, table 3: 25,000 tokens a side and step, one vocabulary of 37,000 pieces.
void base(TrainConfig& c) {
  c.tokens = "bpe";
  c.bpe = 37000;
  c.shared = true;
  c.lowercase = false;
  c.model = {.layers = 6, .dim = 512, .heads = 8, .ffn = 2048, .final_norm = false, .tie = "all"};
  c.model.dropout = 0.1;
  c.batch = 0;
  c.batch_tokens = 3125;
  c.accumulate = 8;
  c.lr = 1;
  c.schedule = "noam";
  c.warmup = 4000;
  c.beta2 = 0.98;
  c.label_smoothing = 0.1;
  c.clip = 0;
}

// The generated pairs: about a minute on two cores.
void demo(TrainConfig& c) {
  c.model = {.layers = 2, .dim = 128, .heads = 4, .ffn = 256};
  c.model.dropout = 0.1;
  c.epochs = 8;
  c.batch = 64;
  c.lr = 2e-3;
  c.schedule = "cosine";
  c.warmup = 200;
  c.min_freq = 1;
  c.lowercase = false;
}

constexpr std::pair<const char*, Preset> kPresets[] = {
    {"d2l-bahdanau", d2l_bahdanau},
    {"d2l-transformer", d2l_transformer},
    {"multi30k-transformer", multi30k_transformer},
    {"multi30k-bahdanau", multi30k_bahdanau},
    {"multi30k-best", multi30k_best},
    {"base", base},
    {"demo", demo}};

}  // namespace

void apply_preset(const std::string& name, TrainConfig& config) {
  for (const auto& [n, set] : kPresets)
    if (name == n) {
      set(config);
      config.preset = name;
      return;
    }
  fail(fmt::format("--preset: there is no '{}'; there are {}", name,
                   fmt::join(preset_names(), ", ")));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, set] : kPresets) names.emplace_back(name);
  return names;
}

std::string to_json(const TrainConfig& config) { return nlohmann::json(config).dump(1); }

TrainConfig config_from_json(const std::string& json) {
  try {
    return nlohmann::json::parse(json).get<TrainConfig>();
  } catch (const nlohmann::json::exception& e) {
    fail(fmt::format("its configuration cannot be read: {}", e.what()));
  }
}

}  // namespace tern::apps
