#include "tern/apps/translate/report.h"

#include <fmt/format.h>

#include <cmath>

#include "tern/apps/common/chart.h"
#include "tern/apps/common/html.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

std::string facts_table(const Facts& facts) {
  std::string s = "<table>\n";
  for (const auto& [key, value] : facts)
    s += fmt::format("<tr><td>{}</td><td style=\"text-align:left\">{}</td></tr>\n",
                     escape_html(key), escape_html(value));
  return s + "</table>\n";
}

std::string curves(const std::vector<train::EpochRecord>& epochs) {
  Series train{"train", {}, {}}, valid{"validation", {}, {}}, bleu{"BLEU", {}, {}};
  Series rate{"rate", {}, {}};
  for (const train::EpochRecord& e : epochs) {
    auto add = [&](Series& s, double y) {
      s.x.push_back(static_cast<double>(e.epoch));
      s.y.push_back(y);
    };
    add(train, e["train_loss"]);
    add(valid, e["valid_loss"]);
    add(bleu, e["valid_bleu"]);
    add(rate, e.lr);
  }
  const bool validated = !epochs.empty() && !std::isnan(epochs[0]["valid_loss"]);
  auto options = [](const char* title) {
    return ChartOptions{.title = title, .x_label = "epoch", .whole_x = true};
  };
  std::string s = "<div class=\"row\">\n";
  s += line_chart(validated ? std::vector{train, valid} : std::vector{train},
                  options("Loss of a token"));
  if (validated) s += line_chart({bleu}, options("BLEU of the validation pairs, greedy"));
  return s + line_chart({rate}, options("Learning rate")) + "</div>\n";
}

std::string epoch_table(const TranslationReport& r) {
  std::string s =
      "<div class=\"scroll\"><table>\n<tr><th>epoch</th><th>train loss</th><th>valid loss</th>"
      "<th>perplexity</th><th>BLEU</th><th>tokens/s</th><th>time</th></tr>\n";
  auto number = [](double v) {
    return std::isnan(v) ? std::string("-") : fmt::format("{:.3f}", v);
  };
  for (const train::EpochRecord& e : r.epochs)
    s += fmt::format(
        "<tr{}><td>{}</td><td>{:.4f}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0f}</td>"
        "<td>{}</td></tr>\n",
        e.epoch == r.best ? " style=\"font-weight:bold\"" : "", e.epoch, e["train_loss"],
        number(e["valid_loss"]), number(e["valid_ppl"]), number(e["valid_bleu"]), e.speed,
        train::clock_time(e.seconds));
  return s + "</table></div>\n";
}

std::string sample_table(const std::vector<SampleTranslation>& samples) {
  std::string s =
      "<div class=\"scroll\"><table>\n<tr><th style=\"text-align:left\">source</th>"
      "<th style=\"text-align:left\">translation</th><th style=\"text-align:left\">reference</th>"
      "<th>d2l bleu</th></tr>\n";
  for (const SampleTranslation& t : samples)
    s += fmt::format(
        "<tr><td style=\"text-align:left\">{}</td><td style=\"text-align:left\">{}</td>"
        "<td style=\"text-align:left\">{}</td><td>{:.3f}</td></tr>\n",
        escape_html(t.source), escape_html(t.translation), escape_html(t.reference), t.d2l);
  return s + "</table></div>\n";
}

}  // namespace

std::string make_report(const TranslationReport& r) {
  std::string s = fmt::format("<h1>{}</h1>\n", escape_html(r.title));
  s += facts_table(r.facts) + "<h2>Training</h2>\n" + curves(r.epochs) + epoch_table(r);
  if (!r.samples.empty())
    s += "<h2>Translations</h2>\n<p>Validation pairs, greedy, with the weights that were "
         "kept.</p>\n" +
         sample_table(r.samples);
  std::vector<AttentionSentence> pictures;
  for (const SampleTranslation& t : r.samples)
    if (!t.attention.groups.empty()) pictures.push_back(t.attention);
  if (!pictures.empty()) s += attention_page("Attention", pictures);
  return html_page(r.title, s);
}

}  // namespace tern::apps::translate
