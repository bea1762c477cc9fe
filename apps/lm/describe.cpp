#include "tern/apps/lm/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/machine.h"
#include "tern/nn/module.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

std::string describe_recipe(const TrainConfig& c, const std::string& batches) {
  std::string s = fmt::format("{} epoch{}", c.epochs, c.epochs == 1 ? "" : "s");
  if (c.parts > 1) s += fmt::format(" ({} to a pass)", c.parts);
  s += fmt::format(", batches of {} {}, AdamW, lr {:g} {}", c.batch, batches, c.lr, c.schedule);
  auto add = [&](bool on, const char* name, double value) {
    if (on) s += fmt::format(", {} {:g}", name, value);
  };
  add(c.warmup > 0, "warm-up", static_cast<double>(c.warmup));
  add(c.beta2 != 0.999, "beta2", c.beta2);
  add(c.weight_decay > 0, "weight decay", c.weight_decay);
  add(c.clip > 0, "clip", c.clip);
  add(c.ema > 0, "averaged weights", c.ema);
  add(c.accumulate > 1, "batches a step", static_cast<double>(c.accumulate));
  return s + fmt::format(", seed {}{}{}", c.seed, describe_memory(c.memory_use),
                         describe_epoch_end(c.epoch_end, c.schedule));
}

std::string describe_model(const LanguageModel& model) {
  const ModelConfig& m = model.config();
  std::string s = fmt::format("{}, {} weights: {} layers of {} channels", m.model,
                              train::grouped(nn::num_parameters(model)), m.layers, m.dim);
  const std::vector<std::string>& flags = find_family(m.model).flags;
  auto has = [&](const char* flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  if (has("--heads")) s += fmt::format(", {} heads", m.heads);
  if (m.kv_heads > 0 && m.kv_heads != m.heads) s += fmt::format(" ({} of keys)", m.kv_heads);
  if (m.attention_dim > 0) s += fmt::format(", tiny attention of {}", m.attention_dim);
  s += fmt::format(", ffn {}, context {}", m.ffn ? m.ffn : 4 * m.dim, m.context);
  if (has("--tie")) s += m.tie ? ", tied head" : ", a head of its own";
  return s + fmt::format(", dropout {:g}", m.dropout);
}

Facts describe(const LmTraining& t, const Texts& texts, const data::ByteBpe& tokenizer) {
  const Corpus& c = t.corpus;
  std::string data = fmt::format(
      "{}: {} training and {} validation tokens of {} ({:.2f} bytes each)", texts.description,
      train::grouped(std::ssize(*c.train)), train::grouped(c.valid.tokens),
      train::grouped(tokenizer.size()), c.bytes_per_token);
  Facts facts = {{"model", describe_model(t.model)}, {"data", std::move(data)}};
  if (!t.config.from.empty()) facts.emplace_back("", "starts from the weights of " + t.config.from);
  facts.emplace_back("recipe", describe_recipe(t.config, fmt::format("windows of {} tokens",
                                                                     t.config.model.context)));
  facts.emplace_back("machine", describe_machine());
  return facts;
}

std::string epoch_line(const train::EpochRecord& e, int64_t epochs) {
  std::string s = fmt::format("epoch {:{}}/{}  train loss {:.4f} ({:.3f} bits/byte)", e.epoch,
                              fmt::formatted_size("{}", epochs), epochs, e["train_loss"],
                              e["train_bits_per_byte"]);
  if (!std::isnan(e["valid_loss"]))
    s += fmt::format("  valid loss {:.4f} ppl {:.2f} ({:.3f} bits/byte)", e["valid_loss"],
                     e["valid_ppl"], e["valid_bits_per_byte"]);
  return s + fmt::format("  {:.0f} tokens/s  lr {:.3g}  {}", e.speed, e.lr,
                         train::clock_time(e.seconds));
}

}  // namespace tern::apps::lm
