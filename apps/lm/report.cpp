#include "tern/apps/lm/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/chart.h"
#include "tern/apps/common/html.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

constexpr size_t kMostShown = 40;  // tokens of a picture of attention

std::string facts_table(const Facts& facts) {
  std::string s = "<table>\n";
  for (const auto& [key, value] : facts)
    s += fmt::format("<tr><td>{}</td><td style=\"text-align:left\">{}</td></tr>\n",
                     escape_html(key), escape_html(value));
  return s + "</table>\n";
}

Series series(const std::vector<train::EpochRecord>& epochs, const std::string& name,
              const std::string& metric) {
  Series s{name, {}, {}};
  for (const train::EpochRecord& e : epochs) {
    s.x.push_back(static_cast<double>(e.epoch));
    s.y.push_back(metric == "lr" ? e.lr : e[metric]);
  }
  return s;
}

std::string curves(const std::vector<train::EpochRecord>& epochs) {
  const bool validated = !epochs.empty() && !std::isnan(epochs[0]["valid_loss"]);
  auto chart = [&](const char* title, const std::string& metric) {
    std::vector<Series> lines = {series(epochs, "train", "train_" + metric)};
    if (validated) lines.push_back(series(epochs, "validation", "valid_" + metric));
    return line_chart(lines, {.title = title, .x_label = "epoch", .whole_x = true});
  };
  return "<div class=\"row\">\n" + chart("Loss of a token", "loss") +
         chart("Bits a byte", "bits_per_byte") +
         line_chart({series(epochs, "rate", "lr")},
                    {.title = "Learning rate", .x_label = "epoch", .whole_x = true}) +
         "</div>\n";
}

std::string epoch_table(const LmReport& r) {
  std::string s =
      "<div class=\"scroll\"><table>\n<tr><th>epoch</th><th>train loss</th><th>bits/byte</th>"
      "<th>valid loss</th><th>perplexity</th><th>bits/byte</th><th>tokens/s</th><th>time</th>"
      "</tr>\n";
  auto number = [](double v) {
    return std::isnan(v) ? std::string("-") : fmt::format("{:.3f}", v);
  };
  for (const train::EpochRecord& e : r.epochs)
    s += fmt::format(
        "<tr{}><td>{}</td><td>{:.4f}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{:.0f}</td><td>{}</td></tr>\n",
        e.epoch == r.best ? " style=\"font-weight:bold\"" : "", e.epoch, e["train_loss"],
        number(e["train_bits_per_byte"]), number(e["valid_loss"]), number(e["valid_ppl"]),
        number(e["valid_bits_per_byte"]), e.speed, train::clock_time(e.seconds));
  return s + "</table></div>\n";
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
    s += fmt::format(
        "<figure>{}<figcaption>{}{}</figcaption></figure>\n",
        html_heatmap(map.values[h].to_vector<float>(), rows, columns, limit, scale, map.title),
        when, escape_html(head));
  }
  return s + "</div>\n";
}

double largest(const models::Heatmap& map) {
  return map.values.numel() > 0 ? max(abs(map.values)).item() : 0;
}

// A layer's matrices at the start and after training, in the same colours.
std::string layer_maps(const models::Heatmap& before, const models::Heatmap& after) {
  const double limit = std::max(largest(before), largest(after));
  return fmt::format("<h3>{}</h3>\n<p>Colours from {:.3g} (blue) to {:.3g} (red).</p>\n",
                     escape_html(after.title), -limit, limit) +
         row_of_maps(before, "at the start", limit) + row_of_maps(after, "after training", limit);
}

}  // namespace

AttentionSentence explain(const LanguageModel& model, const data::ByteBpe& tokenizer,
                          const std::string& text) {
  NoGradGuard no_grad;
  AttentionSentence s{text, "", "", {}};
  std::vector<int64_t> ids = tokenizer.encode(text);
  ids.resize(std::min({ids.size(), kMostShown, static_cast<size_t>(model.config().context)}));
  if (ids.empty()) return s;
  std::vector<std::string> tokens;
  for (int64_t id : ids) tokens.push_back(tokenizer.decode(std::span(&id, 1)));
  const std::vector<Tensor> layers = model.attention(tensor(ids, {1, std::ssize(ids)}));
  if (layers.empty()) return s;
  for (size_t i = 0; i < layers.size(); ++i)
    record_attention(s, "Self-attention", static_cast<int64_t>(i) + 1, layers[i][0], tokens,
                     tokens);
  return s;
}

std::string make_report(const LmReport& r) {
  std::string s = fmt::format("<h1>{}</h1>\n", escape_html(r.title));
  s += facts_table(r.facts) + "<h2>Training</h2>\n" + curves(r.epochs) + epoch_table(r);
  if (!r.samples.empty())
    s += "<h2>Texts</h2>\n<p>Beginnings that were given, in bold, and what the model went on "
         "with.</p>\n" +
         sample_list(r.samples);
  if (!r.after.maps.empty()) {
    s += fmt::format("<h2>{}</h2>\n<p>{}</p>\n", escape_html(r.after.title),
                     escape_html(r.after.caption));
    for (size_t i = 0; i < r.after.maps.size(); ++i)
      s += layer_maps(r.before.maps.at(i), r.after.maps[i]);
  }
  if (!r.attention.groups.empty()) s += attention_page("Attention", {r.attention});
  return html_page(r.title, s);
}

}  // namespace tern::apps::lm
