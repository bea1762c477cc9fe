#include "tern/apps/train_cifar/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/apps/common/color.h"
#include "tern/apps/common/heatmap.h"
#include "tern/apps/common/html.h"
#include "tern/apps/train_cifar/report_pictures.h"

namespace tern::apps::train_cifar {
namespace {

// The picture with a white gap between the patches that the model sees.
Bitmap cut_into_patches(const Picture& p, int64_t patch) {
  constexpr int64_t kGap = 2;
  Bitmap whole = to_bitmap(p), out;
  auto moved = [&](int64_t at) { return at + at / patch * kGap; };
  out.width = moved(p.width - 1) + 1;
  out.height = moved(p.height - 1) + 1;
  out.rgb.assign(static_cast<size_t>(3 * out.width * out.height), 255);
  for (int64_t y = 0; y < p.height; ++y)
    for (int64_t x = 0; x < p.width; ++x)
      std::copy_n(&whole.rgb[static_cast<size_t>(3 * (y * p.width + x))], 3,
                  &out.rgb[static_cast<size_t>(3 * (moved(y) * out.width + moved(x)))]);
  return out;
}

// The name of the set that epochs are measured on, as it begins their metrics.
std::string measured(const ReportData& d) { return d.held_out ? "valid" : "test"; }

std::string results(const ReportData& d) {
  if (d.run.epochs.empty()) return "";
  std::string s = "<div class=\"scroll\"><table>\n<tr><th></th>";
  for (int k = 1; k <= d.ranks; ++k) s += fmt::format("<th>top-{}</th>", k);
  s += "<th>loss</th></tr>\n";
  auto row = [&](const std::string& name, auto top, double loss) {
    s += fmt::format("<tr><td>{}</td>", name);
    for (int k = 1; k <= d.ranks; ++k) s += fmt::format("<td>{:.2f}%</td>", 100 * top(k));
    s += fmt::format("<td>{:.4f}</td></tr>\n", loss);
  };
  auto epoch = [&](const std::string& name, const train::EpochRecord& e) {
    row(
        name + ", " + (d.held_out ? "images held out" : "test images"),
        [&](int k) { return e[fmt::format("{}_top{}", measured(d), k)]; },
        e[measured(d) + "_loss"]);
  };
  epoch("last epoch", d.run.epochs.back());
  if (d.run.best > 0) {
    const std::string best = fmt::format("best epoch ({})", d.run.best);
    epoch(best, d.run.epochs.at(static_cast<size_t>(d.run.best - 1)));
    if (d.tested)
      row(
          best + ", test images",
          [&](int k) { return d.tested->top.at(static_cast<size_t>(k - 1)); }, d.tested->loss);
  }
  return s + "</table></div>\n";
}

std::string curves(const ReportData& d) {
  const std::string set = measured(d);
  return run_charts(
      d.run,
      {.title = "Loss", .lines = {{"train", "train_loss"}, {set, set + "_loss"}}, .logs = true},
      {{.title = "Accuracy",
        .lines = {{"train top-1", "train_top1"},
                  {set + " top-1", set + "_top1"},
                  {fmt::format("{} top-{}", set, d.ranks), fmt::format("{}_top{}", set, d.ranks)}},
        .percent = true}});
}

std::string tables(const ReportData& d) {
  const std::string set = measured(d);
  return epoch_table(d.run,
                     {{"train loss", "train_loss"},
                      {"train top-1", "train_top1", 2, 100, "%"},
                      {set + " loss", set + "_loss"},
                      {set + " top-1", set + "_top1", 2, 100, "%"},
                      {fmt::format("{} top-{}", set, d.ranks),
                       fmt::format("{}_top{}", set, d.ranks), 2, 100, "%"},
                      {"lr", "lr", 6}},
                     "images") +
         settings_table(d.run);
}

std::vector<float> average(const std::vector<float>& maps, int64_t count) {
  std::vector<float> mean(maps.size() / static_cast<size_t>(count));
  for (size_t i = 0; i < maps.size(); ++i)
    mean[i % mean.size()] += maps[i] / static_cast<float>(count);
  return mean;
}

double largest(const std::vector<float>& v) {
  double m = 0;
  for (float x : v) m = std::max(m, std::abs(static_cast<double>(x)));
  return m;
}

std::string layer_maps(const LayerMaps& w) {
  const int64_t longest = std::max<int64_t>({w.rows, w.columns, 1});
  int scale = std::max<int>(2, static_cast<int>((w.maps > 1 ? 160 : 200) / longest));
  double limit = std::max(largest(w.before), largest(w.after));
  std::string s = fmt::format("<div><h3>{}</h3>\n", escape_html(w.name));
  auto picture = [&](const std::vector<float>& values, const std::string& when,
                     const std::string& label) {
    s += html_figure(html_heatmap(values, w.rows, w.columns, limit, scale, w.name),
                     label.empty() ? when : when + ", " + label);
  };
  auto maps = [&](const std::vector<float>& values, const char* when) {
    auto size = static_cast<std::ptrdiff_t>(w.rows * w.columns);
    for (int64_t i = 0; i < w.maps; ++i)
      picture({values.begin() + i * size, values.begin() + (i + 1) * size}, when,
              w.labels.empty() ? "" : w.labels.at(static_cast<size_t>(i)));
    if (!w.mean_label.empty()) picture(average(values, w.maps), when, w.mean_label);
  };
  const char* row = "</div>\n<div class=\"row\">\n";
  s += heatmap_bar(limit) + "<div class=\"row\">\n";
  maps(w.before, "before training");
  if (w.maps > 1) s += row;
  maps(w.after, "after training");
  return s + "</div></div>\n";
}

// The greener for a larger share of right answers, the redder for one of wrong ones.
std::string confusion_cell(int64_t count, double share, bool right) {
  if (count == 0) return "<td>0</td>";
  constexpr Rgb kWhite = {255, 255, 255};
  const Rgb end = right ? kLightTheme.good : kLightTheme.bad;
  const Rgb background = mix(kWhite, end, share * (right ? .6 : 2));
  return fmt::format("<td style=\"background:{};color:{}\">{}</td>", hex(background),
                     hex(readable_on(background)), count);
}

std::string confusion_table(const ReportData& d) {
  size_t n = d.class_names.size();
  std::string s = "<div class=\"scroll\"><table>\n<tr><th>true \\ predicted</th>";
  for (const std::string& c : d.class_names) s += fmt::format("<th>{}</th>", escape_html(c));
  s += "<th>right</th></tr>\n";
  for (size_t i = 0; i < n; ++i) {
    auto row = d.confusion.begin() + static_cast<std::ptrdiff_t>(i * n);
    auto total =
        static_cast<double>(std::accumulate(row, row + static_cast<std::ptrdiff_t>(n), int64_t{0}));
    s += fmt::format("<tr><td>{}</td>", escape_html(d.class_names[i]));
    for (size_t j = 0; j < n; ++j) {
      int64_t count = row[static_cast<std::ptrdiff_t>(j)];
      double share = total > 0 ? static_cast<double>(count) / total : 0;
      s += confusion_cell(count, share, i == j);
    }
    double right = total > 0 ? static_cast<double>(row[static_cast<std::ptrdiff_t>(i)]) / total : 0;
    s += fmt::format("<td>{:.1f}%</td></tr>\n", 100 * right);
  }
  return s + "</table></div>\n";
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

std::string predictions(const ReportData& d, const std::vector<Prediction>& list, const char* title,
                        const std::string& text) {
  if (list.empty()) return "";
  std::string s = fmt::format("<h2>{}</h2>\n<p>{}</p>\n<div class=\"row\">\n", title, text);
  for (const Prediction& p : list) s += prediction_figure(d, p);
  return s + "</div>\n";
}

std::string patches(const ReportData& d) {
  const Picture& p = d.sample;
  if (p.pixels.empty() || d.patch == 0) return "";
  int64_t count = (p.height / d.patch) * (p.width / d.patch);
  return "<h2>What the model sees</h2>\n<div class=\"row\">" +
         html_figure(html_image(to_bitmap(p), 6, "sample image"),
                     d.held_out ? "an image" : "a test image") +
         html_figure(html_image(cut_into_patches(p, d.patch), 6, "sample image in patches"),
                     fmt::format("cut into {} patches of {} x {}, read row by row", count, d.patch,
                                 d.patch)) +
         "</div>\n";
}

}  // namespace

std::string make_report(const ReportData& d) {
  std::string s = page_head(d.run) + "<h2>Results</h2>\n" + results(d) + curves(d) + patches(d);
  if (!d.layers.empty()) {
    s += fmt::format("<h2>{}</h2>\n<p>{}</p>\n<div class=\"layers\">\n", escape_html(d.maps_title),
                     escape_html(d.maps_caption));
    for (const LayerMaps& w : d.layers) s += layer_maps(w);
    s += "</div>\n";
  }
  s += picture_maps(d);
  if (!d.confusion.empty())
    s += "<h2>Confusion matrix</h2>\n<p>" + d.shown +
         ": a row a true class, a column a prediction.</p>\n" + confusion_table(d);
  s += predictions(d, d.predictions, "Predictions",
                   d.shown + " with their true class and the three likeliest answers.");
  s += predictions(d, d.mistakes, "Surest mistakes",
                   "The wrong answers that were given with the highest probability.");
  return html_page(d.run.title, s + "<h2>Numbers</h2>\n" + tables(d));
}

}  // namespace tern::apps::train_cifar
