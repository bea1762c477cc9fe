// The models of tokenizer.json: WordPiece and BPE. Unigram has a file of its own.
#include <algorithm>
#include <memory>

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/bpe_table.h"
#include "tern/data/text/pretrained/pretrained_parts.h"
#include "tern/data/text/pretrained/pretrained_unigram.h"
#include "tern/data/text/tokenizer/limits.h"
#include "tern/data/text/tokenizer/token_ids.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/wordpiece_pieces.h"

namespace tern::datasets::detail {
namespace {

using Ids = std::vector<int64_t>;

PretrainedModel read_vocabulary(const JsonValue& part) {
  TokenIds ids;
  for (const auto& [token, id] : part.at("vocab").members()) ids.emplace(token, id.integer());
  return {.tokens = read_token_ids(part.at("vocab")),
          .ids = std::make_shared<const TokenIds>(std::move(ids)),
          .encode = {}};
}

std::optional<int64_t> find(const TokenIds& ids, const std::string& token) {
  const auto found = ids.find(token);
  if (found == ids.end()) return std::nullopt;
  return found->second;
}

std::optional<int64_t> unknown_of(const TokenIds& ids, const std::string& token) {
  if (token.empty()) return std::nullopt;
  const std::optional<int64_t> id = find(ids, token);
  check(id.has_value(), "the unknown token '{}' is not in the vocabulary", token);
  return id;
}

int64_t longest_word_of(const JsonValue& part) {
  const JsonValue longest = part.find("max_input_chars_per_word");
  return longest.is_null() ? 100 : longest.integer(0, kMostWordCharacters);
}

/// WordPiece: the longest pieces from the left. The whole word is unknown if one is missing.
class WordPieces {
 public:
  WordPieces(const PretrainedModel& model, const JsonValue& part)
      : ids_(model.ids),
        prefix_(part.get("continuing_subword_prefix", "##")),
        unknown_(unknown_of(*ids_, part.at("unk_token").text())),
        longest_word_(longest_word_of(part)) {
    for (const auto& [token, id] : *ids_) longest_ = std::max(longest_, token.size());
    check(unknown_.has_value(), "WordPiece: its unknown token is empty");
  }

  Ids operator()(std::string_view word) const {
    return longest_pieces(word, {prefix_, longest_word_, longest_},
                          [&](const std::string& piece) { return find(*ids_, piece); })
        .value_or(Ids{*unknown_});
  }

 private:
  std::shared_ptr<const TokenIds> ids_;
  std::string prefix_;
  std::optional<int64_t> unknown_;
  int64_t longest_word_;
  size_t longest_ = 0;
};

/// BPE: starts from characters and merges pairs.
class Pairs {
 public:
  Pairs(const PretrainedModel& model, const JsonValue& part)
      : ids_(model.ids),
        prefix_(part.get("continuing_subword_prefix", "")),
        suffix_(part.get("end_of_word_suffix", "")),
        unknown_(unknown_of(*ids_, part.get("unk_token", ""))),
        fuse_(part.get("fuse_unk", false)),
        byte_fallback_(part.get("byte_fallback", false)),
        ignore_merges_(part.get("ignore_merges", false)) {
    check(part.get("dropout", 0.0) == 0, "BPE: dropout is not supported");
    for (const JsonValue& merge : part.at("merges").elements()) add_merge(merge);
  }

  Ids operator()(std::string_view word) const {
    if (ignore_merges_)
      if (const auto whole = find(*ids_, std::string(word))) return {*whole};
    return merges_.merge(characters(word));
  }

 private:
  void add_merge(const JsonValue& merge) {
    std::string left, right;
    if (merge.is_list()) {
      check(merge.size() == 2, "BPE: a merge has {} tokens; it must have 2", merge.size());
      left = merge.at(0).text();
      right = merge.at(1).text();
    } else {
      const std::string& text = merge.text();
      const size_t space = text.find(' ');
      check(space != text.npos, "BPE: the merge '{}' has no space", text);
      left = text.substr(0, space);
      right = text.substr(space + 1);
    }
    check(right.size() >= prefix_.size(), "BPE: the merge '{} {}' is shorter than the prefix", left,
          right);
    const std::string whole = left + right.substr(prefix_.size());
    const auto a = find(*ids_, left), b = find(*ids_, right), c = find(*ids_, whole);
    check(a && b && c, "BPE: the merge '{} {}' needs a token that is not in the vocabulary", left,
          right);
    check(merges_.add(*a, *b, *c), "BPE: the merge '{} {}' appears twice", left, right);
  }

  Ids characters(std::string_view word) const {
    Ids ids;
    bool pending = false;  // an unknown token that later ones may join
    const std::vector<std::string_view> letters = code_points(word);
    for (size_t i = 0; i < letters.size(); ++i) {
      const std::string token = (i > 0 ? prefix_ : "") + std::string(letters[i]) +
                                (i + 1 == letters.size() ? suffix_ : "");
      if (const auto id = find(*ids_, token)) {
        if (pending) ids.push_back(*unknown_);
        pending = false;
        ids.push_back(*id);
      } else if (const Ids bytes = bytes_of(token); !bytes.empty()) {
        ids.insert(ids.end(), bytes.begin(), bytes.end());
      } else if (unknown_) {
        if (pending && !fuse_) ids.push_back(*unknown_);
        pending = true;
      }
    }
    if (pending) ids.push_back(*unknown_);
    return ids;
  }

  Ids bytes_of(const std::string& token) const {
    if (!byte_fallback_) return {};
    return byte_tokens(token, [&](const std::string& byte) { return find(*ids_, byte); });
  }

  std::shared_ptr<const TokenIds> ids_;
  std::string prefix_, suffix_;
  std::optional<int64_t> unknown_;
  bool fuse_, byte_fallback_, ignore_merges_;
  MergeTable merges_;
};

/// The type of the model. Older files lack it, so their members tell it.
std::string type_of_model(const JsonValue& part) {
  if (part.has("type")) return part.at("type").text();
  return part.has("merges") ? "BPE" : part.at("vocab").is_list() ? "Unigram" : "WordPiece";
}

}  // namespace

Ids byte_tokens(std::string_view text,
                const std::function<std::optional<int64_t>(const std::string&)>& find) {
  Ids out;
  for (char c : text) {
    const auto id = find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(c)));
    if (!id) return {};
    out.push_back(*id);
  }
  return out;
}

PretrainedModel read_model(const JsonValue& part) {
  const std::string type = type_of_model(part);
  if (type == "Unigram") return read_unigram(part);
  check(type == "WordPiece" || type == "BPE", "the model {} is not supported", type);
  PretrainedModel model = read_vocabulary(part);
  // Shared, because a copy of the std::function would otherwise copy the whole model.
  auto shared = [](auto encoder) {
    return [e = std::make_shared<const decltype(encoder)>(std::move(encoder))](
               std::string_view text) { return (*e)(text); };
  };
  if (type == "WordPiece")
    model.encode = shared(WordPieces(model, part));
  else
    model.encode = shared(Pairs(model, part));
  return model;
}

}  // namespace tern::datasets::detail
