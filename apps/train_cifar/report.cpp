// The sections of the report: confusion matrix, predictions, mistakes, patches, and maps of weights
// and attention.
#include "tern/apps/train_cifar/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tern/apps/common/pages/heatmap.h"
#include "tern/apps/train_cifar/evaluate.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"

namespace tern::apps::train_cifar {
namespace {

constexpr double kMostShare = 50;    // largest percentage of green or red in a cell
constexpr size_t kMostInTable = 40;  // most classes in a confusion matrix
constexpr size_t kListed = 20;       // classes listed if there are more

// The number of images whose true class is `label`.
int64_t images_of(const ReportData& d, size_t label) {
  const size_t n = d.class_names.size();
  const auto row = d.confusion.begin() + static_cast<std::ptrdiff_t>(label * n);
  return std::accumulate(row, row + static_cast<std::ptrdiff_t>(n), int64_t{0});
}

// A cell: a larger share of right answers is greener, one of wrong answers redder. The colour goes
// at most half of the way, so that the number stays readable.
std::string confusion_cell(int64_t count, double share, bool right) {
  if (count == 0) return "<td>0</td>";
  return fmt::format("<td class=\"share {}\" style=\"--share:{:.1f}%\">{}</td>",
                     right ? "hit" : "miss",
                     kMostShare * (right ? share : std::min(1.0, 3 * share)), count);
}

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f}%", 100 * share);
}

std::string confusion_table(const ReportData& d, const std::vector<ClassScores>& scores) {
  const size_t n = d.class_names.size();
  std::vector<std::string> heading = {"true \\ predicted"};
  heading.insert(heading.end(), d.class_names.begin(), d.class_names.end());
  heading.insert(heading.end(), {"recall", "precision", "F1"});
  std::string s = html_row(heading, "th");
  for (size_t i = 0; i < n; ++i) {
    s += fmt::format("<tr><td>{}</td>", escape_html(d.class_names[i]));
    const auto total = static_cast<double>(images_of(d, i));
    for (size_t j = 0; j < n; ++j) {
      const int64_t count = d.confusion[i * n + j];
      s += confusion_cell(count, static_cast<double>(count) / std::max(total, 1.0), i == j);
    }
    for (const double score : {scores[i].recall, scores[i].precision, scores[i].f1})
      s += fmt::format("<td>{}</td>", percent(score));
    s += "</tr>\n";
  }
  return html_table(s);
}

// A table of `count` lines, one per class or pair.
std::string list(const char* heading, size_t count,
                 const std::function<std::string(size_t)>& line) {
  std::string s = fmt::format("<div><h3>{}</h3>\n<table>\n", heading);
  for (size_t i = 0; i < count; ++i) s += "<tr>" + line(i) + "</tr>\n";
  return s + "</table></div>\n";
}

// For many classes: those with the worst scores, and the pairs that are confused most often.
std::string worst_classes(const ReportData& d, const std::vector<ClassScores>& scores) {
  const size_t n = d.class_names.size();
  std::vector<size_t> classes(n), pairs;
  std::iota(classes.begin(), classes.end(), size_t{0});
  std::erase_if(classes, [&](size_t i) { return images_of(d, i) == 0; });
  std::stable_sort(classes.begin(), classes.end(),
                   [&](size_t a, size_t b) { return scores[a].recall < scores[b].recall; });
  for (size_t k = 0; k < n * n; ++k)
    if (k / n != k % n && d.confusion[k] > 0) pairs.push_back(k);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](size_t a, size_t b) { return d.confusion[a] > d.confusion[b]; });
  auto name = [&](size_t i) { return escape_html(d.class_names[i]); };
  return "<div class=\"layers\">\n" +
         list("Least often right", std::min(kListed, classes.size()),
              [&](size_t i) {
                const ClassScores& one = scores[classes[i]];
                return fmt::format(
                    "<td>{}</td><td>{} of {}</td><td>precision {}</td><td>F1 {}</td>",
                    name(classes[i]), percent(one.recall), images_of(d, classes[i]),
                    percent(one.precision), percent(one.f1));
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
  const std::vector<ClassScores> scores = class_scores(d.confusion, n);
  double sum = 0;
  int64_t counted = 0;
  for (size_t i = 0; i < n; ++i)
    if (images_of(d, i) > 0) sum += std::isnan(scores[i].f1) ? 0 : scores[i].f1, ++counted;
  const std::string mean = fmt::format("<p>Mean F1 of the classes: {}.</p>\n",
                                       percent(sum / static_cast<double>(counted)));
  if (n > kMostInTable)
    return fmt::format("<p>{}, {} classes.</p>\n{}", d.shown, n, mean + worst_classes(d, scores));
  return fmt::format(
      "<p>{}: a row a true class, a column a prediction. Recall is the share of a class that was "
      "found, precision the share of its predictions that are right, F1 their harmonic "
      "mean.</p>\n{}{}",
      d.shown, confusion_table(d, scores), mean);
}

std::string prediction_figure(const ReportData& d, const Prediction& p) {
  std::string lines =
      fmt::format("<b>{}</b>", escape_html(d.class_names[static_cast<size_t>(p.label)]));
  for (const size_t c : likeliest(p.probabilities, 3))
    lines += fmt::format("<br><span class=\"{}\">{} {:.0f}%</span>",
                         c == static_cast<size_t>(p.label) ? "right" : "wrong",
                         escape_html(d.class_names[c]), 100 * p.probabilities[c]);
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

// The picture, with lines in the page's colour between the model's patches.
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
  constexpr int kScale = 6;  // screen pixels per pixel
  if (d.predictions.empty() || d.patch == 0) return "";
  const Bitmap& p = d.predictions[0].picture;
  const int64_t count = (p.height / d.patch) * (p.width / d.patch);
  return "<div class=\"row\">" +
         html_figure(html_image(p, kScale, "sample image"),
                     d.held_out ? "an image" : "a test image") +
         html_figure(
             in_patches(p, d.patch, kScale),
             d.stem > 0
                 ? fmt::format("a token for each {0} x {0} pixels, {1} in all: the stem's {2} "
                               "convolutions see around them, too",
                               d.patch, count, d.stem)
                 : fmt::format("cut into {0} patches of {1} x {1}, read row by row", count,
                               d.patch)) +
         "</div>\n";
}

constexpr int kLarge = 5, kSmall = 3;  // screen pixels per pixel
constexpr int64_t kLargest = 240;      // most screen pixels per side of a picture
// The darkest shade stands for at least this many times the uniform share, so that a head that
// attends everywhere stays pale.
constexpr double kLeastDarkest = 4;

// The shade of a patch: 0 at `low`, 1 at `high`. `root`: the square root, which makes small
// differences visible; else linear.
struct PatchScale {
  double low = 0, high = 0;
  bool root = true;
  double shade(double value) const {
    const double t = high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0;
    return root ? std::sqrt(t) : t;
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

int64_t large_scale(const Bitmap& picture) {
  return std::clamp<int64_t>(kLargest / std::max<int64_t>(picture.width, 1), 1, kLarge);
}

Bitmap map_of(const Tensor& shares, const PatchScale& scale) {
  return color_cells(shares.to_vector<float>(), shares.size(0), shares.size(1),
                     [&](float v) { return weight_color(scale.shade(static_cast<double>(v))); });
}

// A linear scale from the smallest to the largest share.
PatchScale own_scale(const Tensor& shares) {
  return {min(shares).item(), max(shares).item(), false};
}

// One map with a cell per patch, which a click enlarges; its range is below, if there is room.
std::string map_image(const ReportData& d, int64_t image, const models::PatchMap& m, int64_t map,
                      const PatchScale& scale, bool is_small) {
  const Tensor shares = m.values[image][map];
  const Bitmap b = map_of(shares, scale);
  const Bitmap& picture = pictured(d, image).picture;
  const int64_t side =
      picture.width * std::min<int64_t>(is_small ? kSmall : kLarge, large_scale(picture));
  const std::string text = description(m, map, shares);
  const Drawing drawing = draw_matrix(
      b, {.title = text, .description = text, .cell = 24, .thumbnail = static_cast<int>(side)});
  const std::string id = fmt::format("picture{}-{}-{}", image, &m - d.patches.maps.data(), map);
  const std::string zoom = html_zoom(drawing.svg, id, text);
  return is_small ? zoom : html_figure(zoom, text);
}

// A table with a row per layer and its maps in columns.
std::string table(const ReportData& d, int64_t image, const PatchScale& scale) {
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
      s += fmt::format("<td>{}</td>\n", map_image(d, image, m, i, scale, true));
    s += "</tr>\n";
  }
  return heading ? s + "</table></div>\n" : "";
}

// "cat, predicted: dog 63 %"
std::string true_and_predicted(const ReportData& d, const Prediction& p) {
  const std::string name = d.class_names.at(static_cast<size_t>(p.label));
  if (p.probabilities.empty()) return name;
  const auto best = std::max_element(p.probabilities.begin(), p.probabilities.end());
  return fmt::format("{}, predicted: {} {:.0f} %", name,
                     d.class_names.at(static_cast<size_t>(best - p.probabilities.begin())),
                     100 * *best);
}

std::string picture_section(const ReportData& d, int64_t image, const PatchScale& scale) {
  const Prediction& p = pictured(d, image);
  const std::string text = true_and_predicted(d, p);
  std::string s =
      "<div class=\"row\">\n" +
      html_figure(html_image(p.picture, static_cast<int>(large_scale(p.picture)), text), text);
  for (const models::PatchMap& m : d.patches.maps)
    for (int64_t i = 0; m.labels.empty() && i < m.values.size(1); ++i) {
      const Tensor shares = m.values[image][i];
      s += map_image(d, image, m, i, own_scale(shares), false);
    }
  return s + table(d, image, scale) + "</div>\n";
}

// The section on `d.patches`. The maps of heads share a scale; the others have their own.
std::string picture_maps(const ReportData& d) {
  if (d.patches.maps.empty()) return "";
  const Tensor& any = d.patches.maps[0].values;
  const int64_t patches = any.size(2) * any.size(3);
  const double even = 1 / static_cast<double>(patches);
  PatchScale scale{0, kLeastDarkest * even};
  std::string own;  // the names of maps with scales of their own
  bool heads = false;
  for (const models::PatchMap& m : d.patches.maps)
    if (m.labels.empty()) {
      own += (own.empty() ? "" : ", ") + m.title;
    } else {
      heads = true;
      scale.high = std::max(scale.high, max(m.values).item());
    }
  const std::string range = ", from the least to the most of its patches";
  std::string scales = "Each map has its own scale" + range;
  if (heads) scales = "All heads have the scale below";
  if (heads && !own.empty()) scales += "; " + escape_html(own) + " has its own" + range;
  BarTicks ticks;
  for (const double value : {0.0, even, scale.high / 2, scale.high})
    ticks.emplace_back(scale.shade(value), fmt::format("{:.3g} %", 100 * value));
  std::string s = fmt::format(
      "<p>{} {}. The darker a patch, the more it counts; an even share of {} patches is {:.3g} %. "
      "{}. A click on a map makes it large.</p>\n{}",
      escape_html(d.patches.caption), d.shown, patches, 100 * even, scales,
      heads ? color_bar(ticks, weight_color) : "");
  for (int64_t i = 0; i < any.size(0); ++i) s += picture_section(d, i, scale);
  return s;
}

}  // namespace

Bitmap picture_and_map(const Bitmap& picture, const Tensor& shares) {
  const Bitmap map = map_of(shares, own_scale(shares));
  Bitmap out{picture.height, 2 * picture.width, {}};
  for (int64_t y = 0; y < picture.height; ++y) {
    out.rgb.insert(out.rgb.end(), picture.row(y), picture.row(y) + 3 * picture.width);
    for (int64_t x = 0; x < picture.width; ++x) {
      const uint8_t* cell =
          map.row(y * map.height / picture.height) + 3 * (x * map.width / picture.width);
      out.rgb.insert(out.rgb.end(), cell, cell + 3);
    }
  }
  return out;
}

std::vector<ClassScores> class_scores(const std::vector<int64_t>& confusion, size_t n) {
  check(confusion.size() == n * n, "class_scores: {} counts for {} classes", confusion.size(), n);
  std::vector<ClassScores> out;
  for (size_t i = 0; i < n; ++i) {
    int64_t of_class = 0, predicted = 0;
    for (size_t j = 0; j < n; ++j) {
      of_class += confusion[i * n + j];
      predicted += confusion[j * n + i];
    }
    auto share = [](int64_t part, int64_t whole) {
      return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kNaN;
    };
    const int64_t right = confusion[i * n + i];
    out.push_back(
        {share(right, of_class), share(right, predicted), share(2 * right, of_class + predicted)});
  }
  return out;
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
        {fmt::format("{}, test images{}",
                     d.held_out ? fmt::format("best {} ({})", d.run.word, d.run.best)
                                : "last " + d.run.word,
                     d.views.empty() ? "" : " with " + d.views),
         d.tested}};
  const bool chosen = d.held_out && d.tested.empty();
  page.answer = {top + "1", d.images, chosen ? "images held out" : "test images"};
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
