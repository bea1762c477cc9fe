#include "tern/apps/translate/explain.h"

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

}  // namespace

AttentionSentence explain(const TranslationModel& model, const Tokenizers& t,
                          const std::string& source, const TranslatedText& translation) {
  AttentionSentence s{source, translation.text, "", {}};
  const std::vector<int64_t> ids = t.source.encode(source);
  if (ids.empty()) return s;
  const std::vector<std::string> from = pieces(t.source, ids);
  const std::vector<std::string> to = pieces(t.target, translation.tokens);
  for (const AttentionMap& map : model.attention(ids, translation.tokens)) {
    std::vector<std::string> columns = map.kind == "decoder" ? to : from;
    if (map.kind == "decoder") {  // it looks at what was said before
      columns.pop_back();
      columns.insert(columns.begin(), std::string(data::special_name(data::kBeginId)));
    }
    record_attention(s, group_title(map.kind), map.layer, map.weights,
                     map.kind == "encoder" ? from : to, columns);
  }
  return s;
}

std::string explain_text(const AttentionSentence& s, int width, bool colour) {
  std::vector<AttentionGroup> shown;
  for (const AttentionGroup& g : s.groups)
    if (g.title != "Encoder" && g.title != "Decoder") shown.push_back(g);
  return attention_means_text(s, shown, width, colour);
}

}  // namespace tern::apps::translate
