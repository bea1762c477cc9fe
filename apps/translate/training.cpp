// translate train: a trainer at work in a model folder.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "tern/apps/common/checkpoint.h"
#include "tern/apps/common/interrupt.h"
#include "tern/apps/common/machine.h"
#include "tern/apps/common/progress.h"
#include "tern/apps/common/training_run.h"
#include "tern/apps/translate/commands.h"
#include "tern/apps/translate/explain.h"
#include "tern/apps/translate/report.h"
#include "tern/apps/translate/trainer.h"
#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

constexpr size_t kSamples = 6;   // sentences that are shown
constexpr size_t kPictures = 2;  // of them with their attention

std::string describe_model(const TranslationTrainer& t) {
  const ModelConfig& m = t.config().model;
  std::string s = fmt::format("{}, {} weights: ", m.model, grouped(t.model().num_parameters()));
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
  std::string s = fmt::format("{} epochs, ", c.epochs);
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
  return s + fmt::format(", seed {}", c.seed);
}

std::string describe_tokens(const TranslationTrainer& t) {
  const TrainConfig& c = t.config();
  std::string unit = c.tokens == "bpe" ? "byte pairs" : "words";
  if (c.shared) return fmt::format("{} {} for both", grouped(t.tokenizers().source.size()), unit);
  return fmt::format("{} and {} {}", grouped(t.tokenizers().source.size()),
                     grouped(t.tokenizers().target.size()), unit);
}

Facts describe(const TranslationTrainer& t, const PairFiles& files) {
  const Corpus& c = t.corpus();
  Facts facts = {{"model", describe_model(t)},
                 {"data", fmt::format("{}: {} training and {} validation pairs, {}",
                                      files.description, grouped(std::ssize(*c.train.pairs)),
                                      grouped(std::ssize(*c.valid.pairs)), describe_tokens(t))}};
  for (const std::string& report : files.reports) facts.emplace_back("", report);
  if (c.train.report.kept != c.train.report.lines)
    facts.emplace_back("", "training: " + c.train.report.summary());
  if (c.valid.report.kept != c.valid.report.lines)
    facts.emplace_back("", "validation: " + c.valid.report.summary());
  facts.emplace_back("recipe", describe_recipe(t.config()));
  facts.emplace_back("machine", describe_machine());
  return facts;
}

class TranslationRun final : public Training {
 public:
  TranslationRun(TranslationTrainer& trainer, RunFolder folder, Facts facts)
      : trainer_(trainer), folder_(std::move(folder)), facts_(std::move(facts)) {}

  int go() { return run_training("translate", *this, folder_, facts_); }

  int64_t epoch() const override { return trainer_.epoch(); }
  int64_t epochs() const override { return trainer_.config().epochs; }
  int64_t step() const override { return trainer_.progress().step; }
  bool finished() const override { return trainer_.finished(); }
  bool epoch_trained() const override { return trainer_.epoch_trained(); }
  void train_step() override { trainer_.train_step(); }
  void add_seconds(double seconds) override { trainer_.progress().train_seconds += seconds; }
  SafeTensors state() const override { return trainer_.state(); }
  Status status() const override;
  std::vector<std::string> log_lines() const override;
  std::string epoch_line() const override;
  bool close_epoch() override;
  bool finish() override;

 private:
  const std::vector<EpochScores>& history() const { return trainer_.progress().history; }
  std::vector<SampleTranslation> samples(const TranslationModel& model) const;

  TranslationTrainer& trainer_;
  RunFolder folder_;
  Facts facts_;
};

Training::Status TranslationRun::status() const {
  const TranslationState& s = trainer_.progress();
  const auto tokens = static_cast<double>(std::max<int64_t>(s.tokens, 1));
  const auto speed = s.train_seconds > 0 ? tokens / s.train_seconds : 0;
  return {"pairs", s.pairs, std::ssize(*trainer_.corpus().train.pairs),
          fmt::format("loss {:.4f}  {:.0f} tokens/s", s.loss_sum / tokens, speed)};
}

std::vector<std::string> TranslationRun::log_lines() const {
  std::vector<std::string> lines;
  for (const EpochScores& e : history()) lines.push_back(log_line(e));
  return lines;
}

std::string TranslationRun::epoch_line() const {
  const EpochScores& e = history().back();
  std::string s = fmt::format("epoch {:{}}/{}  train loss {:.4f}", e.epoch,
                              fmt::formatted_size("{}", epochs()), epochs(), e.train_loss);
  if (!std::isnan(e.valid_loss))
    s += fmt::format("  valid loss {:.4f} ppl {:.2f} BLEU {:.2f}", e.valid_loss, e.valid_ppl,
                     e.valid_bleu);
  return s + fmt::format("  {:.0f} tokens/s  lr {:.3g}  {}", e.tokens_per_s, e.lr,
                         clock_time(e.seconds));
}

bool TranslationRun::close_epoch() {
  const int64_t pairs = std::ssize(*trainer_.corpus().valid.pairs);
  std::optional<Validation> result;
  {
    Progress bar(fmt::format("validating {}/{}", epoch(), epochs()), "pairs", 2 * pairs);
    result = trainer_.validate([&](int64_t done) {
      bar.update(done, "");
      return !interrupted();
    });
    if (!result) return false;
    trainer_.progress().test_seconds += bar.seconds();
  }
  trainer_.close_epoch(*result);
  if (trainer_.last_is_best())
    save_safetensors(folder_.last_weights(), {trainer_.weights(), {{"format", "pt"}}});
  return true;
}

std::vector<SampleTranslation> TranslationRun::samples(const TranslationModel& model) const {
  const Corpus& c = trainer_.corpus();
  const std::vector<data::SentencePair>& from = c.valid_text;
  std::vector<std::string> sources;
  std::vector<SampleTranslation> out;
  for (size_t i = 0; i < std::min(kSamples, from.size()); ++i) {
    sources.push_back(from[i].source);
    out.push_back({from[i].source, from[i].target, "", 0, {}});
  }
  const auto found = translate_lines(model, trainer_.tokenizers(), sources, {});
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].translation = found[i][0].text;
    out[i].d2l = d2l_score(out[i].translation, out[i].reference);
    if (i < kPictures)
      out[i].attention = explain(model, trainer_.tokenizers(), sources[i], found[i][0]);
  }
  return out;
}

bool TranslationRun::finish() {
  const EpochScores& best = trainer_.best_epoch();
  const Translator translator = load_translator(folder_.path);
  TranslationReport report{
      .title = fmt::format("{} on {}", trainer_.config().model.model,
                           is_demo(trainer_.config()) ? "generated pairs" : "sentence pairs"),
      .facts = facts_,
      .epochs = history(),
      .best = best.epoch,
      .samples = samples(translator.model)};
  write_file_atomically(folder_.report(), make_report(report));
  for (const SampleTranslation& s : report.samples)
    say(fmt::format("\n  {}\n> {}\n= {}  (d2l bleu {:.3f})", s.source, s.translation, s.reference,
                    s.d2l));
  say("");
  if (std::isnan(best.valid_loss))
    say(fmt::format("weights of epoch {}: {}", best.epoch, folder_.last_weights()));
  else
    say(fmt::format("best epoch {}: valid ppl {:.2f}, BLEU {:.2f}, {}", best.epoch, best.valid_ppl,
                    best.valid_bleu, folder_.last_weights()));
  say(fmt::format("report with attention: {}", folder_.report()));
  return true;
}

void absolute(std::string& path) {
  if (!path.empty()) path = std::filesystem::absolute(path).string();
}

}  // namespace

int start_training(const TranslateOptions& options) {
  TrainConfig c = options.train;
  if (!options.out.empty()) check_new_folder(options.out);
  for (std::string* path : {&c.pairs, &c.source, &c.target, &c.valid_source, &c.valid_target})
    absolute(*path);
  const PairFiles files = read_pair_files(c);
  const Tokenizers tokenizers = learn_tokenizers(c, files.train);
  c.model.source_vocab = tokenizers.source.size();
  c.model.target_vocab = tokenizers.target.size();
  const Corpus corpus = encode_corpus(c, files, tokenizers);
  c.model.length_ratio = length_ratio(*corpus.train.pairs);
  TranslationTrainer trainer(c, corpus, tokenizers);
  const RunFolder folder = make_run_folder(options.out, "translate-" + c.preset);
  save_description({folder.path}, c, tokenizers);
  return TranslationRun(trainer, folder, describe(trainer, files)).go();
}

int resume_training(const TranslateOptions& options) {
  const RunFolder folder{options.resume};
  check(std::filesystem::exists(folder.checkpoint()), "--resume {}: there is no {}", options.resume,
        folder.checkpoint());
  SafeTensors state = load_checkpoint(folder.checkpoint());
  const TrainConfig c = load_config({folder.path});
  const Tokenizers tokenizers = load_tokenizers({folder.path}, c);
  const PairFiles files = read_pair_files(c);
  const Corpus corpus = encode_corpus(c, files, tokenizers);
  TranslationTrainer trainer(c, corpus, tokenizers);
  trainer.load_state(state, folder.checkpoint());
  state = {};
  return TranslationRun(trainer, folder, describe(trainer, files)).go();
}

}  // namespace tern::apps
