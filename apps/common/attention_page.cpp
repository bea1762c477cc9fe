#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tern/apps/common/attention_parts.h"
#include "tern/apps/common/attention_record.h"

namespace tern::apps {
namespace {

constexpr int64_t kThumbnail = 96;  // pixels of a small picture's longer side
constexpr int kMostZoom = 12, kHeadCell = 11;
constexpr size_t kMostBytes = 1'900'000;  // of a page of 2 MB, beside its style sheet and report

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

// Layers down, heads across. As below: what is longer than `room` will not be taken, and its rest
// is left out, because pictures take time.
std::string grid(const std::map<int64_t, Layer>& layers, size_t room) {
  const auto longest = std::max_element(
      layers.begin(), layers.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string s = "<div class=\"heads\"><table>\n<tr><th></th>";
  for (const AttentionMatrix* m : longest->second) s += fmt::format("<th>head {}</th>", m->head);
  s += "</tr>\n";
  for (const auto& [number, heads] : layers) {
    if (s.size() > room) return s;
    s += fmt::format("<tr><th>layer {}</th>\n", number);
    for (const AttentionMatrix* m : heads)
      s += fmt::format("<td title=\"{}\">{}</td>\n", escape_html(printable(m->title, U' ')),
                       thumbnail(*m));
    s += "</tr>\n";
  }
  return s + "</table></div>\n";
}

// What a page has room for, from all to nothing.
enum class Detail {
  hover,   // cells of the layers' means that say what they are
  heads,   // those as images
  grid,    // without the large pictures of heads
  layers,  // the layers' means alone
  groups,  // a mean a group
  one,     // that of what looks across
  text,    // no pictures
};
constexpr Detail kDetails[] = {Detail::hover,  Detail::heads, Detail::grid, Detail::layers,
                               Detail::groups, Detail::one,   Detail::text};

std::string large(const AttentionMatrix& m, bool hover) {
  AttentionStyle style = large_attention(m);
  style.legend = false;
  style.hover = style.hover && hover;
  return fmt::format("<div class=\"scroll\">{}</div>\n", draw_attention(m, style).svg);
}

// Of all layers and heads.
std::string group_mean(std::vector<AttentionMatrix> means) {
  AttentionMatrix mean = means.front();
  for (size_t k = 1; k < means.size(); ++k)
    for (size_t i = 0; i < mean.weights.size(); ++i) mean.weights[i] += means[k].weights[i];
  for (float& w : mean.weights) w /= static_cast<float>(means.size());
  mean.title.clear();
  return large(mean, false);
}

bool same_tokens(const std::vector<AttentionMatrix>& means) {
  return std::all_of(means.begin(), means.end(), [&](const AttentionMatrix& m) {
    return m.weights.size() == means.front().weights.size();
  });
}

std::string group_body(const AttentionGroup& group, Detail detail, size_t room) {
  const std::vector<AttentionMatrix> means = layer_means(group);  // checks the matrices
  if (detail == Detail::text) return "";
  const auto layers = by_layer(group);
  std::string s = fmt::format("<h3>{}</h3>\n", escape_html(group.title));
  if (layers.empty()) return s + "<p>no weights</p>\n";
  if (detail >= Detail::groups && same_tokens(means)) return s + group_mean(means);
  s += "<div class=\"row\">\n";
  for (const AttentionMatrix& mean : means) {
    if (s.size() > room) return s;
    s += large(mean, detail == Detail::hover);
  }
  s += "</div>\n";
  if (group.matrices.size() == layers.size()) return s;  // no layer has more than one head
  if (detail >= Detail::layers) return s;
  s += grid(layers, room);
  if (detail >= Detail::grid) return s;
  s += "<details><summary>Every head with its tokens</summary>\n";
  for (const auto& [number, heads] : layers) {
    if (s.size() > room) return s;
    s += "<div class=\"row\">\n";
    for (const AttentionMatrix* m : heads)
      s +=
          fmt::format("<div class=\"scroll\">{}</div>\n",
                      draw_attention(*m, {.cell = kHeadCell, .hover = false, .legend = false}).svg);
    s += "</div>\n";
  }
  return s + "</details>\n";
}

// The group to show if it is only one.
const AttentionGroup* across(const AttentionSentence& sentence) {
  const AttentionGroup* last = nullptr;
  for (const AttentionGroup& g : sentence.groups)
    if (!last || (g.title != "Encoder" && g.title != "Decoder")) last = &g;
  return last;
}

std::string sentence_body(const AttentionSentence& sentence, Detail detail, bool open,
                          size_t room) {
  std::string s = fmt::format(
      "<details class=\"sentence\"{}>\n<summary><span dir=\"auto\">{}</span><br>"
      "<strong dir=\"auto\">{}</strong></summary>\n",
      open ? " open" : "", escape_html(printable(sentence.source, U' ')),
      escape_html(printable(sentence.translation, U' ')));
  if (!sentence.note.empty())
    s += fmt::format("<p class=\"note\">{}</p>\n", escape_html(printable(sentence.note, U' ')));
  for (const AttentionGroup& group : sentence.groups)
    if (s.size() <= room && (detail != Detail::one || &group == across(sentence)))
      s += group_body(group, detail, room);
  return s + "</details>\n";
}

// With as much detail as fits, text in any case.
std::string fitting_body(const AttentionSentence& sentence, size_t room, bool open, Detail& taken) {
  for (const Detail detail : kDetails) {
    const std::string body = sentence_body(sentence, taken = detail, open, room);
    if (body.size() <= room || detail == Detail::text) return body;
  }
  return "";
}

std::string sentences_within(const std::vector<AttentionSentence>& sentences, size_t room) {
  constexpr size_t kPicture = 8000;  // bytes that one takes, about; so much a sentence may have
  std::vector<size_t> texts;         // of those that fit
  size_t all_texts = 0;
  for (const AttentionSentence& sentence : sentences) {
    const size_t size = sentence_body(sentence, Detail::text, texts.empty(), room).size();
    if (all_texts + size > room) break;
    texts.push_back(size);
    all_texts += size;
  }
  std::string s;
  Detail most_left_out = Detail::hover;
  size_t left = room - all_texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t behind = texts.size() - i;
    // The first may have half of the room, the others what is there for each.
    size_t share = i == 0 && behind > 1 ? left / 2 : std::max(left / behind, kPicture);
    share = texts[i] + std::min(share, left);
    Detail detail = Detail::text;
    const std::string body = left == 0 ? sentence_body(sentences[i], Detail::text, i == 0, room)
                                       : fitting_body(sentences[i], share, i == 0, detail);
    most_left_out = std::max(most_left_out, detail);
    left -= body.size() - texts[i];
    if (left < kPicture / 4) left = 0;  // looking for what fits would be in vain
    s += body;
  }
  std::string note;
  if (most_left_out > Detail::heads)
    note =
        "<p class=\"note\">To keep the page small, not every sentence has all its pictures; on a "
        "page of fewer sentences they have more.</p>\n";
  if (texts.size() < sentences.size())
    s += fmt::format("<p class=\"note\">{} more sentences have no room on this page.</p>\n",
                     sentences.size() - texts.size());
  return note + s;
}

}  // namespace

std::string attention_page(const std::string& title,
                           const std::vector<AttentionSentence>& sentences) {
  std::string s = fmt::format(
      "<h1>{}</h1>\n<p>Source tokens across, target tokens down: a row shows where its token "
      "looked, "
      "the darker the more. Within the encoder or the decoder both are its own tokens.</p>\n{}",
      escape_html(printable(title, U' ')), attention_legend());
  return s + sentences_within(sentences, kMostBytes - s.size());
}

}  // namespace tern::apps
