// BPE over bytes: encodes, decodes and saves a list of merges. bpe_learn.cpp learns the list,
// bpe_table.cpp applies it.
#include "tern/data/text/bpe/bpe.h"

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/bpe_chunks.h"
#include "tern/data/text/bpe/bpe_table.h"
#include "tern/data/text/tokenizer/token_file.h"

namespace tern::datasets {
namespace {

using detail::kByteIds;

constexpr size_t kLongestPiece = 1 << 10;  // a damaged file could double the length with each merge

}  // namespace

struct Bpe::Impl {
  std::vector<Merge> merges;
  detail::MergeTable table;
  std::vector<std::string> pieces;  // bytes of each id; none for specials
  mutable detail::ChunkCache cache;

  explicit Impl(std::vector<Merge> list) : merges(std::move(list)), pieces(kSpecials) {
    check(std::ssize(merges) <= detail::kMostMerges, "Bpe: {} merges; at most {}", merges.size(),
          detail::kMostMerges);
    for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    for (size_t i = 0; i < merges.size(); ++i) {
      const auto [left, right] = merges[i];
      const auto id = static_cast<int32_t>(pieces.size());
      check(left >= kByteIds && left < id && right >= kByteIds && right < id,
            "Bpe: merge {} joins the ids {} and {}; both must be {} to {}", i, left, right,
            kByteIds, id - 1);
      check(pieces[left].size() + pieces[right].size() <= kLongestPiece,
            "Bpe: merge {} makes a piece of more than {} bytes", i, kLongestPiece);
      check(table.add(left, right, id), "Bpe: merge {} repeats an earlier merge", i);
      pieces.push_back(pieces[left] + pieces[right]);
    }
  }

  static std::vector<int64_t> bytes(std::string_view chunk) {
    std::vector<int64_t> ids;
    for (char c : chunk) ids.push_back(kByteIds + static_cast<unsigned char>(c));
    return ids;
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
  impl_->cache.append(detail::bpe_chunks(spaced), ids, [&](std::string_view chunk) {
    return impl_->table.merge(Impl::bytes(chunk));
  });
  return ids;
}

std::vector<int64_t> Bpe::encode(std::string_view text, double dropout, Rng random) const {
  check(dropout >= 0 && dropout <= 1, "Bpe::encode: the dropout {} is not a probability", dropout);
  if (dropout == 0) return encode(text);
  const std::string spaced = detail::with_space(text);
  std::vector<int64_t> ids;
  for (std::string_view chunk : detail::bpe_chunks(spaced)) {
    const std::vector<int64_t> made =
        impl_->table.merge(Impl::bytes(chunk), [&] { return random.uniform() < dropout; });
    ids.insert(ids.end(), made.begin(), made.end());
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
  return detail::shown_piece(impl_->pieces[id]);
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

}  // namespace tern::datasets
