// lm train: a training at work in a model folder.
#include <fmt/format.h>

#include <cmath>

#include "tern/apps/common/new_run.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/apps/lm/bert_commands.h"
#include "tern/apps/lm/bert_folder.h"
#include "tern/apps/lm/commands.h"
#include "tern/apps/lm/describe.h"
#include "tern/apps/lm/dry_run.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/report.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/data/text/unicode.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

constexpr size_t kSamples = 4;       // texts that are shown
constexpr size_t kPromptBytes = 60;  // of their beginnings, about
constexpr int64_t kSampleTokens = 80;

/// The first words of a line, about half of a short one.
std::string beginning(const std::string& line) {
  const size_t space = line.find(' ', std::min(kPromptBytes, line.size() / 2));
  return space == std::string::npos ? "" : line.substr(0, space);
}

/// Beginnings of lines, from all over the text for validation, or of training.
std::vector<std::string> prompts(const Texts& texts) {
  const std::vector<std::string>& from = texts.valid.empty() ? texts.train : texts.valid;
  std::vector<std::string> lines, out;
  for (const std::string& text : from)
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string words = beginning(text.substr(at, end - at));
      if (!words.empty()) lines.push_back(std::move(words));
      at = end + 1;
    }
  for (size_t i = 0; i < std::min(kSamples, lines.size()); ++i)
    out.push_back(lines[i * lines.size() / kSamples]);
  return out;
}

std::vector<SampleText> samples(const LoadedModel& m, const Texts& texts, uint64_t seed) {
  std::vector<SampleText> out;
  for (const std::string& prompt : prompts(texts)) {
    const GenerateOptions options{
        .max_tokens = kSampleTokens, .temperature = 0.7, .stop = {"\n"}, .seed = seed++};
    out.push_back({prompt, generate(m.model, m.tokenizer, prompt, options).text});
  }
  return out;
}

LanguageModel first_model(const TrainConfig& c) {
  LanguageModel model = make_model(c.model, c.seed);
  if (c.from.empty()) return model;
  const std::string path = ModelFiles{c.from}.weights();
  model.load(path);
  check_finite_weights(path, nn::named_parameters(model));
  return model;
}

// After the last epoch: the report on the weights that were kept.
void write_report(const LmTraining& t, const Texts& texts, const Facts& facts,
                  const RunRecord& record) {
  const train::RunFolder& folder = t.loop.folder();
  const train::EpochRecord& best = t.loop.best_epoch();
  const LoadedModel m = load_folder(folder.path);
  LmReport report{
      .run = summary_of(fmt::format("{} on {}", t.config.model.model, texts.description), facts,
                        record, t.loop),
      .samples = samples(m, texts, t.config.seed)};
  if (!report.samples.empty()) {
    const std::string text = report.samples[0].prompt + report.samples[0].text;
    report.attention = explain(m.model, m.tokenizer, text);
    std::vector<int64_t> ids = m.tokenizer.encode(text);
    ids.resize(std::min(ids.size(), static_cast<size_t>(m.model.config().context)));
    const Tensor tokens = tensor(ids, {1, std::ssize(ids)});
    report.before = first_model(t.config).heatmaps(tokens);
    report.after = m.model.heatmaps(tokens);
  }
  const std::string path = save_page(t.loop, make_report(report));
  for (const SampleText& s : report.samples) train::say(fmt::format("\n{} |{}", s.prompt, s.text));
  train::say("");
  if (std::isnan(best["valid_loss"]))
    train::say(fmt::format("weights of epoch {}: {}", best.epoch, folder.weights()));
  else
    train::say(fmt::format("best epoch {}: valid ppl {:.2f}, {:.3f} bits/byte, {}", best.epoch,
                           best["valid_ppl"], best["valid_bits_per_byte"], folder.weights()));
  train::say(
      fmt::format("report{}: {}", report.attention.groups.empty() ? "" : " with attention", path));
  train::say(fmt::format("to write with it: lm generate --model {} --prompt \"...\"", folder.path));
}

int go(LmTraining& t, const Texts& texts, const Facts& facts, const LmOptions& options) {
  const RunRecord record = record_start(t.loop, "lm", options.command_line, to_json(t.config));
  return run_loop("lm", t.loop, facts, [&] {
    write_report(t, texts, facts, record);
    return true;
  });
}

}  // namespace

int start_training(const LmOptions& options) {
  TrainConfig c = options.train;
  const MatmulPrecisionScope precision(matmul_precision(c.precision));
  if (!options.out.empty()) check_new_folder(options.out);
  for (std::string* path : {&c.tokenizer, &c.from}) make_absolute(*path);
  for (std::vector<std::string>* list : {&c.text, &c.valid})
    for (std::string& path : *list) make_absolute(path);
  if (!c.from.empty() && is_bert_folder(c.from)) c.model.model = kBert;
  if (c.model.model == kBert) return start_bert_training(c, options);
  const Texts texts = read_texts(c);
  const data::ByteBpe tokenizer = make_tokenizer(c, texts);
  if (!c.from.empty()) {
    const double dropout = c.model.dropout;
    c.model = load_sizes({c.from});
    c.model.dropout = dropout;
  } else {
    c.model.vocab = tokenizer.size();
    if (c.model.ffn == 0) c.model.ffn = find_family(c.model.model).ffn(c.model.dim);
  }
  const Corpus corpus = encode_corpus(texts, tokenizer);
  check_held_out(c.epoch_end, c.schedule, corpus.valid.tokens > 0, "--hold-out or --valid");
  Facts more;
  if (!options.warmup_given) {
    train::ScheduleOptions schedule = schedule_options(c);
    fit_warmup(schedule, total_steps(c, corpus), more);
    c.warmup = schedule.warmup;
  }
  // What cannot be trained leaves no folder behind.
  train::make_schedule(schedule_options(c), total_steps(c, corpus));
  if (options.dry_run)
    return report_run(c, summary_of_run(c, corpus), texts, total_steps(c, corpus));
  LanguageModel model = first_model(c);
  NewRunGuard guard(options.out);
  const LockedFolder folder = make_run_folder(
      options.out, fmt::format("lm-{}{}", c.model.model, is_demo(c) ? "-demo" : ""));
  guard.made(folder.lock);
  save_description({folder.path}, c, tokenizer);
  LmTraining training(c, corpus, std::move(model), folder.loop_options(options.tensorboard));
  Facts facts = describe(training, texts, tokenizer);
  facts.insert(facts.end() - 1, more.begin(), more.end());  // behind the recipe
  guard.keep();
  return go(training, texts, facts, options);
}

int resume_training(const LmOptions& options) {
  const LockedFolder folder = resumed_folder(options.resume, "lm.json");
  std::optional<SafeTensors> state = load_resumed(folder);
  TrainConfig c = load_config({folder.path});
  const MatmulPrecisionScope precision(matmul_precision(c.precision));
  const int64_t started_with = c.epochs;
  c.epochs = resumed_epochs(c.schedule, c.epochs, options.epochs_given ? options.train.epochs : 0);
  if (c.model.model == kBert)
    return resume_bert_training(c, options, folder, std::move(state), started_with);
  if (state)
    check_resumed_fits(*state, ModelFiles{folder.path}.config(),
                       [&] { return make_model(c.model, c.seed); });
  const data::ByteBpe tokenizer = load_tokenizer({folder.path});
  const Texts texts = read_texts(c);
  const Corpus corpus = encode_corpus(texts, tokenizer);
  LmTraining training(c, corpus, state ? make_model(c.model, c.seed) : first_model(c),
                      folder.loop_options(options.tensorboard));
  if (state) training.loop.load_state(*state, folder.checkpoint());
  state.reset();
  if (c.epochs != started_with) save_config({training.loop.folder_to_write().path}, c);
  return go(training, texts, describe(training, texts, tokenizer), options);
}

}  // namespace tern::apps::lm
