// The flags of translate, the choice of a preset, and the steps that the driver calls.
#include "tern/apps/translate/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/core/base/error.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/base/terminal_text.h"
#include "tern/core/ops/ops.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kFewPairs = 1000;  // fewer training pairs than this give a remark

constexpr const char* kAbout =
    "Trains translation models and translates with them.\n"
    "Without a command or files it trains a small Transformer on generated English-French "
    "sentences, in less than a minute.";

void add_train_settings(Settings& s, TranslateFlags& f) {
  s.word("preset", f.config.preset, preset_names(),
         "settings to start from, which the other flags change; without this flag: own with "
         "files, demo without")
      .group(Group::data)
      .not_in_files();
  settings(s, f.config);
}

// Takes sizes, tokens and direction from the model of --from; flags may change its dropout and the
// direction.
void take_from(TrainConfig& c, const Given& given) {
  const training::RunFolder folder{c.from};
  check_first_epoch_over(folder.weights());
  const TrainConfig from = load_config(folder);
  if (!given("--reverse")) {
    check(!from.reverse || c.source.empty(),
          "--from {}: that model was trained with --reverse; give --reverse if it should translate "
          "{} into {}, or --no-reverse for {} into {}",
          c.from, c.target, c.source, c.source, c.target);
    c.reverse = from.reverse;
  }
  const double dropout = c.model.dropout;
  c.model = from.model;
  if (given("--dropout")) c.model.dropout = dropout;
  c.tokens = from.tokens;
  c.bpe = from.bpe;
  c.shared = from.shared;
  c.min_freq = from.min_freq;
  c.lowercase = from.lowercase;
}

// Adapts settings of the preset "own" that contradict the given flags.
void fit_own(TrainConfig& c, const Given& given) {
  const bool transformer = c.model.model == "transformer";
  if (!given("--tie") && c.model.tie == "all" && (!c.shared || !transformer))
    c.model.tie = transformer ? "target" : "none";
  if (!given("--batch-tokens")) c.batch_tokens = std::max(c.batch_tokens, c.max_length + 1);
}

// The generated pairs are for trying the program, not for models or validation files of the user.
void check_pairs_given(const TrainConfig& c) {
  check(!is_demo(c) || (c.from.empty() && c.valid_source.empty()),
        "{} needs pairs to train on; give --pairs, or --source and --target",
        c.from.empty() ? "--valid-source" : "--from");
}

void check_train(TranslateFlags& f, const Given& given) {
  TrainConfig& c = f.config;
  check_pairs_given(c);
  f.given = given_keys(settings_of(c), given);
  if (c.schedule == "noam") f.given.push_back("lr");  // a factor, which suits all pairs
  if (c.preset == kOwn) fit_own(c, given);
  if (!c.from.empty()) take_from(c, given);
  if (!given("--optimizer") && c.optimizer == "adam" && c.weight_decay > 0) c.optimizer = "adamw";
  check_config(c);
}

void add_model(Settings& s, TranslateFlags& f) {
  s.text("model", f.model, "DIR", "folder of a trained model").must_be_given();
  add_computing(s, f.config.precision, f.config.matmul, f.train.threads);
}

void add_search(Settings& s, SearchOptions& o) {
  s.number("beam", o.beam, {1, 1000}, "hypotheses per sentence of beam search; 1: greedy search");
  s.number("alpha", o.alpha, kAlpha,
           "strength of the length penalty: a larger one gives longer translations; without this "
           "flag what the command tune found for the model, if it ran")
      .only_if(o.beam > 1, "greedy search has no length penalty; give --beam");
  s.toggle("unknown", o.unknown,
           "allow <unk> in translations; without this flag the next best word replaces it");
  s.toggle("int8", o.int8, "translate with 8-bit weights and products; for transformers");
  s.toggle("int4", o.int4,
           "translate with 4-bit weights: less memory, less exact; for transformers");
}

void add_shortlist(Settings& s, SearchOptions& o) {
  s.number("shortlist", o.shortlist, {0, 1e6},
           "consider only the N likeliest translations of each source token, as the command "
           "shortlist learned them; 0: all words; for transformers");
}

void add_attention(Settings& s, TranslateFlags& f, const char* about) {
  s.text("attention", f.attention, "FILE.html|.svg|.png", about);
}

void add_run(Settings& s, TranslateFlags& f) {
  add_model(s, f);
  add_search(s, f.search);
  add_shortlist(s, f.search);
  s.number("n_best", f.search.n_best, {1, 1000},
           "translations per line, as 'line ||| text ||| score'; at most --beam");
  add_attention(s, f, "write the attention of each translation; .html shows every head");
}

void add_references(Settings& s, TranslateFlags& f) {
  s.text("pairs", f.pairs, "FILE",
         "in each line a sentence, a TAB and its translation, as in training (swapped too, if the "
         "model was trained with --reverse)");
  s.text("source", f.source, "FILE", "sentences, one in each line");
  s.text("target", f.target, "FILE", "reference translations");
}

void add_eval(Settings& s, TranslateFlags& f) {
  add_model(s, f);
  add_search(s, f.search);
  add_shortlist(s, f.search);
  add_references(s, f);
  s.number("show", f.show, kAnyCount, "print the first N sentences with their scores");
  s.toggle("lowercase", f.lowercase,
           "compute BLEU and chrF in lower case; without either flag: as the model was trained")
      .flag("--lowercase,!--no-lowercase");
}

void add_score(Settings& s, TranslateFlags& f) {
  s.text("hypotheses", f.hypotheses, "FILE", "translations").must_be_given();
  s.text("reference", f.reference, "FILE", "references").must_be_given();
  s.toggle("lowercase", f.lowercase, "ignore case");
  s.word("tokenize", f.tokenize, {"13a", "char", "none"}, "BLEU's tokens");
}

void add_plot(Settings& s, TranslateFlags& f) {
  add_model(s, f);
  add_search(s, f.search);
  add_attention(s, f, "file to write; .html shows every head; default attention.html");
  s.text("sentence", f.sentence, "TEXT", "what to translate").flag("sentence").must_be_given();
}

void add_tune(Settings& s, TranslateFlags& f) {
  add_model(s, f);
  s.number("beam", f.tuned_beam, {2, 1000}, "hypotheses per sentence of beam search");
  add_references(s, f);
}

void add_lexicon(Settings& s, TranslateFlags& f) {
  s.text("model", f.model, "DIR", "folder of a trained model, which gets the shortlist")
      .must_be_given();
  s.text("source", f.source, "FILE", "sentences").must_be_given();
  s.text("target", f.target, "FILE", "their translations").must_be_given();
}

void add_export(Settings& s, TranslateFlags& f) {
  s.text("model", f.model, "DIR", "folder of a trained model").must_be_given();
  s.text("out", f.out, "DIR", "folder for encoder.onnx and decoder.onnx").must_be_given();
  add_opset(s, f.opset);
}

Command export_command(TranslateFlags& f) {
  return {.name = "export",
          .about =
              "Writes a model as ONNX files, for onnxruntime: the encoder, which reads source "
              "tokens i64 (N, S) and their lengths i64 (N), and one step of the decoder, which "
              "reads the encoder's outputs, the last tokens i64 (N) and the state before "
              "(past...), and gives logits f32 (N, words) and the next state (present...). The "
              "decoder's properties begin and end are the ids of <bos> and <eos>; a source ends "
              "with <eos>, which counts in its length.",
          .settings = [&f](Settings& s) { add_export(s, f); },
          .run = [&f] { return export_model(f); },
          .examples = "export --model runs/french --out french"};
}

int run_on_standard_input(const TranslateFlags& f) {
  standard_input();  // throws if it is closed or a folder
  return run_translations(f, STDIN_FILENO, std::cout);
}

std::string preset_of(int argc, char** argv) {
  const auto given = [&](const char* flag) { return has_flag(flag, argc, argv); };
  // A resumed run has its own settings. Settings that are newer than the run get the defaults of
  // that time.
  if (given("--resume")) return "multi30k-transformer";
  const bool files = given("--pairs") || given("--source") || given("--target");
  const bool help = given("--help") || given("-h") || given("--print-man") ||
                    given("--print-help") || given("--print-completion");
  return value_of("--preset", argc, argv, files || help ? kOwn : "demo");
}

// The end of --help: presets whose defaults differ from those shown.
std::string other_defaults(const std::string& shown) {
  TrainConfig from;
  apply_preset(shown, from);
  std::string text =
      "With your own files (preset own) these depend on the pairs, unless their flags are given: "
      "--bpe is a quarter of the pairs, 200 to 16000; --epochs as many as show a million pairs, "
      "3 to 40; --batch-tokens for about 50 steps an epoch, 256 to 2048; --warmup a tenth of the "
      "steps, at most 2000; --shared and --tie all where most letters of both languages are the "
      "same; --best loss below 100 validation pairs; for a transformer --optimizer muon "
      "--lr 0.005, or --lr 0.002 with another optimizer.\n"
      "From 100,000 pairs on a transformer has --dim 256 --heads 8 --ffn 1024, --batch-tokens up "
      "to 4096, and --lr 0.001 with another optimizer than muon. bahdanau and seq2seq have "
      "--dim 256 --layers 1 --tie none --lr 0.001. --from has --lr 0.0005 and a third of the "
      "epochs. The header of a run says what was chosen.\n"
      "Other presets have other defaults:";
  for (const std::string& name : preset_names()) {
    if (name == shown) continue;
    TrainConfig to;
    apply_preset(name, to);
    text += fmt::format("\n{}{}:{}", name, name == "demo" ? " (without files)" : "",
                        flags_between(from, to));
  }
  return text;
}

std::string describe_model(const ModelConfig& m, int64_t weights) {
  std::string s = fmt::format("{}, {} weights: ", m.model, training::grouped(weights));
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

std::string describe_tokens(const TrainConfig& c, const Tokenizers& t) {
  const char* unit = c.tokens == "bpe" ? "byte pairs" : "words";
  const std::string source = training::grouped(t.source.size());
  const std::string both =
      c.shared ? fmt::format("{} {} for both languages", source, unit)
               : fmt::format("{} and {} {}", source, training::grouped(t.target.size()), unit);
  return fmt::format("{}, {}", both,
                     is_lowercase(c) ? "all text in lower case" : "capitals are kept");
}

// The percentage of unknown tokens on one side of the pairs.
double unknown_percent(const datasets::EncodedPairs& pairs,
                       std::vector<int64_t> datasets::EncodedPair::*side) {
  int64_t unknown = 0, all = 0;
  for (const datasets::EncodedPair& p : *pairs.pairs) {
    unknown += std::count((p.*side).begin(), (p.*side).end(), datasets::kUnknownId);
    all += std::ssize(p.*side);
  }
  return 100 * static_cast<double>(unknown) / static_cast<double>(all);
}

// The batches with the most elements in the source, in the target, and in both together. One of
// them needs the most memory.
std::array<datasets::PairBatch, 3> largest_batches(const TrainConfig& c, const Corpus& corpus) {
  std::array<datasets::PairBatch, 3> found;
  std::array<int64_t, 3> most{};
  datasets::Loader<datasets::PairBatch> loader = training_batches(c, corpus);
  for (const datasets::PairBatch& batch : loader) {
    const int64_t source = batch.source.numel(), target = batch.target_in.numel();
    const std::array<int64_t, 3> sizes = {source, target, source + target};
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] <= most[i]) continue;
      most[i] = sizes[i];
      found[i] = batch;
    }
  }
  return found;
}

Summary summary_of_batch(const TrainConfig& c, int64_t accumulate,
                         const datasets::PairBatch& given) {
  ShapeOnlyScope nothing;
  const TranslationModel model(c);
  datasets::PairBatch batch;
  auto make_batch = [&] {
    batch = {copy_of(given.source),     copy_of(given.source_lengths), copy_of(given.target_in),
             copy_of(given.target_out), copy_of(given.target_lengths), copy_of(given.indices)};
  };
  return summary(model, [&] { return training_loss(model, c, batch); },
                 {.batch = make_batch,
                  .optimizer = [&](const NamedTensors& p) { return make_optimizer(c, p); },
                  .learner = learner_options(c),
                  .accumulate = accumulate,
                  .optimizer_ranks = c.parallel.optimizer_ranks()});
}

void check_search(TranslateFlags& f, const Given& given) {
  if (given("--alpha")) f.alpha = f.search.alpha;
}

void check_references(const TranslateFlags& f) {
  const bool both = !f.source.empty() && !f.target.empty();
  check(f.pairs.empty() ? both : f.source.empty() && f.target.empty(),
        "give --source and --target, or --pairs");
}

void check_eval(TranslateFlags& f, const Given& given) {
  check_search(f, given);
  f.lowercase_given = given("--lowercase");
  check_references(f);
}

// A command that uses a model.
Command command(TranslateFlags& f, const char* name, const char* about,
                void (*add)(Settings&, TranslateFlags&), int (*run)(const TranslateFlags&),
                const char* examples) {
  return {.name = name,
          .about = about,
          .settings = [&f, add](Settings& s) { add(s, f); },
          .run = [&f, run] { return run(f); },
          .examples = examples};
}

Command plot_command(TranslateFlags& f) {
  Command plot = command(f, "plot", "Shows the attention of a sentence and its translation.",
                         add_plot, plot_attention,
                         "plot --model runs/translate-demo \"The small cat sleeps.\"\n"
                         "plot --model runs/translate-demo --attention cat.svg \"The small cat "
                         "sleeps.\"");
  plot.check = [&f](const Given& given) { check_search(f, given); };
  return plot;
}

Command tune_command(TranslateFlags& f) {
  Command tune = command(
      f, "tune",
      "Finds the length penalty of beam search that gives the highest BLEU, on the pairs that "
      "validated the training or on others, and keeps it in the model's folder. Searches without "
      "--alpha then use it.",
      add_tune, tune_search,
      "tune --model runs/french\n"
      "tune --model runs/french --source valid.en --target valid.fr");
  tune.check = [&f](const Given&) {
    if (!f.pairs.empty() || !f.source.empty() || !f.target.empty()) check_references(f);
  };
  return tune;
}

}  // namespace

Program translate_program(TranslateFlags& f, int argc, char** argv) {
  // The preset sets the defaults before the other flags are read.
  const std::string preset = preset_of(argc, argv);
  apply_preset(preset, f.config);
  Command train = train_command(f.train, f.config,
                                {.name = "train",
                                 .about = "Trains a model in a new folder, or resumes a run.",
                                 .settings = [&f](Settings& s) { add_train_settings(s, f); },
                                 .check = [&f](const Given& g) { check_train(f, g); }});
  train.more = other_defaults(preset);
  train.examples =
      "train --pairs pairs.tsv --out runs/french\n"
      "train --resume runs/french\n"
      "run --model runs/french --beam 5";
  train.bare = "--pairs";
  train.run = [&f] { return train_translation(f); };
  Command run = command(
      f, "run",
      "Translates standard input line by line. Each line is answered as soon as no other one "
      "waits.",
      add_run, run_on_standard_input,
      "run --model runs/french < english.txt > french.txt\n"
      "run --model runs/french --beam 5 --int8 < english.txt");
  run.bare = kBareInput;
  run.check = [&f](const Given& given) {
    check_search(f, given);
    check(f.search.n_best <= f.search.beam, "--n-best {} is above --beam {}", f.search.n_best,
          f.search.beam);
  };
  Command eval =
      command(f, "eval", "Computes perplexity, BLEU and chrF on files with references.", add_eval,
              evaluate_model,
              "eval --model runs/french --source test.en --target test.fr --beam 5 --show 3");
  eval.check = [&f](const Given& given) { check_eval(f, given); };
  return {"translate",
          kAbout,
          {train, run, eval, tune_command(f),
           command(f, "score", "Computes BLEU and chrF of translations from any program.",
                   add_score, score_files, "score --hypotheses french.txt --reference test.fr"),
           plot_command(f),
           command(f, "shortlist",
                   "Learns from sentence pairs which words translate which, for --shortlist.",
                   add_lexicon, learn_shortlist,
                   "shortlist --model runs/french --source train.en --target train.fr\n"
                   "run --model runs/french --shortlist 50 < english.txt"),
           export_command(f)}};
}

int train_translation(const TranslateFlags& f) {
  TranslateProgram program(f.config, f.given);
  return train(program, f.train);
}

// "translate-fra" for "data/fra.tsv.gz".
std::string TranslateProgram::folder_name() const {
  std::filesystem::path file = config.pairs.empty() ? config.source : config.pairs;
  if (config.preset != kOwn || file.empty()) return "translate-" + config.preset;
  file = file.filename();
  for (const char* ending : {".gz", ".txt", ".tsv"})
    if (file.extension() == ending) file = file.stem();
  return "translate-" + file.string();
}

// Suggests translating a sentence from the pairs of which the model knows all words.
std::pair<std::string, std::string> TranslateProgram::next(const std::string& folder) const {
  constexpr size_t kShort = 10, kLong = 60;  // bytes
  const auto known = [&](const std::string& text) {
    const std::vector<int64_t> ids = tokenizers.source.encode(text);
    return text.size() >= kShort && text.size() <= kLong && text[0] != '-' &&
           text.find('\\') == text.npos && terminal_text(text) == text &&
           std::count(ids.begin(), ids.end(), datasets::kUnknownId) == 0;
  };
  for (const auto* pairs : {&corpus.valid_text, &files.train})
    for (const datasets::SentencePair& p : *pairs)
      if (known(p.source))
        return {"translate", fmt::format("echo {} | {} run --model {}", shell_word(p.source),
                                         as_started("translate"), folder)};
  return {"translate", as_started("translate") + " run --model " + folder};
}

void TranslateProgram::load(const training::RunFolder* resumed) {
  TrainConfig& c = config;
  for (std::string* path : {&c.pairs, &c.source, &c.target, &c.valid_source, &c.valid_target})
    make_absolute(*path);
  if (!resumed && is_demo(c))
    training::say("no files given: trains on generated English-French sentences", log_stream());
  files = read_pair_files(c);
  const bool learned = !resumed && c.from.empty(), fits = !resumed && c.preset == kOwn;
  const TrainConfig before = c;
  if (fits) choose_by_pairs(c, given, files);
  if (fits) translate::check_config(c);  // a choice may contradict a flag
  tokenizers = learned ? learn_tokenizers(c, files.train)
                       : load_tokenizers(resumed ? *resumed : training::RunFolder{c.from}, c);
  corpus = encode_corpus(c, files, tokenizers);
  check_held_out(c, !corpus.valid.pairs->empty(), "--hold-out");
  if (fits) choose_after_encoding(c, given, corpus);
  if (fits) chosen = flags_between(before, c);
  if (resumed) return;
  const double ratio = length_ratio(*corpus.train.pairs);
  c.model.length_ratio = learned ? ratio : std::max(ratio, c.model.length_ratio);
  c.model.source_vocab = tokenizers.source.size();
  c.model.target_vocab = tokenizers.target.size();
}

Summary TranslateProgram::summary() const {
  const int64_t batches = training_batches(config, corpus).batches_per_epoch();
  std::optional<Summary> most;
  for (const datasets::PairBatch& batch : largest_batches(config, corpus)) {
    Summary s = summary_of_batch(config, std::min(config.accumulate, batches), batch);
    if (!most || s.cost.peak() > most->cost.peak()) most = std::move(s);
  }
  return std::move(*most);
}

void TranslateProgram::save(const training::RunFolder& folder) const {
  std::filesystem::remove(config_path(folder));  // written last: a folder that has it is complete
  save_tokenizers(folder, config, tokenizers);
}

void TranslateProgram::check_fits(const SafeTensors& checkpoint, const std::string& path) const {
  check_resumed_fits(checkpoint, path, [&] { return TranslationModel(config); });
}

training::Loop& TranslateProgram::make_loop(training::LoopOptions options, bool resumed) {
  training = std::make_unique<TranslationTraining>(config, corpus, tokenizers, std::move(options),
                                                   resumed);
  return training->loop;
}

Facts TranslateProgram::describe() const {
  const datasets::EncodedPairs &train = corpus.train, &valid = corpus.valid;
  const int64_t weights = [&] {
    const ShapeOnlyScope nothing;
    return nn::num_parameters(TranslationModel(config));
  }();
  Facts facts = {{"model", describe_model(config.model, weights)},
                 {"data", fmt::format("{}: {} training and {} validation pairs", files.description,
                                      training::grouped(std::ssize(*train.pairs)),
                                      training::grouped(std::ssize(*valid.pairs)))},
                 {"tokens", describe_tokens(config, tokenizers)}};
  const double unknown[] = {unknown_percent(train, &datasets::EncodedPair::source),
                            unknown_percent(train, &datasets::EncodedPair::target)};
  if (config.from.empty() && unknown[0] + unknown[1] > 0)
    facts.emplace_back("",
                       fmt::format("rare words are unknown: {:.2f} % of the source's words, {:.2f} "
                                   "% of the target's; --tokens bpe has no unknown words",
                                   unknown[0], unknown[1]));
  if (!chosen.empty()) facts.emplace_back("chosen", "by the data:" + chosen);
  if (std::ssize(*train.pairs) < kFewPairs && !is_demo(config) && config.from.empty())
    facts.emplace_back(
        "", fmt::format("only {} pairs for training: learning a language takes thousands",
                        std::ssize(*train.pairs)));
  if (valid.pairs->empty())
    facts.emplace_back("",
                       "nothing is held out, so no score says how well it translates; "
                       "--hold-out N holds pairs out");
  if (const std::string repeated = repeated_pairs_text(corpus); !repeated.empty())
    facts.emplace_back("", repeated);
  if (const std::string& from = config.from; !from.empty())
    facts.emplace_back(
        "", fmt::format("unknown to {}: {:.2f} % of the source's tokens, {:.2f} % of the target's",
                        from, unknown[0], unknown[1]));
  for (const std::string& report : files.reports) facts.emplace_back("", report);
  if (train.report.kept != train.report.lines)
    facts.emplace_back("", "training: " + train.report.summary());
  if (valid.report.kept != valid.report.lines)
    facts.emplace_back("", "validation: " + valid.report.summary());
  return facts;
}

// Writes the report on the kept weights, and prints samples.
bool TranslateProgram::finish() {
  const training::Loop& loop = training->loop;
  const training::EpochRecord& best = loop.best_epoch();
  const Translator translator = load_translator(loop.folder().path);
  const TranslationExamples examples =
      translation_examples(translator.model, tokenizers, corpus.valid_text, is_lowercase(config));
  const RunSummary run =
      summary_of(fmt::format("{} on {}", config.model.model,
                             is_demo(config) ? "generated pairs" : "sentence pairs"),
                 facts, record, loop);
  Ending end{.page = make_report(run, examples, std::ssize(corpus.valid_text)),
             .attention = std::any_of(examples.even.begin(), examples.even.end(),
                                      [](const auto& s) { return !s.attention.groups.empty(); }),
             .scores = fmt::format("valid ppl {:.4f}, BLEU {:.2f}", best["valid_ppl"],
                                   best["valid_bleu"])};
  for (const SampleTranslation& s : examples.even) end.samples.push_back(sample_text(s));
  end_run(loop, end);
  return true;
}

}  // namespace tern::apps::translate
