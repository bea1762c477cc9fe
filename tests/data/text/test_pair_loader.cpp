// Batches of sentence pairs: tensors, limits, padding, order and resuming.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tern/core/base/error.h"
#include "tern/data/text/pairs/pair_loader.h"

namespace tern::test_pair_loader {
using namespace tern::datasets;

namespace {

using Ids = std::vector<int64_t>;
using SharedPairs = std::shared_ptr<const std::vector<EncodedPair>>;

Ids numbers(int64_t n, int64_t from) {
  Ids out;
  for (int64_t i = 0; i < n; ++i) out.push_back(from + i % 50);
  return out;
}

/// n pairs of 1 to 30 tokens, the sides of similar length.
SharedPairs random_pairs(int64_t n) {
  Rng rng(9);
  auto pairs = std::make_shared<std::vector<EncodedPair>>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = 1 + rng.below(30);
    pairs->push_back(
        {numbers(length, 4), numbers(std::max<int64_t>(1, length + rng.below(9) - 4), 9)});
  }
  return pairs;
}

std::vector<Ids> indices_of_epoch(Loader<PairBatch>& loader) {
  std::vector<Ids> out;
  for (PairBatch& batch : loader) out.push_back(batch.indices.to_vector<int64_t>());
  return out;
}

Ids sorted(const std::vector<Ids>& batches) {
  Ids all;
  for (const Ids& b : batches) all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  return all;
}

Ids upto(int64_t n) {
  Ids all(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) all[i] = i;
  return all;
}

}  // namespace

TEST_CASE("pair loader: encode_pairs counts the pairs that it skips") {
  const std::vector<std::string> texts = {"a b c d"};
  const Tokenizer words = Tokenizer::learn(texts, {});
  const std::vector<SentencePair> pairs = {{"a b", "c"}, {" ", "a"}, {"a b c", "d"}, {"x", "d d"}};
  const EncodedPairs encoded = encode_pairs(pairs, words, words, 2);
  REQUIRE(encoded.pairs->size() == 2);
  CHECK((*encoded.pairs)[0].source == Ids{4, 5});
  CHECK((*encoded.pairs)[1].source == Ids{kUnknownId});
  CHECK(
      encoded.report.summary() ==
      "2 of 4 pairs; left out: 1 with an empty side (the first is pair 2), 1 of more than 2 tokens "
      "(the first is pair 3)");
  CHECK(encode_pairs(pairs, words, words).report.kept == 3);
}

TEST_CASE("pair loader: the tensors of a batch") {
  auto pairs = std::make_shared<std::vector<EncodedPair>>(
      std::vector<EncodedPair>{{{10, 11, 12}, {20}}, {{13}, {21, 22}}});
  const auto only_batch = [&](const PairLoaderOptions& options) {
    Loader<PairBatch> loader = pair_loader(pairs, options);
    CHECK(loader.batches_per_epoch() == 1);
    return *loader.next();
  };
  const PairBatch b = only_batch({.batch = 2, .by_length = false, .shuffle = false});
  CHECK(b.source.shape() == Shape{2, 4});
  CHECK(b.source.dtype() == DType::i64);
  CHECK(b.source.to_vector<int64_t>() == Ids{10, 11, 12, 3, 13, 3, 1, 1});
  CHECK(b.source_lengths.to_vector<int64_t>() == Ids{4, 2});
  CHECK(b.target_in.to_vector<int64_t>() == Ids{2, 20, 1, 2, 21, 22});
  CHECK(b.target_out.to_vector<int64_t>() == Ids{20, 3, 1, 21, 22, 3});
  CHECK(b.target_lengths.to_vector<int64_t>() == Ids{2, 3});
  CHECK(b.indices.to_vector<int64_t>() == Ids{0, 1});
  const PairBatch c = only_batch({.batch = 2,
                                  .by_length = false,
                                  .shuffle = false,
                                  .source_begin = true,
                                  .source_end = false});
  CHECK(c.source.to_vector<int64_t>() == Ids{2, 10, 11, 12, 2, 13, 1, 1});
  CHECK(pad_tokens({}).tokens.shape() == Shape{0, 0});
}

TEST_CASE("pair loader: an epoch has every pair once, within the limits, with little padding") {
  const SharedPairs pairs = random_pairs(1003);
  for (bool by_length : {false, true})
    for (bool shuffle : {false, true}) {
      const PairLoaderOptions options{.batch = 40,
                                      .batch_tokens = 500,
                                      .by_length = by_length,
                                      .max_padding = 0.1,
                                      .shuffle = shuffle,
                                      .seed = 4};
      Loader<PairBatch> loader = pair_loader(pairs, options);
      std::vector<Ids> first;
      for (int epoch = 0; epoch < 2; ++epoch) {
        std::vector<Ids> batches;
        for (PairBatch& b : loader) {
          batches.push_back(b.indices.to_vector<int64_t>());
          const int64_t n = b.source.size(0), elements = b.source.numel() + b.target_in.numel();
          int64_t tokens = 0;
          for (int64_t l : b.source_lengths.to_vector<int64_t>()) tokens += l;
          for (int64_t l : b.target_lengths.to_vector<int64_t>()) tokens += l;
          CHECK(n <= 40);
          CHECK(std::max(b.source.numel(), b.target_out.numel()) <= 500);
          if (by_length) CHECK(10 * (elements - tokens) <= elements);
        }
        CHECK(sorted(batches) == upto(1003));
        if (epoch == 0) first = batches;
        if (epoch == 1) CHECK((batches == first) == !shuffle);
        // Few batches: without the limit on padding there would be about 70.
        if (by_length) CHECK(batches.size() < 100);
      }
    }
}

TEST_CASE("pair loader: the same seed gives the same batches, another seed gives others") {
  const SharedPairs pairs = random_pairs(200);
  const auto epoch = [&](uint64_t seed, int workers) {
    Loader<PairBatch> loader =
        pair_loader(pairs, {.batch_tokens = 200, .seed = seed, .workers = workers});
    return indices_of_epoch(loader);
  };
  CHECK(epoch(1, 0) == epoch(1, 3));
  CHECK(epoch(1, 0) != epoch(2, 0));
}

TEST_CASE("pair loader: each epoch has new batches, which are not sorted by length") {
  const SharedPairs pairs = random_pairs(600);
  Loader<PairBatch> loader = pair_loader(pairs, {.batch = 8, .workers = 0});
  const auto first = indices_of_epoch(loader), second = indices_of_epoch(loader);
  std::set<std::set<int64_t>> sets;
  for (const Ids& b : first) sets.insert({b.begin(), b.end()});
  int64_t same = 0, falling = 0;
  for (const Ids& b : second) same += sets.contains({b.begin(), b.end()});
  CHECK(same < 10);
  for (size_t i = 0; i + 1 < second.size(); ++i)
    falling += (*pairs)[second[i][0]].source.size() > (*pairs)[second[i + 1][0]].source.size();
  CHECK(falling > 20);
}

TEST_CASE("pair loader: changes pairs by their own generator of the epoch") {
  const SharedPairs pairs = random_pairs(60);
  // A source without its last token or with one more; the target as one random number.
  auto vary = [](const EncodedPair& pair, Rng random) {
    EncodedPair changed = pair;
    if (random.below(2) == 0)
      changed.source.push_back(99);
    else
      changed.source.pop_back();
    changed.target = {100 + random.below(1 << 20)};
    return changed;
  };
  auto targets = [&](int workers, int64_t blocks, int64_t epoch) {
    Loader<PairBatch> loader =
        pair_loader(pairs, {.batch = 7, .vary = vary, .seed = 4, .workers = workers});
    loader.seek({.epoch = epoch, .batch = 0});
    if (blocks > 1) loader.cut(blocks, 0, blocks);
    std::map<int64_t, Ids> found;  // by the pair's index
    auto take = [&](const PairBatch& b) {
      const Ids indices = b.indices.to_vector<int64_t>(),
                lengths = b.source_lengths.to_vector<int64_t>(),
                targets = b.target_out.to_vector<int64_t>(), in = b.target_in.to_vector<int64_t>();
      for (size_t i = 0; i < indices.size(); ++i) {
        CHECK(std::abs(lengths[i] - 1 - std::ssize((*pairs)[indices[i]].source)) == 1);
        CHECK(in[2 * i + 1] == targets[2 * i]);  // <bos> y, y <eos>
        found[indices[i]] = {lengths[i], targets[2 * i]};
      }
    };
    if (blocks == 1)
      while (auto batch = loader.next()) take(*batch);
    else
      while (auto parts = loader.next_blocks())
        for (const auto& part : *parts)
          if (part) take(*part);
    return found;
  };
  const auto first = targets(1, 1, 0);
  CHECK(std::ssize(first) == 60);
  CHECK(targets(3, 1, 0) == first);
  CHECK(targets(0, 3, 0) == first);
  CHECK(targets(1, 1, 1) != first);
}

TEST_CASE("pair loader: resumes from a saved position, also with epochs of unequal length") {
  const SharedPairs pairs = random_pairs(300);
  const PairLoaderOptions options{
      .batch_tokens = 120, .max_padding = 0.05, .seed = 7, .workers = 2};
  Loader<PairBatch> whole = pair_loader(pairs, options);
  std::vector<std::vector<Ids>> epochs;
  std::set<int64_t> counts;
  for (int e = 0; e < 4; ++e) {
    const int64_t expected = whole.batches_per_epoch();
    epochs.push_back(indices_of_epoch(whole));
    CHECK(std::ssize(epochs.back()) == expected);
    counts.insert(expected);
  }
  CHECK(counts.size() > 1);
  CHECK(whole.position() == LoaderPosition{4, 0});
  for (LoaderPosition at : {LoaderPosition{0, 3}, {1, 0}, {2, 11}, {2, std::ssize(epochs[2])}}) {
    Loader<PairBatch> resumed = pair_loader(pairs, options);
    resumed.seek(at);
    CHECK(resumed.position() == at);
    for (size_t e = static_cast<size_t>(at.epoch); e < epochs.size(); ++e) {
      const auto skip = static_cast<int64_t>(e) == at.epoch ? at.batch : 0;
      CHECK(indices_of_epoch(resumed) ==
            std::vector<Ids>(epochs[e].begin() + skip, epochs[e].end()));
    }
  }
  CHECK_THROWS_AS(whole.seek({2, std::ssize(epochs[2]) + 1}), Error);
}

TEST_CASE("pair loader: no pairs give no batches; invalid options are errors") {
  const SharedPairs none = std::make_shared<std::vector<EncodedPair>>();
  Loader<PairBatch> empty = pair_loader(none, {.batch = 3});
  CHECK(!empty.next());
  CHECK(!empty.next());
  const SharedPairs pairs = random_pairs(10);
  CHECK_THROWS_AS(pair_loader(pairs, {}), Error);
  CHECK_THROWS_AS(pair_loader(pairs, {.batch = -1, .batch_tokens = 9}), Error);
  CHECK_THROWS_AS(pair_loader(pairs, {.batch = 1, .max_padding = 2}), Error);
  CHECK_THROWS_AS(pair_loader(pairs, {.batch_tokens = 3}), Error);
}

}  // namespace tern::test_pair_loader
