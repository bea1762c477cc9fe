#include "tern/apps/ntm/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/board.h"
#include "tern/apps/common/dry_run.h"
#include "tern/apps/common/flags.h"
#include "tern/apps/common/run_record.h"
#include "tern/core/base/error.h"
#include "tern/train/schedule.h"

namespace tern::apps::ntm {
namespace {

constexpr const char* kAbout =
    "Trains Neural Turing Machines on the tasks of their paper and tests how they generalise.\n"
    "Without a command or flags it learns to copy, in a few minutes. `ntm COMMAND --help` lists a "
    "command's flags.";

const Bounds kCount{.low = 1, .high = 1e9}, kAnyCount{.low = 0, .high = 1e9};

void add_model(CLI::App& app, NtmConfig& c, std::vector<int64_t>& heads) {
  add_choice(app, "--task", c.task, "what is learned", data::sequence_task_names());
  app.add_flag("--baseline", c.baseline, "an LSTM without a memory instead");
  add_choice(app, "--controller", c.controller, "an LSTM or feed-forward", {"lstm", "ff"});
  add_number(app, "--layers", c.layers, "of the controller, or of the LSTM",
             {.low = 1, .high = 100});
  add_number(app, "--hidden", c.hidden, "units of a layer", {.low = 1, .high = 1 << 14});
  add_number(app, "--slots", c.slots, "of the memory", {.low = 1, .high = 1 << 16});
  add_number(app, "--width", c.width, "of a slot", {.low = 1, .high = 1 << 12});
  app.add_option("--heads", heads, "reading and writing heads: one number for both, or two: 4,1")
      ->type_name("N[,N]")
      ->delimiter(',')
      ->expected(1, 2)
      ->transform(number_rule({.low = 1, .high = 64}, true));
  add_number(app, "--shift", c.shift, "slots that a head moves in a step, at most",
             {.low = 0, .high = 1 << 10});
  add_choice(app, "--memory", c.memory, "what the memory holds at the start",
             {"constant", "learned", "random"});
  app.add_option("--without", c.without,
                 "stages of addressing to leave out: content, interpolation, shift, sharpening")
      ->type_name("STAGE,...")
      ->delimiter(',');
}

void add_recipe(CLI::App& app, NtmConfig& c) {
  add_number(app, "--sequences", c.sequences, "to train on", kCount);
  add_number(app, "--every", c.every, "sequences from one validation to the next",
             {.low = 1, .high = 1e6});
  add_number(app, "--batch", c.batch, "sequences a step", {.low = 1, .high = 4096});
  add_choice(app, "--optimizer", c.optimizer, "rmsprop is the paper's", optimizers());
  add_number(app, "--lr", c.lr, "learning rate, its highest value",
             {.low = 0, .high = 1e6, .open = true});
  add_choice(app, "--schedule", c.schedule, "of the learning rate", train::schedule_names(false));
  add_number(app, "--warmup", c.warmup, "steps in which the rate rises from 0", kAnyCount);
  add_number(app, "--clip", c.clip, "largest norm of the gradient; 0: off",
             {.low = 0, .high = 1e9});
  add_number(app, "--ema", c.ema,
             "decay of averaged weights, which are then what is tested and saved; 0: off",
             {.low = 0, .high = 0.999999});
  add_number(app, "--seed", c.seed, "of everything random", {.low = 0, .high = 1e15});
  add_precision(app, c.precision);
  add_memory_flags(app, c.memory_use);
  add_epoch_end_flags(app, c.epoch_end);
}

void add_threads(CLI::App& app, NtmCommand& o) {
  add_number(app, "--threads", o.threads, "0: all cores", {.low = 0, .high = 1024});
}

CLI::App* add_train(CLI::App& app, NtmCommand& o, std::vector<int64_t>& heads) {
  CLI::App* train = app.add_subcommand("train", "Trains a model in a folder of its own.");
  train->option_defaults()->always_capture_default();
  add_model(*train, o.config, heads);
  add_recipe(*train, o.config);
  add_threads(*train, o);
  train->add_option("--out", o.out, "folder of the run; default runs/NAME")->type_name("DIR");
  add_dry_run(*train, o.dry_run);
  add_tensorboard(*train, o.tensorboard);
  train->add_option("--resume", o.resume, "folder of a run to go on with")->type_name("DIR");
  return train;
}

CLI::App* add_eval(CLI::App& app, NtmCommand& o) {
  CLI::App* eval = app.add_subcommand("eval", "Tests a model on sequences of other lengths.");
  eval->option_defaults()->always_capture_default();
  o.model = "runs/ntm-copy";
  eval->add_option("--model", o.model, "folder of a run")->type_name("DIR");
  eval->add_option("--lengths", o.lengths, "of sequences; default: up to six times the training's")
      ->type_name("N,...")
      ->delimiter(',')
      ->transform(number_rule({.low = 1, .high = 1 << 20}, true));
  add_number(*eval, "--count", o.count, "sequences of each length", {.low = 1, .high = 1e6});
  add_number(*eval, "--repeats", o.repeats, "of repeat-copy; 0: drawn as in training",
             {.low = 0, .high = 1000});
  add_number(*eval, "--seed", o.seed, "of what is drawn", {.low = 0, .high = 1e15});
  eval->add_option("--attention", o.attention,
                   "write the weightings over a sequence of the first length")
      ->type_name("FILE.html|svg|png");
  add_precision(*eval, o.config.precision);
  add_threads(*eval, o);
  return eval;
}

// The word behind a flag, for the flags that decide the others' defaults.
std::string given(int argc, char** argv, const std::string& flag, const std::string& otherwise) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == flag && i + 1 < argc) return argv[i + 1];
    if (word.starts_with(flag + "=")) return word.substr(flag.size() + 1);
  }
  return otherwise;
}

// Flags that would change nothing are refused rather than ignored.
void check_train(const CLI::App& train, NtmCommand& o, const std::vector<int64_t>& heads) {
  if (!o.resume.empty()) return check_resume_flags(train, {"--threads", "--tensorboard"});
  NtmConfig& c = o.config;
  if (c.baseline)
    for (const char* flag :
         {"--controller", "--slots", "--width", "--heads", "--shift", "--memory", "--without"})
      check(train.count(flag) == 0, "{} would change nothing: an LSTM has no memory", flag);
  if (!heads.empty()) {
    c.read_heads = heads.front();
    c.write_heads = heads.back();
  }
  check(train.count("--every") == 0 || c.every <= c.sequences,
        "--every {} would change nothing: there are {} sequences in all", c.every, c.sequences);
  c.every = std::min(c.every, c.sequences);
  check_plateau_flags(train, c.schedule);
  check_config(c);
  auto off = [&](const char* stage) {
    return std::find(c.without.begin(), c.without.end(), stage) != c.without.end();
  };
  check(!off("shift") || train.count("--shift") == 0,
        "--shift would change nothing without the stage");
  check(!off("content") || !off("interpolation"),
        "--without interpolation would change nothing: without content there is nothing to "
        "interpolate");
}

}  // namespace

bool parse_options(int argc, char** argv, NtmCommand& o) {
  CLI::App app(kAbout, "ntm");
  app.get_formatter()->column_width(36);
  app.require_subcommand(0, 1);
  // These three change the defaults that the other flags then change.
  const std::string task = given(argc, argv, "--task", "copy");
  bool baseline = false;
  for (int i = 1; i < argc; ++i) baseline = baseline || std::string(argv[i]) == "--baseline";
  o.config = default_config(task, baseline, given(argc, argv, "--controller", "lstm"));
  std::vector<int64_t> heads;
  const CLI::App* train = add_train(app, o, heads);
  const CLI::App* eval = add_eval(app, o);
  if (!parse_flags(app, argc, argv)) return false;
  o.command_line = command_line(argc, argv);
  if (eval->parsed()) {
    o.name = NtmCommand::Name::eval;
    if (!o.attention.empty()) check_attention_path(o.attention);
    return true;
  }
  check_train(*train, o, heads);
  o.warmup_given = train->count("--warmup") > 0;
  return true;
}

}  // namespace tern::apps::ntm
