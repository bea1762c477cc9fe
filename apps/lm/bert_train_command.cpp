// lm train --model bert: a training at work in a model folder.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "tern/apps/common/new_run.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/apps/lm/bert_commands.h"
#include "tern/apps/lm/bert_folder.h"
#include "tern/apps/lm/bert_report.h"
#include "tern/apps/lm/bert_training.h"
#include "tern/apps/lm/describe.h"
#include "tern/apps/lm/dry_run.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kSampleSentences = 6, kSampleGuesses = 3;

/// A place of a sentence that a word begins at, if there is one: marks tell little.
size_t place_to_mask(const std::vector<int64_t>& ids, const data::WordPiece& pieces, Rng& rng) {
  std::vector<size_t> words;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t at = 0;
    const auto kind = data::classify(data::next_code_point(pieces.piece(ids[i]), at));
    if (kind == data::CharacterClass::letter) words.push_back(i);
  }
  if (words.empty()) return 0;
  return words[static_cast<size_t>(rng.below(std::ssize(words)))];
}

/// Sentences from all over the text for validation, or of training, with a word masked in each.
std::vector<FilledSample> samples(const LoadedBert& bert, const BertCorpus& corpus) {
  const data::Documents& from = corpus.valid->sentences() > 0 ? *corpus.valid : *corpus.train;
  const int64_t count = std::min(kSampleSentences, from.sentences());
  std::vector<FilledSample> out;
  Rng rng(0);
  for (int64_t i = 0; i < count; ++i) {
    const auto sentence = from.sentence(i * from.sentences() / count);
    std::vector<int64_t> ids(sentence.begin(), sentence.end());
    const std::string whole = bert.pieces.decode(ids);
    ids[place_to_mask(ids, bert.pieces, rng)] = bert.pieces.mask_id();
    const std::string masked = bert.pieces.decode(ids);
    out.push_back({masked, whole, fill_ids(bert, ids, kSampleGuesses)});
  }
  return out;
}

// After the last epoch: the report on the weights that were kept.
void write_report(const BertTraining& t, const Texts& texts, const Facts& facts,
                  const RunRecord& record) {
  const train::RunFolder& folder = t.loop.folder();
  const train::EpochRecord& best = t.loop.best_epoch();
  const LoadedBert bert = load_bert_folder(folder.path);
  BertReport report{
      .run = summary_of(fmt::format("{} on {}", t.config.model.model, texts.description), facts,
                        record, t.loop),
      .samples = samples(bert, t.corpus)};
  if (!report.samples.empty()) report.attention = explain_bert(bert, report.samples[0].masked);
  const std::string path = save_page(t.loop, make_report(report));
  for (const FilledSample& s : report.samples)
    train::say(fmt::format("\n{}\n{}", s.masked, describe_filled(s.filled)));
  train::say("");
  if (std::isnan(best["valid_loss"]))
    train::say(fmt::format("weights of epoch {}: {}", best.epoch, folder.weights()));
  else
    train::say(fmt::format("best epoch {}: valid ppl {:.2f} of masked words, {:.1f} % right, {}",
                           best.epoch, best["valid_ppl"], 100 * best["valid_words"],
                           folder.weights()));
  train::say(
      fmt::format("report{}: {}", report.attention.groups.empty() ? "" : " with attention", path));
  train::say(
      fmt::format("to fill gaps with it: lm fill --model {} \"... [MASK] ...\"", folder.path));
}

int go(BertTraining& t, const Texts& texts, const Facts& facts, const LmOptions& options) {
  const RunRecord record = record_start(t.loop, "lm", options.command_line, to_json(t.config));
  return run_loop("lm", t.loop, facts, [&] {
    write_report(t, texts, facts, record);
    return true;
  });
}

/// Sizes and heads of the model that --from names.
void take_sizes(TrainConfig& c) {
  const models::BertOptions o = load_bert_folder(c.from).model.options;
  check_io(o.masked_lm && o.segments == 2 && o.activation == Activation::gelu,
           "{}: training goes on with a head for masked words, two segments and gelu only", c.from);
  c.model.vocab = o.vocab;
  c.model.context = o.positions;
  c.model.layers = o.layers;
  c.model.dim = o.dim;
  c.model.heads = o.heads;
  c.model.ffn = o.ffn;
  c.model.eps = o.eps;
  c.pairs = o.next_sentence;
}

models::Bert new_bert(const TrainConfig& c, const data::WordPiece& pieces) {
  Rng rng(c.seed);
  models::Bert model(bert_sizes(c, pieces), rng);
  if (c.from.empty()) return model;
  const std::string path = ModelFiles{c.from}.weights();
  models::load_bert_weights(path, model);
  check_finite_weights(path, nn::named_parameters(model));
  return model;
}

}  // namespace

int start_bert_training(TrainConfig c, const LmOptions& options) {
  check(c.parts == 1, "--parts would change nothing: an epoch of a bert is a pass over the text");
  const Texts texts = read_texts(c);
  const Lines lines = lines_of(c, texts);
  const data::WordPiece pieces = make_pieces(c, lines);
  if (!c.from.empty())
    take_sizes(c);
  else
    c.model.vocab = pieces.size();
  const BertCorpus corpus = encode_documents(c, lines, pieces);
  check_held_out(c.epoch_end, c.schedule, corpus.valid->sentences() > 0, "--hold-out or --valid");
  Facts more;
  if (!options.warmup_given) {
    train::ScheduleOptions schedule = schedule_options(c);
    fit_warmup(schedule, total_steps(c, corpus, pieces), more);
    c.warmup = schedule.warmup;
  }
  // What cannot be trained leaves no folder behind.
  train::make_schedule(schedule_options(c), total_steps(c, corpus, pieces));
  if (options.dry_run)
    return report_run(c, summary_of_run(c, corpus, pieces), texts, total_steps(c, corpus, pieces));
  models::Bert model = new_bert(c, pieces);
  NewRunGuard guard(options.out);
  const LockedFolder folder = make_run_folder(
      options.out, fmt::format("lm-{}{}", c.model.model, is_demo(c) ? "-demo" : ""));
  guard.made(folder.lock);
  save_bert_description({folder.path}, c, pieces);
  BertTraining training(c, corpus, pieces, std::move(model),
                        folder.loop_options(options.tensorboard));
  Facts facts = describe(training, texts);
  facts.insert(facts.end() - 1, more.begin(), more.end());  // behind the recipe
  guard.keep();
  return go(training, texts, facts, options);
}

int resume_bert_training(const TrainConfig& c, const LmOptions& options, const LockedFolder& folder,
                         std::optional<SafeTensors> state, int64_t epochs_before) {
  const std::string& path = folder.path;
  const data::WordPiece pieces = load_pieces({path});
  const auto drawn = [&] {
    Rng rng(c.seed);
    return models::Bert(bert_sizes(c, pieces), rng);
  };
  if (state) check_resumed_fits(*state, ModelFiles{path}.config(), drawn);
  const Texts texts = read_texts(c);
  const BertCorpus corpus = encode_documents(c, lines_of(c, texts), pieces);
  BertTraining training(c, corpus, pieces, state ? drawn() : new_bert(c, pieces),
                        folder.loop_options(options.tensorboard));
  if (state) training.loop.load_state(*state, folder.checkpoint());
  state.reset();
  if (c.epochs != epochs_before) save_config({training.loop.folder_to_write().path}, c);
  return go(training, texts, describe(training, texts), options);
}

}  // namespace tern::apps::lm
