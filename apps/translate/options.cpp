#include "tern/apps/translate/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/board.h"
#include "tern/apps/common/dry_run.h"
#include "tern/apps/common/flags.h"
#include "tern/apps/common/run_record.h"
#include "tern/core/base/error.h"
#include "tern/train/schedule.h"

namespace tern::apps::translate {
namespace {

constexpr const char* kAbout =
    "Trains translation models and translates with them.\n"
    "Without a command or files it trains a small Transformer on generated English-French pairs, "
    "for less than a minute. `translate COMMAND --help` lists a command's flags.";

const Bounds kCount{.low = 1, .high = 1e9}, kAnyCount{.low = 0, .high = 1e9};
const Bounds kShare{.low = 0, .high = 0.999999}, kAbove{.low = 0, .open_low = true};

void add_data(CLI::App& app, TrainConfig& c) {
  app.add_option("--pairs", c.pairs, "file of lines 'source TAB target'")->type_name("FILE");
  app.add_option("--source", c.source, "lines of one language, plain or .gz")->type_name("FILE");
  app.add_option("--target", c.target, "their translations, line by line")->type_name("FILE");
  app.add_option("--valid-source", c.valid_source, "the same for validation")->type_name("FILE");
  app.add_option("--valid-target", c.valid_target, "the same for validation")->type_name("FILE");
  app.add_flag("--reverse", c.reverse, "translate from the second language into the first");
  add_number(app, "--first", c.first, "train on the first N pairs only; 0: all", kAnyCount);
  add_number(app, "--hold-out", c.hold_out,
             "pairs kept for validation where no files are; -1: 5 %, at most 1000",
             {.low = -1, .high = 1e9});
  add_number(app, "--max-length", c.max_length, "leave out pairs with more tokens; 0: none",
             kAnyCount);
  add_choice(app, "--tokens", c.tokens, "what a token is", {"words", "bpe", "d2l"});
  add_number(app, "--bpe", c.bpe, "merges of --tokens bpe", kCount);
  app.add_flag("--shared,!--no-shared", c.shared, "one vocabulary for both languages");
  add_number(app, "--min-freq", c.min_freq, "words that occur less often are unknown", kCount);
  app.add_flag("--lowercase,!--no-lowercase", c.lowercase, "train on lower case");
}

void add_sizes(CLI::App& app, ModelConfig& m) {
  add_choice(app, "--model", m.model, "what to train", {"transformer", "bahdanau", "seq2seq"});
  add_choice(app, "--form", m.form, "of bahdanau: the paper's or d2l.ai's", {"paper", "d2l"});
  add_number(app, "--layers", m.layers, "of encoder and decoder", {.low = 1, .high = 1000});
  add_number(app, "--dim", m.dim, "channels; of recurrent models the embedding's", kCount);
  add_number(app, "--hidden", m.hidden, "units of recurrent models", kCount);
  add_number(app, "--heads", m.heads, "of attention", kCount);
  add_number(app, "--ffn", m.ffn, "hidden units of the feed-forward layers", kCount);
  add_number(app, "--dropout", m.dropout, "on embeddings, sublayers and attention", kShare);
  app.add_flag("--norm-first,!--norm-last", m.norm_first, "pre-norm layers");
  add_choice(app, "--tie", m.tie, "tables that are one: generator and target, or all three",
             {"none", "target", "all"});
  app.add_flag("--reverse-source", m.reverse_source, "seq2seq reads the source backwards");
}

void add_recipe(CLI::App& app, TrainConfig& c) {
  add_number(app, "--epochs", c.epochs, "passes over the training pairs", kCount);
  add_number(app, "--batch", c.batch, "pairs in a batch at most; 0: any number", kAnyCount);
  add_number(app, "--batch-tokens", c.batch_tokens,
             "tokens a side in a batch at most, padding included; 0: any number", kAnyCount);
  add_number(app, "--lr", c.lr, "learning rate; with noam a factor", kAbove);
  add_choice(app, "--schedule", c.schedule, "of the learning rate", train::schedule_names(true));
  add_number(app, "--warmup", c.warmup, "steps in which the rate rises from 0", kAnyCount);
  add_number(app, "--beta2", c.beta2, "of Adam", kShare);
  add_number(app, "--weight-decay", c.weight_decay, "AdamW's; 0: Adam", {.low = 0, .high = 1000});
  add_number(app, "--label-smoothing", c.label_smoothing, "share spread over all words", kShare);
  add_number(app, "--clip", c.clip, "largest norm of the gradient; 0: off",
             {.low = 0, .high = 1e9});
  add_number(app, "--ema", c.ema,
             "decay of averaged weights, which are then what is tested and saved; 0: off", kShare);
  add_number(app, "--accumulate", c.accumulate, "batches a step", kCount);
  add_choice(app, "--best", c.best, "what of the validation says which weights are kept",
             {"loss", "bleu"});
  add_number(app, "--seed", c.seed, "of everything random", {.low = 0, .high = 1e15});
  add_precision(app, c.precision);
  add_memory_flags(app, c.memory_use);
  add_epoch_end_flags(app, c.epoch_end);
  add_recompute_flag(app, c.memory_use);
}

void add_threads(CLI::App& app, TranslateOptions& o) {
  add_number(app, "--threads", o.threads, "0: all cores", {.low = 0, .high = 1024});
}

CLI::App* add_command(CLI::App& app, const char* name, const char* about) {
  CLI::App* command = app.add_subcommand(name, about);
  command->option_defaults()->always_capture_default();
  return command;
}

CLI::App* add_train(CLI::App& app, TranslateOptions& o) {
  CLI::App* train = add_command(app, "train", "Trains a model in a folder of its own.");
  add_choice(*train, "--preset", o.train.preset,
             "settings by name; without it multi30k-transformer, and demo without files. Other "
             "flags change "
             "what it sets",
             preset_names());
  add_data(*train, o.train);
  add_sizes(*train, o.train.model);
  add_recipe(*train, o.train);
  add_threads(*train, o);
  train->add_option("--out", o.out, "folder of the run; default runs/NAME")->type_name("DIR");
  add_dry_run(*train, o.dry_run);
  add_tensorboard(*train, o.tensorboard);
  train->add_option("--resume", o.resume, "folder of a run to go on with")->type_name("DIR");
  return train;
}

void add_model(CLI::App& app, TranslateOptions& o) {
  app.add_option("--model", o.model, "folder of a trained model")->type_name("DIR")->required();
  add_precision(app, o.precision);
  add_threads(app, o);
}

void add_search(CLI::App& app, SearchOptions& s) {
  add_number(app, "--beam", s.beam, "hypotheses followed a sentence; 1: greedy",
             {.low = 1, .high = 1000});
  add_number(app, "--alpha", s.alpha, "strength of the length penalty", {.low = 0, .high = 10});
  app.add_flag("--unknown", s.unknown, "say <unk> where it is likeliest, else the next best word");
  app.add_flag("--int8", s.int8,
               "of a transformer: weights and what goes into products rounded to 8 bits");
}

void add_shortlist(CLI::App& app, SearchOptions& s) {
  add_number(app, "--shortlist", s.shortlist,
             "of a transformer: only look at so many translations of each token, from `translate "
             "shortlist`; 0: at all words",
             {.low = 0, .high = 1e6});
}

CLI::App* add_run(CLI::App& app, TranslateOptions& o) {
  CLI::App* run = add_command(app, "run", "Translates standard input, a sentence a line.");
  add_model(*run, o);
  add_search(*run, o.search);
  add_shortlist(*run, o.search);
  add_number(*run, "--n-best", o.search.n_best,
             "translations a line, as 'line ||| text ||| score'; at most --beam",
             {.low = 1, .high = 1000});
  run->add_option("--attention", o.attention,
                  "pictures of each translation's attention; a page has every head")
      ->type_name("FILE.html|.svg|.png");
  return run;
}

CLI::App* add_eval(CLI::App& app, TranslateOptions& o) {
  CLI::App* eval = add_command(app, "eval", "Perplexity and scores on files with references.");
  add_model(*eval, o);
  add_search(*eval, o.search);
  add_shortlist(*eval, o.search);
  eval->add_option("--source", o.source, "sentences")->type_name("FILE")->required();
  eval->add_option("--target", o.target, "references")->type_name("FILE")->required();
  add_number(*eval, "--show", o.show, "print the first N sentences with their scores", kAnyCount);
  eval->add_flag("--lowercase,!--no-lowercase", o.lowercase,
                 "BLEU and chrF on lower case; default: as the model was trained");
  return eval;
}

CLI::App* add_score(CLI::App& app, TranslateOptions& o) {
  CLI::App* score = add_command(app, "score", "BLEU and chrF of translations from anywhere.");
  score->add_option("--hypotheses", o.hypotheses, "translations")->type_name("FILE")->required();
  score->add_option("--reference", o.reference, "references")->type_name("FILE")->required();
  score->add_flag("--lowercase", o.lowercase, "ignore case");
  add_choice(*score, "--tokenize", o.tokenize, "BLEU's tokens", {"13a", "char", "none"});
  return score;
}

CLI::App* add_plot(CLI::App& app, TranslateOptions& o) {
  CLI::App* plot = add_command(app, "plot", "Shows the attention for a sentence.");
  add_model(*plot, o);
  add_search(*plot, o.search);
  plot->add_option("--attention", o.attention,
                   "pictures to write, a page has every head; default attention.html")
      ->type_name("FILE.html|.svg|.png");
  plot->add_option("sentence", o.sentence, "what to translate")->required();
  return plot;
}

CLI::App* add_lexicon(CLI::App& app, TranslateOptions& o) {
  CLI::App* lexicon = add_command(
      app, "shortlist", "Learns from pairs which words translate which, for --shortlist.");
  lexicon->add_option("--model", o.model, "folder of a trained model, where the words will stand")
      ->type_name("DIR")
      ->required();
  lexicon->add_option("--source", o.source, "sentences")->type_name("FILE")->required();
  lexicon->add_option("--target", o.target, "their translations")->type_name("FILE")->required();
  return lexicon;
}

// Flags that would change nothing are refused rather than ignored.
void check_flags_count(const CLI::App& train, const TrainConfig& c) {
  auto only = [&](bool counts, std::initializer_list<const char*> flags, const std::string& why) {
    for (const char* flag : flags)
      check(counts || train.count(flag) == 0, "{} would change nothing: {}", flag, why);
  };
  const ModelConfig& m = c.model;
  const bool transformer = m.model == "transformer", bahdanau = m.model == "bahdanau";
  only(transformer, {"--recompute"}, "a " + m.model + " has no blocks");
  only(transformer, {"--heads", "--ffn", "--norm-first", "--tie"}, "a " + m.model + " has none");
  only(!transformer, {"--hidden"}, "a transformer's width is --dim");
  only(bahdanau, {"--form"}, "only bahdanau has two");
  only(m.model == "seq2seq", {"--reverse-source"}, "only seq2seq reads backwards");
  only(!bahdanau || m.form == "d2l", {"--layers"}, "bahdanau in the paper's form has one");
  only(c.tokens == "bpe", {"--bpe"}, "--tokens is " + c.tokens);
  only(c.tokens == "words", {"--min-freq"}, "--tokens is " + c.tokens);
  only(c.tokens != "d2l", {"--lowercase"}, "d2l.ai's form is lower case");
  only(c.valid_source.empty(), {"--hold-out"}, "there are files for validation");
  only(!c.valid_source.empty() || c.hold_out != 0, {"--best"},
       "without validation the last weights are kept; give --hold-out");
}

void check_train(const CLI::App& train, const TranslateOptions& o) {
  const TrainConfig& c = o.train;
  if (!o.resume.empty())
    return check_resume_flags(train, {"--threads", "--epochs", "--tensorboard"});
  check(c.pairs.empty() || (c.source.empty() && c.target.empty()),
        "--pairs and --source/--target cannot be given together");
  check(c.source.empty() == c.target.empty(), "--source and --target belong together");
  check(c.valid_source.empty() == c.valid_target.empty(),
        "--valid-source and --valid-target belong together");
  check(c.batch + c.batch_tokens > 0, "one of --batch and --batch-tokens must be above 0");
  check(c.model.model != "transformer" || c.model.dim % c.model.heads == 0,
        "--dim {} is not a multiple of --heads {}", c.model.dim, c.model.heads);
  check(c.model.tie != "all" || c.shared, "--tie all needs --shared, one vocabulary for both");
  check(c.max_length == 0 || c.batch_tokens == 0 || c.batch_tokens > c.max_length,
        "--batch-tokens {} is less than a pair of --max-length {} needs", c.batch_tokens,
        c.max_length);
  check_flags_count(train, c);
  check_memory(c.memory_use, c.clip, c.accumulate);
  check_plateau_flags(train, c.schedule);
}

// The name of the preset that the command line names, or that suits it.
std::string preset_of(int argc, char** argv) {
  bool files = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--preset" && i + 1 < argc) return argv[i + 1];
    if (flag.starts_with("--preset=")) return flag.substr(9);
    for (const char* name : {"--pairs", "--source", "--target", "--resume"})
      files = files || flag == name || flag.starts_with(std::string(name) + "=");
  }
  return files ? "multi30k-transformer" : "demo";
}

}  // namespace

bool parse_options(int argc, char** argv, TranslateOptions& o) {
  using Command = TranslateOptions::Command;
  CLI::App app(kAbout, "translate");
  app.get_formatter()->column_width(36);
  app.require_subcommand(0, 1);
  // A preset changes the defaults that the other flags then change.
  const std::string preset = preset_of(argc, argv);
  const std::vector<std::string> known = preset_names();
  if (std::find(known.begin(), known.end(), preset) != known.end()) apply_preset(preset, o.train);
  const CLI::App* train = add_train(app, o);
  const CLI::App* run = add_run(app, o);
  const CLI::App* eval = add_eval(app, o);
  const CLI::App* score = add_score(app, o);
  const CLI::App* plot = add_plot(app, o);
  const CLI::App* lexicon = add_lexicon(app, o);
  if (!parse_flags(app, argc, argv)) return false;
  o.command_line = command_line(argc, argv);
  if (run->parsed()) o.command = Command::run;
  if (eval->parsed()) o.command = Command::eval;
  if (score->parsed()) o.command = Command::score;
  if (plot->parsed()) o.command = Command::plot;
  if (lexicon->parsed()) o.command = Command::shortlist;
  if (o.command == Command::train) check_train(*train, o);
  o.train.model.recompute = o.train.memory_use.recompute;
  o.epochs_given = train->count("--epochs") > 0;
  o.warmup_given = train->count("--warmup") > 0;
  check(o.search.n_best <= o.search.beam, "--n-best {} is above --beam {}", o.search.n_best,
        o.search.beam);
  for (const CLI::App* command : {run, eval, plot})
    check(command->count("--alpha") == 0 || o.search.beam > 1,
          "--alpha would change nothing: greedy search has no length penalty; give --beam");
  o.lowercase_given = eval->count("--lowercase") > 0;
  return true;
}

}  // namespace tern::apps::translate
