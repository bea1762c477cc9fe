#include "tern/apps/lm/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/board.h"
#include "tern/apps/common/dry_run.h"
#include "tern/apps/common/flags.h"
#include "tern/apps/common/run_record.h"
#include "tern/apps/lm/family.h"
#include "tern/core/base/error.h"
#include "tern/train/schedule.h"

namespace tern::apps::lm {
namespace {

constexpr const char* kAbout =
    "Trains language models on text, writes with them or fills the gaps of a text.\n"
    "Without a command or files it trains a small GPT for about a minute on stories that it makes "
    "up, and shows how it goes on with some. `lm COMMAND --help` lists a command's flags.";

const Bounds kCount{.low = 1, .high = 1e9}, kAnyCount{.low = 0, .high = 1e9};
const Bounds kShare{.low = 0, .high = 0.999999}, kAbove{.low = 0, .open_low = true};

// The defaults on stories that are made up: about a minute on two cores.
TrainConfig story_defaults(TrainConfig c) {
  c.vocab_size = 512;
  c.epochs = c.model.model == kBert ? 4 : 8;
  c.lr = 2e-3;
  if (c.model.model == kBert) return c;
  // Small batches, because it takes some thousand steps until it remembers who lost what where.
  c.batch = 4;
  c.lr = 3e-3;
  c.model.dropout = 0;
  return c;
}

std::string story_flags(const char* model) {
  TrainConfig c;
  c.model.model = model;
  c = story_defaults(c);
  return fmt::format("--vocab {} --epochs {} --batch {} --lr {:g} --dropout {:g}", c.vocab_size,
                     c.epochs, c.batch, c.lr, c.model.dropout);
}

void add_data(CLI::App& app, TrainConfig& c) {
  app.add_option("--text", c.text,
                 fmt::format("files of text, plain or .gz; without, stories are made up and the "
                             "defaults are {}, for bert {}",
                             story_flags("gpt"), story_flags(kBert)))
      ->type_name("FILE...");
  app.add_option("--valid", c.valid, "files of text for validation")->type_name("FILE...");
  add_number(app, "--hold-out", c.hold_out,
             "share of the text kept for validation where no files are; 0: none",
             {.low = 0, .high = 0.9});
  add_number(app, "--vocab", c.vocab_size,
             "tokens of the byte-level BPE, for bert of WordPiece, that is learned",
             {.low = 257, .high = 1 << 24});
  app.add_flag("--cased", c.cased, "bert: WordPiece keeps capitals and accents");
  app.add_flag("--pairs,!--no-pairs", c.pairs,
               "bert: learns whether lines follow one another; blank lines are between documents");
  app.add_option("--tokenizer", c.tokenizer,
                 "folder with vocab.json and merges.txt, for bert with vocab.txt, instead")
      ->type_name("DIR");
  app.add_option("--from", c.from, "folder of a model to go on training, with its tokenizer")
      ->type_name("DIR");
}

void add_sizes(CLI::App& app, ModelConfig& m) {
  std::vector<std::string> names = family_names();
  names.push_back(kBert);
  add_choice(app, "--model", m.model, "what to train", names);
  add_number(app, "--context", m.context, "tokens at most that a token is told from",
             {.low = 2, .high = 1 << 20});
  add_number(app, "--layers", m.layers, "blocks", {.low = 1, .high = 1000});
  add_number(app, "--dim", m.dim, "channels", {.low = 1, .high = 1 << 16});
  add_number(app, "--heads", m.heads, "of attention", {.low = 1, .high = 1 << 16});
  add_number(app, "--kv-heads", m.kv_heads, "of keys and values; 0: as many as --heads",
             {.low = 0, .high = 1 << 16});
  add_number(app, "--ffn", m.ffn, "hidden units; 0: four times --dim, or what has as many weights",
             {.low = 0, .high = 1 << 20});
  add_number(app, "--dropout", m.dropout, "on embeddings, sublayers and attention", kShare);
  add_number(app, "--attention-dim", m.attention_dim,
             "channels of the tiny attention that makes a gmlp an aMLP (64); 0: none",
             {.low = 0, .high = 1 << 16});
  app.add_flag("--tie,!--no-tie", m.tie, "the head is the table of embeddings");
}

void add_recipe(CLI::App& app, TrainConfig& c) {
  add_number(app, "--epochs", c.epochs, "passes over the text, or parts of it", kCount);
  add_number(app, "--parts", c.parts, "epochs that a pass is cut into", kCount);
  add_number(app, "--batch", c.batch, "windows of --context tokens in a batch", kCount);
  add_number(app, "--accumulate", c.accumulate, "batches a step", kCount);
  add_number(app, "--lr", c.lr, "learning rate; with noam a factor", kAbove);
  add_choice(app, "--schedule", c.schedule, "of the learning rate", train::schedule_names(true));
  add_number(app, "--warmup", c.warmup, "steps in which the rate rises from 0", kAnyCount);
  add_number(app, "--beta2", c.beta2, "of AdamW", kShare);
  add_number(app, "--weight-decay", c.weight_decay, "of matrices", {.low = 0, .high = 1000});
  add_number(app, "--clip", c.clip, "largest norm of the gradient; 0: off",
             {.low = 0, .high = 1e9});
  add_number(app, "--ema", c.ema,
             "decay of averaged weights, which are then what is tested and saved; 0: off", kShare);
  add_number(app, "--seed", c.seed, "of everything random", {.low = 0, .high = 1e15});
  add_precision(app, c.precision);
  add_memory_flags(app, c.memory_use);
  add_epoch_end_flags(app, c.epoch_end);
  add_recompute_flag(app, c.memory_use);
}

void add_threads(CLI::App& app, LmOptions& o) {
  add_number(app, "--threads", o.threads, "0: all cores", {.low = 0, .high = 1024});
}

CLI::App* add_command(CLI::App& app, const char* name, const char* about) {
  CLI::App* command = app.add_subcommand(name, about);
  command->option_defaults()->always_capture_default();
  return command;
}

CLI::App* add_train(CLI::App& app, LmOptions& o) {
  CLI::App* train = add_command(app, "train", "Trains a model in a folder of its own.");
  add_data(*train, o.train);
  add_sizes(*train, o.train.model);
  add_recipe(*train, o.train);
  add_threads(*train, o);
  train->add_option("--out", o.out, "folder of the run; default runs/NAME")->type_name("DIR");
  train->add_option("--resume", o.resume, "folder of a run to go on with")->type_name("DIR");
  add_dry_run(*train, o.dry_run);
  add_tensorboard(*train, o.tensorboard);
  return train;
}

void add_model(CLI::App& app, LmOptions& o, const char* about) {
  app.add_option("--model", o.model, about)->type_name("DIR")->required();
  add_precision(app, o.precision);
  add_threads(app, o);
}

void add_int8(CLI::App& app, LmOptions& o) {
  app.add_flag(
      "--int8", o.int8,
      "rounds the weights of a gpt or llama to 8 bits: a quarter of the memory, and faster");
}

CLI::App* add_generate(CLI::App& app, LmOptions& o) {
  CLI::App* command = add_command(app, "generate", "Goes on with a text, as it comes.");
  add_model(*command, o, "folder of a trained model, or of transformers' GPT-2 or Llama");
  GenerateOptions& g = o.generate;
  add_int8(*command, o);
  command
      ->add_option("--prompt", o.prompt,
                   "what to go on with; empty: any beginning; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);  // or "[a]" would be taken for a list
  command->add_option("--prompts", o.prompts, "file with a prompt a line, plain or .gz")
      ->type_name("FILE");
  add_number(*command, "--max-tokens", g.max_tokens, "tokens at most", kCount);
  add_number(*command, "--temperature", g.temperature,
             "below 1 likely tokens are likelier still; 0: always the likeliest",
             {.low = 0, .high = 100});
  add_number(*command, "--top-k", g.top_k, "among the K likeliest tokens only; 0: all", kAnyCount);
  add_number(*command, "--top-p", g.top_p, "among the fewest tokens that have this share",
             {.low = 0, .high = 1, .open_low = true});
  command->add_option("--stop", g.stop, "end in front of this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);  // or "[END]" would be taken for a list
  add_number(*command, "--seed", g.seed, "of the draws", {.low = 0, .high = 1e15});
  command->add_option("--attention", o.attention, "what each token looked at")
      ->type_name("FILE.html|.svg|.png");
  return command;
}

CLI::App* add_fill(CLI::App& app, LmOptions& o) {
  CLI::App* command = add_command(app, "fill", "Says what may stand at each [MASK] of a text.");
  add_model(*command, o, "folder of a trained bert, or of transformers' BERT");
  command->add_option("text", o.gaps, "\"the [MASK] sat\"")->type_name("TEXT")->required();
  add_number(*command, "--guesses", o.guesses, "for each [MASK]", kCount);
  command->add_option("--attention", o.attention, "page with what each token looked at")
      ->type_name("FILE.html|.svg|.png");
  return command;
}

CLI::App* add_eval(CLI::App& app, LmOptions& o) {
  CLI::App* command = add_command(app, "eval", "Perplexity and bits a byte of texts.");
  add_model(*command, o, "folder of a trained model, or of transformers' GPT-2, Llama or BERT");
  add_int8(*command, o);
  command->add_option("--text", o.text, "files of text, plain or .gz")
      ->type_name("FILE...")
      ->required();
  add_number(*command, "--stride", o.stride,
             "tokens from one window to the next; 0: half of the model's context", kAnyCount);
  return command;
}

// Flags that would change nothing are refused rather than ignored.
void check_flags_count(const CLI::App& train, const TrainConfig& c) {
  // Beside those that every model has.
  std::vector<std::string> known = {"--heads", "--cased", "--pairs"};
  if (c.model.model != kBert) {
    known = find_family(c.model.model).flags;
    known.push_back("--parts");
  }
  for (const char* flag :
       {"--heads", "--kv-heads", "--attention-dim", "--tie", "--parts", "--cased", "--pairs"})
    check(train.count(flag) == 0 || std::find(known.begin(), known.end(), flag) != known.end(),
          "{} would change nothing: a {} has none", flag, c.model.model);
  auto only = [&](bool counts, std::initializer_list<const char*> flags, const char* why) {
    for (const char* flag : flags)
      check(counts || train.count(flag) == 0, "{} would change nothing: {}", flag, why);
  };
  only(c.valid.empty() && !is_demo(c), {"--hold-out"},
       is_demo(c) ? "stories for validation are made up too" : "there are files for validation");
  only(c.tokenizer.empty() && c.from.empty(), {"--vocab", "--cased"},
       "there is a tokenizer already");
  only(c.from.empty(), {"--tokenizer"}, "a model brings its own");
  only(c.from.empty(),
       {"--model", "--context", "--layers", "--dim", "--heads", "--kv-heads", "--ffn",
        "--attention-dim", "--tie", "--pairs"},
       "the model of --from has its sizes");
}

void check_train(const CLI::App& train, const LmOptions& o) {
  const TrainConfig& c = o.train;
  if (!o.resume.empty())
    return check_resume_flags(train, {"--threads", "--epochs", "--tensorboard"});
  check(c.valid.empty() || !is_demo(c), "--valid without --text");
  check_flags_count(train, c);
  check_memory(c.memory_use, c.clip, c.accumulate);
  check_plateau_flags(train, c.schedule);
  const ModelConfig& m = c.model;
  check(m.dim % m.heads == 0, "--dim {} is not a multiple of --heads {}", m.dim, m.heads);
  check(m.kv_heads == 0 || m.heads % m.kv_heads == 0,
        "--heads {} is not a multiple of --kv-heads {}", m.heads, m.kv_heads);
}

// The same of lm generate, where nothing is drawn.
void check_generate(const CLI::App& command, const GenerateOptions& o) {
  auto idle = [&](std::initializer_list<const char*> flags, const char* why) {
    for (const char* flag : flags)
      check(command.count(flag) == 0, "{} would change nothing: {}", flag, why);
  };
  if (o.temperature == 0)
    idle({"--top-k", "--top-p", "--seed"}, "with --temperature 0 nothing is drawn");
  else if (o.top_k == 1)
    idle({"--temperature", "--top-p", "--seed"}, "with --top-k 1 nothing is drawn");
}

// The value of a flag on the command line; empty if it is not there.
std::string value_of(const std::string& flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == flag && i + 1 < argc) return argv[i + 1];
    if (word.starts_with(flag + "=")) return word.substr(flag.size() + 1);
  }
  return "";
}

// What a family changes of the defaults, which the other flags then change.
void apply_defaults(int argc, char** argv, TrainConfig& c) {
  const std::string model = value_of("--model", argc, argv);
  for (const Family& f : families())
    if (f.name == model) f.defaults(c.model);
  if (model == kBert) c.model.eps = 1e-12;
}

void apply_story_defaults(const CLI::App& train, TrainConfig& c) {
  const TrainConfig stories = story_defaults(c);
  auto unless_given = [&](const char* flag, auto& value, auto story_value) {
    if (train.count(flag) == 0) value = story_value;
  };
  unless_given("--vocab", c.vocab_size, stories.vocab_size);
  unless_given("--epochs", c.epochs, stories.epochs);
  unless_given("--batch", c.batch, stories.batch);
  unless_given("--lr", c.lr, stories.lr);
  unless_given("--dropout", c.model.dropout, stories.model.dropout);
}

}  // namespace

bool parse_options(int argc, char** argv, LmOptions& o) {
  using Command = LmOptions::Command;
  CLI::App app(kAbout, "lm");
  app.get_formatter()->column_width(36);
  app.require_subcommand(0, 1);
  apply_defaults(argc, argv, o.train);
  const CLI::App* train = add_train(app, o);
  const CLI::App* generate = add_generate(app, o);
  const CLI::App* fill = add_fill(app, o);
  const CLI::App* eval = add_eval(app, o);
  if (!parse_flags(app, argc, argv)) return false;
  if (is_demo(o.train)) apply_story_defaults(*train, o.train);
  o.command_line = command_line(argc, argv);
  if (generate->parsed()) o.command = Command::generate;
  check_generate(*generate, o.generate);
  if (fill->parsed()) o.command = Command::fill;
  if (eval->parsed()) o.command = Command::eval;
  if (o.command == Command::train) check_train(*train, o);
  o.train.model.recompute = o.train.memory_use.recompute;
  check(!o.int8 || o.precision == "f32",
        "--int8 and --precision bf16 each say what weights are rounded to: choose one");
  check(o.prompts.empty() || o.prompt.empty(), "give --prompt or --prompts, not both");
  for (const std::string& stop : o.generate.stop) check(!stop.empty(), "--stop: the text is empty");
  o.epochs_given = train->count("--epochs") > 0;
  o.warmup_given = train->count("--warmup") > 0;
  return true;
}

}  // namespace tern::apps::lm
