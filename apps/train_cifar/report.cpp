#include "tern/apps/train_cifar/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tern/apps/common/heatmap.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"

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
                     html_image(p.picture, 3, "sample image"), lines);
}

std::string predictions(const ReportData& d, const std::vector<Prediction>& list,
                        const std::string& text) {
  if (list.empty()) return "";
  std::string s = fmt::format("<p>{}</p>\n<div class=\"row\">\n", text);
  for (const Prediction& p : list) s += prediction_figure(d, p);
  return s + "</div>\n";
}

// The picture with lines of the page's colour between the patches that the model sees.
std::string in_patches(const Bitmap& p, int64_t patch, int scale) {
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
      p.width * scale, p.height * scale, png_url(p), scale, lines);
}

std::string patches(const ReportData& d) {
  constexpr int kScale = 6;  // screen pixels to a pixel
  if (d.predictions.empty() || d.patch == 0) return "";
  const Bitmap& p = d.predictions[0].picture;
  const int64_t count = (p.height / d.patch) * (p.width / d.patch);
  return "<div class=\"row\">" +
         html_figure(html_image(p, kScale, "sample image"),
                     d.held_out ? "an image" : "a test image") +
         html_figure(in_patches(p, d.patch, kScale),
                     fmt::format("cut into {} patches of {} x {}, read row by row", count, d.patch,
                                 d.patch)) +
         "</div>\n";
}

constexpr int kLarge = 5, kSmall = 3;  // screen pixels to a pixel
// The reddest is at least so many even shares: a head that looks everywhere stays grey.
constexpr double kLeastReddest = 4;

// A grey, the redder the nearer `share` is to 1.
Rgb reddened(double grey, double share) {
  constexpr double kMost = 0.75;
  constexpr Rgb kRed = {214, 16, 30};
  const auto g = static_cast<uint8_t>(std::lround(grey));
  return mix({g, g, g}, kRed, kMost * share);
}

// How red a patch is in overlays: not at all up to `even`, fully at `most`, and between them by the
// square root, so that small differences are visible.
struct PatchScale {
  double even = 0;  // 1 / N, what each of N patches has if none counts more than another
  double most = 0;
  double red(double value) const {
    return most > even ? std::sqrt(std::clamp((value - even) / (most - even), 0.0, 1.0)) : 0;
  }
};

// "Layer 2, head 1: 0.3 % to 4 % per patch"
std::string description(const models::PatchMap& m, int64_t map, const Tensor& shares) {
  std::string text = m.title;
  if (!m.labels.empty()) text += ", " + m.labels.at(static_cast<size_t>(map));
  return text + fmt::format(": {:.3g} % to {:.3g} % per patch", 100 * min(shares).item(),
                            100 * max(shares).item());
}

const Prediction& pictured(const ReportData& d, int64_t image) {
  return d.predictions.at(static_cast<size_t>(image));
}

// One map as a picture that a click makes large; below it its range, where there is room.
std::string overlay_image(const ReportData& d, int64_t image, const models::PatchMap& m,
                          int64_t map, double most, bool is_small) {
  const Tensor shares = m.values[image][map];
  const Bitmap b = overlay(pictured(d, image).picture, shares.to_vector<float>(), shares.size(0),
                           shares.size(1), most);
  const std::string text = description(m, map, shares);
  const std::string id = fmt::format("picture{}-{}-{}", image, &m - d.patches.maps.data(), map);
  const std::string picture = html_zoom(html_image(b, is_small ? kSmall : kLarge, text), id, text);
  return is_small ? picture : html_figure(picture, text);
}

// A line a layer, its maps across.
std::string table(const ReportData& d, int64_t image, double most) {
  std::string s = "<div class=\"heads\"><table>\n";
  const std::vector<std::string>* heading = nullptr;
  for (const models::PatchMap& m : d.patches.maps) {
    if (m.labels.empty()) continue;
    if (!heading || *heading != m.labels) {
      heading = &m.labels;
      s += "<tr><th></th>";
      for (const std::string& label : *heading) s += fmt::format("<th>{}</th>", escape_html(label));
      s += "</tr>\n";
    }
    s += fmt::format("<tr><th>{}</th>\n", escape_html(m.title));
    for (int64_t i = 0; i < m.values.size(1); ++i)
      s += fmt::format("<td>{}</td>\n", overlay_image(d, image, m, i, most, true));
    s += "</tr>\n";
  }
  return heading ? s + "</table></div>\n" : "";
}

std::string picture_section(const ReportData& d, int64_t image, double most) {
  const Prediction& p = pictured(d, image);
  const std::string& name = d.class_names.at(static_cast<size_t>(p.label));
  std::string s = "<div class=\"row\">\n" + html_figure(html_image(p.picture, kLarge, name), name);
  for (const models::PatchMap& m : d.patches.maps)
    for (int64_t i = 0; m.labels.empty() && i < m.values.size(1); ++i)
      s += overlay_image(d, image, m, i, most, false);
  return s + table(d, image, most) + "</div>\n";
}

// The section on `d.patches`. All maps have one scale.
std::string picture_maps(const ReportData& d) {
  if (d.patches.maps.empty()) return "";
  const Tensor& any = d.patches.maps[0].values;
  const int64_t patches = any.size(2) * any.size(3);
  double most = kLeastReddest / static_cast<double>(patches);
  for (const models::PatchMap& m : d.patches.maps) most = std::max(most, max(m.values).item());
  const PatchScale scale{1 / static_cast<double>(patches), most};
  BarTicks ticks;
  for (const double share : {0.0, 0.1, 0.3, 0.6, 1.0}) {
    const double value = scale.even + share * (most - scale.even);
    ticks.emplace_back(scale.red(value), fmt::format("{:.3g} %", 100 * value));
  }
  constexpr double kMiddleGrey = 128;
  std::string s = fmt::format(
      "<p>{} {} in grey. Red is what a patch has above {:.3g} %, an even share of {} patches. All "
      "pictures have this scale; a click on one makes it large.</p>\n{}",
      escape_html(d.patches.caption), d.shown, 100 * scale.even, patches,
      color_bar(
          ticks, [](double t) { return reddened(kMiddleGrey, t); }, false));
  for (int64_t i = 0; i < any.size(0); ++i) s += picture_section(d, i, most);
  return s;
}

}  // namespace

Bitmap overlay(const Bitmap& p, const std::vector<float>& values, int64_t rows, int64_t columns,
               double most) {
  check(rows > 0 && columns > 0 && std::ssize(values) == rows * columns,
        "overlay: {} values for {} x {} patches", values.size(), rows, columns);
  if (most == 0) most = static_cast<double>(*std::max_element(values.begin(), values.end()));
  const PatchScale scale{1 / static_cast<double>(values.size()), most};
  Bitmap b = p;
  for (int64_t i = 0; i < p.width * p.height; ++i) {
    const int64_t row = i / p.width * rows / p.height, column = i % p.width * columns / p.width;
    const float value = values[static_cast<size_t>(row * columns + column)];
    uint8_t* rgb = &b.rgb[static_cast<size_t>(3 * i)];
    const Rgb c = reddened(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2],  // ITU-R BT.601
                           scale.red(static_cast<double>(value)));
    rgb[0] = c.red, rgb[1] = c.green, rgb[2] = c.blue;
  }
  return b;
}

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
  for (int k = 1; k <= d.ranks; ++k) page.columns.push_back({fmt::format("{}{}", top, k)});
  page.columns.insert(page.columns.end(), {{set + "_loss"}, {"lr"}});
  if (!d.tested.empty())
    page.more_results = {
        {fmt::format("best {} ({}), test images", d.run.word, d.run.best), d.tested}};
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
