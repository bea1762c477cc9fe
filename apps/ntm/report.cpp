#include "tern/apps/ntm/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tern/apps/common/attention_parts.h"
#include "tern/apps/common/chart.h"
#include "tern/apps/common/html.h"
#include "tern/train/progress.h"

namespace tern::apps::ntm {
namespace {

std::string figure(const std::string& content, const std::string& caption) {
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", content,
                     escape_html(caption));
}

std::string facts_table(const Facts& facts) {
  std::string s = "<table>\n";
  for (const auto& [key, value] : facts)
    s += fmt::format("<tr><td>{}</td><td style=\"text-align:left\">{}</td></tr>\n",
                     escape_html(key), escape_html(value));
  return s + "</table>\n";
}

std::string curves(const NtmReport& r) {
  Series train{"train", {}, {}}, valid{"validation", {}, {}}, best{"best predictor", {}, {}};
  Series wrong{"wrong", {}, {}}, rate{"rate", {}, {}};
  for (const train::EpochRecord& e : r.epochs) {
    auto add = [&](Series& s, double y) {
      s.x.push_back(e["sequences"]);
      s.y.push_back(y);
    };
    add(train, e["train_loss"] / std::numbers::ln2);
    add(valid, e["bits_per_sequence"]);
    add(wrong, e["wrong_bits"]);
    add(rate, e.lr);
    if (e.has("best_predictor")) add(best, e["best_predictor"]);
  }
  std::vector<Series> costs = {train, valid};
  if (!best.x.empty()) costs.push_back(best);
  auto options = [](const char* title) {
    return ChartOptions{.title = title, .x_label = "sequences", .whole_x = true};
  };
  return "<div class=\"row\">\n" + line_chart(costs, options("Bits a sequence")) +
         line_chart({wrong}, options("Wrong bits of a validation sequence")) +
         line_chart({rate}, options("Learning rate")) + "</div>\n";
}

std::string epoch_table(const NtmReport& r) {
  std::string s =
      "<details><summary>Every validation</summary><div class=\"scroll\"><table>\n<tr>"
      "<th>sequences</th><th>train bits</th><th>bits a sequence</th><th>wrong bits</th>"
      "<th>sequences/s</th><th>time</th></tr>\n";
  for (const train::EpochRecord& e : r.epochs)
    s += fmt::format(
        "<tr{}><td>{}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.3f}</td><td>{:.0f}</td>"
        "<td>{}</td></tr>\n",
        e.epoch == r.best ? " style=\"font-weight:bold\"" : "",
        train::grouped(static_cast<int64_t>(e["sequences"])), e["train_loss"] / std::numbers::ln2,
        e["bits_per_sequence"], e["wrong_bits"], e.speed, train::clock_time(e.seconds));
  return s + "</table></div></details>\n";
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
      "weights of the best validation.</p>\n<div class=\"row\">\n",
      r.task.lengths.low, r.task.lengths.high, r.task.unit,
      r.lengths.empty() ? 0 : r.lengths[0].sequences);
  s += line_chart(ngrams ? std::vector{bits, best} : std::vector{bits}, options("Bits a sequence"));
  s += line_chart({wrong}, options("Wrong bits of a sequence"));
  s += line_chart({perfect}, options("Sequences without an error", true));
  return s + "</div>\n<pre>" + escape_html(length_table(r.task, r.lengths)) + "</pre>\n";
}

// How many screen pixels a number of the strip gets.
int strip_scale(const Strip& s) {
  return static_cast<int>(std::clamp<int64_t>(900 / std::max<int64_t>(s.steps, 1), 2, 10));
}

/// With `signed_colours` numbers from -1 to 1, else shares of 1.
std::string picture(const Strip& s, bool signed_colours) {
  Bitmap b{s.steps, s.rows, std::vector<uint8_t>(s.values.size() * 3)};
  for (int64_t t = 0; t < s.steps; ++t)
    for (int64_t row = 0; row < s.rows; ++row) {
      const float v = s.values[static_cast<size_t>(t * s.rows + row)];
      uint8_t* rgb = &b.rgb[static_cast<size_t>(3 * (row * s.steps + t))];
      diverging_color(signed_colours ? static_cast<double>(v) : -attention_shade(v), rgb);
    }
  return figure(html_image(b, strip_scale(s), s.title), s.title);
}

std::string memory_pictures(const Episode& e) {
  double limit = 0;
  for (const MemoryPicture& m : e.memory)
    for (float v : m.values) limit = std::max(limit, std::abs(static_cast<double>(v)));
  std::string s = fmt::format(
      "<p>The memory after some steps: slots down, their numbers across, from {:.3g} (blue) to "
      "{:.3g} (red).</p>\n<div class=\"row\">\n",
      -limit, limit);
  for (const MemoryPicture& m : e.memory)
    s += figure(html_heatmap(m.values, m.slots, m.width, limit, 4, "memory"),
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

std::string make_report(const NtmReport& r) {
  std::string s = fmt::format("<h1>{}</h1>\n", escape_html(r.title));
  s += facts_table(r.facts) + "<h2>Training</h2>\n" + curves(r) + epoch_table(r);
  s += generalisation(r) + "<h2>What it does</h2>\n";
  if (!r.episodes.empty() && !r.episodes[0].weights.empty())
    s += "<p>Weightings: slots down, a darker blue for a larger weight (its square root, so that "
         "small ones are seen).</p>\n";
  for (const Episode& e : r.episodes) s += episode(e, r.task.unit);
  return html_page(r.title, s);
}

}  // namespace tern::apps::ntm
