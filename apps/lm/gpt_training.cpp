#include "tern/apps/lm/gpt_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tern/apps/common/board.h"
#include "tern/apps/lm/generate.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"

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
  std::vector<std::string> all, out;
  for (const std::string& line : lines_of(texts.valid.empty() ? texts.train : texts.valid))
    if (std::string words = beginning(line); !words.empty()) all.push_back(std::move(words));
  for (size_t i = 0; i < std::min(kSamples, all.size()); ++i)
    out.push_back(all[i * all.size() / kSamples]);
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

bool GptKind::encode(TrainConfig& c, const Texts& texts, const std::string& resumed,
                     Corpus& corpus) {
  ModelConfig& m = c.model;
  const data::ByteBpe tokenizer =
      resumed.empty() ? make_tokenizer(c, texts) : load_tokenizer({resumed});
  if (!c.from.empty() && resumed.empty()) {
    const double dropout = m.dropout;
    m = load_sizes({c.from});
    m.dropout = dropout;
  } else if (resumed.empty()) {
    m.vocab = tokenizer.size();
    if (m.ffn == 0) m.ffn = find_family(m.model).ffn(m.dim);
  }
  corpus = encode_corpus(texts, tokenizer);
  const int64_t tokens = std::ssize(*corpus.train);
  check(tokens > m.context,
        "--text has {} tokens for training, too few for a window of {} (--context) and one more; "
        "give more text{}",
        tokens, m.context,
        c.from.empty() && tokens > 2 ? fmt::format(" or --context {}", tokens - 1) : "");
  return corpus.valid.tokens > 0;
}

Tensor GptKind::loss(const LanguageModel& model, const data::WindowBatch& b, const Corpus& corpus,
                     train::Means* means) {
  Tensor loss = model.loss(b.tokens, b.targets);
  if (means) {
    const double tokens = weight(b);
    means->add("bits_per_byte", loss.item() * tokens / std::numbers::ln2,
               tokens * corpus.bytes_per_token);
  }
  return loss;
}

std::optional<train::Metrics> GptKind::validate(const LmTraining& t) {
  Score score;
  if (t.corpus.valid.tokens > 0) {
    train::Progress bar = validation_bar(t.loop, "tokens", t.corpus.valid.tokens);
    const auto found = score_texts(t.model, t.corpus.valid, {.batch = t.config.batch},
                                   until_interrupted(bar), t.loop.world());
    if (!found) return std::nullopt;
    score = *found;
    check_validation(t.loop, score.nats, score.loss());
  }
  return train::Metrics{{"valid_loss", score.loss()},
                        {"valid_ppl", score.perplexity()},
                        {"valid_bits_per_byte", score.bits_per_byte()}};
}

std::string GptKind::losses(const train::EpochRecord& e) {
  std::string s =
      fmt::format("{:.4f} ({:.3f} bits/byte)", e["train_loss"], e["train_bits_per_byte"]);
  if (!std::isnan(e["valid_loss"]))
    s += fmt::format("  valid loss {:.4f} ppl {:.2f} ({:.3f} bits/byte)", e["valid_loss"],
                     e["valid_ppl"], e["valid_bits_per_byte"]);
  return s;
}

// What the model does with the beginning of the text for validation, or of training.
void GptKind::add_pictures(const LmTraining& t, train::EventWriter& events, int64_t step) {
  constexpr int64_t kMostShown = 40;
  const EncodedTexts& valid = t.corpus.valid;
  const std::vector<int64_t>& text = valid.ids.empty() ? *t.corpus.train : valid.ids[0];
  const int64_t n = std::min({kMostShown, t.config.model.context, std::ssize(text)});
  const Tensor tokens = tensor(std::vector<int64_t>(text.begin(), text.begin() + n), {1, n});
  const std::vector<std::string> names(static_cast<size_t>(n));
  add_attention(events, self_attention("", t.model.attention(tokens), names), step);
  add_heatmaps(events, t.model.heatmaps(tokens), step);
}

std::string GptKind::data_text(const Corpus& corpus) {
  return fmt::format("{} training and {} validation tokens of {} ({:.2f} bytes each)",
                     train::grouped(std::ssize(*corpus.train)), train::grouped(corpus.valid.tokens),
                     train::grouped(corpus.tokenizer.size()), corpus.bytes_per_token);
}

Ending GptKind::ending(const TrainConfig& c, const Texts& texts, const Corpus& corpus,
                       const train::Loop& loop, const RunSummary& run) {
  const std::string& folder = loop.folder().path;
  LoadedModel m = load_folder(folder);
  m.model.pack_if_possible(/*keep=*/true);
  LmReport report{.run = run, .samples = samples(m, texts, c.seed)};
  if (!report.samples.empty()) {
    const std::string text = report.samples[0].prompt + report.samples[0].text;
    report.attention = explain(m.model, m.tokenizer, text);
    std::vector<int64_t> ids = m.tokenizer.encode(text);
    ids.resize(std::min(ids.size(), static_cast<size_t>(m.model.config().context)));
    const Tensor tokens = tensor(ids, {1, std::ssize(ids)});
    report.before = first_model<GptKind>(c, corpus).heatmaps(tokens);
    report.after = m.model.heatmaps(tokens);
  }
  Ending end{
      .page = make_report(report),
      .attention = !report.attention.groups.empty(),
      .reached = fmt::format(", {:.3f} bits/byte", loop.best_epoch()["valid_bits_per_byte"]),
      .use = fmt::format("to write with it: lm generate --model {} --prompt \"...\"", folder)};
  for (const SampleText& s : report.samples) end.samples.push_back(s.prompt + " |" + s.text);
  return end;
}

std::string GptKind::describe(const LanguageModel& model) {
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
