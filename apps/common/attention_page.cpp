#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tern/apps/common/attention_parts.h"
#include "tern/apps/common/attention_record.h"

namespace tern::apps {
namespace {

constexpr int64_t kThumbnail = 96;  // pixels of a small picture's longer side
constexpr int kMostZoom = 12, kHeadCell = 11;

using Layer = std::vector<const AttentionMatrix*>;

std::map<int64_t, Layer> by_layer(const AttentionGroup& group) {
  std::map<int64_t, Layer> layers;
  for (const AttentionMatrix& m : group.matrices) layers[m.layer].push_back(&m);
  return layers;
}

std::string thumbnail(const AttentionMatrix& m) {
  if (m.weights.empty()) return "";
  const Bitmap b = attention_bitmap(m);
  const int64_t zoom = kThumbnail / std::max(b.width, b.height);
  return html_image(b, std::clamp(static_cast<int>(zoom), 1, kMostZoom), m.title);
}

// Layers down, heads across.
std::string grid(const std::map<int64_t, Layer>& layers) {
  const auto longest = std::max_element(
      layers.begin(), layers.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string s = "<div class=\"heads\"><table>\n<tr><th></th>";
  for (const AttentionMatrix* m : longest->second) s += fmt::format("<th>head {}</th>", m->head);
  s += "</tr>\n";
  for (const auto& [number, heads] : layers) {
    s += fmt::format("<tr><th>layer {}</th>\n", number);
    for (const AttentionMatrix* m : heads)
      s += fmt::format("<td title=\"{}\">{}</td>\n", escape_html(printable(m->title, U' ')),
                       thumbnail(*m));
    s += "</tr>\n";
  }
  return s + "</table></div>\n";
}

std::string large(const AttentionMatrix& m) {
  AttentionStyle style = large_attention(m);
  style.legend = false;
  return fmt::format("<div class=\"scroll\">{}</div>\n", draw_attention(m, style).svg);
}

std::string group_body(const AttentionGroup& group) {
  const std::vector<AttentionMatrix> means = layer_means(group);  // checks the matrices
  const auto layers = by_layer(group);
  std::string s = fmt::format("<h3>{}</h3>\n", escape_html(group.title));
  if (layers.empty()) return s + "<p>no weights</p>\n";
  s += "<div class=\"row\">\n";
  for (const AttentionMatrix& mean : means) s += large(mean);
  s += "</div>\n";
  if (group.matrices.size() == layers.size()) return s;  // no layer has more than one head
  s += grid(layers);
  s += "<details><summary>Every head with its tokens</summary>\n";
  for (const auto& [number, heads] : layers) {
    s += "<div class=\"row\">\n";
    for (const AttentionMatrix* m : heads)
      s +=
          fmt::format("<div class=\"scroll\">{}</div>\n",
                      draw_attention(*m, {.cell = kHeadCell, .hover = false, .legend = false}).svg);
    s += "</div>\n";
  }
  return s + "</details>\n";
}

std::string sentence_body(const AttentionSentence& sentence, bool open) {
  std::string s = fmt::format(
      "<details class=\"sentence\"{}>\n<summary><span dir=\"auto\">{}</span><br>"
      "<strong dir=\"auto\">{}</strong></summary>\n",
      open ? " open" : "", escape_html(printable(sentence.source, U' ')),
      escape_html(printable(sentence.translation, U' ')));
  if (!sentence.note.empty())
    s += fmt::format("<p class=\"note\">{}</p>\n", escape_html(printable(sentence.note, U' ')));
  for (const AttentionGroup& group : sentence.groups) s += group_body(group);
  return s + "</details>\n";
}

}  // namespace

std::string attention_page(const std::string& title,
                           const std::vector<AttentionSentence>& sentences) {
  std::string s = fmt::format(
      "<h1>{}</h1>\n<p>Source tokens across, target tokens down: a row shows where its token "
      "looked, "
      "the darker the more. Within the encoder or the decoder both are its own tokens.</p>\n{}",
      escape_html(printable(title, U' ')), attention_legend());
  bool open = true;
  for (const AttentionSentence& sentence : sentences) {
    s += sentence_body(sentence, open);
    open = false;
  }
  return s;
}

}  // namespace tern::apps
