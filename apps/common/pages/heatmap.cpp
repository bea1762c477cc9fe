// Draws a matrix as SVG with names or numbers beside its rows and columns, either as one image or
// as cells with hover texts; and colour bars.
#include "tern/apps/common/pages/heatmap.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/pages/chart.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::apps {
namespace {

constexpr double kSlant = 60 * 3.14159265358979 / 180;  // angle of long column names
constexpr int kMargin = 4, kTick = 4, kNumbers = 30;

// Round integers below `count`, as many as fit.
std::vector<int64_t> whole_ticks(int64_t count, int64_t pixels) {
  constexpr int kLabelPixels = 26;  // width of a number, roughly
  std::vector<int64_t> out;
  const int most = static_cast<int>(std::clamp<int64_t>(pixels / kLabelPixels, 1, 6));
  if (count == 1) return {0};
  for (const double t : round_ticks(0, static_cast<double>(count - 1), most))
    if (t == std::floor(t) && t < static_cast<double>(count)) out.push_back(std::llround(t));
  return out;
}

// The names or numbers beside rows or columns.
struct Names {
  struct Name {
    int64_t at;
    std::string text;
    double width;  // estimated, in pixels
  };
  std::vector<Name> list;
  double widest = 0;

  Names(const std::vector<std::string>& names, int64_t count, int cell, double font) {
    auto add = [&](int64_t at, const std::string& text) {
      list.push_back({at, text, static_cast<double>(datasets::display_width(text)) * font * .62});
      widest = std::max(widest, list.back().width);
    };
    for (size_t i = 0; i < names.size(); ++i) add(static_cast<int64_t>(i), names[i]);
    if (names.empty() && count > 0)
      for (const int64_t at : whole_ticks(count, count * cell)) add(at, fmt::format("{}", at));
  }
};

// One matrix on its sheet: the title, column names below it, row names to the left.
class Sheet {
 public:
  Sheet(const Bitmap& cells, const MatrixStyle& style)
      : b_(cells),
        style_(style),
        row_(style.row_height > 0 ? style.row_height : style.cell),
        font_(is_ticks() ? 10 : std::clamp(style.cell - 2, 9, 12)),
        columns_(style.columns, b_.width, style.cell, font_),
        rows_(style.rows, b_.height, row_, font_) {
    slanted_ = !is_ticks() && columns_.widest > style.cell - 2;
    const double up = slanted_ ? columns_.widest * std::sin(kSlant) + font_ : font_ + 6;
    // Numbers always take the same room, so that strips over the same time steps line up.
    left_ = is_ticks() ? kNumbers : static_cast<int>(std::ceil(rows_.widest)) + 10;
    top_ = static_cast<int>(std::ceil(up)) + (style.title.empty() ? kMargin : 24);
    across_ = style.cell * static_cast<int>(b_.width);
    down_ = row_ * static_cast<int>(b_.height);
    width_ = std::max(left_ + across_ + kMargin,
                      static_cast<int>(datasets::display_width(style.title) * 7.6) + kMargin);
    for (const Names::Name& n : columns_.list)
      width_ = std::max(width_, static_cast<int>(column_middle(n.at) + n.width * .5 + font_));
    height_ = top_ + down_ + kMargin + (empty() ? 20 : 0);
  }

  Drawing draw() const {
    std::string s = open();
    if (!style_.title.empty())
      s += fmt::format("<text x=\"{}\" y=\"15\" style=\"font-weight:600\">{}</text>\n", kMargin,
                       escape_html(style_.title));
    s += labels();
    if (empty())
      s += fmt::format("<text x=\"{}\" y=\"{}\">no weights</text>\n", kMargin, top_ + down_ + 16);
    else
      s += style_.hover ? hover_cells() : image();
    return {s + frame("fill=\"none\" stroke=\"#9aa4ae\"") + "</svg>\n", width_, height_};
  }

 private:
  bool is_ticks() const { return style_.columns.empty() && style_.rows.empty(); }
  bool empty() const { return b_.rgb.empty(); }
  double column_middle(int64_t i) const {
    return left_ + style_.cell * (static_cast<double>(i) + .5);
  }

  std::string open() const {
    const char* kind = is_ticks() ? "map ticks" : "names";  // names would be too small on phones
    const std::string role = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{} turned\" role=\"img\" "
        "aria-label=\"{}\"",
        style_.thumbnail > 0 ? "thumbnail" : kind, escape_html(style_.description));
    if (style_.thumbnail == 0 || empty())
      return fmt::format(
          "{0} width=\"{1}\" height=\"{2}\" viewBox=\"0 0 {1} {2}\" "
          "style=\"font:12px system-ui,sans-serif\">\n",
          role, width_, height_);
    const double scale = static_cast<double>(style_.thumbnail) / std::max(across_, down_);
    return fmt::format(
        "{0} width=\"{1:.0f}\" height=\"{2:.0f}\" viewBox=\"{3} {4} {5} {6}\" "
        "style=\"--x:{3};--y:{4};--c:{5};--r:{6};--w:{7};--h:{8}\">\n",
        role, scale * across_, scale * down_, left_, top_, across_, down_, width_, height_);
  }

  std::string text(const std::string& place, const std::string& words) const {
    const std::string size = font_ == 12 ? "" : fmt::format(" style=\"font-size:{}px\"", font_);
    return fmt::format("<text {}{}>{}</text>\n", place, size, escape_html(words));
  }

  std::string labels() const {
    std::string s, ticks;
    for (const Names::Name& n : columns_.list) {
      const double x = column_middle(n.at);
      s += text(slanted_ ? fmt::format("transform=\"translate({:.1f} {}) rotate(-60)\"",
                                       x + font_ * .3, top_ - 5)
                         : fmt::format("x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\"", x, top_ - 6),
                n.text);
      ticks += fmt::format("M{:g} {}v-{}", x, top_, kTick);
    }
    for (const Names::Name& n : rows_.list) {
      const double y = top_ + row_ * (static_cast<double>(n.at) + .5);
      s +=
          text(fmt::format("x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\"", left_ - 6, y + font_ * .35),
               n.text);
      ticks += fmt::format("M{} {:g}h-{}", left_, y, kTick);
    }
    if (is_ticks()) s += fmt::format("<path d=\"{}\" stroke=\"#9aa4ae\"/>\n", ticks);
    return s;
  }

  // A rectangle as large as the cells: their background or their border, by `paint`.
  std::string frame(const char* paint) const {
    return fmt::format("<path d=\"M{} {}h{}v{}h-{}z\" {} shape-rendering=\"crispEdges\"/>\n", left_,
                       top_, across_, down_, across_, paint);
  }

  // The background shows between the cells as a grid.
  std::string hover_cells() const {
    std::string s = frame("fill=\"#e6ebf0\"") + "<g shape-rendering=\"crispEdges\">\n";
    for (int64_t y = 0; y < b_.height; ++y)
      for (int64_t x = 0; x < b_.width; ++x) {
        const uint8_t* rgb = &b_.rgb[static_cast<size_t>(3 * (y * b_.width + x))];
        s += fmt::format("<path d=\"M{} {}h{}v{}h-{}\" fill=\"{}\"><title>{}</title></path>\n",
                         left_ + style_.cell * x, top_ + row_ * y, style_.cell - 1, row_ - 1,
                         style_.cell - 1, hex({rgb[0], rgb[1], rgb[2]}),
                         escape_html(style_.hover(y, x)));
      }
    return s + "</g>\n";
  }

  std::string image() const {
    return fmt::format(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
        "style=\"image-rendering:pixelated\" href=\"{}\"/>\n",
        left_, top_, across_, down_, png_url(b_));
  }

  const Bitmap& b_;
  const MatrixStyle& style_;
  int row_;
  double font_;
  Names columns_, rows_;
  bool slanted_ = false;
  int left_ = 0, top_ = 0, across_ = 0, down_ = 0, width_ = 0, height_ = 0;
};

double largest(const models::Heatmap& map) {
  return map.values.numel() > 0 ? max(abs(map.values)).item() : 0;
}

// A layer's matrices as figures, and their mean if it has a name.
std::string figures(const models::Heatmap& map, const char* when, double limit) {
  const int64_t rows = map.values.size(1), columns = map.values.size(2), count = map.values.size(0);
  const int64_t side = std::max<int64_t>({rows, columns, 1}), least = side > 200 ? 1 : 2;
  const int cell = static_cast<int>(std::clamp<int64_t>((count > 1 ? 160 : 240) / side, least, 12));
  std::string s;
  auto add = [&](const Tensor& values, const std::string& label) {
    const std::string name = label.empty() ? when : fmt::format("{}, {}", when, label);
    s += html_figure(html_heatmap(values.to_vector<float>(), rows, columns, limit, cell,
                                  map.title + ", " + name),
                     name);
  };
  for (int64_t i = 0; i < count; ++i)
    add(map.values[i], map.labels.empty() ? "" : map.labels.at(static_cast<size_t>(i)));
  if (!map.mean_label.empty()) add(mean(map.values, {0}), map.mean_label);
  return s;
}

}  // namespace

Drawing draw_matrix(const Bitmap& cells, const MatrixStyle& style) {
  return Sheet(cells, style).draw();
}

Bitmap color_cells(const std::vector<float>& values, int64_t rows, int64_t columns,
                   const std::function<Rgb(float)>& color) {
  check(std::ssize(values) == rows * columns, "heatmap: {} values for {} x {}", values.size(), rows,
        columns);
  Bitmap b{rows, columns, {}};
  for (const float v : values) {
    const Rgb c = color(v);
    b.rgb.insert(b.rgb.end(), {c.red, c.green, c.blue});
  }
  return b;
}

std::string html_heatmap(const std::vector<float>& values, int64_t rows, int64_t columns,
                         double limit, int cell, const std::string& description) {
  const Bitmap b = color_cells(values, rows, columns, [&](float v) {
    return diverging_color(limit > 0 ? static_cast<double>(v) / limit : 0);
  });
  return draw_matrix(b, {.description = description, .cell = cell}).svg;
}

std::string html_layer_maps(const models::Heatmaps& before, const models::Heatmaps& after) {
  if (after.maps.empty()) return "";
  std::string s = fmt::format("<p>{}</p>\n<div class=\"layers\">\n", escape_html(after.caption));
  for (size_t i = 0; i < after.maps.size(); ++i) {
    const models::Heatmap& last = after.maps[i];
    double limit = largest(last);
    std::string first;
    if (!before.maps.empty()) {
      limit = std::max(limit, largest(before.maps.at(i)));
      first = figures(before.maps[i], "before training", limit) +
              (last.values.size(0) > 1 ? "</div>\n<div class=\"row\">" : "");
    }
    s += fmt::format("<div><h3>{}</h3>\n{}<div class=\"row\">{}{}</div></div>\n",
                     escape_html(last.title), heatmap_bar(limit), first,
                     figures(last, "after training", limit));
  }
  return s + "</div>\n";
}

std::string color_bar(const BarTicks& ticks, const std::function<Rgb(double t)>& color) {
  constexpr int kSteps = 64, kSide = 28, kWidth = 256, kHeight = 12;
  std::vector<float> steps;
  for (int i = 0; i < kSteps; ++i) steps.push_back(static_cast<float>(i) / (kSteps - 1));
  const Bitmap b =
      color_cells(steps, 1, kSteps, [&](float t) { return color(static_cast<double>(t)); });
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"bar turned\" role=\"img\" "
      "aria-label=\"colour scale\" width=\"{0}\" height=\"30\" viewBox=\"0 0 {0} 30\">\n"
      "<image x=\"{1}\" width=\"{2}\" height=\"{3}\" preserveAspectRatio=\"none\" "
      "href=\"{4}\"/>\n",
      kWidth + 2 * kSide, kSide, kWidth, kHeight, png_url(b));
  std::string marks = fmt::format("M{} 0h{}v{}h-{}z", kSide, kWidth, kHeight, kWidth);
  for (const auto& [at, text] : ticks) {
    const double x = kSide + at * kWidth;
    marks += fmt::format("M{:g} {}v{}", x, kHeight, kTick);
    s +=
        fmt::format("<text x=\"{:g}\" y=\"27\" text-anchor=\"middle\" font-size=\"10\">{}</text>\n",
                    x, escape_html(text));
  }
  return s + fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#9aa4ae\"/>\n</svg>\n", marks);
}

std::string heatmap_bar(double limit) {
  BarTicks ticks;
  for (const double at : {0.0, 0.25, 0.5, 0.75, 1.0})
    ticks.emplace_back(at, fmt::format("{:.3g}", (2 * at - 1) * limit));
  return color_bar(ticks, [](double t) { return diverging_color(2 * t - 1); });
}

}  // namespace tern::apps
