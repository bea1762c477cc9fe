// The unigram model: a trie of the pieces, and the search for the cut with the best score
// (Viterbi).
#include "tern/data/text/pretrained/pretrained_unigram.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr size_t kMostPieceBytes = 1 << 24;  // of all pieces; each byte may take a node of the trie

/// Finds pieces by their bytes, in at most 9 bytes of memory per byte of the pieces. Nodes stand
/// level by level: the children of a node side by side, sorted by byte, then those of the next
/// node.
class Trie {
 public:
  explicit Trie(const std::unordered_map<std::string, int64_t>& ids) {
    std::vector<std::pair<std::string_view, int64_t>> pieces(ids.begin(), ids.end());
    std::sort(pieces.begin(), pieces.end());
    std::vector<Range> level = {{0, pieces.size()}};  // the pieces below each node
    bytes_.push_back('\0');
    for (size_t depth = 0; !level.empty(); ++depth) {
      std::vector<Range> next;
      for (Range r : level) {
        const bool ends = pieces[r.begin].first.size() == depth;
        ids_.push_back(ends ? static_cast<int32_t>(pieces[r.begin++].second) : kNone);
        first_.push_back(static_cast<uint32_t>(bytes_.size()));
        while (r.begin < r.end) {
          const char c = pieces[r.begin].first[depth];
          size_t end = r.begin;
          while (end < r.end && pieces[end].first[depth] == c) ++end;
          bytes_.push_back(c);
          next.push_back({r.begin, end});
          r.begin = end;
        }
      }
      level = std::move(next);
    }
    first_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  /// use(end, id) for all pieces that begin at text[at], shorter ones first.
  template <class Use>
  void each_prefix(std::string_view text, size_t at, Use use) const {
    for (size_t node = 0; at < text.size() && (node = child(node, text[at])) != 0; ++at)
      if (ids_[node] != kNone) use(at + 1, int64_t{ids_[node]});
  }
  std::optional<int64_t> find(std::string_view piece) const {
    std::optional<int64_t> found;
    each_prefix(piece, 0, [&](size_t end, int64_t id) {
      if (end == piece.size()) found = id;
    });
    return found;
  }

 private:
  struct Range {
    size_t begin, end;
  };
  static constexpr int32_t kNone = -1;

  /// The child for byte c; 0, the root, if there is none.
  size_t child(size_t node, char c) const {
    const auto begin = bytes_.begin() + first_[node], end = bytes_.begin() + first_[node + 1];
    const auto at = std::lower_bound(begin, end, c, [](char a, char b) {
      return static_cast<unsigned char>(a) < static_cast<unsigned char>(b);
    });
    return at != end && *at == c ? static_cast<size_t>(at - bytes_.begin()) : 0;
  }

  std::vector<char> bytes_;      // byte of each node, level by level; 0 for the root
  std::vector<uint32_t> first_;  // first child of each node; at the end the number of nodes
  std::vector<int32_t> ids_;     // id of the piece that ends at each node, or kNone
};

/// The best cut of the text up to a place: its score, and where its last piece begins.
struct Best {
  double score = 0;
  size_t begin = 0;
  int64_t id = -1;  // none yet
};

class Unigram {
 public:
  Unigram(const PretrainedModel& model, const JsonValue& part)
      : trie_(*model.ids), byte_fallback_(part.get("byte_fallback", false)) {
    double lowest = HUGE_VAL;
    for (const JsonValue& entry : part.at("vocab").elements()) {
      scores_.push_back(entry.at(1).number());
      lowest = std::min(lowest, scores_.back());
    }
    unknown_score_ = lowest - kUnknownPenalty;
    if (const JsonValue id = part.find("unk_id"); !id.is_null())
      unknown_ = id.integer(0, std::ssize(scores_) - 1);
  }

  std::vector<int64_t> operator()(std::string_view text) const {
    const std::vector<Best> best = search(text);
    std::vector<std::pair<size_t, size_t>> parts;  // last part first
    bool unknown = false;
    for (size_t end = text.size(); end > 0; end = best[end].begin) {
      const bool here = best[end].id == unknown_;
      if (here && unknown)
        parts.back().first = best[end].begin;
      else
        parts.emplace_back(best[end].begin, end);
      unknown = here;
    }
    std::vector<int64_t> out;
    for (auto p = parts.rbegin(); p != parts.rend(); ++p)
      append(text.substr(p->first, p->second - p->first), out);
    return out;
  }

 private:
  std::vector<Best> search(std::string_view text) const {
    std::vector<Best> best(text.size() + 1);
    auto offer = [&](size_t begin, size_t end, double score, int64_t id) {
      const double sum = score + best[begin].score;
      if (best[end].id < 0 || sum > best[end].score) best[end] = {sum, begin, id};
    };
    for (size_t at = 0; at < text.size();) {
      size_t next = at;
      next_code_point(text, next);
      bool single = false;
      trie_.each_prefix(text, at, [&](size_t end, int64_t id) {
        offer(at, end, scores_[static_cast<size_t>(id)], id);
        single = single || end == next;
      });
      if (!single) {
        check(unknown_ >= 0, "Unigram: a character is unknown, but there is no unk_id");
        offer(at, next, unknown_score_, unknown_);
      }
      at = next;
    }
    return best;
  }

  void append(std::string_view part, std::vector<int64_t>& to) const {
    if (const std::optional<int64_t> id = trie_.find(part)) return to.push_back(*id);
    const std::vector<int64_t> bytes =
        byte_fallback_
            ? byte_tokens(part, [&](const std::string& token) { return trie_.find(token); })
            : std::vector<int64_t>{};
    to.insert(to.end(), bytes.begin(), bytes.end());
    if (bytes.empty()) to.push_back(unknown_);
  }

  Trie trie_;
  bool byte_fallback_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  int64_t unknown_ = -1;
};

}  // namespace

PretrainedModel read_unigram(const JsonValue& part) {
  PretrainedModel model;
  TokenIds ids;
  const std::vector<JsonValue> vocabulary = part.at("vocab").elements();
  check(!vocabulary.empty(), "Unigram: there are no pieces");
  size_t bytes = 0;
  for (const JsonValue& entry : vocabulary) {
    bytes += entry.at(0).text().size();
    check(bytes <= kMostPieceBytes, "Unigram: the pieces have more than {} bytes", kMostPieceBytes);
    model.tokens.push_back(entry.at(0).text());
    check(std::isfinite(entry.at(1).number()), "Unigram: the score of '{}' is not finite",
          model.tokens.back());
    ids[model.tokens.back()] = std::ssize(model.tokens) - 1;
  }
  model.ids = std::make_shared<const TokenIds>(std::move(ids));
  // Shared: the copies that a function makes of itself would be as large as the model.
  model.encode = [unigram = std::make_shared<const Unigram>(model, part)](std::string_view text) {
    return (*unigram)(text);
  };
  return model;
}

}  // namespace tern::datasets::detail
