// Finds added tokens in a text and in its normalised rest, the longest first, and passes on the
// parts between them.
#include "tern/data/text/pretrained/pretrained_added.h"

#include <algorithm>

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/byte_bpe_chunks.h"
#include "tern/data/text/tokenizer/limits.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {
namespace {

/// The place of the character that ends before text[end].
size_t character_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}

bool is_space_at(std::string_view text, size_t at) {
  return is_white_space(next_code_point(text, at));
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  size_t before = begin > 0 ? character_before(text, begin) : 0, after = end;
  return (begin == 0 || !is_regex_word(next_code_point(text, before))) &&
         (end == text.size() || !is_regex_word(next_code_point(text, after)));
}

}  // namespace

AddedTokens::AddedTokens(const JsonValue& list, const Normalizer& normalize) {
  if (list.is_null()) return;
  for (const JsonValue& entry : list.elements()) {
    const int64_t id = entry.at("id").integer();
    AddedToken token{.content = entry.at("content").text(),
                     .id = id,
                     .special = entry.get("special", false),
                     .normalized = entry.get("normalized", false),
                     .single_word = entry.get("single_word", false),
                     .lstrip = entry.get("lstrip", false),
                     .rstrip = entry.get("rstrip", false)};
    check(!token.content.empty() && id >= 0 && id < kMostTokens,
          "the added token '{}' with the id {} is not valid", token.content, id);
    all_.push_back(token);
    if (token.special) special_.insert(id);
    if (!token.normalized) {
      raw_.push_back(std::move(token));
    } else {
      token.content = normalize({token.content}).text;
      if (!token.content.empty()) normalized_.push_back(std::move(token));
    }
  }
  // Sorts by first byte, and among equals the longest first.
  for (Tokens* tokens : {&raw_, &normalized_})
    std::stable_sort(tokens->begin(), tokens->end(), [](const AddedToken& a, const AddedToken& b) {
      return a.content[0] != b.content[0] ? a.content[0] < b.content[0]
                                          : a.content.size() > b.content.size();
    });
}

bool AddedTokens::may_begin_with(char c) const {
  return std::ranges::any_of(all_, [c](const AddedToken& t) { return t.content[0] == c; });
}

// The first token from text[at] on; `at` becomes its place.
const AddedToken* AddedTokens::find(const Tokens& tokens, std::string_view text, size_t& at) {
  for (; at < text.size(); ++at) {
    auto token = std::lower_bound(tokens.begin(), tokens.end(), text[at],
                                  [](const AddedToken& t, char c) { return t.content[0] < c; });
    for (; token != tokens.end() && token->content[0] == text[at]; ++token)
      if (text.substr(at).starts_with(token->content)) return &*token;
  }
  return nullptr;
}

void AddedTokens::cut_by(const Tokens& tokens, std::string_view text,
                         const std::function<void(size_t, size_t)>& use, std::vector<int64_t>& ids,
                         const Wanted& wanted) {
  size_t done = 0;
  auto between = [&](size_t end) {
    if (end > done) use(done, end - done);
  };
  for (size_t at = 0; at < text.size() && !tokens.empty();) {
    const AddedToken* token = find(tokens, text, at);
    if (!token) break;
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (!(token->special ? wanted.specials : wanted.others)) continue;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    while (token->lstrip && begin > done && is_space_at(text, character_before(text, begin)))
      begin = character_before(text, begin);
    while (token->rstrip && end < text.size() && is_space_at(text, end)) next_code_point(text, end);
    if (token->lstrip && end <= done) continue;  // the token before it took all that it could take
    between(begin);
    ids.push_back(*token->id);
    done = end;
  }
  between(text.size());
}

void AddedTokens::cut(std::string_view text, const Normalizer& normalize,
                      const std::function<void(Fragment)>& use, std::vector<int64_t>& ids,
                      const Wanted& wanted) const {
  Fragment whole{std::string(text)};
  if (!text.empty()) next_code_point(text, whole.first);
  auto rest = [&](size_t at, size_t size) {
    const Fragment normal = normalize(fragment_of(whole, at, size));
    cut_by(
        normalized_, normal.text,
        [&](size_t begin, size_t length) { use(fragment_of(normal, begin, length)); }, ids, wanted);
  };
  cut_by(raw_, text, rest, ids, wanted);
}

}  // namespace tern::datasets::detail
