// Reads or generates pairs, holds some out, and learns tokenizers; encodes pairs and computes their
// checksum.
#include "tern/apps/translate/corpus.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tern/core/base/error.h"
#include "tern/data/loading/dataset.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kDemoTrain = 4000, kDemoValid = 200;

std::vector<datasets::SentencePair> take(datasets::Pairs read, const std::string& name,
                                         std::vector<std::string>& reports) {
  const datasets::PairReport& r = read.report;
  if (r.leaves_out()) reports.push_back(fmt::format("{}: {}", name, r.summary()));
  check_io(!read.pairs.empty(), "{}: there is no pair of sentences in it", name);
  return std::move(read.pairs);
}

// Moves `count` random pairs from `train` to `valid`; the seed chooses them.
void hold_out(PairFiles& files, int64_t count, uint64_t seed) {
  const int64_t n = std::ssize(files.train);
  check(count < n, "--hold-out {}: there are only {} pairs", count, n);
  std::vector<int64_t> order = datasets::permutation(n, Rng(seed).stream(3));
  order.resize(static_cast<size_t>(count));
  std::vector<bool> held(static_cast<size_t>(n));
  for (int64_t i : order) held[static_cast<size_t>(i)] = true;
  std::vector<datasets::SentencePair> kept;
  for (int64_t i = 0; i < n; ++i)
    (held[static_cast<size_t>(i)] ? files.valid : kept)
        .push_back(std::move(files.train[static_cast<size_t>(i)]));
  files.train = std::move(kept);
}

datasets::TokenizerOptions tokenizer_options(const TrainConfig& c) {
  if (c.tokens == "d2l") return datasets::TokenizerOptions::d2l();
  datasets::TokenizerOptions o;
  o.unit = c.tokens == "bpe" ? datasets::TokenUnit::bpe : datasets::TokenUnit::words;
  o.normalize.lower = c.lowercase;
  o.vocabulary.min_freq = c.min_freq;
  o.bpe.merges = c.bpe;
  return o;
}

uLong add_ids(uLong crc, const datasets::EncodedPairs& pairs) {
  auto add = [&](const std::vector<int64_t>& ids) {
    const auto size = static_cast<int64_t>(ids.size());
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(&size), sizeof size);
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(ids.data()), ids.size() * sizeof(int64_t));
  };
  for (const datasets::EncodedPair& p : *pairs.pairs) {
    add(p.source);
    add(p.target);
  }
  return crc;
}

}  // namespace

Sides sides_of(const std::vector<datasets::SentencePair>& pairs) {
  Sides out;
  for (const datasets::SentencePair& pair : pairs) {
    out.sources.push_back(pair.source);
    out.references.push_back(pair.target);
  }
  return out;
}

PairFiles read_pair_files(const TrainConfig& c) {
  PairFiles files;
  const datasets::PairOptions options{.reverse = c.reverse, .first = c.first};
  if (is_demo(c)) {
    files.train = generate_pairs(c.first > 0 ? c.first : kDemoTrain + kDemoValid, c.seed);
    if (c.reverse)
      for (datasets::SentencePair& p : files.train) std::swap(p.source, p.target);
    files.description = "generated English-French pairs";
  } else if (!c.pairs.empty()) {
    files.train = take(datasets::read_pairs_tsv(c.pairs, options), c.pairs, files.reports);
    files.description = c.pairs;
  } else {
    const std::string name = fmt::format("{}, {}", c.source, c.target);
    files.train = take(datasets::read_pairs(c.source, c.target, options), name, files.reports);
    files.description = name;
  }
  if (!c.valid_source.empty()) {
    const std::string name = fmt::format("{}, {}", c.valid_source, c.valid_target);
    files.valid = take(datasets::read_pairs(c.valid_source, c.valid_target, {.reverse = c.reverse}),
                       name, files.reports);
    return files;
  }
  const int64_t share = std::min<int64_t>(1000, std::ssize(files.train) / 20);
  const int64_t held = c.hold_out >= 0 ? c.hold_out : share;
  if (held > 0) hold_out(files, held, c.seed);
  return files;
}

Tokenizers learn_tokenizers(const TrainConfig& c,
                            const std::vector<datasets::SentencePair>& train) {
  auto [source, target] = sides_of(train);
  const datasets::TokenizerOptions options = tokenizer_options(c);
  if (!c.shared)
    return {datasets::Tokenizer::learn(source, options),
            datasets::Tokenizer::learn(target, options)};
  source.insert(source.end(), target.begin(), target.end());
  datasets::Tokenizer both = datasets::Tokenizer::learn(source, options);
  return {both, both};
}

double length_ratio(const std::vector<datasets::EncodedPair>& pairs) {
  std::vector<double> ratios;
  for (const datasets::EncodedPair& p : pairs)
    ratios.push_back(static_cast<double>(std::ssize(p.target) - 5) /
                     static_cast<double>(p.source.size()));
  const auto at =
      ratios.begin() + static_cast<ptrdiff_t>(0.995 * static_cast<double>(pairs.size()));
  if (at == ratios.end()) return 1;
  std::nth_element(ratios.begin(), at, ratios.end());
  return std::max(1.0, *at);
}

Corpus encode_corpus(const TrainConfig& c, const PairFiles& files, const Tokenizers& t) {
  Corpus corpus;
  corpus.train = datasets::encode_pairs(files.train, t.source, t.target, c.max_length);
  check(!corpus.train.pairs->empty(), "none of the {} training pairs is left: {}",
        files.train.size(), corpus.train.report.summary());
  // No validation pair is left out for its length: the score counts all of them.
  corpus.valid = datasets::encode_pairs(files.valid, t.source, t.target);
  for (const datasets::SentencePair& p : files.valid)
    if (!t.source.encode(p.source).empty() && !t.target.encode(p.target).empty())
      corpus.valid_text.push_back(p);
  if (c.bpe_dropout > 0)
    corpus.vary = [t, share = c.bpe_dropout](const datasets::EncodedPair& pair, Rng random) {
      return datasets::EncodedPair{
          t.source.encode(t.source.decode(pair.source), share, random.stream(0)),
          t.target.encode(t.target.decode(pair.target), share, random.stream(1))};
    };
  const uLong crc = add_ids(add_ids(0, corpus.train), corpus.valid);
  corpus.checksum = fmt::format("{} + {} pairs, {:08x}", corpus.train.pairs->size(),
                                corpus.valid.pairs->size(), crc);
  return corpus;
}

std::string repeated_pairs_text(const Corpus& corpus) {
  const auto sides = [](const datasets::EncodedPair& p) { return std::tie(p.source, p.target); };
  const auto is_known = [](const std::vector<int64_t>& ids) {
    return std::find(ids.begin(), ids.end(), datasets::kUnknownId) == ids.end();
  };
  std::map<decltype(sides({})), int64_t> valid;  // how often each pair occurs
  bool all = true;
  for (const datasets::EncodedPair& p : *corpus.valid.pairs)
    if (is_known(p.source) && is_known(p.target))
      ++valid[sides(p)];
    else
      all = false;
  int64_t repeated = 0;
  for (const datasets::EncodedPair& p : *corpus.train.pairs)
    if (const auto found = valid.extract(sides(p))) repeated += found.mapped();
  if (repeated == 0) return "";
  return fmt::format("validation pairs that are training pairs too: {}{} of {}",
                     all ? "" : "at least ", repeated, corpus.valid.pairs->size());
}

}  // namespace tern::apps::translate
