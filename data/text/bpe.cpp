#include "tern/data/text/bpe.h"

#include <mutex>
#include <unordered_map>

#include "tern/core/base/error.h"
#include "tern/data/text/detail/bpe_chunks.h"
#include "tern/data/text/detail/token_file.h"
#include "tern/data/text/unicode.h"

namespace tern::data {
namespace {

using detail::kByteIds;
using detail::kMergeIds;

constexpr size_t kCachedChunks = 1 << 17;
constexpr size_t kLongestPiece = 1 << 10;  // a damaged file could double the length with each merge

uint64_t key_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

}  // namespace

struct Bpe::Impl {
  std::vector<Merge> merges;
  std::unordered_map<uint64_t, int32_t> merged;  // id of a pair; smaller ids are merged first
  std::vector<std::string> pieces;               // bytes of each id; none for specials
  mutable std::mutex mutex;
  mutable std::unordered_map<std::string, std::vector<int64_t>> cache;

  explicit Impl(std::vector<Merge> list) : merges(std::move(list)), pieces(kSpecials) {
    check(std::ssize(merges) <= detail::kMostMerges, "Bpe: {} merges, at most {}", merges.size(),
          detail::kMostMerges);
    for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    merged.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const auto [left, right] = merges[i];
      const auto id = static_cast<int32_t>(pieces.size());
      check(left >= kByteIds && left < id && right >= kByteIds && right < id,
            "Bpe: merge {} is of {} and {}, it must be of ids from {} to {}", i, left, right,
            kByteIds, id - 1);
      check(pieces[left].size() + pieces[right].size() <= kLongestPiece,
            "Bpe: merge {} makes a piece of more than {} bytes", i, kLongestPiece);
      check(merged.emplace(key_of(left, right), id).second, "Bpe: merge {} is there twice", i);
      pieces.push_back(pieces[left] + pieces[right]);
    }
  }

  // Puts neighbours together, always those of the first merge in the list, until none is left.
  std::vector<int64_t> encode_chunk(std::string_view chunk) const {
    std::vector<int64_t> ids;
    for (char c : chunk) ids.push_back(kByteIds + static_cast<unsigned char>(c));
    while (true) {
      int32_t best = INT32_MAX;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = merged.find(key_of(ids[i], ids[i + 1]));
        if (found != merged.end()) best = std::min(best, found->second);
      }
      if (best == INT32_MAX) return ids;
      const auto [left, right] = merges[best - kMergeIds];
      size_t to = 0;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool here = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
        ids[to++] = here ? best : ids[i];
        i += here;
      }
      ids.resize(to);
    }
  }
};

Bpe::Bpe() : Bpe(std::vector<Merge>{}) {}
Bpe::Bpe(std::vector<Merge> merges) : impl_(std::make_shared<const Impl>(std::move(merges))) {}

Bpe Bpe::learn(std::span<const std::string> texts, const BpeOptions& options) {
  WordCounts counts;
  for (const std::string& text : texts) {
    const std::string spaced = detail::with_space(text);
    for (std::string_view chunk : detail::bpe_chunks(spaced)) ++counts[std::string(chunk)];
  }
  return Bpe(detail::learn_merges(counts, options));
}

int64_t Bpe::size() const { return std::ssize(impl_->pieces); }
const std::vector<Bpe::Merge>& Bpe::merges() const { return impl_->merges; }

std::vector<int64_t> Bpe::encode(std::string_view text) const {
  const std::string spaced = detail::with_space(text);
  std::vector<int64_t> ids;
  const std::lock_guard lock(impl_->mutex);
  for (std::string_view chunk : detail::bpe_chunks(spaced)) {
    if (impl_->cache.size() >= kCachedChunks) impl_->cache.clear();
    const auto [found, fresh] = impl_->cache.try_emplace(std::string(chunk));
    if (fresh) found->second = impl_->encode_chunk(chunk);
    ids.insert(ids.end(), found->second.begin(), found->second.end());
  }
  return ids;
}

std::string Bpe::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (int64_t id : ids) {
    check(id >= 0 && id < size(), "Bpe::decode: there is no token {}, there are {}", id, size());
    text += impl_->pieces[id];
  }
  if (text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string Bpe::piece(int64_t id) const {
  check(id >= 0 && id < size(), "Bpe::piece: there is no token {}, there are {}", id, size());
  if (id < kSpecials) return std::string(special_name(id));
  const std::string_view bytes = impl_->pieces[id];
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    next_code_point(bytes, at);
    const std::string_view one = bytes.substr(begin, at - begin);
    const auto byte = static_cast<unsigned char>(one[0]);
    if (one == " ")
      out += "▁";
    else if (find_invalid_utf8(one) || byte < 0x20 || byte == 0x7F)
      out += fmt::format("<{:02X}>", byte);
    else
      out += one;
  }
  return out;
}

void Bpe::save(const std::string& path) const {
  detail::write_token_file(path, "tern-bpe", {.merges = merges()});
}

Bpe Bpe::load(const std::string& path) {
  Bpe out;
  detail::read_token_file(path, "tern-bpe",
                          [&](detail::TokenTable& table) { out = Bpe(std::move(table.merges)); });
  return out;
}

}  // namespace tern::data
