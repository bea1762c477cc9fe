// The sections of the report: scores by length, sample sequences with head weightings, and memory.
#include "tern/apps/ntm/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/chart.h"
#include "tern/apps/common/pages/heatmap.h"

namespace tern::apps::ntm {
namespace {

constexpr double kBits = 1 / std::numbers::ln2;  // bits per nat

std::string generalisation(const NtmReport& r) {
  Series bits{"bits", {}, {}}, wrong{"wrong", {}, {}}, best{"best predictor", {}, {}};
  Series perfect{"sequences", {}, {}};
  for (const LengthScore& l : r.lengths)
    for (auto [s, y] :
         {std::pair{&bits, l.bits}, {&wrong, l.wrong}, {&best, l.best}, {&perfect, l.perfect}}) {
      s->x.push_back(static_cast<double>(l.length));
      s->y.push_back(y);
    }
  auto options = [&](const char* title, bool percent = false) {
    return ChartOptions{
        .title = title, .x_label = r.task.unit, .whole_x = true, .percent = percent};
  };
  const bool ngrams = r.task.name == "ngrams";
  const std::string text = fmt::format(
      "<p>Trained on {} to {} {}; tested on {} sequences of each length, with the weights of the "
      "best validation.</p>\n",
      r.task.lengths.low, r.task.lengths.high, r.task.unit,
      r.lengths.empty() ? 0 : r.lengths[0].sequences);
  return text +
         chart_grid({line_chart(ngrams ? std::vector{bits, best} : std::vector{bits},
                                options("Bits per sequence")),
                     line_chart({wrong}, options("Wrong bits per sequence")),
                     line_chart({perfect}, options("Sequences without an error", true))}) +
         "<details><summary>Every length</summary><pre>" +
         escape_html(length_table(r.task, r.lengths)) + "</pre></details>\n";
}

// Screen pixels per number of the strip.
int strip_scale(const Strip& s) {
  return static_cast<int>(std::clamp<int64_t>(900 / std::max<int64_t>(s.steps, 1), 2, 10));
}

std::string picture(const Strip& s, bool signed_colours) {
  // All strips have the same time scale; strips with many slots have lower rows.
  constexpr int64_t kTallest = 320;
  const int scale = strip_scale(s);
  const auto row =
      static_cast<int>(std::clamp<int64_t>(kTallest / std::max<int64_t>(s.rows, 1), 1, scale));
  return html_figure(draw_matrix(strip_bitmap(s, signed_colours),
                                 {.description = s.title, .cell = scale, .row_height = row})
                         .svg,
                     s.title);
}

std::string memory_pictures(const Episode& e) {
  double limit = 0;
  for (const MemoryPicture& m : e.memory)
    for (float v : m.values) limit = std::max(limit, std::abs(static_cast<double>(v)));
  std::string s = "<p>The memory after some steps: slots down, their numbers across.</p>\n" +
                  heatmap_bar(limit) + "<div class=\"row\">\n";
  for (const MemoryPicture& m : e.memory)
    s += html_figure(html_heatmap(m.values, m.slots, m.width, limit, 4, "memory"),
                     fmt::format("after step {}", m.step));
  return s + "</div>\n";
}

std::string episode(const Episode& e, const std::string& unit) {
  std::string s = fmt::format(
      "<h3>{} {}</h3>\n<p>{:.4f} bits, {} wrong. Time runs to the right in all pictures, so that "
      "a step is one column; outputs are shown where they are asked for.</p>\n",
      e.length, unit, e.bits, e.wrong);
  s += "<div class=\"strips\">\n";
  for (const Strip* strip : {&e.input, &e.target, &e.output, &e.error}) s += picture(*strip, true);
  for (const Strip& w : e.weights) s += picture(w, false);
  return s + "</div>\n" + (e.memory.empty() ? "" : memory_pictures(e));
}

}  // namespace

Bitmap strip_bitmap(const Strip& s, bool signed_colours) {
  std::vector<float> rows;
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t t = 0; t < s.steps; ++t)
      rows.push_back(s.values[static_cast<size_t>(t * s.rows + row)]);
  return color_cells(rows, s.rows, s.steps, [=](float v) {
    return signed_colours ? diverging_color(static_cast<double>(v))
                          : weight_color(attention_shade(v));
  });
}

std::string make_report(const NtmReport& r) {
  std::string shown = "<p>Inputs, targets and outputs:</p>\n" + heatmap_bar(1);
  if (!r.episodes.empty() && !r.episodes[0].weights.empty())
    shown +=
        "<p>Weightings: slots down, in a stronger colour for a larger weight (by its square root, "
        "so "
        "that small ones are seen):</p>\n" +
        attention_legend();
  for (const Episode& e : r.episodes) shown += episode(e, r.task.unit);
  return run_page(r.run,
                  {.columns = {{"sequences"},
                               {"train_loss", "training bits", kBits},
                               {"bits_per_sequence"},
                               {"wrong_bits"},
                               {"best_predictor"},
                               {"lr"}},
                   .measured_on = "validation",
                   .answer = {"wrong_bits", kValidationSequences, "validation sequences"},
                   .unit = "sequences",
                   .loss = {.title = "Bits per sequence",
                            .lines = {{"train_loss", "training", kBits},
                                      {"bits_per_sequence", "validation"},
                                      {"best_predictor"}},
                            .logs = true},
                   .charts = {{.title = "Wrong bits of a validation sequence",
                               .lines = {{"wrong_bits"}},
                               .logs = true}},
                   .sections = {{"Other lengths", generalisation(r)}, {"What it does", shown}}});
}

}  // namespace tern::apps::ntm
