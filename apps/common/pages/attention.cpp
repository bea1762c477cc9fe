// Groups heads and averages them, draws attention matrices as SVG, and writes .html, .svg and .png.
// attention_page.cpp makes the HTML page, attention_text.cpp the text for terminals.
#include "tern/apps/common/pages/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::apps {
namespace {

constexpr int64_t kMostHoverCells = 10000, kLongestLabel = 18, kLongestTitle = 60;

// A token within a line of text. Unicode isolates keep a right-to-left token from reversing the
// line.
std::string in_line(const std::string& token) {
  const std::string text = printable(token, kOpenBox);
  return datasets::has_right_to_left(text) ? "\u2068" + text + "\u2069" : text;
}

std::vector<std::string> labels(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  for (const std::string& token : tokens)
    out.push_back(datasets::cut_to_width(printable(token, kOpenBox), kLongestLabel));
  return out;
}

constexpr int kGap = 16, kCell = 12;

std::vector<AttentionMatrix> all_means(const std::vector<AttentionSentence>& sentences) {
  std::vector<AttentionMatrix> all;
  for (const AttentionSentence& s : sentences)
    for (const AttentionGroup& g : s.groups)
      for (AttentionMatrix& m : layer_means(g)) all.push_back(std::move(m));
  return all;
}

// The matrices one below the other, then the scale.
std::string to_svg(const std::vector<AttentionMatrix>& matrices) {
  constexpr int kScaleWidth = 312, kScaleHeight = 30;
  std::string body;
  int width = kScaleWidth, height = 0;
  for (const AttentionMatrix& m : matrices) {
    const Drawing d = draw_attention(m, true);
    body += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", height, d.svg);
    width = std::max(width, d.width);
    height += d.height + kGap;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"system-ui,sans-serif\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"white\"/>\n{2}<g transform=\"translate(0 {3})\">\n{4}</g>\n</svg>\n",
      width, height + kScaleHeight, body, height, attention_legend());
}

std::string to_png(const std::vector<AttentionMatrix>& matrices) {
  Bitmap sheet;
  for (const AttentionMatrix& m : matrices) {
    check_attention(m);
    sheet.width = std::max(sheet.width, std::ssize(m.columns) * kCell);
    sheet.height += std::ssize(m.rows) * kCell + (sheet.height > 0 ? kGap : 0);
  }
  sheet.width = std::max<int64_t>(sheet.width, 1);
  sheet.height = std::max<int64_t>(sheet.height, 1);
  sheet.rgb.assign(static_cast<size_t>(3 * sheet.width * sheet.height), 255);
  int64_t top = 0;
  for (const AttentionMatrix& m : matrices) {
    const Bitmap b = enlarged(attention_bitmap(m), kCell);
    for (int64_t y = 0; y < b.height; ++y) std::copy_n(b.row(y), 3 * b.width, sheet.row(top + y));
    top += b.height + kGap;
  }
  return encode_png(sheet);
}

}  // namespace

double attention_shade(float weight) {
  if (std::isnan(weight)) return static_cast<double>(weight);
  return std::sqrt(std::clamp(static_cast<double>(weight), 0.0, 1.0));
}

void check_attention(const AttentionMatrix& m) {
  check(m.weights.size() == m.rows.size() * m.columns.size(),
        "attention: {} weights for {} rows and {} columns in \"{}\"", m.weights.size(),
        m.rows.size(), m.columns.size(), m.title);
}

std::string printable(std::string_view text, char32_t space) {
  constexpr char32_t kControlPictures = 0x2400, kDelete = 0x7F, kDeletePicture = 0x2421;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = datasets::next_code_point(text, at);
    const bool turns =
        c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    if (turns) continue;
    if (c < 0x20) {
      datasets::append_utf8(out, kControlPictures + c);
    } else if (c == kDelete) {
      datasets::append_utf8(out, kDeletePicture);
    } else if (datasets::is_space(c)) {
      datasets::append_utf8(out, space);
    } else if (c < 0xA0 && c > kDelete) {
      datasets::append_utf8(out, datasets::kReplacementCharacter);
    } else {
      datasets::append_utf8(out, c);
    }
  }
  return out;
}

Bitmap attention_bitmap(const AttentionMatrix& m) {
  check_attention(m);
  return color_cells(m.weights, std::ssize(m.rows), std::ssize(m.columns),
                     [](float w) { return weight_color(attention_shade(w)); });
}

Drawing draw_attention(const AttentionMatrix& m, bool hover, int thumbnail) {
  const size_t n = std::max(m.rows.size(), m.columns.size());
  const Bitmap cells = attention_bitmap(m);
  MatrixStyle style = {.description = printable(m.title, U' '),
                       .columns = labels(m.columns),
                       .rows = labels(m.rows),
                       .cell = n <= 10   ? 26
                               : n <= 12 ? 22
                               : n <= 28 ? 18
                               : n <= 48 ? 15
                                         : 12,
                       .thumbnail = thumbnail};
  style.title = datasets::cut_to_width(style.description, kLongestTitle);
  if (hover && std::ssize(m.weights) <= kMostHoverCells)
    style.hover = [&](int64_t row, int64_t column) {
      const auto r = static_cast<size_t>(row), c = static_cast<size_t>(column);
      return fmt::format("{} ← {}: {:.3f}", in_line(m.rows[r]), in_line(m.columns[c]),
                         m.weights[r * m.columns.size() + c]);
    };
  return draw_matrix(cells, style);
}

std::string attention_legend() {
  BarTicks ticks;
  for (const float w : {0.F, .05F, .2F, .5F, 1.F})
    ticks.emplace_back(attention_shade(w), fmt::format("{:g}", w));
  return color_bar(ticks, weight_color);
}

void record_attention(AttentionSentence& sentence, const std::string& group, int64_t layer,
                      const Tensor& weights, const std::vector<std::string>& rows,
                      const std::vector<std::string>& columns) {
  const int64_t n = std::ssize(rows) * std::ssize(columns);
  check((weights.ndim() == 2 || weights.ndim() == 3) && weights.size(-2) == std::ssize(rows) &&
            weights.size(-1) == std::ssize(columns),
        "attention: weights (H, T, S) or (T, S) for {} rows and {} columns, got {}", rows.size(),
        columns.size(), weights.shape());
  auto& groups = sentence.groups;
  if (groups.empty() || groups.back().title != group) groups.push_back({group, {}});
  const std::vector<float> values = weights.to_vector<float>();
  const int64_t heads = weights.ndim() == 3 ? weights.size(0) : 1;
  for (int64_t h = 0; h < heads; ++h)
    groups.back().matrices.push_back(
        {.title = fmt::format("{}, layer {}, head {}", group, layer, h + 1),
         .columns = columns,
         .rows = rows,
         .weights = {values.begin() + h * n, values.begin() + (h + 1) * n},
         .layer = layer,
         .head = h + 1});
}

AttentionMatrix mean_of(const std::vector<AttentionMatrix>& matrices) {
  AttentionMatrix mean = matrices.front();
  mean.title.clear();
  for (const AttentionMatrix& m : matrices) {
    check_attention(m);
    check(m.rows.size() == mean.rows.size() && m.columns.size() == mean.columns.size(),
          "attention: \"{}\" has {} x {} weights, but \"{}\" of the same layer {} x {}", m.title,
          m.rows.size(), m.columns.size(), matrices.front().title, mean.rows.size(),
          mean.columns.size());
    if (&m != &matrices.front())
      for (size_t i = 0; i < m.weights.size(); ++i) mean.weights[i] += m.weights[i];
  }
  for (float& w : mean.weights) w /= static_cast<float>(matrices.size());
  return mean;
}

std::vector<AttentionMatrix> layer_means(const AttentionGroup& group) {
  std::map<int64_t, std::vector<AttentionMatrix>> layers;
  for (const AttentionMatrix& m : group.matrices) layers[m.layer].push_back(m);
  std::vector<AttentionMatrix> means;
  for (const auto& [number, heads] : layers) {
    means.push_back(mean_of(heads));
    means.back().title = group.title;
    if (layers.size() > 1) means.back().title += fmt::format(", layer {}", number);
    if (heads.size() > 1) means.back().title += ", mean of its heads";
  }
  return means;
}

std::string attention_means_text(const AttentionSentence& sentence,
                                 const std::vector<AttentionGroup>& groups, int width,
                                 bool colour) {
  std::string text = fmt::format("{}\n{}\n", printable(sentence.source, U' '),
                                 printable(sentence.translation, U' '));
  for (const AttentionGroup& g : groups)
    for (const AttentionMatrix& mean : layer_means(g))
      text += "\n" + attention_text(mean, width, colour);
  return text;
}

namespace {

std::string attention_format(const std::string& path) {
  const std::string kind = std::filesystem::path(path).extension().string();
  check(kind == ".html" || kind == ".svg" || kind == ".png",
        "attention: pictures are written as .html, .svg or .png, not as '{}'", path);
  return kind;
}

}  // namespace

void check_attention_file(const std::string& path) {
  if (path.empty()) return;
  attention_format(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  check_io(folder.empty() || std::filesystem::is_directory(folder, error),
           "attention: {} cannot be written: there is no folder {}", path, folder.string());
}

void write_attention(const std::string& path, const std::string& title,
                     const std::vector<AttentionSentence>& sentences) {
  const std::string kind = attention_format(path);
  std::string text;
  if (kind == ".html")
    text = html_page(title, fmt::format("<h1>{}</h1>\n{}", escape_html(printable(title, U' ')),
                                        attention_page(sentences)));
  else
    text = kind == ".svg" ? to_svg(all_means(sentences)) : to_png(all_means(sentences));
  write_file_atomically(path, text);
}

}  // namespace tern::apps
