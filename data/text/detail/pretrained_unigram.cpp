#include "tern/data/text/detail/pretrained_unigram.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode.h"

namespace tern::datasets::detail {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr size_t kMostPieceBytes = 1 << 24;  // of all pieces: each takes a node of the tree

/// Pieces by their bytes.
class Trie {
 public:
  void add(std::string_view piece, int64_t id) {
    uint64_t node = 0;
    for (char c : piece) {
      const auto [next, fresh] = next_.try_emplace(key(node, c), leaves_.size());
      if (fresh) leaves_.push_back(-1);
      node = next->second;
    }
    leaves_[node] = id;
  }
  /// use(end, id) for all pieces that begin at text[at], shorter ones first.
  template <class Use>
  void each_prefix(std::string_view text, size_t at, Use use) const {
    uint64_t node = 0;
    for (; at < text.size(); ++at) {
      const auto next = next_.find(key(node, text[at]));
      if (next == next_.end()) return;
      node = next->second;
      if (leaves_[node] >= 0) use(at + 1, leaves_[node]);
    }
  }

 private:
  static uint64_t key(uint64_t node, char c) { return node << 8 | static_cast<unsigned char>(c); }
  std::unordered_map<uint64_t, uint64_t> next_;
  std::vector<int64_t> leaves_ = {-1};
};

/// Where the best way to a place comes from.
struct Best {
  double score = 0;
  size_t begin = 0;
  int64_t id = -1;  // none yet
};

class Unigram {
 public:
  Unigram(const PretrainedModel& model, const JsonValue& part)
      : ids_(model.ids), byte_fallback_(part.get("byte_fallback", false)) {
    double lowest = HUGE_VAL;
    for (const JsonValue& entry : part.at("vocab").elements()) {
      scores_.push_back(entry.at(1).number());
      lowest = std::min(lowest, scores_.back());
    }
    for (const auto& [token, id] : ids_)
      if (!token.empty()) trie_.add(token, id);
    unknown_score_ = lowest - kUnknownPenalty;
    if (const JsonValue id = part.find("unk_id"); !id.is_null())
      unknown_ = id.integer(0, std::ssize(scores_) - 1);
  }

  std::vector<int64_t> operator()(std::string_view text) const {
    const std::vector<Best> best = search(text);
    std::vector<std::pair<size_t, size_t>> parts;  // from the last on
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
    if (const auto found = ids_.find(std::string(part)); found != ids_.end()) {
      to.push_back(found->second);
      return;
    }
    const std::vector<int64_t> bytes =
        byte_fallback_ ? byte_tokens(ids_, part) : std::vector<int64_t>{};
    to.insert(to.end(), bytes.begin(), bytes.end());
    if (bytes.empty()) to.push_back(unknown_);
  }

  std::unordered_map<std::string, int64_t> ids_;
  bool byte_fallback_;
  std::vector<double> scores_;
  Trie trie_;
  double unknown_score_ = 0;
  int64_t unknown_ = -1;
};

}  // namespace

PretrainedModel read_unigram(const JsonValue& part) {
  PretrainedModel model;
  const std::vector<JsonValue> vocabulary = part.at("vocab").elements();
  check(!vocabulary.empty(), "Unigram: there are no pieces");
  size_t bytes = 0;
  for (const JsonValue& entry : vocabulary) {
    bytes += entry.at(0).text().size();
    check(bytes <= kMostPieceBytes, "Unigram: the pieces have more than {} bytes", kMostPieceBytes);
    model.tokens.push_back(entry.at(0).text());
    check(std::isfinite(entry.at(1).number()), "Unigram: the score of '{}' is not finite",
          model.tokens.back());
    model.ids[model.tokens.back()] = std::ssize(model.tokens) - 1;
  }
  // Shared: the copies that a function makes of itself would be as large as the model.
  model.encode = [unigram = std::make_shared<const Unigram>(model, part)](std::string_view text) {
    return (*unigram)(text);
  };
  return model;
}

}  // namespace tern::datasets::detail
