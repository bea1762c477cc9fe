// Defaults per task, from the paper's tables and from measurements, and the list of settings.
#include "tern/apps/ntm/config.h"

#include <algorithm>

#include "tern/core/base/error.h"
#include "tern/train/optimizer.h"
#include "tern/train/progress.h"

namespace tern::apps::ntm {

namespace {

// Optimizer, batch size and length of the training, per task. On longer sequences, averaged weights
// read the right slots where the last weights miss some.
void set_recipe(NtmConfig& c) {
  c.ema = 0.999;
  if (c.task == "copy") return;
  c.every = 2000;
  c.batch = c.task == "recall" ? 1 : 4;
  c.sequences = c.task == "recall" ? 60000 : 100000;
  if (c.task == "sort" && c.controller == "ff") {
    c.optimizer = "rmsprop";
    c.lr = 3e-4;
    c.batch = 2;
    c.sequences = 60000;
  }
  if (c.task != "ngrams") return;
  c.batch = 8;
  c.lr = 2e-3;
  c.sequences = 170000;
}

}  // namespace

std::string NtmConfig::name() const { return (baseline ? "lstm-" : "ntm-") + task; }

int64_t NtmConfig::epoch_sequences(int64_t epoch) const {
  if (length.steps > 0) return every;  // --steps ends the run
  return std::clamp<int64_t>(sequences - epoch * every, 0, every);
}

int64_t NtmConfig::steps() const {
  const int64_t each = steps_of(every);
  return sequences / every * each + steps_of(sequences % every);
}

// Steps of an epoch of n sequences.
int64_t NtmConfig::steps_of(int64_t n) const { return ceil_div(n, batch * accumulate); }

int64_t NtmConfig::sequences_after(int64_t taken) const {
  const int64_t each = steps_of(every);
  const int64_t all = taken / each * every + std::min(taken % each * batch * accumulate, every);
  return length.steps > 0 ? all : std::min(all, sequences);
}

NtmConfig default_config(const std::string& task, bool baseline, const std::string& controller) {
  NtmConfig c;
  c.task = task;
  c.baseline = baseline;
  c.controller = !controller.empty() ? controller : task == "sort" && !baseline ? "ff" : "lstm";
  const bool ff = c.controller == "ff";
  set_recipe(c);
  if (baseline) {
    c.layers = 3;
    c.hidden = task == "repeat-copy" ? 512 : task == "ngrams" || task == "sort" ? 128 : 256;
  } else if (task == "recall" && ff) {
    c.hidden = 256;
    c.read_heads = c.write_heads = 4;
  } else if (task == "sort") {
    c.layers = ff ? 1 : 2;
    c.read_heads = c.write_heads = 5;
  }
  return c;
}

models::NtmOptions model_options(const NtmConfig& c) {
  const datasets::SequenceTask task = datasets::sequence_task(c.task);
  return {.inputs = task.inputs,
          .outputs = task.outputs,
          .locations = c.slots,
          .width = c.width,
          .hidden = c.hidden,
          .controller = c.controller == "ff" ? models::NtmController::feed_forward
                                             : models::NtmController::lstm,
          .layers = c.layers,
          .read_heads = c.read_heads,
          .write_heads = c.write_heads,
          .shift = c.shift,
          .addressing = {.content = !c.leaves_out("content"),
                         .interpolation = !c.leaves_out("interpolation"),
                         .shift = !c.leaves_out("shift"),
                         .sharpening = !c.leaves_out("sharpening")},
          .start = c.memory == "learned"  ? models::NtmStart::learned
                   : c.memory == "random" ? models::NtmStart::random
                                          : models::NtmStart::constant};
}

namespace {

const std::vector<std::string> kStages = {"content", "interpolation", "shift", "sharpening"};

void add_model(Settings& s, NtmConfig& c) {
  const char* const none = "an LSTM has no memory";
  s.group(Group::data);
  s.word("task", c.task, datasets::sequence_task_names(), "task to learn");
  s.group(Group::model);
  s.toggle("baseline", c.baseline, "train an LSTM without a memory instead");
  s.word("controller", c.controller, {"lstm", "ff"},
         "controller of the memory: an LSTM or a feed-forward network")
      .only_if(!c.baseline, none);
  s.number("layers", c.layers, {1, 100}, "layers of the controller, or of the LSTM");
  s.number("hidden", c.hidden, {1, 1 << 14}, "units per layer");
  s.number("slots", c.slots, {1, 1 << 16}, "slots of the memory").only_if(!c.baseline, none);
  s.number("width", c.width, {1, 1 << 12}, "numbers per slot").only_if(!c.baseline, none);
  s.number("read_heads", c.read_heads, {1, 64}, "").flag("");
  s.number("write_heads", c.write_heads, {1, 64}, "").flag("");
  s.number("shift", c.shift, {0, 1 << 10}, "most slots that a head moves in a step")
      .only_if(!c.baseline, none)
      .only_if(!c.leaves_out("shift"), "--without leaves that stage out");
  s.word("memory", c.memory, {"constant", "learned", "random"},
         "contents of the memory at the start")
      .only_if(!c.baseline, none);
  s.list("without", c.without, kStages, "STAGE,...",
         "stages of addressing to leave out: content, interpolation, shift, sharpening")
      .only_if(!c.baseline, none);
}

}  // namespace

void settings(Settings& s, NtmConfig& c) {
  add_model(s, c);
  s.group(Group::training);
  s.number("sequences", c.sequences, kCount, "sequences to train on")
      .says(true, "{} sequences", training::grouped(c.sequences));
  s.number("every", c.every, {1, 1e6}, "sequences from one validation to the next");
  s.number("batch", c.batch, {1, 4096}, "sequences per step").says(true, "batches of {}", c.batch);
  // muon needs a model with a list of blocks.
  std::vector<std::string> optimizers = training::optimizer_names();
  std::erase(optimizers, "muon");
  add_training_settings(s, c, {.optimizers = optimizers, .blocks = false});
  counted_otherwise(s, c.length, {"sequences"}, {"every"});
  if (c.length.steps > 0) s.find("sequences")->phrase = describe_length(c);
}

void check_config(const NtmConfig& c) {
  check(!c.leaves_out("content") || !c.leaves_out("interpolation"),
        "--without interpolation would change nothing: without content there is nothing to "
        "interpolate");
  check_training_options(c);
}

}  // namespace tern::apps::ntm
