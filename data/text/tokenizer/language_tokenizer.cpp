// One interface for the tokenizers of language models: reads and writes their files, encodes in
// pieces, and decodes token by token.
#include "tern/data/text/tokenizer/language_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/pretrained/pretrained_folder.h"

namespace tern::datasets {
namespace {

constexpr const char* kConversion =
    "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) writes tokenizer.json";

// transformers 4 gives these classes a template by add_bos_token, whatever tokenizer.json says.
// transformers 5 ignores the member, but does not write it: a folder that has it is of version 4.
constexpr std::string_view kFollowFlag[] = {"LlamaTokenizer", "CodeLlamaTokenizer",
                                            "GemmaTokenizer", "CohereTokenizer",
                                            "GPTNeoXTokenizer"};

/// The tokenizer of the folder's tokenizer.json.
PretrainedTokenizer load_whole(const std::string& folder, const std::string& path) {
  const PretrainedTokenizer whole = PretrainedTokenizer::load(path);
  const detail::FolderTokens tokens = detail::read_folder_tokens(folder, kEndOfText, &whole);
  return reading(tokens.file, [&] {
    const bool follows = tokens.begins && std::ranges::count(kFollowFlag, tokens.kind) > 0;
    if (!follows) return whole.with_tokens(tokens.added, std::nullopt, path);
    check(!*tokens.begins || !tokens.front.empty(),
          "add_bos_token is true, but no file names the bos_token: name it there");
    return whole.with_tokens(tokens.added, tokens.front, path);
  });
}

}  // namespace

LanguageTokenizer::LanguageTokenizer(ByteBpe tokenizer) : tokenizer_(std::move(tokenizer)) {
  boundary_ = id(kEndOfText);
  if (boundary_) ends_ = {*boundary_};
}

LanguageTokenizer::LanguageTokenizer(PretrainedTokenizer tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  const std::vector<int64_t> front = std::get<PretrainedTokenizer>(tokenizer_).front();
  const std::optional<int64_t> end = id(kEndOfText);
  boundary_ = front.empty() ? end : front.front();
  if (end) ends_ = {*end};
}

LanguageTokenizer LanguageTokenizer::load(const std::string& folder) {
  const std::string whole = folder + "/tokenizer.json", vocab = folder + "/vocab.json";
  if (std::filesystem::exists(whole)) return load_whole(folder, whole);
  const bool pieces = std::filesystem::exists(folder + "/tokenizer.model");
  check_io(
      std::filesystem::exists(vocab),
      "{}: it has no tokenizer: neither tokenizer.json, nor vocab.json and merges.txt{}", folder,
      pieces ? fmt::format("; transformers converts its tokenizer.model: {}", kConversion) : "");
  const detail::FolderTokens tokens = detail::read_folder_tokens(folder, kEndOfText);
  const bool qwen2 = tokens.kind == "Qwen2Tokenizer";
  check_io(qwen2 || tokens.kind.empty() || tokens.kind == "GPT2Tokenizer" ||
               tokens.kind == "CodeGenTokenizer",
           "{}: its tokenizer_class is {}. Without tokenizer.json only GPT2Tokenizer, "
           "CodeGenTokenizer and Qwen2Tokenizer are supported; {}",
           folder, tokens.kind, kConversion);
  return reading(tokens.file, [&] {
    return PretrainedTokenizer::load_byte_bpe(vocab, folder + "/merges.txt", tokens.added,
                                              tokens.front,
                                              qwen2 ? BytePattern::qwen2 : BytePattern::gpt2);
  });
}

void LanguageTokenizer::save(const std::string& folder) const {
  const std::string whole = folder + "/tokenizer.json";
  if (const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_))
    return write_file_atomically(whole, published->source());
  const ByteBpe& learned = std::get<ByteBpe>(tokenizer_);
  const std::string vocab = folder + "/vocab.json", merges = folder + "/merges.txt";
  learned.save(vocab, merges);
  std::vector<AddedToken> added;
  for (std::string& token : learned.specials()) added.push_back({.content = std::move(token)});
  write_file_atomically(whole, PretrainedTokenizer::load_byte_bpe(vocab, merges, added).source());
}

int64_t LanguageTokenizer::size() const {
  return std::visit([](const auto& t) { return t.size(); }, tokenizer_);
}

bool LanguageTokenizer::has(int64_t id) const {
  if (const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_))
    return published->token(id).has_value();
  return std::get<ByteBpe>(tokenizer_).has(id);
}

std::optional<int64_t> LanguageTokenizer::id(std::string_view token) const {
  return std::visit([&](const auto& t) { return t.id(token); }, tokenizer_);
}

bool LanguageTokenizer::is_end(int64_t id) const {
  return std::find(ends_.begin(), ends_.end(), id) != ends_.end();
}

void LanguageTokenizer::set_ends(std::vector<int64_t> ids) {
  for (const int64_t id : ids)
    check(has(id), "the end token {} is not in the vocabulary of {}", id, size());
  ends_ = std::move(ids);
}

std::vector<int64_t> LanguageTokenizer::encode(std::string_view text) const {
  if (const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_))
    return published->encode(text, {.specials = false});
  return std::get<ByteBpe>(tokenizer_).encode(text);
}

std::vector<int64_t> LanguageTokenizer::encode_plain(std::string_view text) const {
  if (const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_))
    return published->encode(text,
                             {.specials = false, .find_specials = false, .find_others = false});
  return encode(text);
}

std::vector<std::string> LanguageTokenizer::added(bool special) const {
  const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_);
  return published ? published->added(special) : std::vector<std::string>{};
}

std::vector<int64_t> LanguageTokenizer::encode_prompt(std::string_view text) const {
  std::vector<int64_t> ids;
  if (const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_))
    ids = published->front();
  const std::vector<int64_t> rest = encode(text);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

size_t LanguageTokenizer::encode_beginning(std::string_view text, std::vector<int64_t>& ids) const {
  const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_);
  if (!published) return std::get<ByteBpe>(tokenizer_).encode_beginning(text, ids);
  const size_t end = published->last_cut(text);
  const std::vector<int64_t> more = encode(text.substr(0, end));
  ids.insert(ids.end(), more.begin(), more.end());
  return end;
}

std::string LanguageTokenizer::decode(std::span<const int64_t> ids) const {
  const auto* published = std::get_if<PretrainedTokenizer>(&tokenizer_);
  if (!published) return std::get<ByteBpe>(tokenizer_).decode(ids);
  std::string text;
  for (const int64_t id : ids) text += published->bytes(id);
  return text;
}

}  // namespace tern::datasets
