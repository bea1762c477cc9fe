#include "tern/apps/lm/bert_report.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tern/apps/common/chart.h"
#include "tern/apps/common/html.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

double value(const train::EpochRecord& e, const std::string& metric) {
  if (metric == "lr") return e.lr;
  return e.has(metric) ? e[metric] : std::numeric_limits<double>::quiet_NaN();
}

std::string facts_table(const Facts& facts) {
  std::string s = "<table>\n";
  for (const auto& [key, text] : facts)
    s += fmt::format("<tr><td>{}</td><td style=\"text-align:left\">{}</td></tr>\n",
                     escape_html(key), escape_html(text));
  return s + "</table>\n";
}

/// The named metrics over the epochs; nothing if none was measured.
std::string curve(const std::vector<train::EpochRecord>& epochs, const std::string& title,
                  const std::vector<std::pair<std::string, std::string>>& metrics) {
  std::vector<Series> lines;
  for (const auto& [name, metric] : metrics) {
    Series s{name, {}, {}};
    for (const train::EpochRecord& e : epochs) {
      s.x.push_back(static_cast<double>(e.epoch));
      s.y.push_back(value(e, metric));
    }
    if (!s.y.empty() && !std::isnan(s.y.back())) lines.push_back(std::move(s));
  }
  if (lines.empty()) return "";
  return line_chart(lines, {.title = title, .x_label = "epoch", .whole_x = true});
}

std::string curves(const std::vector<train::EpochRecord>& epochs) {
  return "<div class=\"row\">\n" +
         curve(epochs, "Loss of a masked word",
               {{"train", "train_masked"}, {"validation", "valid_masked"}}) +
         curve(epochs, "Loss of a pair", {{"train", "train_next"}, {"validation", "valid_next"}}) +
         curve(epochs, "Right in validation",
               {{"words", "valid_words"}, {"pairs", "valid_pairs"}}) +
         curve(epochs, "Learning rate", {{"rate", "lr"}}) + "</div>\n";
}

std::string epoch_table(const BertReport& r) {
  constexpr std::pair<const char*, const char*> kColumns[] = {
      {"train masked", "train_masked"}, {"train next", "train_next"},
      {"valid masked", "valid_masked"}, {"perplexity", "valid_ppl"},
      {"words right", "valid_words"},   {"valid next", "valid_next"},
      {"pairs right", "valid_pairs"}};
  std::string s = "<div class=\"scroll\"><table>\n<tr><th>epoch</th>";
  for (const auto& column : kColumns) s += fmt::format("<th>{}</th>", column.first);
  s += "<th>tokens/s</th><th>time</th></tr>\n";
  for (const train::EpochRecord& e : r.epochs) {
    s += fmt::format("<tr{}><td>{}</td>", e.epoch == r.best ? " style=\"font-weight:bold\"" : "",
                     e.epoch);
    for (const auto& column : kColumns) {
      const double v = value(e, column.second);
      s += std::isnan(v) ? std::string("<td>-</td>") : fmt::format("<td>{:.4g}</td>", v);
    }
    s += fmt::format("<td>{:.0f}</td><td>{}</td></tr>\n", e.speed, train::clock_time(e.seconds));
  }
  return s + "</table></div>\n";
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
  std::string s = fmt::format("<h1>{}</h1>\n", escape_html(r.title));
  s += facts_table(r.facts) + "<h2>Training</h2>\n" + curves(r.epochs) + epoch_table(r);
  if (!r.samples.empty()) {
    s += "<h2>Gaps</h2>\n<p>What was given, in bold; filled with the likeliest words; and what "
         "stood there. Below it, the likeliest words for each gap.</p>\n";
    for (const FilledSample& one : r.samples) s += sample(one);
  }
  if (!r.attention.groups.empty()) s += attention_page("Attention", {r.attention});
  return html_page(r.title, s);
}

}  // namespace tern::apps::lm
