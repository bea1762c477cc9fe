#include "tern/apps/common/attention_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tern/apps/common/attention_parts.h"
#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"

namespace tern::apps {
namespace {

constexpr int kGap = 16, kCell = 12;

std::vector<AttentionMatrix> all_means(const std::vector<AttentionSentence>& sentences) {
  std::vector<AttentionMatrix> all;
  for (const AttentionSentence& s : sentences)
    for (const AttentionGroup& g : s.groups)
      for (AttentionMatrix& m : layer_means(g)) all.push_back(std::move(m));
  return all;
}

// One below the other, and the scale.
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
    const Bitmap b = attention_bitmap(m);
    for (int64_t y = 0; y < b.height * kCell; ++y)
      for (int64_t x = 0; x < b.width * kCell; ++x)
        std::copy_n(&b.rgb[static_cast<size_t>(3 * (y / kCell * b.width + x / kCell))], 3,
                    &sheet.rgb[static_cast<size_t>(3 * ((top + y) * sheet.width + x))]);
    top += std::ssize(m.rows) * kCell + kGap;
  }
  return encode_png(sheet);
}

std::string ending(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

}  // namespace

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

void check_attention_path(const std::string& path) {
  const std::string kind = ending(path);
  check(kind == ".html" || kind == ".svg" || kind == ".png",
        "attention: pictures are written as .html, .svg or .png, not as '{}'", path);
}

void write_attention(const std::string& path, const std::string& title,
                     const std::vector<AttentionSentence>& sentences) {
  check_attention_path(path);
  const std::string kind = ending(path);
  std::string text;
  if (kind == ".html")
    text = html_page(title, fmt::format("<h1>{}</h1>\n{}", escape_html(printable(title, U' ')),
                                        attention_page(sentences)));
  else
    text = kind == ".svg" ? to_svg(all_means(sentences)) : to_png(all_means(sentences));
  write_file_atomically(path, text);
}

}  // namespace tern::apps
