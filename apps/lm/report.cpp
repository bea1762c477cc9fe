#include "tern/apps/lm/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/heatmap.h"
#include "tern/apps/common/html.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::lm {
namespace {

constexpr size_t kMostShown = 40;  // tokens of a picture of attention

std::string curves(const RunSummary& run) {
  return run_charts(
      run,
      {.title = "Loss of a token",
       .lines = {{"train", "train_loss"}, {"validation", "valid_loss"}},
       .logs = true},
      {{.title = "Bits a byte",
        .lines = {{"train", "train_bits_per_byte"}, {"validation", "valid_bits_per_byte"}}}});
}

std::string tables(const RunSummary& run) {
  return epoch_table(run,
                     {{"train loss", "train_loss"},
                      {"bits/byte", "train_bits_per_byte", 3},
                      {"valid loss", "valid_loss", 3},
                      {"perplexity", "valid_ppl", 3},
                      {"bits/byte", "valid_bits_per_byte", 3},
                      {"lr", "lr", 6}},
                     "tokens") +
         settings_table(run);
}

std::string sample_list(const std::vector<SampleText>& samples) {
  std::string s;
  for (const SampleText& t : samples)
    s += fmt::format("<p style=\"white-space:pre-wrap\" dir=\"auto\"><strong>{}</strong>{}</p>\n",
                     escape_html(t.prompt), escape_html(t.text));
  return s;
}

std::string row_of_maps(const models::Heatmap& map, const char* when, double limit) {
  const int64_t rows = map.values.size(1), columns = map.values.size(2);
  const int64_t side = std::max<int64_t>({rows, columns, 1});
  const int scale = static_cast<int>(std::clamp<int64_t>(240 / side, 1, 12));
  std::string s = "<div class=\"row\">\n";
  for (int64_t h = 0; h < map.values.size(0); ++h) {
    const auto label = static_cast<size_t>(h);
    const std::string head = label < map.labels.size() ? ", " + map.labels[label] : "";
    s += html_figure(
        html_heatmap(map.values[h].to_vector<float>(), rows, columns, limit, scale, map.title),
        when + head);
  }
  return s + "</div>\n";
}

double largest(const models::Heatmap& map) {
  return map.values.numel() > 0 ? max(abs(map.values)).item() : 0;
}

// A layer's matrices at the start and after training, in the same colours.
std::string layer_maps(const models::Heatmap& before, const models::Heatmap& after) {
  const double limit = std::max(largest(before), largest(after));
  return fmt::format("<div><h3>{}</h3>\n{}", escape_html(after.title), heatmap_bar(limit)) +
         row_of_maps(before, "at the start", limit) + row_of_maps(after, "after training", limit) +
         "</div>\n";
}

std::string bert_curves(const RunSummary& run) {
  return run_charts(run,
                    {.title = "Loss",
                     .lines = {{"train", "train_loss"}, {"validation", "valid_loss"}},
                     .logs = true},
                    {{.title = "Loss of a masked word",
                      .lines = {{"train", "train_masked"}, {"validation", "valid_masked"}},
                      .logs = true},
                     {.title = "Loss of a pair",
                      .lines = {{"train", "train_next"}, {"validation", "valid_next"}}},
                     {.title = "Right in validation",
                      .lines = {{"words", "valid_words"}, {"pairs", "valid_pairs"}},
                      .percent = true}});
}

std::string bert_tables(const RunSummary& run) {
  return epoch_table(run,
                     {{"train masked", "train_masked"},
                      {"train next", "train_next"},
                      {"valid masked", "valid_masked"},
                      {"perplexity", "valid_ppl", 2},
                      {"words right", "valid_words", 1, 100, "%"},
                      {"valid next", "valid_next"},
                      {"pairs right", "valid_pairs", 1, 100, "%"},
                      {"lr", "lr", 6}},
                     "tokens") +
         settings_table(run);
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

}  // namespace

AttentionSentence self_attention(const std::string& text, const std::vector<Tensor>& layers,
                                 const std::vector<std::string>& tokens) {
  AttentionSentence s{text, "", "", {}};
  for (size_t i = 0; i < layers.size(); ++i)
    record_attention(s, "Self-attention", static_cast<int64_t>(i) + 1, layers[i][0], tokens,
                     tokens);
  return s;
}

AttentionSentence explain(const LanguageModel& model, const data::ByteBpe& tokenizer,
                          const std::string& text) {
  NoGradGuard no_grad;
  std::vector<int64_t> ids = tokenizer.encode(text);
  ids.resize(std::min({ids.size(), kMostShown, static_cast<size_t>(model.config().context)}));
  std::vector<std::string> tokens;
  for (int64_t id : ids) tokens.push_back(tokenizer.decode(std::span(&id, 1)));
  if (ids.empty()) return self_attention(text, {}, {});
  return self_attention(text, model.attention(tensor(ids, {1, std::ssize(ids)})), tokens);
}

AttentionSentence explain(const LoadedBert& bert, const std::string& text) {
  NoGradGuard no_grad;
  std::vector<int64_t> ids = data::bert_tokens(bert.pieces, bert.pieces.encode(text)).tokens;
  ids.resize(std::min({ids.size(), kMostShown, static_cast<size_t>(bert.model.options.positions)}));
  std::vector<std::string> tokens;
  for (int64_t id : ids) tokens.push_back(bert.pieces.piece(id));
  return self_attention(text, bert.model.attend({.tokens = tensor(ids, {1, std::ssize(ids)})}),
                        tokens);
}

std::string make_report(const LmReport& r) {
  std::string s = page_head(r.run) + "<h2>Training</h2>\n" + curves(r.run);
  if (!r.samples.empty())
    s += "<h2>Texts</h2>\n<p>Beginnings that were given, in bold, and what the model went on "
         "with.</p>\n" +
         sample_list(r.samples);
  if (!r.after.maps.empty()) {
    s += fmt::format("<h2>{}</h2>\n<p>{}</p>\n<div class=\"layers\">\n", escape_html(r.after.title),
                     escape_html(r.after.caption));
    for (size_t i = 0; i < r.after.maps.size(); ++i)
      s += layer_maps(r.before.maps.at(i), r.after.maps[i]);
    s += "</div>\n";
  }
  if (!r.attention.groups.empty()) s += attention_page("Attention", {r.attention});
  return html_page(r.run.title, s + "<h2>Numbers</h2>\n" + tables(r.run));
}

std::string make_report(const BertReport& r) {
  std::string s = page_head(r.run) + "<h2>Training</h2>\n" + bert_curves(r.run);
  if (!r.samples.empty()) {
    s += "<h2>Gaps</h2>\n<p>What was given, in bold; filled with the likeliest words; and what "
         "stood there. Below it, the likeliest words for each gap.</p>\n";
    for (const FilledSample& one : r.samples) s += sample(one);
  }
  if (!r.attention.groups.empty()) s += attention_page("Attention", {r.attention});
  return html_page(r.run.title, s + "<h2>Numbers</h2>\n" + bert_tables(r.run));
}

}  // namespace tern::apps::lm
