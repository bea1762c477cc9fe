#include "tern/apps/train_cifar/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tern/apps/common/heatmap.h"
#include "tern/apps/common/html.h"
#include "tern/apps/train_cifar/report_pictures.h"

namespace tern::apps::train_cifar {
namespace {

constexpr double kMostShare = 50;    // percent of green or red in a cell
constexpr size_t kMostInTable = 40;  // classes of a confusion matrix
constexpr size_t kListed = 20;       // of more classes

// Those whose true class this is.
int64_t images_of(const ReportData& d, size_t label) {
  const size_t n = d.class_names.size();
  const auto row = d.confusion.begin() + static_cast<std::ptrdiff_t>(label * n);
  return std::accumulate(row, row + static_cast<std::ptrdiff_t>(n), int64_t{0});
}

// The greener for a larger share of right answers, the redder for one of wrong ones; at most half
// of the way, so that numbers can be read on it.
std::string confusion_cell(int64_t count, double share, bool right) {
  if (count == 0) return "<td>0</td>";
  return fmt::format("<td class=\"share {}\" style=\"--share:{:.1f}%\">{}</td>",
                     right ? "hit" : "miss",
                     kMostShare * (right ? share : std::min(1.0, 3 * share)), count);
}

std::string confusion_table(const ReportData& d, const std::vector<double>& right) {
  const size_t n = d.class_names.size();
  std::string s = "<div class=\"scroll\"><table>\n<tr><th>true \\ predicted</th>";
  for (const std::string& c : d.class_names) s += fmt::format("<th>{}</th>", escape_html(c));
  s += "<th>right</th></tr>\n";
  for (size_t i = 0; i < n; ++i) {
    s += fmt::format("<tr><td>{}</td>", escape_html(d.class_names[i]));
    const auto total = static_cast<double>(images_of(d, i));
    for (size_t j = 0; j < n; ++j) {
      const int64_t count = d.confusion[i * n + j];
      s += confusion_cell(count, static_cast<double>(count) / std::max(total, 1.0), i == j);
    }
    s += fmt::format("<td>{:.1f}%</td></tr>\n", 100 * right[i]);
  }
  return s + "</table></div>\n";
}

// A line a class or a pair, from the first of `order`.
std::string list(const char* heading, size_t count,
                 const std::function<std::string(size_t)>& line) {
  std::string s = fmt::format("<div><h3>{}</h3>\n<table>\n", heading);
  for (size_t i = 0; i < count; ++i) s += "<tr>" + line(i) + "</tr>\n";
  return s + "</table></div>\n";
}

// Of many classes those that are known worst, and what is mistaken for what most often.
std::string worst_classes(const ReportData& d, const std::vector<double>& right) {
  const size_t n = d.class_names.size();
  std::vector<size_t> classes(n), pairs;
  std::iota(classes.begin(), classes.end(), size_t{0});
  std::erase_if(classes, [&](size_t i) { return images_of(d, i) == 0; });
  std::stable_sort(classes.begin(), classes.end(),
                   [&](size_t a, size_t b) { return right[a] < right[b]; });
  for (size_t k = 0; k < n * n; ++k)
    if (k / n != k % n && d.confusion[k] > 0) pairs.push_back(k);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](size_t a, size_t b) { return d.confusion[a] > d.confusion[b]; });
  auto name = [&](size_t i) { return escape_html(d.class_names[i]); };
  return "<div class=\"layers\">\n" +
         list("Least often right", std::min(kListed, classes.size()),
              [&](size_t i) {
                return fmt::format("<td>{}</td><td>{:.1f}% of {}</td>", name(classes[i]),
                                   100 * right[classes[i]], images_of(d, classes[i]));
              }) +
         list("Most often mistaken", std::min(kListed, pairs.size()),
              [&](size_t i) {
                return fmt::format("<td>{}</td><td>taken for {}</td><td>{} of {}</td>",
                                   name(pairs[i] / n), name(pairs[i] % n), d.confusion[pairs[i]],
                                   images_of(d, pairs[i] / n));
              }) +
         "</div>\n";
}

std::string confusion(const ReportData& d) {
  const size_t n = d.class_names.size();
  if (d.confusion.empty()) return "";
  std::vector<double> right;
  for (size_t i = 0; i < n; ++i)
    right.push_back(static_cast<double>(d.confusion[i * n + i]) /
                    static_cast<double>(std::max<int64_t>(images_of(d, i), 1)));
  if (n > kMostInTable)
    return fmt::format("<p>{}, {} classes.</p>\n{}", d.shown, n, worst_classes(d, right));
  return fmt::format("<p>{}: a row a true class, a column a prediction.</p>\n{}", d.shown,
                     confusion_table(d, right));
}

std::string prediction_figure(const ReportData& d, const Prediction& p) {
  std::vector<size_t> order(p.probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return p.probabilities[a] > p.probabilities[b]; });
  std::string lines =
      fmt::format("<b>{}</b>", escape_html(d.class_names[static_cast<size_t>(p.label)]));
  for (size_t k = 0; k < std::min<size_t>(3, order.size()); ++k) {
    bool right = order[k] == static_cast<size_t>(p.label);
    lines += fmt::format("<br><span class=\"{}\">{} {:.0f}%</span>", right ? "right" : "wrong",
                         escape_html(d.class_names[order[k]]), 100 * p.probabilities[order[k]]);
  }
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n",
                     html_image(to_bitmap(p.picture), 3, "sample image"), lines);
}

std::string predictions(const ReportData& d, const std::vector<Prediction>& list,
                        const std::string& text) {
  if (list.empty()) return "";
  std::string s = fmt::format("<p>{}</p>\n<div class=\"row\">\n", text);
  for (const Prediction& p : list) s += prediction_figure(d, p);
  return s + "</div>\n";
}

// The picture with lines of the page's colour between the patches that the model sees.
std::string in_patches(const Picture& p, int64_t patch, int scale) {
  std::string lines;
  for (int64_t x = patch; x < p.width; x += patch)
    lines += fmt::format("M{} 0v{}", x * scale, p.height * scale);
  for (int64_t y = patch; y < p.height; y += patch)
    lines += fmt::format("M0 {}h{}", y * scale, p.width * scale);
  return fmt::format(
      "<svg class=\"map\" role=\"img\" aria-label=\"sample image in patches\" width=\"{0}\" "
      "height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n<image width=\"{0}\" height=\"{1}\" "
      "href=\"{2}\"/>\n"
      "<path class=\"cut\" stroke-width=\"{3}\" d=\"{4}\"/>\n</svg>\n",
      p.width * scale, p.height * scale, png_url(to_bitmap(p)), scale, lines);
}

std::string patches(const ReportData& d) {
  constexpr int kScale = 6;  // screen pixels to a pixel
  if (d.predictions.empty() || d.patch == 0) return "";
  const Picture& p = d.predictions[0].picture;
  const int64_t count = (p.height / d.patch) * (p.width / d.patch);
  return "<div class=\"row\">" +
         html_figure(html_image(to_bitmap(p), kScale, "sample image"),
                     d.held_out ? "an image" : "a test image") +
         html_figure(in_patches(p, d.patch, kScale),
                     fmt::format("cut into {} patches of {} x {}, read row by row", count, d.patch,
                                 d.patch)) +
         "</div>\n";
}

}  // namespace

std::string make_report(const ReportData& d) {
  const std::string set = d.held_out ? "valid" : "test";
  const std::string top = set + "_top";
  RunPage page = {
      .columns = {{"train_loss"}, {"train_top1"}},
      .measured_on = d.held_out ? "images held out" : "test images",
      .unit = "images",
      .loss = {.title = "Loss", .lines = {{"train_loss"}, {set + "_loss"}}, .logs = true},
      .charts = {{.title = "Accuracy", .lines = {{"train_top1"}, {top + "1"}}, .percent = true}}};
  if (d.ranks > 1) page.charts[0].lines.push_back({fmt::format("{}{}", top, d.ranks)});
  ResultRow tested{fmt::format("best epoch ({}), test images", d.run.best), {}};
  if (d.tested) tested.metrics = {{set + "_loss", d.tested->loss}};
  for (int k = 1; k <= d.ranks; ++k) {
    page.columns.push_back({fmt::format("{}{}", top, k)});
    if (d.tested)
      tested.metrics.emplace_back(page.columns.back().metric,
                                  d.tested->top.at(static_cast<size_t>(k - 1)));
  }
  page.columns.insert(page.columns.end(), {{set + "_loss"}, {"lr"}});
  if (d.tested) page.more_results = {tested};
  page.sections = {
      {"What the model sees", patches(d)},
      {d.after.title, html_layer_maps(d.before, d.after)},
      {d.patches.title, picture_maps(d)},
      {"Confusion matrix", confusion(d)},
      {"Predictions", predictions(d, d.predictions,
                                  d.shown + " with their true class and the three likeliest "
                                            "answers.")},
      {"Surest mistakes",
       predictions(d, d.mistakes,
                   "The wrong answers that were given with the highest probability.")}};
  return run_page(d.run, page);
}

}  // namespace tern::apps::train_cifar
