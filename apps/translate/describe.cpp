#include "tern/apps/translate/describe.h"

#include <fmt/format.h>

#include <cmath>

#include "tern/apps/common/machine.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

std::string describe_model(const TranslationTraining& t) {
  const ModelConfig& m = t.config.model;
  std::string s =
      fmt::format("{}, {} weights: ", m.model, train::grouped(nn::num_parameters(t.model)));
  if (m.model == "transformer")
    return s +
           fmt::format("{0} + {0} layers of {1} channels, {2} heads, ffn {3}, {4}, dropout {5:g}",
                       m.layers, m.dim, m.heads, m.ffn, m.norm_first ? "pre-norm" : "post-norm",
                       m.dropout);
  if (m.model == "bahdanau")
    return s + fmt::format("the form of {}, embeddings of {}, {} units, dropout {:g}",
                           m.form == "d2l" ? "d2l.ai" : "the paper", m.dim, m.hidden, m.dropout);
  return s + fmt::format("{} layers, embeddings of {}, {} units, dropout {:g}", m.layers, m.dim,
                         m.hidden, m.dropout);
}

std::string describe_recipe(const TrainConfig& c) {
  std::string s = fmt::format("{} epoch{}, ", c.epochs, c.epochs == 1 ? "" : "s");
  if (c.batch > 0) s += fmt::format("batches of up to {} pairs, ", c.batch);
  if (c.batch_tokens > 0) s += fmt::format("batches of up to {} tokens, ", c.batch_tokens);
  s += fmt::format("{}, lr {:g} {}", c.weight_decay > 0 ? "AdamW" : "Adam", c.lr, c.schedule);
  auto add = [&](bool on, const char* name, double value) {
    if (on) s += fmt::format(", {} {:g}", name, value);
  };
  add(c.warmup > 0, "warm-up", static_cast<double>(c.warmup));
  add(c.beta2 != 0.999, "beta2", c.beta2);
  add(c.weight_decay > 0, "weight decay", c.weight_decay);
  add(c.label_smoothing > 0, "label smoothing", c.label_smoothing);
  add(c.clip > 0, "clip", c.clip);
  add(c.ema > 0, "averaged weights", c.ema);
  add(c.accumulate > 1, "batches a step", static_cast<double>(c.accumulate));
  return s + fmt::format(", seed {}{}{}", c.seed, describe_memory(c.memory_use),
                         describe_epoch_end(c.epoch_end, c.schedule));
}

std::string describe_tokens(const TranslationTraining& t) {
  const TrainConfig& c = t.config;
  std::string unit = c.tokens == "bpe" ? "byte pairs" : "words";
  if (c.shared)
    return fmt::format("{} {} for both", train::grouped(t.tokenizers.source.size()), unit);
  return fmt::format("{} and {} {}", train::grouped(t.tokenizers.source.size()),
                     train::grouped(t.tokenizers.target.size()), unit);
}

}  // namespace

Facts describe(const TranslationTraining& t, const PairFiles& files) {
  const Corpus& c = t.corpus;
  Facts facts = {
      {"model", describe_model(t)},
      {"data", fmt::format("{}: {} training and {} validation pairs, {}", files.description,
                           train::grouped(std::ssize(*c.train.pairs)),
                           train::grouped(std::ssize(*c.valid.pairs)), describe_tokens(t))}};
  for (const std::string& report : files.reports) facts.emplace_back("", report);
  if (c.train.report.kept != c.train.report.lines)
    facts.emplace_back("", "training: " + c.train.report.summary());
  if (c.valid.report.kept != c.valid.report.lines)
    facts.emplace_back("", "validation: " + c.valid.report.summary());
  facts.emplace_back("recipe", describe_recipe(t.config));
  facts.emplace_back("machine", describe_machine());
  return facts;
}

std::string epoch_line(const train::EpochRecord& e, int64_t epochs) {
  std::string s = fmt::format("epoch {:{}}/{}  train loss {:.4f}", e.epoch,
                              fmt::formatted_size("{}", epochs), epochs, e["train_loss"]);
  if (!std::isnan(e["valid_loss"]))
    s += fmt::format("  valid loss {:.4f} ppl {:.2f} BLEU {:.2f}", e["valid_loss"], e["valid_ppl"],
                     e["valid_bleu"]);
  return s + fmt::format("  {:.0f} tokens/s  lr {:.3g}  {}", e.speed, e.lr,
                         train::clock_time(e.seconds));
}

}  // namespace tern::apps::translate
