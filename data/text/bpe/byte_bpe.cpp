// GPT-2's byte-level BPE: learns it, reads and writes vocab.json and merges.txt, encodes and
// decodes. byte_bpe_chunks.cpp cuts the text.
#include "tern/data/text/bpe/byte_bpe.h"

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/json_value.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/bpe/bpe_chunks.h"
#include "tern/data/text/bpe/bpe_table.h"
#include "tern/data/text/bpe/byte_bpe_chunks.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/tokenizer/limits.h"
#include "tern/data/text/tokenizer/token_ids.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

using nlohmann::json;
using Halves = std::pair<std::string, std::string>;  // the halves of a merge as written

/// The tokens by id; "" for unused ids.
using Spellings = std::vector<std::string>;

Spellings tokens_of(const std::string& path) {
  const JsonDocument file(read_text(path, {.max_bytes = detail::kMostTokenBytes}));
  check(file.root().is_object() && file.root().size() > 0,
        "it is not a JSON object of tokens with their ids");
  check(!file.root().has(""), "one of its tokens is empty");
  return detail::read_token_ids(file.root());
}

std::vector<Halves> read_merges(const std::string& path) {
  std::vector<Halves> merges;
  int64_t number = 0;
  for (const std::string& line : read_lines(path)) {
    ++number;
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    check_io(space != std::string::npos && space > 0 && space + 1 < line.size() &&
                 line.find(' ', space + 1) == std::string::npos,
             "{}: line {} is '{}', not two tokens with a space between them", path, number, line);
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

}  // namespace

struct ByteBpe::Impl {
  Spellings spellings;
  std::vector<Halves> merges;
  std::vector<std::string> pieces;               // bytes of each id
  std::unordered_map<std::string, int64_t> ids;  // id of bytes
  std::vector<int64_t> specials;
  std::array<int64_t, 256> byte_ids{};
  detail::MergeTable table;
  mutable detail::ChunkCache cache;

  Impl(Spellings tokens, std::vector<Halves> list)
      : spellings(std::move(tokens)), merges(std::move(list)) {
    std::unordered_map<std::string_view, int64_t> spelt;
    for (const std::string& token : spellings) {
      const int64_t id = std::ssize(pieces);
      pieces.push_back(detail::unspelt(token).value_or(token));
      if (!token.empty()) spelt.emplace(token, id), ids.emplace(pieces.back(), id);
    }
    std::vector<bool> made(spellings.size());
    for (int byte = 0; byte < 256; ++byte) {
      const std::string one = detail::spelt(std::string(1, static_cast<char>(byte)));
      const auto found = spelt.find(one);
      check(found != spelt.end(), "there is no token '{}', which is the byte {:02X}", one, byte);
      byte_ids[byte] = found->second;
      made[found->second] = true;
    }
    for (const Halves& halves : merges) made[add_merge(spelt, halves)] = true;
    for (int64_t id = 0; id < std::ssize(spellings); ++id)
      if (!made[id] && !spellings[id].empty()) specials.push_back(id);
  }

  int64_t add_merge(const std::unordered_map<std::string_view, int64_t>& spelt,
                    const Halves& halves) {
    const std::string whole = halves.first + halves.second;
    auto id_of = [&](const std::string& token) {
      const auto found = spelt.find(token);
      check(found != spelt.end(), "merge {} is '{} {}', but there is no token '{}'",
            table.size() + 1, halves.first, halves.second, token);
      return found->second;
    };
    const int64_t id = id_of(whole);
    check(table.add(id_of(halves.first), id_of(halves.second), id),
          "the merge '{} {}' appears twice", halves.first, halves.second);
    return id;
  }

  std::vector<int64_t> encode_chunk(std::string_view chunk) const {
    std::vector<int64_t> bytes;
    bytes.reserve(chunk.size());
    for (char c : chunk) bytes.push_back(byte_ids[static_cast<unsigned char>(c)]);
    return table.merge(std::move(bytes));
  }

  bool has(int64_t id) const {
    return id >= 0 && id < std::ssize(spellings) && !spellings[id].empty();
  }

  const std::string& bytes(const char* function, int64_t id) const {
    check(has(id), "ByteBpe::{}: there is no token {}, there are {}", function, id,
          spellings.size());
    return pieces[id];
  }
};

namespace {

Spellings byte_tokens() {
  Spellings tokens;
  for (uint8_t byte : detail::byte_order())
    tokens.push_back(detail::spelt(std::string(1, static_cast<char>(byte))));
  return tokens;
}

}  // namespace

ByteBpe::ByteBpe() : impl_(std::make_shared<const Impl>(byte_tokens(), std::vector<Halves>())) {}

ByteBpe ByteBpe::learn(std::span<const std::string> texts, const ByteBpeOptions& o) {
  const int64_t merges = o.size - 256 - std::ssize(o.specials);
  check(merges >= 0 && o.size <= detail::kMostTokens,
        "ByteBpe::learn: the size is {} with {} special tokens; it must be at least 256 larger "
        "than their number, and at most {}",
        o.size, o.specials.size(), detail::kMostTokens);
  // Bytes are ranked by their tokens' ids, which decide between equally frequent pairs.
  std::array<char, 256> place{};
  for (int i = 0; i < 256; ++i) place[detail::byte_order()[i]] = static_cast<char>(i);
  WordCounts counts;
  for (const std::string& text : texts)
    for (std::string_view chunk : detail::byte_bpe_chunks(text)) {
      std::string places;
      places.reserve(chunk.size());
      for (char c : chunk) places += place[static_cast<unsigned char>(c)];
      ++counts[std::move(places)];
    }
  Spellings tokens = byte_tokens();
  std::vector<Halves> halves;
  for (const auto& [left, right] :
       detail::learn_merges(counts, {.merges = merges, .min_count = o.min_count})) {
    halves.emplace_back(tokens[left - detail::kByteIds], tokens[right - detail::kByteIds]);
    tokens.push_back(halves.back().first + halves.back().second);
  }
  std::unordered_set<std::string> known(tokens.begin(), tokens.end());
  for (const std::string& special : o.specials) {
    check(!special.empty() && !find_invalid_utf8(special),
          "ByteBpe::learn: a special token is empty or not UTF-8");
    check(known.insert(special).second,
          "ByteBpe::learn: the special token '{}' is already in the vocabulary", special);
    tokens.push_back(special);
  }
  return ByteBpe(std::make_shared<const Impl>(std::move(tokens), std::move(halves)));
}

ByteBpe ByteBpe::load(const std::string& vocab_path, const std::string& merges_path) {
  Spellings tokens = reading(vocab_path, [&] { return tokens_of(vocab_path); });
  std::vector<Halves> merges = read_merges(merges_path);
  return reading(vocab_path + ", " + merges_path, [&] {
    return ByteBpe(std::make_shared<const Impl>(std::move(tokens), std::move(merges)));
  });
}

void ByteBpe::save(const std::string& vocab_path, const std::string& merges_path) const {
  std::string vocabulary = "{", merges = "#version: 0.2\n";
  for (int64_t id = 0; id < size(); ++id)
    if (const std::string& token = impl_->spellings[id]; !token.empty())
      vocabulary +=
          fmt::format("{}{}: {}", vocabulary.size() > 1 ? ", " : "", json(token).dump(), id);
  for (const auto& [left, right] : impl_->merges) merges += left + " " + right + "\n";
  for (const auto& [path, text] :
       {Halves(vocab_path, vocabulary + "}\n"), Halves(merges_path, merges)})
    write_file_atomically(path, text);
}

int64_t ByteBpe::size() const { return std::ssize(impl_->spellings); }
bool ByteBpe::has(int64_t id) const { return impl_->has(id); }

std::vector<int64_t> ByteBpe::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  impl_->cache.append(detail::byte_bpe_chunks(text), ids,
                      [&](std::string_view chunk) { return impl_->encode_chunk(chunk); });
  return ids;
}

size_t ByteBpe::encode_beginning(std::string_view text, std::vector<int64_t>& ids) const {
  // At most three characters behind a chunk decide where it ends (a contraction might begin there),
  // and the last character may be incomplete.
  constexpr size_t kSeen = 16;
  std::vector<std::string_view> chunks = detail::byte_bpe_chunks(text);
  size_t end = text.size();
  while (!chunks.empty() && end + kSeen > text.size()) {
    end -= chunks.back().size();
    chunks.pop_back();
  }
  if (chunks.empty()) return 0;
  impl_->cache.append(chunks, ids,
                      [&](std::string_view chunk) { return impl_->encode_chunk(chunk); });
  return end;
}

std::string ByteBpe::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (int64_t id : ids) text += impl_->bytes("decode", id);
  return text;
}

std::string ByteBpe::piece(int64_t id) const {
  return detail::shown_piece(impl_->bytes("piece", id));
}

std::optional<int64_t> ByteBpe::id(std::string_view token) const {
  const auto found = impl_->ids.find(std::string(token));
  if (found == impl_->ids.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> ByteBpe::specials() const {
  std::vector<std::string> out;
  for (int64_t id : impl_->specials) out.push_back(impl_->spellings[id]);
  return out;
}

}  // namespace tern::datasets
