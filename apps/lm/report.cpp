// The sections of the report: samples or filled gaps, attention, and heatmaps before and after
// training.
#include "tern/apps/lm/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/heatmap.h"
#include "tern/apps/common/pages/html.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::lm {
namespace {

constexpr size_t kMostShown = 40;  // tokens in an attention picture

std::string sample_list(const std::vector<SampleText>& samples) {
  if (samples.empty()) return "";
  std::string s = "<p>The beginnings in bold were given; the model wrote what follows them.</p>\n";
  for (const SampleText& t : samples)
    s += fmt::format("<p style=\"white-space:pre-wrap\" dir=\"auto\"><strong>{}</strong>{}</p>\n",
                     escape_html(t.prompt), escape_html(t.text));
  return s;
}

std::string sample(const FilledSample& s) {
  std::string out =
      fmt::format("<p dir=\"auto\"><strong>{}</strong><br>{}<br><em>{}</em></p>\n<ul>\n",
                  escape_html(s.masked), escape_html(s.filled.text), escape_html(s.whole));
  for (const auto& gap : s.filled.gaps) {
    std::string line;
    for (const FilledText::Guess& g : gap)
      line += fmt::format("{}{} {:.1f} %", line.empty() ? "" : ", ", g.piece, 100 * g.probability);
    out += "<li>" + escape_html(line) + "</li>\n";
  }
  return out + "</ul>\n";
}

Section attention(const AttentionSentence& sentence) {
  return {"Attention", sentence.groups.empty() ? "" : attention_page({sentence})};
}

}  // namespace

AttentionSentence self_attention(const std::string& text, const std::vector<Tensor>& layers,
                                 const std::vector<std::string>& tokens) {
  AttentionSentence s{text, "", "", {}};
  for (size_t i = 0; i < layers.size(); ++i)
    record_attention(s, "Self-attention", static_cast<int64_t>(i) + 1, layers[i][0], tokens,
                     tokens);
  return s;
}

namespace {

/// The attention on the first tokens of a text. name(id) is a token's text, layers(tokens) the
/// weights of every layer for tokens (1, T).
template <class Name, class Layers>
AttentionSentence explain_ids(const std::string& text, std::vector<int64_t> ids, int64_t context,
                              Name name, Layers layers) {
  const size_t all = ids.size();
  ids.resize(std::min({all, kMostShown, static_cast<size_t>(context)}));
  if (ids.empty()) return self_attention(text, {}, {});
  std::vector<std::string> tokens;
  for (const int64_t id : ids) tokens.push_back(name(id));
  const NoGradGuard no_grad;
  AttentionSentence s = self_attention(text, layers(tensor(ids, {1, std::ssize(ids)})), tokens);
  if (ids.size() < all) s.note = fmt::format("the first {} of {} tokens", ids.size(), all);
  return s;
}

}  // namespace

AttentionSentence explain(const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
                          const std::string& text) {
  return explain_ids(
      text, tokenizer.encode_prompt(text), model.config().context,
      [&](int64_t id) { return tokenizer.decode(std::span(&id, 1)); },
      [&](const Tensor& tokens) { return model.attention(tokens); });
}

AttentionSentence explain(const models::Bert& model, const EncoderTokenizer& tokenizer,
                          const std::string& text) {
  return explain_ids(text, tokenizer.encode(text), model.options.positions, tokenizer.token,
                     [&](const Tensor& tokens) { return model.attend({.tokens = tokens}); });
}

std::string make_report(const LmReport& r) {
  return run_page(
      r.run,
      {.columns = {{"train_loss"},
                   {"train_bits_per_byte"},
                   {"valid_loss"},
                   {"valid_ppl"},
                   {"valid_bits_per_byte"},
                   {"lr"}},
       .measured_on = "validation",
       .answer = {"valid_ppl", r.valid_tokens, "validation tokens"},
       .unit = "tokens",
       .loss = {.title = "Loss per token", .lines = {{"train_loss"}, {"valid_loss"}}, .logs = true},
       .charts = {{.title = "Bits per byte",
                   .lines = {{"train_bits_per_byte"}, {"valid_bits_per_byte"}}}},
       .sections = {{"Texts", sample_list(r.samples)},
                    {r.after.title, html_layer_maps(r.before, r.after)},
                    attention(r.attention)}});
}

std::string make_report(const BertReport& r) {
  std::string gaps;
  for (const FilledSample& one : r.samples) gaps += sample(one);
  if (!gaps.empty())
    gaps =
        "<p>The text that was given, in bold; the same with the likeliest words in its gaps; and "
        "the original. Below it, the likeliest words for each gap.</p>\n" +
        gaps;
  return run_page(
      r.run, {.columns = {{"train_masked"},
                          {"train_next"},
                          {"valid_masked"},
                          {"valid_ppl"},
                          {"valid_words"},
                          {"valid_next"},
                          {"valid_pairs"},
                          {"lr"}},
              .measured_on = "validation",
              .answer = {"valid_words", 0, ""},
              .unit = "tokens",
              .loss = {.title = "Loss", .lines = {{"train_loss"}, {"valid_loss"}}, .logs = true},
              .charts = {{.title = "Loss of a masked word",
                          .lines = {{"train_masked", "training"}, {"valid_masked", "validation"}},
                          .logs = true},
                         {.title = "Loss of a pair",
                          .lines = {{"train_next", "training"}, {"valid_next", "validation"}}},
                         {.title = "Right in validation",
                          .lines = {{"valid_words", "words"}, {"valid_pairs", "pairs"}},
                          .percent = true}},
              .sections = {{"Gaps", gaps}, attention(r.attention)}});
}

}  // namespace tern::apps::lm
