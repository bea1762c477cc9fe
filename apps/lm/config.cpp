#include "tern/apps/lm/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tern/apps/common/json_config.h"
#include "tern/apps/lm/family.h"
#include "tern/core/base/error.h"

namespace tern::apps::lm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, model, vocab, context, layers, dim, heads, kv_heads,
                                   attention_dim, ffn, dropout, tie, bias, eps, rope_base)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainConfig, text, valid, hold_out, vocab_size, tokenizer, from,
                                   cased, pairs, model, epochs, parts, batch, accumulate, lr,
                                   schedule, warmup, beta2, weight_decay, clip, ema, seed,
                                   precision, memory_use)

train::ScheduleOptions schedule_options(const TrainConfig& c) {
  return {.name = c.schedule, .warmup = c.warmup, .dim = c.model.dim};
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

std::string to_json(const TrainConfig& config) { return config_json(config).dump(1); }

TrainConfig config_from_json(const std::string& json) {
  TrainConfig c =
      parse_config<TrainConfig>(json, [](const TrainConfig& read) { check_sizes(read.model); });
  c.model.recompute = c.memory_use.recompute;
  return c;
}

}  // namespace tern::apps::lm
