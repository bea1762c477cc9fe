// IBM Model 1: estimates by expectation maximisation which source token produces which target
// token, and keeps the most likely ones.
#include "tern/data/text/pairs/lexicon.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/data/text/tokenizer/vocabulary.h"

namespace tern::datasets {
namespace {

constexpr int64_t kNone = -1;

/// A target token that occurs in a pair with some source token.
struct Entry {
  int32_t target;
  float p;       ///< probability that the source token produces it
  double count;  ///< expected number of times that it did
};
/// The entries of one source token, by ascending target.
using Entries = std::vector<Entry>;

void check_tokens(const char* side, std::span<const int64_t> tokens, int64_t vocab) {
  for (const int64_t t : tokens)
    check(t >= 0 && t < vocab, "Lexicon: token {} of a {} is outside its vocabulary of {}", t, side,
          vocab);
}

std::vector<Entries> met_in_pairs(std::span<const EncodedPair> pairs, const LexiconOptions& o) {
  std::vector<std::vector<int32_t>> where(static_cast<size_t>(o.source_vocab));  // indices of pairs
  for (size_t i = 0; i < pairs.size(); ++i)
    for (const int64_t s : pairs[i].source) {
      std::vector<int32_t>& list = where[static_cast<size_t>(s)];
      if (list.empty() || list.back() != static_cast<int32_t>(i))
        list.push_back(static_cast<int32_t>(i));
    }
  std::vector<Entries> met(where.size());
  std::vector<size_t> seen_by(static_cast<size_t>(o.target_vocab), where.size());
  for (size_t s = 0; s < where.size(); ++s) {
    for (const int32_t i : where[s])
      for (const int64_t t : pairs[static_cast<size_t>(i)].target)
        if (std::exchange(seen_by[static_cast<size_t>(t)], s) != s)
          met[s].push_back({static_cast<int32_t>(t), 0, 0});
    where[s] = {};
    met[s].shrink_to_fit();
    std::sort(met[s].begin(), met[s].end(),
              [](const Entry& a, const Entry& b) { return a.target < b.target; });
    for (Entry& e : met[s]) e.p = 1 / static_cast<float>(met[s].size());
  }
  return met;
}

Entry& find(Entries& entries, int64_t target) {
  return *std::lower_bound(entries.begin(), entries.end(), target,
                           [](const Entry& e, int64_t t) { return e.target < t; });
}

std::vector<float> shares(std::span<const EncodedPair> pairs, int64_t vocab) {
  std::vector<int64_t> count(static_cast<size_t>(vocab));
  int64_t all = 0;
  for (const EncodedPair& p : pairs) {
    for (const int64_t t : p.target) ++count[static_cast<size_t>(t)];
    all += std::ssize(p.target);
  }
  std::vector<float> share;
  for (const int64_t n : count)
    share.push_back(
        all == 0 ? 0 : static_cast<float>(static_cast<double>(n) / static_cast<double>(all)));
  return share;
}

// Expectation: distributes each target token over the source tokens that may have produced it.
// Maximisation: normalises the shares of each source token.
void iterate(std::span<const EncodedPair> pairs, const std::vector<float>& by_none,
             std::vector<Entries>& met) {
  std::vector<Entry*> makers;
  for (const EncodedPair& pair : pairs)
    for (const int64_t t : pair.target) {
      makers.clear();
      float sum = by_none[static_cast<size_t>(t)];
      for (const int64_t s : pair.source) {
        makers.push_back(&find(met[static_cast<size_t>(s)], t));
        sum += makers.back()->p;
      }
      for (Entry* e : makers) e->count += e->p / sum;
    }
  for (Entries& entries : met) {
    double sum = 0;
    for (const Entry& e : entries) sum += e.count;
    for (Entry& e : entries) {
      e.p = sum > 0 ? static_cast<float>(e.count / sum) : 0;
      e.count = 0;
    }
  }
}

/// Fills a row with the ids of the items with the largest numbers, keeping the order of equals.
template <class Item, class Number, class Id>
void write_best(std::vector<Item> items, int64_t most, Number number, Id id, int64_t* row) {
  std::stable_sort(items.begin(), items.end(),
                   [&](const Item& a, const Item& b) { return number(a) > number(b); });
  for (int64_t i = 0; i < most; ++i)
    row[i] = i < std::ssize(items) ? id(items[static_cast<size_t>(i)]) : kNone;
}

void add_first(const int64_t* row, int64_t best, std::vector<int64_t>& to) {
  for (int64_t i = 0; i < best && row[i] != kNone; ++i) to.push_back(row[i]);
}

}  // namespace

Lexicon Lexicon::learn(std::span<const EncodedPair> pairs, const LexiconOptions& o) {
  check(o.iterations > 0 && o.most > 0,
        "Lexicon: {} iterations, {} translations per token; at least 1 each", o.iterations, o.most);
  check(std::ssize(pairs) <= INT32_MAX && o.target_vocab <= INT32_MAX,
        "Lexicon: {} pairs and {} target tokens do not fit 32 bits", pairs.size(), o.target_vocab);
  for (const EncodedPair& p : pairs) {
    check_tokens("source", p.source, o.source_vocab);
    check_tokens("target", p.target, o.target_vocab);
  }
  const std::vector<float> share = shares(pairs, o.target_vocab);
  std::vector<Entries> met = met_in_pairs(pairs, o);
  for (int i = 0; i < o.iterations; ++i) iterate(pairs, share, met);
  Lexicon lexicon;
  lexicon.target_vocab_ = o.target_vocab;
  lexicon.translations_ = empty({o.source_vocab, o.most}, DType::i64);
  lexicon.common_ = empty({o.most}, DType::i64);
  auto* rows = lexicon.translations_.mutable_data<int64_t>();
  for (size_t s = 0; s < met.size(); ++s)
    write_best(
        std::move(met[s]), o.most, [](const Entry& e) { return e.p; },
        [](const Entry& e) { return int64_t{e.target}; }, rows + static_cast<int64_t>(s) * o.most);
  std::vector<int64_t> targets;
  for (int64_t t = 0; t < o.target_vocab; ++t)
    if (share[static_cast<size_t>(t)] > 0) targets.push_back(t);
  write_best(
      std::move(targets), o.most, [&](int64_t t) { return share[static_cast<size_t>(t)]; },
      [](int64_t t) { return t; }, lexicon.common_.mutable_data<int64_t>());
  return lexicon;
}

std::vector<int64_t> Lexicon::candidates(std::span<const int64_t> source, int64_t best) const {
  check(best > 0 && best <= most(), "Lexicon: {} translations per token were requested; 1 to {}",
        best, most());
  check_tokens("source", source, source_vocab());
  std::vector<int64_t> list;
  for (int64_t t = 0; t < std::min(kSpecials, target_vocab_); ++t) list.push_back(t);
  add_first(common_.data<int64_t>(), best, list);
  for (const int64_t s : source) add_first(translations_.data<int64_t>() + s * most(), best, list);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

SafeTensors Lexicon::state() const {
  return {{{"translations", translations_},
           {"common", common_},
           {"target_vocab", tensor(std::vector<int64_t>{target_vocab_})}},
          {}};
}

Lexicon Lexicon::from_state(const SafeTensors& state) {
  const Tensor table = state.find("translations"), common = state.find("common"),
               vocab = state.find("target_vocab");
  auto fits = [](const Tensor& t, int ndim) {
    return t.defined() && t.dtype() == DType::i64 && t.ndim() == ndim;
  };
  check(fits(table, 2) && fits(common, 1) && fits(vocab, 1) && vocab.numel() == 1 &&
            table.size(1) == common.size(0) && common.size(0) > 0,
        "Lexicon: needs translations (V, N), common (N) and target_vocab (1), all i64");
  Lexicon lexicon;
  lexicon.translations_ = table.contiguous();
  lexicon.common_ = common.contiguous();
  lexicon.target_vocab_ = vocab.item<int64_t>();
  for (const Tensor& ids : {lexicon.translations_, lexicon.common_})
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const int64_t id = ids.data<int64_t>()[i];
      check(id >= kNone && id < lexicon.target_vocab_,
            "Lexicon: {} is not a token of a vocabulary of {}", id, lexicon.target_vocab_);
    }
  return lexicon;
}

}  // namespace tern::datasets
