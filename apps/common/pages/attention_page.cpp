// Attention of many sentences as HTML: chooses how much detail each sentence gets, so that the page
// stays below its size limit.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tern/apps/common/pages/attention.h"

namespace tern::apps {
namespace {

constexpr size_t kThumbnail = 96, kThumbnailCell = 12;  // pixels of a small picture, at most
constexpr size_t kMostBytes = 1'900'000;  // leaves room for the rest of a page of 2 MB

// How much a sentence shows, from most to least.
enum class Detail {
  hover,   // layer means whose cells show their tokens and weight on hovering, and all heads
  heads,   // layer means as images, and all heads
  layers,  // only layer means
  one,     // one mean over all layers of the group that across() gives
  text,    // no pictures
};
Detail& operator++(Detail& d) { return d = static_cast<Detail>(static_cast<int>(d) + 1); }

std::string large(const AttentionMatrix& m, bool hover) {
  return fmt::format("<div class=\"scroll\">{}</div>\n", draw_attention(m, hover).svg);
}

// Pixels of a small picture's longer side; fewer tokens give a smaller picture.
int thumbnail_of(const AttentionMatrix& m) {
  const size_t tokens = std::max({m.rows.size(), m.columns.size(), size_t{1}});
  return static_cast<int>(std::min(kThumbnail, tokens * kThumbnailCell));
}

// Small pictures, layers down and heads across. The caller discards HTML longer than `room`, so
// drawing stops there (also in the functions below): pictures take time.
std::string grid(const AttentionGroup& group, const std::string& id, size_t room) {
  std::map<int64_t, std::vector<const AttentionMatrix*>> layers;
  for (const AttentionMatrix& m : group.matrices) layers[m.layer].push_back(&m);
  if (layers.size() == group.matrices.size()) return "";  // no layer has more than one head
  const auto longest = std::max_element(
      layers.begin(), layers.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string s =
      "<p class=\"tokens\"><label><input type=\"checkbox\">every head with its tokens</label> (or "
      "click on one)</p>\n<div class=\"heads\"><table>\n<tr><th></th>";
  for (const AttentionMatrix* m : longest->second) s += fmt::format("<th>head {}</th>", m->head);
  s += "</tr>\n";
  for (const auto& [number, heads] : layers) {
    if (s.size() > room) return s;
    s += fmt::format("<tr><th>layer {}</th>\n", number);
    for (const AttentionMatrix* m : heads)
      s += fmt::format("<td>{}</td>\n", html_zoom(draw_attention(*m, false, thumbnail_of(*m)).svg,
                                                  fmt::format("{}-{}-{}", id, number, m->head),
                                                  printable(m->title, U' ')));
    s += "</tr>\n";
  }
  return s + "</table></div>\n";
}

std::string group_body(const AttentionGroup& group, const std::string& id, Detail detail,
                       size_t room) {
  std::vector<AttentionMatrix> means = layer_means(group);  // checks the matrices
  if (detail == Detail::text) return "";
  std::string s = fmt::format("<h3>{}</h3>\n", escape_html(group.title));
  if (means.empty()) return s + "<p>no weights</p>\n";
  if (detail == Detail::one) {
    std::erase_if(means, [first = means[0].rows.size(), n = means[0].weights.size()](auto& m) {
      return m.rows.size() != first || m.weights.size() != n;
    });
    return s + large(mean_of(means), false);
  }
  s += "<div class=\"row\">\n";
  for (const AttentionMatrix& mean : means) {
    if (s.size() > room) return s;
    s += large(mean, detail == Detail::hover);
  }
  s += "</div>\n";
  return detail >= Detail::layers ? s : s + grid(group, id, room);
}

// The group for Detail::one: the last one that looks from target to source, else the first group.
const AttentionGroup* across(const AttentionSentence& sentence) {
  const AttentionGroup* last = nullptr;
  for (const AttentionGroup& g : sentence.groups)
    if (!last || (g.title != "Encoder" && g.title != "Decoder")) last = &g;
  return last;
}

std::string sentence_body(const AttentionSentence& sentence, size_t number, Detail detail,
                          size_t room) {
  std::string s = fmt::format(
      "<details class=\"sentence\"{}>\n<summary><span dir=\"auto\">{}</span><br>"
      "<strong dir=\"auto\">{}</strong></summary>\n",
      number == 0 ? " open" : "", escape_html(printable(sentence.source, U' ')),
      escape_html(printable(sentence.translation, U' ')));
  if (!sentence.note.empty())
    s += fmt::format("<p class=\"note\">{}</p>\n", escape_html(printable(sentence.note, U' ')));
  for (const AttentionGroup& group : sentence.groups)
    if (s.size() <= room && (detail != Detail::one || &group == across(sentence)))
      s +=
          group_body(group, fmt::format("heads{}-{}", number + 1, &group - &sentence.groups[0] + 1),
                     detail, room);
  return s + "</details>\n";
}

std::string sentences_within(const std::vector<AttentionSentence>& sentences, size_t room) {
  constexpr size_t kPicture = 8000;  // bytes of a picture, roughly; every sentence may have these
  std::vector<size_t> texts;         // bytes of the sentences that fit as text
  size_t all_texts = 0;
  for (const AttentionSentence& sentence : sentences) {
    const size_t size = sentence_body(sentence, texts.size(), Detail::text, room).size();
    if (all_texts + size > room) break;
    texts.push_back(size);
    all_texts += size;
  }
  std::string s;
  Detail most_left_out = Detail::hover;
  size_t left = room - all_texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t behind = texts.size() - i;
    // The first sentence may take half of the room; the others share the rest equally.
    const size_t share = i == 0 && behind > 1 ? left / 2 : std::max(left / behind, kPicture);
    const size_t most = texts[i] + std::min(share, left);
    // As much detail as fits; text always does. With too little room for a picture, try only text.
    Detail detail = left < kPicture / 4 ? Detail::text : Detail::hover;
    std::string body = sentence_body(sentences[i], i, detail, most);
    while (body.size() > most) body = sentence_body(sentences[i], i, ++detail, most);
    most_left_out = std::max(most_left_out, detail);
    left -= body.size() - texts[i];
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

std::string attention_page(const std::vector<AttentionSentence>& sentences) {
  const std::string s =
      "<p>A row is a token, and shows at which tokens (the columns) it looked: the stronger the "
      "colour, the more. Each row adds up to 1, and all pictures have this scale:</p>\n" +
      attention_legend();
  return s + sentences_within(sentences, kMostBytes - s.size());
}

}  // namespace tern::apps
