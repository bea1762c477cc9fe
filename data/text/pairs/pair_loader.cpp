// Encodes and pads sentence pairs, and plans batches of similar lengths.
#include "tern/data/text/pairs/pair_loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/tape/record.h"
#include "tern/data/loading/dataset.h"

namespace tern::datasets {
namespace {

using PairsPtr = std::shared_ptr<const std::vector<EncodedPair>>;

/// The lengths of a pair in its batch, with special tokens.
struct Lengths {
  int64_t source = 0, target = 0;
};

// A batch that is being filled with pairs.
struct Filling {
  int64_t count = 0, tokens = 0;  // without padding
  Lengths longest;

  void add(const Lengths& l) {
    ++count;
    tokens += l.source + l.target;
    longest = {std::max(longest.source, l.source), std::max(longest.target, l.target)};
  }

  bool within(const PairLoaderOptions& o) const {
    if (o.batch > 0 && count > o.batch) return false;
    if (o.batch_tokens > 0 && count * std::max(longest.source, longest.target) > o.batch_tokens)
      return false;
    const auto elements = static_cast<double>(count * (longest.source + longest.target));
    return !o.by_length || elements - static_cast<double>(tokens) <= o.max_padding * elements;
  }
};

// Plans the batches of an epoch: sorts by length, equals at random, and cuts at the limits.
class LengthPlanner {
 public:
  LengthPlanner(const std::vector<EncodedPair>& pairs, const PairLoaderOptions& options)
      : options_(options) {
    lengths_.reserve(pairs.size());
    for (const EncodedPair& pair : pairs)
      lengths_.push_back({std::ssize(pair.source) + options.source_begin + options.source_end,
                          std::ssize(pair.target) + 1});
  }

  EpochPlan operator()(int64_t, Rng random) const {
    std::vector<int64_t> order = initial_order(random.stream(0));
    if (options_.by_length) {
      const std::vector<Key> key = keys(random.stream(2));
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return key[a] < key[b]; });
    }
    const std::vector<int64_t> ends = cut(order);
    if (!options_.shuffle || !options_.by_length) return {std::move(order), ends};
    return shuffled(order, ends, random.stream(1));
  }

 private:
  std::vector<int64_t> initial_order(Rng random) const {
    const int64_t n = std::ssize(lengths_);
    if (options_.shuffle) return permutation(n, random);
    std::vector<int64_t> order(lengths_.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    return order;
  }

  // Sorts by source length, then by target length in alternating direction, so that neighbours are
  // similar on both sides. With shuffle it adds up to two to the target length, so that batches
  // differ between epochs.
  using Key = std::pair<int64_t, int64_t>;
  std::vector<Key> keys(Rng random) const {
    std::vector<Key> out;
    out.reserve(lengths_.size());
    for (const auto& [source, target] : lengths_) {
      const int64_t t = target + (options_.shuffle ? random.below(3) : 0);
      out.emplace_back(source, source % 2 == 0 ? t : -t);
    }
    return out;
  }

  std::vector<int64_t> cut(const std::vector<int64_t>& order) const {
    std::vector<int64_t> ends;
    Filling batch;
    for (int64_t i = 0; i < std::ssize(order); ++i) {
      Filling next = batch;
      next.add(lengths_[order[i]]);
      if (batch.count > 0 && !next.within(options_)) {
        ends.push_back(i);
        next = Filling();
        next.add(lengths_[order[i]]);
      }
      batch = next;
    }
    if (batch.count > 0) ends.push_back(std::ssize(order));
    return ends;
  }

  static EpochPlan shuffled(const std::vector<int64_t>& order, const std::vector<int64_t>& ends,
                            Rng random) {
    EpochPlan plan;
    for (int64_t b : permutation(std::ssize(ends), random)) {
      const int64_t begin = b > 0 ? ends[b - 1] : 0;
      plan.order.insert(plan.order.end(), order.begin() + begin, order.begin() + ends[b]);
      plan.ends.push_back(std::ssize(plan.order));
    }
    return plan;
  }

  PairLoaderOptions options_;
  std::vector<Lengths> lengths_;
};

void check_options(const std::vector<EncodedPair>& pairs, const PairLoaderOptions& o) {
  check(o.batch >= 0 && o.batch_tokens >= 0 && o.batch + o.batch_tokens > 0,
        "pair_loader: batch is {}, batch_tokens is {}; at least one must be positive", o.batch,
        o.batch_tokens);
  check(o.max_padding >= 0 && o.max_padding <= 1, "pair_loader: max_padding is {}; 0 to 1",
        o.max_padding);
  for (size_t i = 0; i < pairs.size() && o.batch_tokens > 0; ++i) {
    const int64_t source = std::ssize(pairs[i].source) + o.source_begin + o.source_end;
    const int64_t longest = std::max(source, std::ssize(pairs[i].target) + 1);
    check(longest <= o.batch_tokens,
          "pair_loader: pair {} has {} tokens, but a batch has at most {}; leave longer pairs out "
          "with encode_pairs",
          i, longest, o.batch_tokens);
  }
}

PairBatch make_batch(const std::vector<EncodedPair>& pairs, const PairLoaderOptions& options,
                     const BatchPlan& plan) {
  std::vector<std::vector<int64_t>> source, in, out;
  plan.for_each_sample([&](int64_t i, int64_t index) {
    EncodedPair pair = options.vary ? options.vary(pairs[index], plan.rng_of(i)) : pairs[index];
    source.push_back(std::move(pair.source));
    if (options.source_begin) source.back().insert(source.back().begin(), kBeginId);
    if (options.source_end) source.back().push_back(kEndId);
    in.push_back({kBeginId});
    in.back().insert(in.back().end(), pair.target.begin(), pair.target.end());
    out.push_back(std::move(pair.target));
    out.back().push_back(kEndId);
  });
  const PaddedTokens s = pad_tokens(source), t = pad_tokens(in), u = pad_tokens(out);
  Fresh numbers({std::ssize(plan.indices)}, DType::i64);
  std::copy(plan.indices.begin(), plan.indices.end(), numbers.data<int64_t>());
  return {s.tokens, s.lengths, t.tokens, u.tokens, u.lengths, not_differentiable(numbers)};
}

}  // namespace

EncodedPairs encode_pairs(std::span<const SentencePair> pairs, const Tokenizer& source,
                          const Tokenizer& target, int64_t max_length) {
  check(max_length >= 0, "encode_pairs: max_length is {}; at least 0 (0: no limit)", max_length);
  auto encoded = std::make_shared<std::vector<EncodedPair>>();
  PairReport report{.limit = max_length, .unit = "tokens", .numbered = "is pair"};
  for (const SentencePair& pair : pairs) {
    EncodedPair e{source.encode(pair.source), target.encode(pair.target)};
    if (report.count(std::ssize(e.source), std::ssize(e.target))) encoded->push_back(std::move(e));
  }
  return {std::move(encoded), report};
}

PaddedTokens pad_tokens(std::span<const std::vector<int64_t>> sequences) {
  const int64_t n = std::ssize(sequences);
  int64_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, std::ssize(sequence));
  Fresh tokens({n, longest}, DType::i64), lengths({n}, DType::i64);
  for (int64_t i = 0; i < n; ++i) {
    int64_t* row = tokens.data<int64_t>() + i * longest;
    std::fill(std::copy(sequences[i].begin(), sequences[i].end(), row), row + longest, kPadId);
    lengths.data<int64_t>()[i] = std::ssize(sequences[i]);
  }
  return {not_differentiable(tokens), not_differentiable(lengths)};
}

Loader<PairBatch> pair_loader(PairsPtr pairs, const PairLoaderOptions& options) {
  check_options(*pairs, options);
  return Loader<PairBatch>(
      Planner(LengthPlanner(*pairs, options)),
      [pairs, options](const BatchPlan& plan) { return make_batch(*pairs, options, plan); },
      LoaderOptions{
          .seed = options.seed, .workers = options.workers, .prefetch = options.prefetch});
}

}  // namespace tern::datasets
