#include "tern/apps/translate/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tern/apps/common/config_checks.h"
#include "tern/apps/common/json_config.h"
#include "tern/core/base/error.h"

namespace tern::apps::translate {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, model, form, layers, dim, hidden, heads, ffn,
                                   norm_first, final_norm, tie, reverse_source, dropout,
                                   source_vocab, target_vocab, length_ratio)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainConfig, pairs, source, target, valid_source, valid_target,
                                   reverse, first, hold_out, max_length, tokens, bpe, shared,
                                   min_freq, lowercase, preset, model, epochs, batch, batch_tokens,
                                   lr, schedule, warmup, beta2, weight_decay, label_smoothing, clip,
                                   ema, accumulate, best, seed, precision, memory_use, epoch_end)

namespace {

using Preset = void (*)(TrainConfig&);

// Dive into Deep Learning (https://d2l.ai): words between spaces, rare ones unknown, Adam at 0.005,
// nothing held out.
void d2l(TrainConfig& c) {
  c.tokens = "d2l";
  c.hold_out = 0;
  c.lr = 0.005;
  c.clip = 1;
  c.model.layers = 2;
}

// Second edition, section 11.4.
void d2l_bahdanau(TrainConfig& c) {
  d2l(c);
  c.model.model = "bahdanau";
  c.model.form = "d2l";
  c.model.dim = c.model.hidden = 256;
  c.model.dropout = 0.2;
  c.batch = 128;
  c.epochs = 30;
}

// First edition, section 10.7.
void d2l_transformer(TrainConfig& c) {
  d2l(c);
  c.model.dim = 32;
  c.model.heads = 4;
  c.model.ffn = 64;
  c.model.final_norm = false;
  c.model.dropout = 0.1;
  c.batch = 64;
  c.epochs = 200;
}

// Averaged weights, because without them the length of translations, and BLEU with it, swings by a
// point or two from one epoch to the next.
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
  c.epochs = 6;
  c.model.model = "bahdanau";
  c.model.dim = 256;
  c.model.hidden = 256;
  c.model.dropout = 0.3;
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

// The generated pairs: less than half a minute on two cores.
void demo(TrainConfig& c) {
  c.model = {.layers = 2, .dim = 128, .heads = 4, .ffn = 256};
  c.model.dropout = 0.1;
  c.epochs = 8;
  c.batch = 64;
  c.lr = 2e-3;
  c.schedule = "cosine";
  c.warmup = 100;
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

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What comes from a file could be anything.
void check_sizes(const ModelConfig& m) {
  check(is_one_of(m.model, {"transformer", "bahdanau", "seq2seq"}), "there is no model '{}'",
        m.model);
  check(is_one_of(m.form, {"paper", "d2l"}) && is_one_of(m.tie, {"none", "target", "all"}),
        "form is '{}' and tie '{}'; there is no such thing", m.form, m.tie);
  auto size = [](const char* name, int64_t value, int64_t most) {
    check(value >= 1 && value <= most, "{} is {}; 1 to {}", name, value, most);
  };
  size("layers", m.layers, 1000);
  size("dim", m.dim, 1 << 16);
  size("hidden", m.hidden, 1 << 16);
  size("heads", m.heads, 1 << 16);
  size("ffn", m.ffn, 1 << 18);
  size("source_vocab", m.source_vocab, 1 << 26);
  size("target_vocab", m.target_vocab, 1 << 26);
  check(m.dropout >= 0 && m.dropout < 1, "dropout is {}; at least 0 and below 1", m.dropout);
  check(m.length_ratio > 0 && m.length_ratio <= 1000, "length_ratio is {}; above 0, at most 1000",
        m.length_ratio);
}

// The bounds of the flags.
void check_recipe(const TrainConfig& c) {
  check_choice("tokens", c.tokens, {"words", "bpe", "d2l"});
  check_choice("schedule", c.schedule, train::schedule_names(true));
  check_choice("precision", c.precision, {"f32", "bf16"});
  check_choice("best", c.best, {"loss", "bleu"});
  for (const auto& [name, value] : {std::pair("bpe", c.bpe),
                                    {"min_freq", c.min_freq},
                                    {"epochs", c.epochs},
                                    {"accumulate", c.accumulate}})
    check_count(name, static_cast<double>(value));
  for (const auto& [name, value] : {std::pair("first", c.first),
                                    {"max_length", c.max_length},
                                    {"batch", c.batch},
                                    {"batch_tokens", c.batch_tokens},
                                    {"warmup", c.warmup}})
    check_any_count(name, static_cast<double>(value));
  check_range("hold_out", static_cast<double>(c.hold_out), -1, 1e9);
  check(c.batch + c.batch_tokens > 0, "batch and batch_tokens are 0; one must be above");
  for (const auto& [name, value] :
       {std::pair("beta2", c.beta2), {"label_smoothing", c.label_smoothing}, {"ema", c.ema}})
    check_share(name, value);
  check_above_zero("lr", c.lr);
  check_range("weight_decay", c.weight_decay, 0, 1000);
  check_range("clip", c.clip, 0, 1e9);
}

}  // namespace

train::ScheduleOptions schedule_options(const TrainConfig& c) {
  return with_plateau({.name = c.schedule, .warmup = c.warmup, .dim = c.model.dim}, c.epoch_end);
}

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

std::string to_json(const TrainConfig& config) { return config_json(config).dump(1); }

TrainConfig config_from_json(const std::string& json) {
  TrainConfig c = parse_config<TrainConfig>(json, [](const TrainConfig& read) {
    check_sizes(read.model);
    check_recipe(read);
  });
  c.model.recompute = c.memory_use.recompute;
  return c;
}

}  // namespace tern::apps::translate
