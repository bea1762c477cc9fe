// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json, and joins what they
// say of added tokens; looks up the tokenizer's class.
#include "tern/data/text/pretrained/pretrained_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/json_value.h"
#include "tern/data/text/lines/lines.h"

namespace tern::datasets::detail {
namespace {

// In the order in which transformers adds them. The first ones have a default.
constexpr std::string_view kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};
constexpr size_t kWithDefault = 3;

/// What the files say.
struct SaidTokens {
  std::vector<AddedToken> with_ids, further;
  std::map<std::string, std::optional<AddedToken>, std::less<>> named;  // null: there is none
  std::vector<std::pair<std::string, std::string>> others;  // members of other names, with tokens
  bool has_decoder = false, ends = false;
  std::optional<bool> begins;
  std::string kind;  // the class
};

/// Calls read(root) with the file's JSON, if it is there.
template <class Read>
bool read_if_there(const std::string& path, Read read) {
  if (!std::filesystem::exists(path)) return false;
  const std::string text = read_text(path, {.max_bytes = 1 << 24});
  reading(path, [&] { read(JsonDocument(text).root()); });
  return true;
}

/// A token: a text, or an object with flags.
std::string content_of(const JsonValue& j) {
  return j.is_object() ? j.at("content").text() : j.text();
}

AddedToken added_token(const JsonValue& j, bool special) {
  AddedToken token{.content = content_of(j), .special = special, .normalized = !special};
  if (!j.is_object()) return token;
  token.normalized = j.get("normalized", token.normalized);
  token.single_word = j.get("single_word", false);
  token.lstrip = j.get("lstrip", false);
  token.rstrip = j.get("rstrip", false);
  return token;
}

void read_added_decoder(const JsonValue& decoder, SaidTokens& said) {
  if (decoder.is_null()) return;
  said.has_decoder = true;
  for (const JsonMember& m : decoder.members()) {
    int64_t id = -1;
    const char* end = m.name.data() + m.name.size();
    const auto [rest, error] = std::from_chars(m.name.data(), end, id);
    if (error != std::errc() || rest != end || id < 0) m.value.fail("its name is not an id");
    said.with_ids.push_back(added_token(m.value, m.value.get("special", false)));
    said.with_ids.back().id = id;
  }
}

/// Members such as bos_token.
void read_named_tokens(const JsonValue& root, SaidTokens& said) {
  for (const JsonMember& m : root.members()) {
    if (!m.name.ends_with("_token")) continue;
    if (std::ranges::count(kNamedTokens, m.name) > 0) {
      std::optional<AddedToken>& token = said.named[m.name];
      token.reset();
      if (!m.value.is_null() && !content_of(m.value).empty()) token = added_token(m.value, true);
    } else if (m.value.is_text() || m.value.is_object()) {
      said.others.emplace_back(m.name, content_of(m.value));
    }
  }
}

/// The list that transformers 5 calls extra_special_tokens, where it may also be an object with
/// names.
void read_further_tokens(const JsonValue& root, SaidTokens& said) {
  const JsonValue extra = root.find("extra_special_tokens");
  if (extra.is_object())
    for (const JsonMember& m : extra.members())
      said.others.emplace_back(m.name, content_of(m.value));
  const bool none = extra.is_object() || extra.size() == 0;
  if (none && !said.further.empty()) return;
  const JsonValue list = none ? root.find("additional_special_tokens") : extra;
  if (list.is_null()) return;
  for (const JsonValue& token : list.elements()) said.further.push_back(added_token(token, true));
}

void read_specials(const JsonValue& root, SaidTokens& said) {
  read_named_tokens(root, said);
  read_further_tokens(root, said);
}

/// From tokenizer_config.json, else from config.json.
void read_kind(const JsonValue& root, SaidTokens& said) {
  if (said.kind.empty()) said.kind = root.get("tokenizer_class", "");
  const std::string model = root.get("model_type", "");
  if (said.kind.empty() && (model == "qwen2" || model == "qwen3")) said.kind = "Qwen2Tokenizer";
  if (said.kind.ends_with("Fast")) said.kind.resize(said.kind.size() - 4);
}

/// added_tokens.json. Its tokens are special if the other files call them so.
void read_added_ids(const JsonValue& root, SaidTokens& said) {
  std::unordered_set<std::string_view> specials;
  for (const AddedToken& token : said.further) specials.insert(token.content);
  for (const auto& [name, token] : said.named)
    if (token) specials.insert(token->content);
  for (const JsonMember& m : root.members()) {
    const bool special = specials.contains(m.name);
    said.with_ids.push_back(
        {.content = m.name, .id = m.value.integer(0), .special = special, .normalized = !special});
  }
}

/// The tokens of a folder, each once.
class Combined {
 public:
  explicit Combined(std::vector<AddedToken> known) : tokens_(std::move(known)) {
    for (size_t i = 0; i < tokens_.size(); ++i) places_.emplace(tokens_[i].content, i);
  }
  bool has(const std::string& content) const { return places_.contains(content); }
  /// The token with this content, which may have been there before.
  AddedToken& add(const AddedToken& token) {
    const auto [place, fresh] = places_.emplace(token.content, tokens_.size());
    if (fresh) tokens_.push_back(token);
    return tokens_[place->second];
  }
  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> places_;
};

FolderTokens combined(SaidTokens said, const std::string& end, const PretrainedTokenizer* whole) {
  FolderTokens out;
  Combined tokens(whole ? whole->added_tokens() : std::vector<AddedToken>{});
  std::ranges::stable_sort(said.with_ids, {}, &AddedToken::id);
  for (AddedToken& token : said.with_ids) {
    AddedToken& added = tokens.add(token);
    token.special = token.special || added.special;
    if (said.has_decoder) added = token;
  }
  for (const auto& [name, content] : said.others) {
    if (whole && whole->id(content)) tokens.add({.content = content});
    check(tokens.has(content),
          "{} is '{}', whose id no file gives: list it in added_tokens_decoder", name, content);
  }
  for (size_t i = 0; i < std::size(kNamedTokens); ++i) {
    std::optional<AddedToken> token;
    const bool none = whole || (i == 0 && said.kind == "Qwen2Tokenizer");
    if (i < kWithDefault && !none) token = AddedToken{.content = end, .implied = true};
    if (const auto given = said.named.find(kNamedTokens[i]); given != said.named.end())
      token = given->second;
    if (!token) continue;
    const bool begins = i == 0 && said.begins.value_or(false);
    if (begins) out.front = token->content;
    if (whole && tokens.has(token->content)) continue;  // it keeps its flags
    AddedToken& added = tokens.add(*token);
    added.special = true;
    added.implied = added.implied && token->implied && !begins;
  }
  for (const AddedToken& token : said.further) tokens.add(token);
  out.added = tokens.take();
  out.kind = said.kind;
  out.begins = said.begins;
  return out;
}

/// tokenizer_config.json, and special_tokens_map.json where it counts.
SaidTokens read_said(const std::string& folder) {
  SaidTokens said;
  read_if_there(folder + "/tokenizer_config.json", [&](const JsonValue& root) {
    read_added_decoder(root.find("added_tokens_decoder"), said);
    read_specials(root, said);
    read_kind(root, said);
    if (root.has("add_bos_token")) said.begins = root.get("add_bos_token", false);
    said.ends = root.get("add_eos_token", false);
  });
  if (!said.has_decoder)
    read_if_there(folder + "/special_tokens_map.json",
                  [&](const JsonValue& root) { read_specials(root, said); });
  return said;
}

}  // namespace

std::map<std::string, std::string> read_special_texts(const std::string& folder) {
  const SaidTokens said = read_said(folder);
  std::map<std::string, std::string> texts(said.others.begin(), said.others.end());
  for (const auto& [name, token] : said.named) texts[name] = token ? token->content : "";
  return texts;
}

FolderTokens read_folder_tokens(const std::string& folder, const std::string& end,
                                const PretrainedTokenizer* whole) {
  SaidTokens said = read_said(folder);
  std::string file = folder + "/tokenizer_config.json";
  check_io(whole || !said.ends, "{}: add_eos_token is true: tern puts no token behind a text",
           file);
  read_if_there(folder + "/config.json", [&](const JsonValue& root) { read_kind(root, said); });
  if (!said.has_decoder) {
    const std::string ids = folder + "/added_tokens.json";
    if (read_if_there(ids, [&](const JsonValue& root) { read_added_ids(root, said); })) file = ids;
  }
  return reading(file, [&] {
    FolderTokens out = combined(std::move(said), end, whole);
    out.file = file;
    return out;
  });
}

}  // namespace tern::datasets::detail
