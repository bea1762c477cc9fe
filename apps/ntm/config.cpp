#include "tern/apps/ntm/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tern/apps/common/json_config.h"
#include "tern/core/base/error.h"
#include "tern/train/optimizer.h"
#include "tern/train/schedule.h"

namespace tern::apps::ntm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NtmConfig, task, baseline, controller, layers, hidden, slots,
                                   width, read_heads, write_heads, shift, memory, without,
                                   sequences, every, batch, optimizer, lr, schedule, warmup, clip,
                                   ema, seed, precision, memory_use, epoch_end)

namespace {

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// How long a task is trained, in how large batches. Averaged weights read the right slots of longer
// sequences where the last weights miss some.
void set_recipe(NtmConfig& c) {
  c.ema = 0.999;
  if (c.task == "copy") return;
  c.every = 2000;
  c.batch = c.task == "recall" ? 1 : 4;
  c.sequences = c.task == "recall" ? 60000 : 100000;
  if (c.task != "ngrams") return;
  c.batch = 8;
  c.lr = 2e-3;
  c.sequences = 170000;
}

}  // namespace

std::string NtmConfig::name() const { return (baseline ? "lstm-" : "ntm-") + task; }

int64_t NtmConfig::epoch_sequences(int64_t epoch) const {
  return std::clamp<int64_t>(sequences - epoch * every, 0, every);
}

int64_t NtmConfig::steps() const {
  auto batches = [this](int64_t n) { return (n + batch - 1) / batch; };
  return sequences / every * batches(every) + batches(sequences % every);
}

NtmConfig default_config(const std::string& task, bool baseline, const std::string& controller) {
  NtmConfig c;
  c.task = task;
  c.baseline = baseline;
  c.controller = controller;
  const bool ff = controller == "ff";
  set_recipe(c);
  if (baseline) {
    c.layers = 3;
    c.hidden = task == "repeat-copy" ? 512 : task == "ngrams" || task == "sort" ? 128 : 256;
  } else if (task == "recall" && ff) {
    c.hidden = 256;
    c.read_heads = c.write_heads = 4;
  } else if (task == "sort") {
    c.hidden = ff ? 512 : 100;
    c.layers = ff ? 1 : 2;
    c.read_heads = c.write_heads = ff ? 8 : 5;
  }
  return c;
}

models::NtmOptions model_options(const NtmConfig& c) {
  const data::SequenceTask task = data::sequence_task(c.task);
  auto off = [&](const char* stage) {
    return std::find(c.without.begin(), c.without.end(), stage) != c.without.end();
  };
  return {.inputs = task.inputs,
          .outputs = task.outputs,
          .slots = c.slots,
          .width = c.width,
          .hidden = c.hidden,
          .controller = c.controller == "ff" ? models::NtmController::feed_forward
                                             : models::NtmController::lstm,
          .layers = c.layers,
          .read_heads = c.read_heads,
          .write_heads = c.write_heads,
          .shift = c.shift,
          .addressing = {.content = !off("content"),
                         .interpolation = !off("interpolation"),
                         .shift = !off("shift"),
                         .sharpening = !off("sharpening")},
          .start = c.memory == "learned"  ? models::NtmStart::learned
                   : c.memory == "random" ? models::NtmStart::random
                                          : models::NtmStart::constant};
}

std::vector<std::string> optimizers() {
  std::vector<std::string> names = train::optimizer_names();
  std::erase(names, "muon");
  return names;
}

void check_config(const NtmConfig& c) {
  data::sequence_task(c.task);
  auto choice = [](const char* name, const std::string& word,
                   const std::vector<std::string>& words) {
    check(is_one_of(word, words), "{} is '{}'; one of {}", name, word, fmt::join(words, ", "));
  };
  choice("controller", c.controller, {"lstm", "ff"});
  choice("memory", c.memory, {"constant", "learned", "random"});
  choice("optimizer", c.optimizer, optimizers());
  choice("schedule", c.schedule, train::schedule_names(false));
  choice("precision", c.precision, {"f32", "bf16"});
  for (const std::string& stage : c.without)
    choice("without", stage, {"content", "interpolation", "shift", "sharpening"});
  auto size = [](const char* name, int64_t value, int64_t least, int64_t most) {
    check(value >= least && value <= most, "{} is {}; {} to {}", name, value, least, most);
  };
  size("layers", c.layers, 1, 100);
  size("hidden", c.hidden, 1, 1 << 14);
  size("slots", c.slots, 1, 1 << 16);
  size("width", c.width, 1, 1 << 12);
  size("read_heads", c.read_heads, 1, 64);
  size("write_heads", c.write_heads, 1, 64);
  size("shift", c.shift, 0, 1 << 10);
  size("sequences", c.sequences, 1, 1'000'000'000);
  size("every", c.every, 1, 1'000'000);
  size("batch", c.batch, 1, 4096);
  size("warmup", c.warmup, 0, 1'000'000'000);
  check(c.lr > 0 && c.lr <= 1e6, "lr is {}; above 0", c.lr);
  check(c.clip >= 0 && c.clip <= 1e9, "clip is {}; 0 or more", c.clip);
  check(c.ema >= 0 && c.ema < 1, "ema is {}; at least 0 and below 1", c.ema);
  check_optimizer_bits(c.optimizer, c.memory_use);
  check_memory(c.memory_use, c.clip, 1);
}

std::string to_json(const NtmConfig& config) { return config_json(config).dump(1); }

NtmConfig config_from_json(const std::string& json) {
  return parse_config<NtmConfig>(json, check_config);
}

}  // namespace tern::apps::ntm
