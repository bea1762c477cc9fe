#include "tern/apps/lm/bert_report.h"

#include <fmt/format.h>

#include "tern/apps/common/html.h"

namespace tern::apps::lm {
namespace {

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
