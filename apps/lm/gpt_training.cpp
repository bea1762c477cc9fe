// Training of a language model that continues texts: corpus, loss, validation, samples, report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tern/apps/common/pages/board.h"
#include "tern/apps/lm/generate.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"
#include "tern/apps/lm/training.h"

namespace tern::apps::lm {
namespace {

constexpr size_t kSamples = 4;       // texts in the report
constexpr size_t kPromptBytes = 60;  // of a prompt, roughly
constexpr int64_t kSampleTokens = 80;

/// The first words of a line: about half of a short line, or kPromptBytes.
std::string beginning(const std::string& line) {
  const size_t space = line.find(' ', std::min(kPromptBytes, line.size() / 2));
  return space == std::string::npos ? "" : line.substr(0, space);
}

/// Beginnings of lines, spread over the validation text, or over the training text if there is
/// none.
std::vector<std::string> prompts(const Corpus& corpus) {
  const EncodedTexts& texts = corpus.valid.ends.empty() ? corpus.train : corpus.valid;
  auto for_each_beginning = [&](auto visit) {
    for_each_line(texts, corpus.tokenizer, [&](const std::string& line) {
      if (const std::string words = beginning(line); !words.empty()) visit(words);
    });
  };
  size_t all = 0, at = 0;  // two passes, so that a large text need not be in memory
  for_each_beginning([&](const std::string&) { ++all; });
  std::vector<std::string> out;
  for_each_beginning([&](const std::string& words) {
    while (out.size() < std::min(kSamples, all) && at == out.size() * all / kSamples)
      out.push_back(words);
    ++at;
  });
  return out;
}

/// The corpus of the run in a folder. If its file is missing, it is made anew, without a name.
Corpus resumed_corpus(const TrainConfig& c, const ModelFiles& files) {
  const datasets::LanguageTokenizer tokenizer = load_tokenizer(files);
  if (std::optional<Corpus> kept = open_corpus(c, files.tokens(), tokenizer)) return *kept;
  return encode_corpus(read_texts(c), tokenizer, files.folder);
}

std::vector<SampleText> samples(const LoadedModel& m, const Corpus& corpus, uint64_t seed) {
  std::vector<SampleText> out;
  for (const std::string& prompt : prompts(corpus)) {
    const GenerateOptions options{
        .max_tokens = kSampleTokens, .temperature = 0.7, .stop = {"\n"}, .seed = seed++};
    out.push_back({prompt, generate(m.model, m.tokenizer, prompt, options).text});
  }
  return out;
}

}  // namespace

bool GptKind::encode(TrainConfig& c, const std::string& resumed, const std::string& scratch,
                     Corpus& corpus) {
  ModelConfig& m = c.model;
  if (resumed.empty()) {
    const Texts texts = read_texts(c);
    const datasets::LanguageTokenizer tokenizer = make_tokenizer(c, texts);
    c.published_tokenizer = tokenizer.is_published();
    if (c.from.empty()) {
      m.vocab = tokenizer.size();
      if (m.ffn == 0) m.ffn = find_family(m.model).ffn(m.dim);
    }
    corpus = encode_corpus(texts, tokenizer, scratch);
    note_documents(c, corpus.train.documents + corpus.valid.documents - texts.cut_documents,
                   corpus.train.marks + corpus.valid.marks);
  } else {
    corpus = resumed_corpus(c, {resumed});
  }
  const int64_t tokens = corpus.train.ids.size();
  const int64_t window = c.window_tokens();
  check(tokens > window,
        "--text has {} tokens for training, too few for a window of {} (--context) and one more; "
        "give more text{}",
        tokens, window, tokens > 2 ? fmt::format(" or --context {}", tokens - 1) : "");
  return corpus.valid.tokens > 0;
}

Tensor GptKind::loss(const LanguageModel& model, const datasets::WindowBatch& b,
                     const Corpus& corpus, training::Means* means) {
  Tensor loss = model.loss(b.tokens, b.targets);
  if (means) {
    const double tokens = weight(b);
    means->add("bits_per_byte", loss.item() * tokens / std::numbers::ln2,
               tokens * corpus.bytes_per_token);
  }
  return loss;
}

std::optional<training::Metrics> GptKind::validate(const LmTraining& t) {
  Score score;
  if (t.corpus.valid.tokens > 0) {
    training::Progress bar = validation_bar(t.loop, "tokens", t.corpus.valid.tokens);
    const auto found =
        score_texts(t.model, t.corpus.valid, {.window = t.config.window, .batch = t.config.batch},
                    until_interrupted(bar), t.loop.world());
    if (!found) return std::nullopt;
    score = *found;
    check_measured(t.loop, "the validation's loss", score.nats, score.loss());
  }
  return training::Metrics{{"valid_loss", score.loss()},
                           {"valid_ppl", score.perplexity()},
                           {"valid_bits_per_byte", score.bits_per_byte()}};
}

std::string GptKind::losses(const training::EpochRecord& e) {
  std::string s =
      fmt::format("{:.4f} ({:.3f} bits/byte)", e["train_loss"], e["train_bits_per_byte"]);
  if (!std::isnan(e["valid_loss"]))
    s += fmt::format("  valid loss {:.4f} ppl {:.2f} ({:.3f} bits/byte)", e["valid_loss"],
                     e["valid_ppl"], e["valid_bits_per_byte"]);
  return s;
}

// Adds attention and heatmaps for the start of the validation text, or of the training text if
// there is none.
void GptKind::add_pictures(const LmTraining& t, training::EventWriter& events, int64_t step) {
  constexpr int64_t kMostShown = 40;
  const EncodedTexts& valid = t.corpus.valid;
  const datasets::TokenStream text =
      valid.ends.empty() ? t.corpus.train.ids : valid.ids.part(0, valid.ends[0]);
  const int64_t n = std::min({kMostShown, t.config.model.context, text.size()});
  const Tensor tokens = tensor(text.read(0, n), {1, n});
  const std::vector<std::string> names(static_cast<size_t>(n));
  add_attention(events, self_attention("", t.model.attention(tokens), names), step);
  add_heatmaps(events, t.model.heatmaps(tokens), step);
}

std::string GptKind::data_text(const Corpus& corpus) {
  return fmt::format("{} training and {} validation tokens of {} ({:.2f} bytes each)",
                     training::grouped(corpus.train.ids.size()),
                     training::grouped(corpus.valid.tokens),
                     training::grouped(corpus.tokenizer.size()), corpus.bytes_per_token);
}

std::string GptKind::documents(const TrainConfig& c, const Corpus& corpus) {
  return documents_text(c, c.documents_found, corpus.train.marks + corpus.valid.marks,
                        corpus.tokenizer.boundary().has_value());
}

Ending GptKind::ending(const TrainConfig& c, const Corpus& corpus, const training::Loop& loop,
                       const RunSummary& run) {
  LoadedModel m = load_folder(loop.folder().path);
  const training::EpochRecord& best = loop.best_epoch();
  if (m.model.can_pack()) m.model.pack(packed_type(), /*keep=*/true);
  LmReport report{.run = run,
                  .samples = samples(m, corpus, c.seed),
                  .valid_tokens = static_cast<int64_t>(corpus.valid.tokens)};
  if (!report.samples.empty()) {
    const std::string text = report.samples[0].prompt + report.samples[0].text;
    report.attention = explain(m.model, m.tokenizer, text);
    std::vector<int64_t> ids = m.tokenizer.encode_prompt(text);
    ids.resize(std::min(ids.size(), static_cast<size_t>(m.model.config().context)));
    const Tensor tokens = tensor(ids, {1, std::ssize(ids)});
    try {
      report.before = first_model<GptKind>(c, corpus).heatmaps(tokens);
    } catch (const IoError& e) {  // the folder of --from is gone
      training::say(fmt::format("the report has no maps from before the training: {}", e.what()),
                    log_stream());
    }
    report.after = m.model.heatmaps(tokens);
  }
  Ending end{.page = make_report(report),
             .attention = !report.attention.groups.empty(),
             .scores = fmt::format("valid ppl {:.2f}, {:.3f} bits/byte", best["valid_ppl"],
                                   best["valid_bits_per_byte"])};
  if (!report.samples.empty())
    end.samples.push_back(fmt::format("Lines of the {} text; the model's text follows the bar:",
                                      corpus.valid.ends.empty() ? "training" : "validation"));
  for (const SampleText& s : report.samples) end.samples.push_back(s.prompt + " |" + s.text);
  return end;
}

std::string GptKind::describe(const LanguageModel& model) {
  const ModelConfig& m = model.config();
  std::string s = fmt::format("{}, {} weights: {} layers of {} channels", m.model,
                              training::grouped(find_family(m.model).weights(m)), m.layers, m.dim);
  if (has_size(m.model, "--heads")) s += fmt::format(", {} heads", m.heads);
  if (m.kv_heads > 0 && m.kv_heads != m.heads) s += fmt::format(" ({} of keys)", m.kv_heads);
  if (m.attention_dim > 0) s += fmt::format(", tiny attention of {}", m.attention_dim);
  s += fmt::format(", ffn {}, context {}", m.ffn ? m.ffn : 4 * m.dim, m.context);
  if (has_size(m.model, "--tie")) s += m.tie ? ", tied head" : ", a head of its own";
  s += fmt::format(", dropout {:g}", m.dropout);
  const auto attention = gpt_options(m).attention_dropout;
  return attention ? s + fmt::format(" ({:g} in attention)", *attention) : s;
}

}  // namespace tern::apps::lm
