#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tern/apps/common/attention_parts.h"
#include "tern/data/text/unicode.h"

namespace tern::apps {
namespace {

constexpr int64_t kMostHoverCells = 10000, kLongestLabel = 18, kLongestTitle = 60;
constexpr double kSlant = 60 * 3.14159265358979 / 180;  // of the tokens across, when they are long
constexpr int kMargin = 4, kScaleLeft = 52, kScaleWidth = 160;
constexpr int kScaleRight = kScaleLeft + kScaleWidth + 12;

// White to dark blue: the sequential scheme Blues of ColorBrewer (https://colorbrewer2.org).
constexpr std::array<std::array<int, 3>, 9> kBlues = {{{255, 255, 255},
                                                       {222, 235, 247},
                                                       {198, 219, 239},
                                                       {158, 202, 225},
                                                       {107, 174, 214},
                                                       {66, 146, 198},
                                                       {33, 113, 181},
                                                       {8, 81, 156},
                                                       {8, 48, 107}}};
constexpr std::array<uint8_t, 3> kGrey = {160, 160, 160};

std::array<uint8_t, 3> color_of(double shade) {
  if (std::isnan(shade)) return kGrey;
  const double at = shade * static_cast<double>(kBlues.size() - 1);
  const size_t k = std::min(static_cast<size_t>(at), kBlues.size() - 2);
  const double t = at - static_cast<double>(k);
  std::array<uint8_t, 3> rgb{};
  for (size_t i = 0; i < 3; ++i)
    rgb[i] =
        static_cast<uint8_t>(std::lround(kBlues[k][i] + t * (kBlues[k + 1][i] - kBlues[k][i])));
  return rgb;
}

std::string hex_color(double shade) {
  const auto rgb = color_of(shade);
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

// A token within a line of text; isolates keep one that runs from right to left from turning the
// line around.
std::string in_line(const std::string& token) {
  const std::string text = escape_html(printable(token, kOpenBox));
  return data::has_right_to_left(text) ? "\u2068" + text + "\u2069" : text;
}

// Tokens beside the cells: what is shown, and about how wide that is in pixels.
struct Labels {
  std::vector<std::string> texts;
  std::vector<double> widths;
  double widest = 0;
};

Labels make_labels(const std::vector<std::string>& tokens, double font) {
  Labels out;
  for (const std::string& token : tokens) {
    out.texts.push_back(data::cut_to_width(printable(token, kOpenBox), kLongestLabel));
    out.widths.push_back(static_cast<double>(data::display_width(out.texts.back())) * font * .62);
    out.widest = std::max(out.widest, out.widths.back());
  }
  return out;
}

std::string text_element(std::string_view attributes, double font, std::string_view text) {
  const std::string size = font == 12 ? "" : fmt::format(" style=\"font-size:{}px\"", font);
  return fmt::format("<text {}{}>{}</text>\n", attributes, size, escape_html(text));
}

// The scale at height y of a sheet.
std::string scale(int y) {
  constexpr int kStep = 4, kSteps = kScaleWidth / kStep;
  std::string s = text_element(fmt::format("x=\"{}\" y=\"{}\"", kMargin, y + 10), 11, "weight");
  s += "<g shape-rendering=\"crispEdges\">\n";
  for (int i = 0; i < kSteps; ++i)
    s += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\" fill=\"{}\"/>\n",
                     kScaleLeft + i * kStep, y, kStep, hex_color((i + .5) / kSteps));
  s += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\" fill=\"none\" "
      "stroke=\"#c3cbd3\"/>\n</g>\n",
      kScaleLeft, y, kScaleWidth);
  for (const float weight : {0.F, .05F, .2F, .5F, 1.F})
    s += text_element(fmt::format("x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\"",
                                  kScaleLeft + kScaleWidth * attention_shade(weight), y + 25),
                      11, fmt::format("{:g}", weight));
  return s;
}

// One matrix on its sheet.
class Sheet {
 public:
  Sheet(const AttentionMatrix& matrix, const AttentionStyle& style) : m_(matrix), style_(style) {
    check_attention(m_);
    font_ = std::clamp(style.cell - 2, 9, 12);
    columns_ = make_labels(m_.columns, font_);
    rows_ = make_labels(m_.rows, font_);
    title_ = data::cut_to_width(printable(m_.title, U' '), kLongestTitle);
    slanted_ = columns_.widest > style.cell - 2;
    const double up = slanted_ ? columns_.widest * std::sin(kSlant) + font_ : font_ + 6.0;
    left_ = static_cast<int>(std::ceil(rows_.widest)) + 10;
    top_ = static_cast<int>(std::ceil(up)) + (title_.empty() ? kMargin : 24);
    right_ = left_ + style.cell * static_cast<int>(m_.columns.size());
    bottom_ = top_ + style.cell * static_cast<int>(m_.rows.size());
    width_ =
        std::max(right_ + kMargin, static_cast<int>(data::display_width(title_) * 7.6) + kMargin);
    for (size_t c = 0; slanted_ && c < columns_.widths.size(); ++c)
      width_ = std::max(width_, static_cast<int>(x_middle(c) + columns_.widths[c] * .5 + font_));
  }

  AttentionDrawing draw() const {
    const int legend_height = style_.legend ? 44 : 0;
    const int width = style_.legend ? std::max(width_, kScaleRight) : width_;
    const int height = bottom_ + kMargin + legend_height + (m_.weights.empty() ? 20 : 0);
    std::string s = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" style=\"font:12px system-ui,sans-serif\" aria-label=\"{2}\">\n",
        width, height, escape_html(printable(m_.title, U' ')));
    if (!title_.empty())
      s += fmt::format("<text x=\"{}\" y=\"15\" style=\"font-weight:600\">{}</text>\n", kMargin,
                       escape_html(title_));
    s += labels();
    if (m_.weights.empty()) {
      s += text_element(fmt::format("x=\"{}\" y=\"{}\"", kMargin, bottom_ + 16), 12, "no weights");
    } else {
      s += style_.hover ? hover_cells() : image();
    }
    if (style_.legend) s += scale(height - legend_height + 8);
    return {s + "</svg>\n", width, height};
  }

 private:
  double x_middle(size_t column) const {
    return left_ + style_.cell * (static_cast<double>(column) + .5);
  }

  std::string labels() const {
    std::string s;
    for (size_t c = 0; c < columns_.texts.size(); ++c) {
      const double x = x_middle(c);
      const std::string at =
          slanted_ ? fmt::format("transform=\"translate({:.1f} {}) rotate(-60)\"", x + font_ * .3,
                                 top_ - 5)
                   : fmt::format("x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\"", x, top_ - 6);
      s += text_element(at, font_, columns_.texts[c]);
    }
    for (size_t r = 0; r < rows_.texts.size(); ++r) {
      const double y = top_ + style_.cell * (static_cast<double>(r) + .5) + font_ * .35;
      s += text_element(fmt::format("x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\"", left_ - 6, y),
                        font_, rows_.texts[r]);
    }
    return s;
  }

  // The sheet under the cells; what shows between them is the grid.
  std::string ground(const char* fill) const {
    return fmt::format(
        "<path d=\"M{} {}h{}v{}h-{}z\" fill=\"{}\" stroke=\"#c3cbd3\" shape-rendering=\""
        "crispEdges\"/>\n",
        left_, top_, right_ - left_, bottom_ - top_, right_ - left_, fill);
  }

  std::string hover_cells() const {
    std::vector<std::string> sources;
    for (const std::string& token : m_.columns) sources.push_back(in_line(token));
    std::string s = ground("#e6ebf0") + "<g shape-rendering=\"crispEdges\">\n";
    for (size_t r = 0; r < m_.rows.size(); ++r) {
      const std::string target = in_line(m_.rows[r]);
      for (size_t c = 0; c < sources.size(); ++c) {
        const float weight = m_.weights[r * sources.size() + c];
        s += fmt::format(
            "<path d=\"M{0} {1}h{2}v{2}h-{2}\" fill=\"{3}\"><title>{4} ← {5}: "
            "{6:.3f}</title></path>\n",
            left_ + style_.cell * static_cast<int>(c), top_ + style_.cell * static_cast<int>(r),
            style_.cell - 1, hex_color(attention_shade(weight)), target, sources[c], weight);
      }
    }
    return s + "</g>\n";
  }

  std::string image() const {
    return fmt::format(
        "{}<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
        "style=\"image-rendering:pixelated\" href=\"{}\"/>\n",
        ground("none"), left_, top_, right_ - left_, bottom_ - top_, png_url(attention_bitmap(m_)));
  }

  const AttentionMatrix& m_;
  AttentionStyle style_;
  double font_ = 0;
  Labels columns_, rows_;
  std::string title_;
  bool slanted_ = false;
  int left_ = 0, top_ = 0, right_ = 0, bottom_ = 0, width_ = 0;
};

}  // namespace

Bitmap attention_bitmap(const AttentionMatrix& m) {
  Bitmap b{std::ssize(m.columns), std::ssize(m.rows), {}};
  for (const float w : m.weights)
    for (const uint8_t channel : color_of(attention_shade(w))) b.rgb.push_back(channel);
  return b;
}

AttentionStyle large_attention(const AttentionMatrix& m) {
  const size_t n = std::max(m.rows.size(), m.columns.size());
  return {.cell = n <= 10   ? 26
                  : n <= 12 ? 22
                  : n <= 28 ? 18
                  : n <= 48 ? 15
                            : 12,
          .hover = std::ssize(m.weights) <= kMostHoverCells};
}

AttentionDrawing draw_attention(const AttentionMatrix& matrix, const AttentionStyle& style) {
  return Sheet(matrix, style).draw();
}

std::string attention_legend() {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"32\">\n{}</svg>\n",
      kScaleRight, scale(2));
}

std::string attention_svg(const AttentionMatrix& matrix) {
  return draw_attention(matrix, large_attention(matrix)).svg;
}

}  // namespace tern::apps
