// Builds tokenizer.json of the metadata of GGUF files. Where a file lacks a part of the original
// tokenizer, the part is what llama.cpp has for the same names (llama-vocab.cpp).
#include "tern/pretrained/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::pretrained {
namespace {

using nlohmann::json;

// Of tokenizer.ggml.token_type.
constexpr int64_t kNormal = 1, kUnknown = 2, kControl = 3, kUsers = 4, kByte = 6;

const std::string kMark = "\u2581";  // in the place of spaces

std::string token_key(std::string_view member) { return "tokenizer.ggml." + std::string(member); }

/// Whether white space behind the added tokens is left out, as transformers does with Phi-3's. GGUF
/// has no place for that, so llama.cpp knows the tokenizer by the model's name, and so does this.
bool is_phi3(const GgufFile& file) {
  const std::string name = datasets::lower_case(file.get("general.name", ""));
  return name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
}

/// The tokens with their types, checked.
struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<int64_t> types;
  std::unordered_map<std::string_view, int64_t> ids;

  explicit Vocabulary(const GgufFile& file) : tokens(file.texts(token_key("tokens"))) {
    types.assign(tokens.size(), kNormal);
    if (file.has(token_key("token_type"))) types = file.integers(token_key("token_type"));
    check(types.size() == tokens.size(), "{} tokens have {} types", tokens.size(), types.size());
    ids.reserve(tokens.size());
    for (std::string_view token : tokens) {
      const int64_t id = std::ssize(ids);
      check(!find_invalid_utf8(token), "token {} is not UTF-8", id);
      check(ids.emplace(token, id).second, "the token '{}' appears twice", token);
    }
  }

  json vocab() const {
    json vocab = json::object();
    for (const auto& [token, id] : ids) vocab[std::string(token)] = id;
    return vocab;
  }

  /// Tokens that are found in a text before it is cut. Behind kKeep, white space counts in a Phi-3
  /// too.
  json added(bool phi3) const {
    constexpr std::string_view kKeep[] = {"<unk>", "<s>", "<|endoftext|>"};
    json added = json::array();
    for (size_t id = 0; id < tokens.size(); ++id) {
      const bool special = types[id] == kControl || types[id] == kUnknown;
      if (special || types[id] == kUsers)
        added.push_back({{"id", id},
                         {"content", tokens[id]},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", phi3 && std::ranges::count(kKeep, tokens[id]) == 0},
                         {"normalized", false},
                         {"special", special}});
    }
    return added;
  }

  std::string token(int64_t id) const {
    check(id >= 0 && id < std::ssize(tokens), "there is no token {}, only {}", id, tokens.size());
    return std::string(tokens[static_cast<size_t>(id)]);
  }
};

/// The text of the token whose id is at one of these keys, for example "bos_token_id".
std::optional<std::string> token_at(const GgufFile& file, const Vocabulary& vocabulary,
                                    std::initializer_list<const char*> members) {
  for (const char* member : members)
    if (file.has(token_key(member))) return vocabulary.token(file.integer(token_key(member)));
  return std::nullopt;
}

/// A post-processor that puts tokens around a text, if they are given.
json around(const Vocabulary& vocabulary, const std::optional<std::string>& begin,
            const std::optional<std::string>& end) {
  json single = json::array(), pair = json::array(), tokens = json::object();
  const auto special = [&](json& list, const std::optional<std::string>& token, int segment) {
    if (!token) return;
    list.push_back({{"SpecialToken", {{"id", *token}, {"type_id", segment}}}});
    tokens[*token] = {{"id", *token}, {"ids", {vocabulary.ids.at(*token)}}, {"tokens", {*token}}};
  };
  const auto text = [](json& list, const char* name, int segment) {
    list.push_back({{"Sequence", {{"id", name}, {"type_id", segment}}}});
  };
  special(single, begin, 0), text(single, "A", 0), special(single, end, 0);
  special(pair, begin, 0), text(pair, "A", 0), special(pair, end, 0);
  text(pair, "B", 1), special(pair, end, 1);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

/// Around a text, by the flags add_bos_token and add_eos_token.
json around_by_flags(const GgufFile& file, const Vocabulary& vocabulary, bool begins) {
  const auto wanted = [&](const char* flag, bool otherwise, const char* member) {
    std::optional<std::string> token;
    if (file.get(token_key(flag), otherwise)) token = token_at(file, vocabulary, {member});
    return token;
  };
  return around(vocabulary, wanted("add_bos_token", begins, "bos_token_id"),
                wanted("add_eos_token", false, "eos_token_id"));
}

json sequence(const char* type, const char* list, json parts) {
  return {{"type", type}, {list, std::move(parts)}};
}

// How a byte-level BPE cuts a text.
enum class Cut {
  gpt2,    // GPT-2's pattern
  digits,  // each digit by itself, the rest by GPT-2's pattern
  lines1,  // Qwen 2's pattern, with each digit by itself
  lines3,  // Llama 3's pattern, with up to three digits together
};

struct Pre {
  std::string_view name;
  Cut cut;
  bool begins = false;         // the first token is <s>, unless add_bos_token says otherwise
  bool ignore_merges = false;  // a word that is a token is that token
  bool nfc = false;
};

constexpr Pre kPres[] = {
    {"gpt-2", Cut::gpt2},
    {"phi-2", Cut::gpt2},
    {"olmo", Cut::gpt2},
    {"smollm", Cut::digits},
    {"starcoder", Cut::digits},
    {"refact", Cut::digits},
    {"command-r", Cut::digits},
    {"codeshell", Cut::digits},
    {"llama-bpe", Cut::lines3, true, true},
    {"llama3", Cut::lines3, true, true},
    {"llama-v3", Cut::lines3, true, true},
    {"smaug-bpe", Cut::lines3},
    {"dbrx", Cut::lines3},
    {"qwen2", Cut::lines1, false, false, true},
    {"deepseek-r1-qwen", Cut::lines1, false, false, true},
};

const Pre& pre_of(const GgufFile& file) {
  const std::string name = file.get(token_key("pre"), "default");
  std::string known;
  for (const Pre& pre : kPres) {
    if (pre.name == name) return pre;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", pre.name);
  }
  fail(fmt::format("tokenizer.ggml.pre is {}: how it cuts texts is not known; known are {}", name,
                   known));
}

json pre_tokenizer_of(Cut cut) {
  const auto byte_level = [](bool by_pattern) -> json {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", by_pattern}};
  };
  if (cut == Cut::gpt2) return byte_level(true);
  if (cut == Cut::digits)
    return sequence("Sequence", "pretokenizers",
                    {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)});
  const std::string pattern =
      std::string(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)") +
      (cut == Cut::lines3 ? R"(\p{N}{1,3})" : R"(\p{N})") +
      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  return sequence("Sequence", "pretokenizers",
                  {{{"type", "Split"},
                    {"pattern", {{"Regex", pattern}}},
                    {"behavior", "Isolated"},
                    {"invert", false}},
                   byte_level(false)});
}

json byte_level_bpe(const GgufFile& file, const Vocabulary& vocabulary) {
  const Pre& pre = pre_of(file);
  json merges = json::array();
  for (std::string_view merge : file.texts(token_key("merges"))) {
    check(!find_invalid_utf8(merge), "merge {} is not UTF-8", merges.size());
    merges.push_back(merge);
  }
  return {{"normalizer", pre.nfc ? json{{"type", "NFC"}} : json()},
          {"pre_tokenizer", pre_tokenizer_of(pre.cut)},
          {"post_processor", around_by_flags(file, vocabulary, pre.begins)},
          {"decoder", pre_tokenizer_of(Cut::gpt2)},  // ByteLevel with all members, for transformers
          {"model",
           {{"type", "BPE"},
            {"ignore_merges", pre.ignore_merges},
            {"vocab", vocabulary.vocab()},
            {"merges", merges}}}};
}

/// SentencePiece merges the pair whose result has the highest score. So each token gives merges of
/// all pairs of tokens that make it, and merges are in the order of the scores.
json merges_by_score(const GgufFile& file, const Vocabulary& vocabulary) {
  // The time grows with the square of a token. Published tokens have up to 48 bytes, and those of
  // Gemma make 600,000 merges.
  constexpr int64_t kMostBytes = 256, kMostMerges = 1 << 20;
  const std::vector<double> scores = file.numbers(token_key("scores"));
  check(scores.size() == vocabulary.tokens.size(), "{} tokens have {} scores",
        vocabulary.tokens.size(), scores.size());
  check(std::all_of(scores.begin(), scores.end(), [](double s) { return std::isfinite(s); }),
        "not all scores of tokens are finite");
  struct Merge {
    double score;
    int64_t left, right;
  };
  const auto part = [&](std::string_view text) {
    const auto found = vocabulary.ids.find(text);
    if (found == vocabulary.ids.end()) return int64_t{-1};
    const int64_t type = vocabulary.types[static_cast<size_t>(found->second)];
    return type == kNormal || type == kUsers ? found->second : -1;
  };
  std::vector<Merge> merges;
  for (size_t id = 0; id < scores.size(); ++id) {
    const std::string_view token = vocabulary.tokens[id];
    if (part(token) < 0) continue;
    check(std::ssize(token) <= kMostBytes, "token {} has {} bytes, at most {}", id, token.size(),
          kMostBytes);
    check(std::ssize(merges) <= kMostMerges, "the tokens make more than {} merges", kMostMerges);
    const size_t first = merges.size();
    for (size_t cut = 1; cut < token.size(); ++cut) {
      if ((token[cut] & 0xC0) == 0x80) continue;  // inside of a character
      const int64_t left = part(token.substr(0, cut)), right = part(token.substr(cut));
      if (left >= 0 && right >= 0) merges.push_back({scores[id], left, right});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) {
                return a.left != b.left ? a.left < b.left : a.right < b.right;
              });
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.score > b.score; });
  json out = json::array();
  for (const Merge& m : merges)
    out.push_back({vocabulary.token(m.left), vocabulary.token(m.right)});
  return out;
}

json sentence_piece(const GgufFile& file, const Vocabulary& vocabulary) {
  const bool space = file.get(token_key("add_space_prefix"), true);
  const bool bytes =
      std::find(vocabulary.types.begin(), vocabulary.types.end(), kByte) != vocabulary.types.end();
  json normalizers = json::array(), decoders = json::array();
  if (space) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (space) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const auto unknown = token_at(file, vocabulary, {"unknown_token_id"});
  return {{"normalizer", sequence("Sequence", "normalizers", normalizers)},
          {"pre_tokenizer", nullptr},
          {"post_processor", around_by_flags(file, vocabulary, true)},
          {"decoder", sequence("Sequence", "decoders", decoders)},
          {"model",
           {{"type", "BPE"},
            {"unk_token", unknown ? json(*unknown) : json()},
            {"fuse_unk", true},
            {"byte_fallback", bytes},
            {"vocab", vocabulary.vocab()},
            {"merges", merges_by_score(file, vocabulary)}}}};
}

/// llama.cpp marks beginnings of words and not their continuations: "▁word", "piece". BERT's own
/// vocabulary has "word" and "##piece".
std::string wordpiece_of(std::string_view token) {
  if (token.starts_with('[') && token.ends_with(']')) return std::string(token);
  if (token.starts_with(kMark)) return std::string(token.substr(kMark.size()));
  return "##" + std::string(token);
}

json wordpiece(const GgufFile& file, const Vocabulary& vocabulary) {
  json vocab = json::object();
  bool upper = false;  // the file does not say whether texts become lower case
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string token = wordpiece_of(vocabulary.tokens[id]);
    upper = upper ||
            (!token.starts_with('[') &&
             std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
    check(vocab.emplace(token, id).second, "the token '{}' appears twice", token);
  }
  const auto unknown = token_at(file, vocabulary, {"unknown_token_id"});
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", !upper}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           around(vocabulary, token_at(file, vocabulary, {"cls_token_id", "bos_token_id"}),
                  token_at(file, vocabulary,
                           {"seperator_token_id", "separator_token_id", "eos_token_id"}))},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", unknown.value_or("[UNK]")},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab}}}};
}

}  // namespace

std::string gguf_tokenizer(const GgufFile& file) {
  return reading(file.path(), [&] {
    const std::string kind = file.text(token_key("model"));
    const Vocabulary vocabulary(file);
    json out;
    if (kind == "gpt2")
      out = byte_level_bpe(file, vocabulary);
    else if (kind == "llama")
      out = sentence_piece(file, vocabulary);
    else if (kind == "bert")
      out = wordpiece(file, vocabulary);
    else
      fail(fmt::format("tokenizer.ggml.model is {}; gpt2, llama and bert are known", kind));
    out["version"] = "1.0";
    out["added_tokens"] = vocabulary.added(is_phi3(file));
    return out.dump();
  });
}

ChatTexts gguf_chat(const GgufFile& file) {
  return reading(file.path(), [&] {
    const std::vector<std::string_view> tokens = file.texts(token_key("tokens"));
    const auto token = [&](const char* member) -> std::string {
      if (!file.has(token_key(member))) return "";
      const int64_t id = file.integer(token_key(member));
      check(id >= 0 && id < std::ssize(tokens), "{} is {}; there are {} tokens", token_key(member),
            id, tokens.size());
      return std::string(tokens[static_cast<size_t>(id)]);
    };
    ChatTexts chat{.jinja = file.get("tokenizer.chat_template", ""),
                   .begin = token("bos_token_id"),
                   .end = token("eos_token_id")};
    if (const char* names = "tokenizer.chat_templates"; file.has(names))
      for (const std::string_view name : file.texts(names)) chat.others.emplace_back(name);
    return chat;
  });
}

}  // namespace tern::pretrained
