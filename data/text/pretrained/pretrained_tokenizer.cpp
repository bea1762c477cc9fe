// Combines the parts of tokenizer.json (pretrained_*.cpp) to encode and decode.
#include "tern/data/text/pretrained/pretrained_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/base/system.h"
#include "tern/core/io/json_text.h"
#include "tern/core/io/json_value.h"
#include "tern/data/text/bpe/bpe_table.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/pretrained/pretrained_added.h"
#include "tern/data/text/pretrained/pretrained_parts.h"
#include "tern/data/text/tokenizer/limits.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {

struct PretrainedTokenizer::Impl {
  std::string source;  // the file
  detail::Normalizer normalize;
  detail::PreTokenizer cut;
  detail::PretrainedModel model;
  detail::Decoder join;
  detail::PretrainedTemplate around;
  detail::AddedTokens added;
  detail::TokenIds added_ids;  // before those of the model
  detail::TokenBytes bytes;
  detail::LineCuts cuts;
  mutable detail::ChunkCache cache;

  Impl(std::string text, const JsonValue& file)
      : source(std::move(text)),
        normalize(detail::read_normalizer(file.find("normalizer"))),
        cut(detail::read_pre_tokenizer(file.find("pre_tokenizer"))),
        model(detail::read_model(file.at("model"))),
        join(detail::read_decoder(file.find("decoder"))),
        around(detail::read_template(file.find("post_processor"))),
        added(file.find("added_tokens"), normalize),
        bytes(detail::read_token_bytes(file.find("decoder"))),
        cuts(detail::read_line_cuts(file.find("normalizer"), file.find("pre_tokenizer"))) {
    const int64_t most =
        2 * std::ssize(model.tokens) + std::ssize(added.all()) + detail::kMostHoles;
    for (const AddedToken& token : added.all()) {
      const int64_t id = *token.id;
      check(id < most, "the added token '{}' has the id {}; there are {} tokens", token.content, id,
            model.tokens.size());
      if (id >= std::ssize(model.tokens)) model.tokens.resize(static_cast<size_t>(id) + 1);
      model.tokens[static_cast<size_t>(id)] = token.content;
      added_ids[token.content] = id;
    }
    for (const auto* list : {&around.single, &around.pair})
      for (const detail::TemplatePiece& piece : *list)
        for (int64_t id : piece.ids) check(has(id), "the post-processor adds the token {}", id);
  }

  bool has(int64_t id) const {
    return id >= 0 && id < std::ssize(model.tokens) &&
           !model.tokens[static_cast<size_t>(id)].empty();
  }

  const std::string& token(const char* function, int64_t id) const {
    check(has(id), "PretrainedTokenizer::{}: there is no token {}, there are {}", function, id,
          model.tokens.size());
    return model.tokens[static_cast<size_t>(id)];
  }

  std::vector<int64_t> encode(std::string_view text, const PretrainedEncodeOptions& options) const {
    std::vector<int64_t> ids;
    added.cut(replace_invalid_utf8(text), normalize,
              [&](detail::Fragment part) {
                for (const detail::Fragment& f : cut({std::move(part)}))
                  cache.append({f.text}, ids, [&](std::string_view t) { return model.encode(t); });
              },
              ids, {options.find_specials, options.find_others});
    return ids;
  }

  Pair put_together(const std::vector<int64_t>& a, const std::vector<int64_t>& b, bool pair,
                    bool specials) const {
    using Kind = detail::TemplatePiece::Kind;
    Pair out;
    for (const detail::TemplatePiece& piece : pair ? around.pair : around.single) {
      if (piece.kind == Kind::special && !specials) continue;
      const std::vector<int64_t>& ids = piece.kind == Kind::special ? piece.ids
                                        : piece.kind == Kind::first ? a
                                                                    : b;
      out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
      out.segments.resize(out.tokens.size(), piece.segment);
    }
    return out;
  }
};

PretrainedTokenizer PretrainedTokenizer::load(const std::string& path) {
  std::string text = read_text(path, {.max_bytes = detail::kMostTokenBytes});
  return reading(path, [&] { return parse(std::move(text)); });
}

PretrainedTokenizer PretrainedTokenizer::parse(std::string text) {
  const bool large = text.size() > 1 << 20;
  auto impl = read(std::move(text));
  if (large) tern::detail::trim_heap();  // the values of JSON took many times the text's memory
  return PretrainedTokenizer(std::move(impl));
}

std::shared_ptr<const PretrainedTokenizer::Impl> PretrainedTokenizer::read(std::string text) {
  const JsonDocument file(text);
  const JsonValue root = file.root();
  check(root.is_object() && root.has("model"), "it is not a tokenizer.json: it has no model");
  const std::string version = root.get("version", "1.0");
  check(version == "1.0", "its version is {}; only 1.0 is supported", version);
  root.ignore("truncation padding");
  auto impl = std::make_shared<const Impl>(std::move(text), root);
  file.refuse_unread();
  return impl;
}

namespace {

using nlohmann::json;

/// The list added_tokens of tokenizer.json. `vocab`, of the file `path`, has the ids of tokens.
json added_entries(const std::string& path, const json& vocab,
                   const std::vector<AddedToken>& added) {
  const auto is_new = [&](const AddedToken& token) { return !vocab.contains(token.content); };
  int64_t next = std::ssize(vocab);
  const bool gaps = std::any_of(vocab.begin(), vocab.end(), [&](const json& id) {
    return id.is_number_integer() && id.get<int64_t>() >= next;
  });
  json entries = json::array();
  std::unordered_set<std::string_view> seen;
  for (auto token = added.begin(); token != added.end(); ++token) {
    const std::string& text = token->content;
    check(!text.empty(), "an added token has no text");
    check(seen.insert(text).second, "the added token '{}' appears twice", text);
    const bool new_one = is_new(*token);
    if (token->implied && new_one && std::none_of(token + 1, added.end(), is_new)) continue;
    check(!new_one || !gaps, "the ids in {} have gaps, so the added token '{}' has no known id",
          path, text);
    json id = new_one ? json(next++) : vocab.at(text);
    check(!token->id || id == *token->id,
          "the added token '{}' has the id {}, but {} {}: added tokens have the ids of the "
          "vocabulary, or continue them without a gap",
          text, token->id.value_or(0), id.dump(),
          new_one ? "is the next behind " + path : "in " + path);
    entries.push_back({{"id", std::move(id)},
                       {"content", text},
                       {"special", token->special},
                       {"normalized", token->normalized},
                       {"single_word", token->single_word},
                       {"lstrip", token->lstrip},
                       {"rstrip", token->rstrip}});
  }
  return entries;
}

/// The pre-tokenizer of Qwen 2, which ends with the one that spells bytes.
json qwen2_pieces(json bytes) {
  bytes["use_regex"] = false;
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", detail::qwen2_pattern()}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", json::array({split, bytes})}};
}

/// A post-processor that puts a token before each text.
json put_before(const std::string& front, const json& id) {
  auto piece = [](const char* kind, const std::string& name, int segment) {
    return json{{kind, {{"id", name}, {"type_id", segment}}}};
  };
  const json begin = piece("SpecialToken", front, 0), text = piece("Sequence", "A", 0);
  return {{"type", "TemplateProcessing"},
          {"single", {begin, text}},
          {"pair", {begin, text, piece("SpecialToken", front, 1), piece("Sequence", "B", 1)}},
          {"special_tokens", {{front, {{"id", front}, {"ids", {id}}, {"tokens", {front}}}}}}};
}

/// Gives the tokenizer.json `file`, which errors call `path`, this token before each text.
void set_front(json& file, const std::string& front, const std::string& path) {
  file["post_processor"] = nullptr;
  if (front.empty()) return;
  const json& entries = file["added_tokens"];
  const auto begin = std::find_if(entries.begin(), entries.end(),
                                  [&](const json& entry) { return entry.at("content") == front; });
  check_io(begin != entries.end(), "{}: there is no token '{}', which begins a text", path, front);
  file["post_processor"] = put_before(front, begin->at("id"));
}

}  // namespace

PretrainedTokenizer PretrainedTokenizer::load_byte_bpe(const std::string& vocab_path,
                                                       const std::string& merges_path,
                                                       const std::vector<AddedToken>& added,
                                                       const std::string& front,
                                                       BytePattern pattern) {
  const json vocab = reading(vocab_path, [&] {
    json read = parse_json(read_text(vocab_path, {.max_bytes = detail::kMostTokenBytes}));
    check(read.is_object(), "expected an object with the ids of tokens");
    return read;
  });
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  json file = {{"version", "1.0"},
               {"normalizer", nullptr},
               {"pre_tokenizer", bytes},
               {"post_processor", nullptr},
               {"decoder", bytes},
               {"added_tokens", added_entries(vocab_path, vocab, added)},
               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}};
  if (pattern == BytePattern::qwen2) {
    file["normalizer"] = {{"type", "NFC"}};
    file["pre_tokenizer"] = qwen2_pieces(bytes);
  }
  set_front(file, front, vocab_path);
  for (const std::string& line : read_lines(merges_path))
    if (!line.empty() && !line.starts_with("#version")) file["model"]["merges"].push_back(line);
  return reading(vocab_path + " and " + merges_path, [&] { return parse(file.dump()); });
}

PretrainedTokenizer PretrainedTokenizer::with_tokens(const std::vector<AddedToken>& added,
                                                     const std::optional<std::string>& new_front,
                                                     const std::string& path) const {
  std::string before;
  for (const int64_t id : front()) before += *token(id);
  const bool same = !new_front || *new_front == before;
  if (added == impl_->added.all() && same) return *this;
  json vocab = json::object(), file = parse_json(source());
  for (int64_t id = 0; id < size(); ++id)
    if (impl_->has(id)) vocab[impl_->model.tokens[static_cast<size_t>(id)]] = id;
  file["added_tokens"] = added_entries(path, vocab, added);
  if (!same) set_front(file, *new_front, path);
  return parse(file.dump());
}

const std::vector<AddedToken>& PretrainedTokenizer::added_tokens() const {
  return impl_->added.all();
}

const std::string& PretrainedTokenizer::source() const { return impl_->source; }

int64_t PretrainedTokenizer::size() const { return std::ssize(impl_->model.tokens); }

std::optional<std::string> PretrainedTokenizer::token(int64_t id) const {
  if (!impl_->has(id)) return std::nullopt;
  return impl_->model.tokens[static_cast<size_t>(id)];
}

std::optional<int64_t> PretrainedTokenizer::id(std::string_view token) const {
  for (const detail::TokenIds* ids : {&impl_->added_ids, impl_->model.ids.get()})
    if (const auto found = ids->find(std::string(token)); found != ids->end()) return found->second;
  return std::nullopt;
}

std::vector<std::string> PretrainedTokenizer::added(bool special) const {
  std::vector<std::string> out;
  for (const AddedToken& token : impl_->added.all())
    if (token.special == special) out.push_back(token.content);
  return out;
}

std::vector<int64_t> PretrainedTokenizer::encode(std::string_view text,
                                                 const PretrainedEncodeOptions& options) const {
  return impl_->put_together(impl_->encode(text, options), {}, false, options.specials).tokens;
}

PretrainedTokenizer::Pair PretrainedTokenizer::encode_pair(
    std::string_view first, std::string_view second, const PretrainedEncodeOptions& options) const {
  return impl_->put_together(impl_->encode(first, options), impl_->encode(second, options), true,
                             options.specials);
}

std::string PretrainedTokenizer::decode(std::span<const int64_t> ids, bool specials) const {
  std::vector<std::string> tokens;
  for (int64_t id : ids)
    if (const std::string& token = impl_->token("decode", id);
        specials || !impl_->added.is_special(id))
      tokens.push_back(token);
  std::string text;
  for (const std::string& piece : impl_->join(std::move(tokens))) text += piece;
  return text;
}

std::string PretrainedTokenizer::bytes(int64_t id) const {
  return impl_->bytes(impl_->token("bytes", id));
}

std::vector<int64_t> PretrainedTokenizer::front() const {
  std::vector<int64_t> out;
  for (const detail::TemplatePiece& piece : impl_->around.single) {
    if (piece.kind != detail::TemplatePiece::Kind::special) break;
    out.insert(out.end(), piece.ids.begin(), piece.ids.end());
  }
  return out;
}

// Before other text, GPT-2's pattern makes the last character of white space a chunk of its own.
// It sees no other text before an added token, and before a digit if digits are cut apart first.
size_t PretrainedTokenizer::last_cut(std::string_view text) const {
  if (!impl_->cuts.any) return 0;
  // Only ASCII counts: a character of several bytes may be white space.
  const auto is_text = [&](size_t at) {
    return at < text.size() && text[at] > ' ' && text[at] < 0x7F;
  };
  for (size_t at = text.rfind('\n'); at != text.npos && at > 0; at = text.rfind('\n', at - 1)) {
    if (!is_text(at + 1)) continue;
    const char next = text[at + 1];
    const bool digit = next >= '0' && next <= '9';
    if (!impl_->cuts.leaves_last || is_text(at - 1) || (impl_->cuts.digits_apart && digit))
      return at + 1;
    if (!impl_->added.may_begin_with(next)) return at;
  }
  return 0;
}

}  // namespace tern::datasets
