#include "tern/apps/lm/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tern/apps/common/config_checks.h"
#include "tern/apps/common/json_config.h"
#include "tern/apps/lm/family.h"
#include "tern/core/base/error.h"

namespace tern::apps::lm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, model, vocab, context, layers, dim, heads, kv_heads,
                                   attention_dim, ffn, dropout, tie, bias, eps, rope_base)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainConfig, text, valid, hold_out, vocab_size, tokenizer, from,
                                   cased, pairs, model, epochs, parts, batch, accumulate, lr,
                                   schedule, warmup, beta2, weight_decay, clip, ema, seed,
                                   precision, memory_use, epoch_end)

train::ScheduleOptions schedule_options(const TrainConfig& c) {
  return with_plateau({.name = c.schedule, .warmup = c.warmup, .dim = c.model.dim}, c.epoch_end);
}

void check_sizes(const ModelConfig& m) {
  if (m.model != kBert) find_family(m.model);
  auto size = [](const char* name, int64_t value, int64_t least, int64_t most) {
    check(value >= least && value <= most, "{} is {}; {} to {}", name, value, least, most);
  };
  size("vocab", m.vocab, 1, 1 << 24);
  size("context", m.context, 1, 1 << 24);
  size("layers", m.layers, 1, 1000);
  size("dim", m.dim, 1, 1 << 16);
  size("heads", m.heads, 1, 1 << 16);
  size("kv_heads", m.kv_heads, 0, 1 << 16);
  size("attention_dim", m.attention_dim, 0, 1 << 16);
  size("ffn", m.ffn, 0, 1 << 20);
  check(m.dropout >= 0 && m.dropout < 1, "dropout is {}; at least 0 and below 1", m.dropout);
  check(m.eps > 0 && m.eps < 1, "eps is {}; above 0 and below 1", m.eps);
  check(m.rope_base > 1 && m.rope_base < 1e12, "rope_base is {}; above 1", m.rope_base);
}

namespace {

// The bounds of the flags.
void check_recipe(const TrainConfig& c) {
  check_choice("schedule", c.schedule, train::schedule_names(true));
  check_choice("precision", c.precision, {"f32", "bf16"});
  for (const auto& [name, value] : {std::pair("vocab_size", c.vocab_size),
                                    {"epochs", c.epochs},
                                    {"parts", c.parts},
                                    {"batch", c.batch},
                                    {"accumulate", c.accumulate}})
    check_count(name, static_cast<double>(value));
  check_any_count("warmup", static_cast<double>(c.warmup));
  for (const auto& [name, value] :
       {std::pair("hold_out", c.hold_out), {"beta2", c.beta2}, {"ema", c.ema}})
    check_share(name, value);
  check_above_zero("lr", c.lr);
  check_range("weight_decay", c.weight_decay, 0, 1000);
  check_range("clip", c.clip, 0, 1e9);
}

}  // namespace

std::string to_json(const TrainConfig& config) { return config_json(config).dump(1); }

TrainConfig config_from_json(const std::string& json) {
  TrainConfig c = parse_config<TrainConfig>(json, [](const TrainConfig& read) {
    check_sizes(read.model);
    check_recipe(read);
  });
  c.model.recompute = c.memory_use.recompute;
  return c;
}

}  // namespace tern::apps::lm
