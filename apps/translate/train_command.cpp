// translate train: a training at work in a model folder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/new_run.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/apps/translate/commands.h"
#include "tern/apps/translate/describe.h"
#include "tern/apps/translate/dry_run.h"
#include "tern/apps/translate/explain.h"
#include "tern/apps/translate/report.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

constexpr size_t kSamples = 6;   // sentences that are shown
constexpr size_t kPictures = 2;  // of them with their attention

std::vector<SampleTranslation> samples(const TranslationModel& model, const Corpus& c,
                                       const Tokenizers& tokenizers) {
  const std::vector<data::SentencePair>& from = c.valid_text;
  std::vector<std::string> sources;
  std::vector<SampleTranslation> out;
  for (size_t i = 0; i < std::min(kSamples, from.size()); ++i) {
    sources.push_back(from[i].source);
    out.push_back({from[i].source, from[i].target, "", 0, {}});
  }
  const auto found = translate_lines(model, tokenizers, sources, {});
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].translation = found[i][0].text;
    out[i].d2l = d2l_score(out[i].translation, out[i].reference);
    if (i < kPictures) out[i].attention = explain(model, tokenizers, sources[i], found[i][0]);
  }
  return out;
}

// After the last epoch: the report on the weights that were kept.
void write_report(const TranslationTraining& t, const Facts& facts, const RunRecord& record) {
  const train::RunFolder& folder = t.loop.folder();
  const train::EpochRecord& best = t.loop.best_epoch();
  const Translator translator = load_translator(folder.path);
  TranslationReport report{
      .run = summary_of(fmt::format("{} on {}", t.config.model.model,
                                    is_demo(t.config) ? "generated pairs" : "sentence pairs"),
                        facts, record, t.loop),
      .samples = samples(translator.model, t.corpus, t.tokenizers)};
  const std::string report_path = save_page(t.loop, make_report(report));
  for (const SampleTranslation& s : report.samples)
    train::say(fmt::format("\n  {}\n> {}\n= {}  (d2l bleu {:.3f})", s.source, s.translation,
                           s.reference, s.d2l));
  train::say("");
  if (std::isnan(best["valid_loss"]))
    train::say(fmt::format("weights of epoch {}: {}", best.epoch, folder.weights()));
  else
    train::say(fmt::format("best epoch {}: valid ppl {:.2f}, BLEU {:.2f}, {}", best.epoch,
                           best["valid_ppl"], best["valid_bleu"], folder.weights()));
  const bool attention =
      std::any_of(report.samples.begin(), report.samples.end(),
                  [](const SampleTranslation& s) { return !s.attention.groups.empty(); });
  train::say(fmt::format("report{}: {}", attention ? " with attention" : "", report_path));
}

int go(TranslationTraining& t, const Facts& facts, const TranslateOptions& options) {
  const RunRecord record =
      record_start(t.loop, "translate", options.command_line, to_json(t.config));
  return run_loop("translate", t.loop, facts, [&] {
    write_report(t, facts, record);
    return true;
  });
}

}  // namespace

int start_training(const TranslateOptions& options) {
  TrainConfig c = options.train;
  const MatmulPrecisionScope precision(matmul_precision(c.precision));
  if (!options.out.empty()) check_new_folder(options.out);
  for (std::string* path : {&c.pairs, &c.source, &c.target, &c.valid_source, &c.valid_target})
    make_absolute(*path);
  const PairFiles files = read_pair_files(c);
  const Tokenizers tokenizers = learn_tokenizers(c, files.train);
  c.model.source_vocab = tokenizers.source.size();
  c.model.target_vocab = tokenizers.target.size();
  const Corpus corpus = encode_corpus(c, files, tokenizers);
  c.model.length_ratio = length_ratio(*corpus.train.pairs);
  check_held_out(c.epoch_end, c.schedule, !corpus.valid.pairs->empty(), "--hold-out");
  Facts more;
  if (!options.warmup_given) {
    train::ScheduleOptions schedule = schedule_options(c);
    fit_warmup(schedule, total_steps(c, corpus), more);
    c.warmup = schedule.warmup;
  }
  // What cannot be trained leaves no folder behind.
  train::make_schedule(schedule_options(c), total_steps(c, corpus));
  if (options.dry_run) return dry_run(c, corpus, files);
  TranslationModel model(c.model, c.seed);
  NewRunGuard guard(options.out);
  const LockedFolder folder = make_run_folder(options.out, "translate-" + c.preset);
  guard.made(folder.lock);
  save_description({folder.path}, c, tokenizers);
  TranslationTraining training(c, corpus, tokenizers, std::move(model),
                               folder.loop_options(options.tensorboard));
  Facts facts = describe(training, files);
  facts.insert(facts.end() - 1, more.begin(), more.end());  // behind the recipe
  guard.keep();
  return go(training, facts, options);
}

int resume_training(const TranslateOptions& options) {
  const LockedFolder folder = resumed_folder(options.resume, "config.json");
  std::optional<SafeTensors> state = load_resumed(folder);
  TrainConfig c = load_config({folder.path});
  const MatmulPrecisionScope precision(matmul_precision(c.precision));
  const int64_t started_with = c.epochs;
  c.epochs = resumed_epochs(c.schedule, c.epochs, options.epochs_given ? options.train.epochs : 0);
  if (state)
    check_resumed_fits(*state, ModelFiles{folder.path}.config(),
                       [&] { return TranslationModel(c.model, c.seed); });
  const Tokenizers tokenizers = load_tokenizers({folder.path}, c);
  const PairFiles files = read_pair_files(c);
  const Corpus corpus = encode_corpus(c, files, tokenizers);
  TranslationTraining training(c, corpus, tokenizers, TranslationModel(c.model, c.seed),
                               folder.loop_options(options.tensorboard));
  if (state) training.loop.load_state(*state, folder.checkpoint());
  state.reset();
  if (c.epochs != started_with) save_config({training.loop.folder_to_write().path}, c);
  return go(training, describe(training, files), options);
}

}  // namespace tern::apps::translate
