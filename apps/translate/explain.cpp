#include "tern/apps/translate/explain.h"

#include <fmt/format.h>

#include "tern/apps/common/html.h"
#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"

namespace tern::apps::translate {
namespace {

std::vector<std::string> pieces(const data::Tokenizer& tokenizer, std::vector<int64_t> ids) {
  ids.push_back(data::kEndId);
  std::vector<std::string> out;
  for (int64_t id : ids) out.push_back(tokenizer.piece(id));
  return out;
}

std::string group_title(const std::string& kind) {
  if (kind == "encoder") return "Encoder";
  if (kind == "decoder") return "Decoder";
  return kind == "cross" ? "Cross attention" : "Alignment";
}

// The mean over the heads of one layer.
AttentionMatrix average(const std::vector<AttentionMatrix>& matrices, int64_t layer) {
  AttentionMatrix mean;
  float heads = 0;
  for (const AttentionMatrix& m : matrices) {
    if (m.layer != layer) continue;
    if (heads++ == 0) {
      mean = m;
      continue;
    }
    for (size_t i = 0; i < m.weights.size(); ++i) mean.weights[i] += m.weights[i];
  }
  for (float& w : mean.weights) w /= heads;
  return mean;
}

}  // namespace

AttentionSentence explain(const TranslationModel& model, const Tokenizers& t,
                          const std::string& source, const TranslatedText& translation) {
  AttentionSentence s{source, translation.text, "", {}};
  const std::vector<int64_t> ids = t.source.encode(source);
  if (ids.empty()) return s;
  const std::vector<std::string> from = pieces(t.source, ids);
  const std::vector<std::string> to = pieces(t.target, translation.tokens);
  for (const AttentionMap& map : model.attention(ids, translation.tokens)) {
    const std::string title = group_title(map.kind);
    if (s.groups.empty() || s.groups.back().title != title) s.groups.push_back({title, {}});
    const auto size = static_cast<ptrdiff_t>(map.rows * map.columns);
    for (int64_t h = 0; h < map.heads; ++h) {
      AttentionMatrix m{
          .title = fmt::format("{}, layer {}, head {}", map.kind, map.layer, h + 1),
          .columns = map.kind == "decoder" ? to : from,
          .rows = map.kind == "encoder" ? from : to,
          .weights = {map.weights.begin() + h * size, map.weights.begin() + (h + 1) * size},
          .layer = map.layer,
          .head = h + 1};
      if (map.kind == "decoder") {  // it looks at what was said before
        m.columns.pop_back();
        m.columns.insert(m.columns.begin(), std::string(data::special_name(data::kBeginId)));
      }
      s.groups.back().matrices.push_back(std::move(m));
    }
  }
  return s;
}

std::string explain_text(const AttentionSentence& s, int width, bool colour) {
  std::string text = fmt::format("{}\n{}\n", s.source, s.translation);
  for (const AttentionGroup& g : s.groups) {
    if (g.title == "Encoder" || g.title == "Decoder") continue;
    const int64_t layers = g.matrices.back().layer;
    for (int64_t layer = 1; layer <= layers; ++layer) {
      AttentionMatrix mean = average(g.matrices, layer);
      mean.title = g.title;
      if (layers > 1) mean.title += fmt::format(", layer {}", layer);
      if (g.matrices.size() > static_cast<size_t>(layers)) mean.title += ", mean of its heads";
      text += "\n" + attention_text(mean, width, colour);
    }
  }
  return text;
}

void write_attention_page(const std::string& path, const std::string& title,
                          const std::vector<AttentionSentence>& sentences) {
  write_file_atomically(path, html_page(title, attention_page(title, sentences)));
}

}  // namespace tern::apps::translate
