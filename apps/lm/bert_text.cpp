#include "tern/apps/lm/bert_text.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "tern/apps/lm/bert_folder.h"
#include "tern/core/base/error.h"

namespace tern::apps::lm {
namespace {

/// Adds the lines of a text, and a blank one.
void add_lines(const std::string& text, std::vector<std::string>& lines) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  lines.emplace_back();
}

/// Whether a sentence ends at story[i]: a mark, or a quote behind one, and then a new beginning.
bool ends_sentence(const std::string& story, size_t i) {
  constexpr std::string_view kMarks = ".!?";
  auto mark = [&](size_t at) { return kMarks.find(story[at]) != kMarks.npos; };
  if (i + 2 >= story.size() || story[i + 1] != ' ') return false;
  if (story[i + 2] >= 'a' && story[i + 2] <= 'z') return false;
  return mark(i) || (story[i] == '"' && i > 0 && mark(i - 1));
}

/// Adds the sentences of stories, a line each, and a blank line behind every story.
void add_sentences(const std::string& stories, std::vector<std::string>& lines) {
  std::vector<std::string> whole;
  add_lines(stories, whole);
  for (const std::string& story : whole) {
    size_t begin = 0;
    for (size_t i = 0; i < story.size(); ++i) {
      if (!ends_sentence(story, i)) continue;
      lines.push_back(story.substr(begin, i + 1 - begin));
      begin = i + 2;
    }
    lines.push_back(story.substr(begin));
    lines.emplace_back();
  }
}

uLong add_documents(uLong crc, const data::Documents& d) {
  auto add = [&](const auto& values) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(values.data()),
                  values.size() * sizeof(values[0]));
  };
  add(d.tokens);
  add(d.sentence_ends);
  add(d.document_ends);
  return crc;
}

/// Half of a pair, so that a line that is longer loses nothing.
data::DocumentOptions document_options(int64_t context) {
  return {.longest_sentence = std::max<int64_t>(1, (context - 3) / 2)};
}

std::shared_ptr<const data::Documents> encoded(const std::vector<std::string>& lines,
                                               const data::WordPiece& pieces, int64_t context) {
  return std::make_shared<data::Documents>(
      data::make_documents(lines, pieces, document_options(context)));
}

void check_pairs(const char* what, const data::Documents& d) {
  check(has_pairs(d),
        "{}: none of {} documents, between blank lines, has two lines, so that there are no pairs "
        "of sentences; --no-pairs trains without them",
        what, d.size());
}

}  // namespace

bool has_pairs(const data::Documents& text) {
  int64_t begin = 0;
  return std::any_of(text.document_ends.begin(), text.document_ends.end(),
                     [&](int64_t end) { return end - std::exchange(begin, end) >= 2; });
}

Lines lines_of(const TrainConfig& c, const Texts& texts) {
  Lines out;
  const auto add = is_demo(c) ? add_sentences : add_lines;
  for (const std::string& text : texts.train) add(text, out.train);
  for (const std::string& text : texts.valid) add(text, out.valid);
  return out;
}

data::WordPiece make_pieces(const TrainConfig& c, const Lines& lines) {
  if (!c.from.empty()) return load_pieces({c.from});
  if (!c.tokenizer.empty()) return load_pieces({c.tokenizer});
  // Characters come twice, alone and with ##; half of the pieces is left for merges.
  const int64_t alphabet =
      std::min<int64_t>(data::WordPieceLearnOptions().alphabet, c.vocab_size / 4);
  return data::WordPiece::learn(lines.train, {.size = c.vocab_size, .alphabet = alphabet},
                                {.lower = !c.cased});
}

BertCorpus encode_documents(const TrainConfig& c, const Lines& lines,
                            const data::WordPiece& pieces) {
  BertCorpus out{encoded(lines.train, pieces, c.model.context),
                 encoded(lines.valid, pieces, c.model.context), ""};
  check(out.train->sentences() > 0, "--text: there is no text in it");
  if (c.pairs) {
    check_pairs("--text", *out.train);
    if (out.valid->sentences() > 0) check_pairs("--valid", *out.valid);
  }
  out.checksum =
      fmt::format("{} + {} tokens, {:08x}", out.train->tokens.size(), out.valid->tokens.size(),
                  add_documents(add_documents(0, *out.train), *out.valid));
  return out;
}

data::Documents documents_of(const std::string& text, const data::WordPiece& pieces,
                             int64_t context) {
  std::vector<std::string> lines;
  add_lines(text, lines);
  return data::make_documents(lines, pieces, document_options(context));
}

data::BertLoaderOptions loader_options(const TrainConfig& c) {
  return {.batch = c.batch, .max_tokens = c.model.context, .pairs = c.pairs, .seed = c.seed};
}

}  // namespace tern::apps::lm
