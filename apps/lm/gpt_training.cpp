#include "tern/apps/lm/gpt_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tern/apps/common/board.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/generate.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

constexpr size_t kSamples = 4;       // texts that are shown
constexpr size_t kPromptBytes = 60;  // of their beginnings, about
constexpr int64_t kSampleTokens = 80;

std::string gpt_losses(const train::EpochRecord& e) {
  std::string s =
      fmt::format("{:.4f} ({:.3f} bits/byte)", e["train_loss"], e["train_bits_per_byte"]);
  if (!std::isnan(e["valid_loss"]))
    s += fmt::format("  valid loss {:.4f} ppl {:.2f} ({:.3f} bits/byte)", e["valid_loss"],
                     e["valid_ppl"], e["valid_bits_per_byte"]);
  return s;
}

/// What is minimised: the mean of a token.
Tensor training_loss(const LanguageModel& model, const data::WindowBatch& b) {
  return model.loss(b.tokens, b.targets);
}

LanguageModel first_model(const TrainConfig& c) {
  LanguageModel model = make_model(c);
  if (c.from.empty()) return model;
  const std::string path = ModelFiles{c.from}.weights();
  model.load(path);
  check_finite_weights(path, nn::named_parameters(model));
  return model;
}

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

}  // namespace

int64_t total_steps(const TrainConfig& c, const Corpus& corpus) {
  return c.epochs * train::steps_per_epoch(training_batches(c, corpus), c.accumulate);
}

LmTraining::LmTraining(const TrainConfig& c, const Corpus& text, LanguageModel m,
                       train::LoopOptions options)
    : config(c),
      corpus(text),
      model(std::move(m)),
      loader(training_batches(c, text)),
      optimizer(make_optimizer(c, nn::named_parameters(model))),
      learner(model, *optimizer, learner_options(c, total_steps(c, text), c.model.dim)),
      loop(learner, loader,
           {.loss = [this](const data::WindowBatch& b, train::Means& m) { return loss(b, m); },
            .evaluate = [this] { return validate(); },
            .weight = [](const auto& b) { return static_cast<double>(b.tokens.numel()); },
            .progress = [](const auto&) { return 1.0; }},
           loop_options(std::move(options), c, gpt_losses, [this](const train::EpochRecord& e) {
             if (loop.events()) add_pictures(*loop.events(), e.steps);
           })) {
  loop.checkpoint().expect("data", corpus.checksum);
}

// What the model does with the beginning of the text for validation, or of training.
void LmTraining::add_pictures(train::EventWriter& events, int64_t step) {
  constexpr int64_t kMostShown = 40;
  const std::vector<int64_t>& text = corpus.valid.ids.empty() ? *corpus.train : corpus.valid.ids[0];
  const int64_t n = std::min({kMostShown, config.model.context, std::ssize(text)});
  if (n == 0) return;
  train::Learner::Evaluation scope(learner);
  NoGradGuard no_grad;
  const Tensor tokens = tensor(std::vector<int64_t>(text.begin(), text.begin() + n), {1, n});
  const std::vector<std::string> names(static_cast<size_t>(n));
  add_attention(events, self_attention("", model.attention(tokens), names), step);
  add_heatmaps(events, model.heatmaps(tokens), step);
}

Tensor LmTraining::loss(const data::WindowBatch& b, train::Means& means) const {
  Tensor loss = training_loss(model, b);
  const auto tokens = static_cast<double>(b.tokens.numel());
  means.add("bits_per_byte", loss.item() * tokens / std::numbers::ln2,
            tokens * corpus.bytes_per_token);
  return loss;
}

std::optional<train::Metrics> LmTraining::validate() const {
  if (corpus.valid.tokens == 0)
    return train::Metrics{{"valid_loss", kNaN}, {"valid_ppl", kNaN}, {"valid_bits_per_byte", kNaN}};
  train::Progress bar(fmt::format("validating {}/{}", loop.epoch(), loop.epochs()), "tokens",
                      corpus.valid.tokens);
  const Score score = score_texts(model, corpus.valid, {.batch = config.batch}, [&](int64_t done) {
    bar.update(done);
    return !train::interrupted();
  });
  if (train::interrupted()) return std::nullopt;
  check_validation(loop, score.nats, score.loss());
  return train::Metrics{{"valid_loss", score.loss()},
                        {"valid_ppl", score.perplexity()},
                        {"valid_bits_per_byte", score.bits_per_byte()}};
}

void GptProgram::read_config(const train::RunFolder& folder,
                             const std::optional<SafeTensors>& state) {
  LmProgram::read_config(folder, state);
  tokenizer = load_tokenizer({folder.path});
}

bool GptProgram::encode(bool resumed) {
  ModelConfig& m = config.model;
  if (!resumed) {
    tokenizer = make_tokenizer(config, texts);
    if (!config.from.empty()) {
      const double dropout = m.dropout;
      m = load_sizes({config.from});
      m.dropout = dropout;
    } else {
      m.vocab = tokenizer.size();
      if (m.ffn == 0) m.ffn = find_family(m.model).ffn(m.dim);
    }
  }
  corpus = encode_corpus(texts, tokenizer);
  const int64_t tokens = std::ssize(*corpus.train);
  check(tokens > m.context,
        "--text has {} tokens for training, too few for a window of {} (--context) and one more; "
        "give more text{}",
        tokens, m.context,
        config.from.empty() && tokens > 2 ? fmt::format(" or --context {}", tokens - 1) : "");
  return corpus.valid.tokens > 0;
}

Summary GptProgram::summary() const {
  auto loader = training_batches(config, corpus);
  const data::WindowBatch first = loader.next().value();  // none is larger
  ShapeOnlyScope nothing;
  const LanguageModel model = make_model(config);
  data::WindowBatch batch;
  return tern::summary(
      model, [&] { return training_loss(model, batch); },
      step_options(loader.batches_per_epoch(), [&] {
        batch = {copy_of(first.tokens), copy_of(first.targets)};
      }));
}

void GptProgram::save(const train::RunFolder& folder) const {
  save_description({folder.path}, config, tokenizer);
}

void GptProgram::check_fits(const SafeTensors& checkpoint, const std::string& path) const {
  check_resumed_fits(checkpoint, path, [&] { return make_model(config); });
}

train::Loop& GptProgram::make_loop(train::LoopOptions options, bool resumed) {
  options.evaluation = static_cast<double>(corpus.valid.tokens) /
                       static_cast<double>(3 * config.batch * config.model.context);
  training = std::make_unique<LmTraining>(
      config, corpus, resumed ? make_model(config) : first_model(config), std::move(options));
  return training->loop;
}

std::string GptProgram::model_text() const {
  ShapeOnlyScope nothing;
  return describe_model(make_model(config));
}

std::string GptProgram::data_text() const {
  return fmt::format("{} training and {} validation tokens of {} ({:.2f} bytes each)",
                     train::grouped(std::ssize(*corpus.train)), train::grouped(corpus.valid.tokens),
                     train::grouped(tokenizer.size()), corpus.bytes_per_token);
}

LmProgram::Ending GptProgram::ending(const RunSummary& run) const {
  const std::string& folder = loop().folder().path;
  const LoadedModel m = load_folder(folder);
  LmReport report{.run = run, .samples = samples(m, texts, config.seed)};
  if (!report.samples.empty()) {
    const std::string text = report.samples[0].prompt + report.samples[0].text;
    report.attention = explain(m.model, m.tokenizer, text);
    std::vector<int64_t> ids = m.tokenizer.encode(text);
    ids.resize(std::min(ids.size(), static_cast<size_t>(m.model.config().context)));
    const Tensor tokens = tensor(ids, {1, std::ssize(ids)});
    report.before = first_model(config).heatmaps(tokens);
    report.after = m.model.heatmaps(tokens);
  }
  Ending end{
      .page = make_report(report),
      .attention = !report.attention.groups.empty(),
      .reached = fmt::format(", {:.3f} bits/byte", loop().best_epoch()["valid_bits_per_byte"]),
      .use = fmt::format("to write with it: lm generate --model {} --prompt \"...\"", folder)};
  for (const SampleText& s : report.samples) end.samples.push_back(s.prompt + " |" + s.text);
  return end;
}

std::string describe_model(const LanguageModel& model) {
  const ModelConfig& m = model.config();
  std::string s = fmt::format("{}, {} weights: {} layers of {} channels", m.model,
                              train::grouped(nn::num_parameters(model)), m.layers, m.dim);
  if (has_size(m.model, "--heads")) s += fmt::format(", {} heads", m.heads);
  if (m.kv_heads > 0 && m.kv_heads != m.heads) s += fmt::format(" ({} of keys)", m.kv_heads);
  if (m.attention_dim > 0) s += fmt::format(", tiny attention of {}", m.attention_dim);
  s += fmt::format(", ffn {}, context {}", m.ffn ? m.ffn : 4 * m.dim, m.context);
  if (has_size(m.model, "--tie")) s += m.tie ? ", tied head" : ", a head of its own";
  return s + fmt::format(", dropout {:g}", m.dropout);
}

}  // namespace tern::apps::lm
