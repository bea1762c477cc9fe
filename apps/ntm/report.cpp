#include "tern/apps/ntm/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tern/apps/common/attention_parts.h"
#include "tern/apps/common/chart.h"
#include "tern/apps/common/heatmap.h"

namespace tern::apps::ntm {
namespace {

constexpr double kBits = 1 / std::numbers::ln2;  // of a nat

std::string curves(const RunSummary& run) {
  return run_charts(run,
                    {.title = "Bits a sequence",
                     .lines = {{"train", "train_loss", kBits},
                               {"validation", "bits_per_sequence"},
                               {"best predictor", "best_predictor"}},
                     .logs = true},
                    {{.title = "Wrong bits of a validation sequence",
                      .lines = {{"wrong", "wrong_bits"}},
                      .logs = true}});
}

std::string tables(const RunSummary& run) {
  return epoch_table(run,
                     {{"sequences", "sequences", 0},
                      {"train bits", "train_loss", 4, kBits},
                      {"bits a sequence", "bits_per_sequence"},
                      {"wrong bits", "wrong_bits", 3},
                      {"lr", "lr", 6}},
                     "sequences") +
         settings_table(run);
}

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
  std::string s = fmt::format(
      "<h2>Other lengths</h2>\n<p>Trained on {} to {} {}; {} sequences of each length, with the "
      "weights of the best validation.</p>\n<div class=\"charts\">\n",
      r.task.lengths.low, r.task.lengths.high, r.task.unit,
      r.lengths.empty() ? 0 : r.lengths[0].sequences);
  s += line_chart(ngrams ? std::vector{bits, best} : std::vector{bits},
                  options("Bits a sequence of a length"));
  s += line_chart({wrong}, options("Wrong bits of a sequence"));
  s += line_chart({perfect}, options("Sequences without an error", true));
  return s + "</div>\n<details><summary>Every length</summary><pre>" +
         escape_html(length_table(r.task, r.lengths)) + "</pre></details>\n";
}

// How many screen pixels a number of the strip gets.
int strip_scale(const Strip& s) {
  return static_cast<int>(std::clamp<int64_t>(900 / std::max<int64_t>(s.steps, 1), 2, 10));
}

std::string picture(const Strip& s, bool signed_colours) {
  // All strips have one scale of time; those of many slots have lower rows.
  constexpr int64_t kTallest = 320;
  const int scale = strip_scale(s);
  const auto row =
      static_cast<int>(std::clamp<int64_t>(kTallest / std::max<int64_t>(s.rows, 1), 1, scale));
  return html_figure(html_map(strip_bitmap(s, signed_colours), scale, s.title, row), s.title);
}

// Of weightings: darker by the square root.
std::string weighting_bar() {
  BarTicks ticks;
  for (const float w : {0.F, .05F, .2F, .5F, 1.F})
    ticks.emplace_back(attention_shade(w), fmt::format("{:g}", w));
  return color_bar(ticks, [](double t, uint8_t* rgb) { diverging_color(-t, rgb); });
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
      "<h3>{} {}</h3>\n<p>{:.4f} bits, {} wrong. Time runs to the right; outputs are shown where "
      "they are asked for.</p>\n",
      e.length, unit, e.bits, e.wrong);
  for (const Strip* strip : {&e.input, &e.target, &e.output, &e.error}) s += picture(*strip, true);
  for (const Strip& w : e.weights) s += picture(w, false);
  return s + (e.memory.empty() ? "" : memory_pictures(e));
}

}  // namespace

Bitmap strip_bitmap(const Strip& s, bool signed_colours) {
  Bitmap b{s.steps, s.rows, std::vector<uint8_t>(s.values.size() * 3)};
  for (int64_t t = 0; t < s.steps; ++t)
    for (int64_t row = 0; row < s.rows; ++row) {
      const float v = s.values[static_cast<size_t>(t * s.rows + row)];
      uint8_t* rgb = &b.rgb[static_cast<size_t>(3 * (row * s.steps + t))];
      diverging_color(signed_colours ? static_cast<double>(v) : -attention_shade(v), rgb);
    }
  return b;
}

std::string make_report(const NtmReport& r) {
  std::string s = page_head(r.run) + "<h2>Training</h2>\n" + curves(r.run);
  s += generalisation(r) + "<h2>What it does</h2>\n<p>Inputs, targets and outputs:</p>\n" +
       heatmap_bar(1);
  if (!r.episodes.empty() && !r.episodes[0].weights.empty())
    s += "<p>Weightings: slots down, a darker blue for a larger weight (its square root, so that "
         "small ones are seen).</p>\n" +
         weighting_bar();
  for (const Episode& e : r.episodes) s += episode(e, r.task.unit);
  return html_page(r.run.title, s + "<h2>Numbers</h2>\n" + tables(r.run));
}

}  // namespace tern::apps::ntm
