// BERT's pre-training sequences: spans, pairs, masks and positions, on texts whose ids tell their
// place.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tern/core/base/error.h"
#include "tern/data/text/documents/bert_loader.h"

namespace tern::test_bert_loader {
using namespace tern::datasets;

namespace {

using Ids = std::vector<int64_t>;
constexpr int64_t kSpecial = 5, kPad = 0, kUnknown = 1, kBegin = 2, kSeparator = 3, kMask = 4;

WordPiece numbered_pieces(int64_t ordinary) {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (int64_t i = 0; i < ordinary; ++i) pieces.push_back(fmt::format("w{}", i));
  return WordPiece(pieces);
}

/// A text in which token i is kSpecial + i, so that ids tell where they come from; sentences of 1
/// to `longest` tokens, documents of the given numbers of sentences.
std::shared_ptr<const Documents> numbered_text(const Ids& documents, int64_t longest) {
  Rng rng(4);
  Documents out;
  for (int64_t sentences : documents) {
    for (int64_t i = 0; i < sentences; ++i) {
      for (int64_t n = 1 + rng.below(longest); n > 0; --n)
        out.tokens.push_back(static_cast<int32_t>(kSpecial + std::ssize(out.tokens)));
      out.sentence_ends.push_back(std::ssize(out.tokens));
    }
    out.document_ends.push_back(out.sentences());
  }
  return std::make_shared<Documents>(std::move(out));
}

/// The sentence that contains a token of such a text.
int64_t sentence_of(const Documents& text, int64_t id) {
  const auto& ends = text.sentence_ends;
  return std::upper_bound(ends.begin(), ends.end(), id - kSpecial) - ends.begin();
}

struct Row {
  Ids tokens, a, b;  ///< all; between [CLS] and [SEP]; between [SEP] and [SEP]
  bool random_next = false;
};

/// Checks the form of a batch's sequences and returns them.
std::vector<Row> rows_of(const BertBatch& batch) {
  std::vector<Row> out;
  const int64_t n = batch.tokens.size(0), longest = batch.tokens.size(1);
  const Ids tokens = batch.tokens.to_vector<int64_t>(), parts = batch.segments.to_vector<int64_t>(),
            lengths = batch.lengths.to_vector<int64_t>();
  const Ids next = batch.next.defined() ? batch.next.to_vector<int64_t>() : Ids(n, 0);
  CHECK(*std::max_element(lengths.begin(), lengths.end()) == longest);
  for (int64_t i = 0; i < n; ++i) {
    Row row;
    row.random_next = next[i] == 1;
    for (int64_t t = 0; t < longest; ++t) {
      const int64_t id = tokens[i * longest + t], part = parts[i * longest + t];
      if (t >= lengths[i]) {
        CHECK((id == kPad && part == 0));
        continue;
      }
      row.tokens.push_back(id);
      if (id >= kSpecial) (part == 0 ? row.a : row.b).push_back(id);
    }
    Ids want = {kBegin};
    want.insert(want.end(), row.a.begin(), row.a.end());
    want.push_back(kSeparator);
    if (batch.next.defined()) {
      want.insert(want.end(), row.b.begin(), row.b.end());
      want.push_back(kSeparator);
    }
    CHECK(row.tokens == want);
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<Row> epoch_rows(Loader<BertBatch>& loader) {
  std::vector<Row> out;
  for (BertBatch& batch : loader)
    for (Row& row : rows_of(batch)) out.push_back(std::move(row));
  return out;
}

/// Whether the ids follow one another in one document.
bool is_run(const Documents& text, const Ids& ids) {
  for (size_t i = 1; i < ids.size(); ++i)
    if (ids[i] != ids[i - 1] + 1) return false;
  return !ids.empty() &&
         sentence_of(text, ids.back()) < text.document_of(sentence_of(text, ids.front())).last;
}

Ids flat(const BertBatch& b) {
  Ids out;
  for (const Tensor& t : {b.tokens, b.segments, b.lengths, b.places, b.words, b.next})
    if (t.defined())
      for (int64_t v : t.to_vector<int64_t>()) out.push_back(v);
  return out;
}

std::vector<Ids> flat_epoch(Loader<BertBatch>& loader) {
  std::vector<Ids> out;
  for (BertBatch& batch : loader) out.push_back(flat(batch));
  return out;
}

/// Checks that `count` of n draws fits the probability p within five standard deviations.
void check_share(int64_t count, int64_t n, double p) {
  const double mean = p * static_cast<double>(n), deviation = std::sqrt(mean * (1 - p));
  CHECK_MESSAGE(std::abs(static_cast<double>(count) - mean) <= 5 * deviation, count, " of ", n);
}

}  // namespace

TEST_CASE("bert loader: B follows A or is from another document") {
  const auto text = numbered_text({7, 1, 12, 2, 1, 9, 30}, 6);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  for (int64_t max_tokens : {5, 12, 40, 400}) {
    Loader<BertBatch> loader = bert_loader(
        text, pieces, {.batch = 3, .max_tokens = max_tokens, .masked_share = 0, .seed = 2});
    for (int epoch = 0; epoch < 20; ++epoch)
      for (const Row& row : epoch_rows(loader)) {
        CHECK(std::ssize(row.tokens) <= max_tokens);
        CHECK(is_run(*text, row.a));
        CHECK(is_run(*text, row.b));
        const int64_t a = sentence_of(*text, row.a.back()), b = sentence_of(*text, row.b.front());
        const bool same_document = text->document_of(a).first == text->document_of(b).first;
        CHECK(same_document == !row.random_next);
        if (!same_document) continue;
        CHECK(row.a.back() < row.b.front());
        // Nothing is cut off if there is room for all tokens.
        if (max_tokens == 400) CHECK(row.a.back() + 1 == row.b.front());
      }
  }
}

TEST_CASE("bert loader: an epoch covers all of every document, in order without shuffle") {
  const auto text = numbered_text({7, 1, 12, 2, 30}, 6);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  const BertLoaderOptions options{.max_tokens = 400, .masked_share = 0, .shuffle = false};
  Loader<BertBatch> loader = bert_loader(text, pieces, options);
  for (int epoch = 0; epoch < 10; ++epoch) {
    std::set<int64_t> seen;
    int64_t before = -1;
    for (const Row& row : epoch_rows(loader)) {
      CHECK(row.a.front() > before);
      before = row.a.back();
      for (int64_t id : row.a) CHECK(seen.insert(sentence_of(*text, id)).first != seen.end());
      if (!row.random_next)
        for (int64_t id : row.b) seen.insert(sentence_of(*text, id));
    }
    for (int64_t i = 0; i < text->sentences(); ++i) {
      const Documents::Range document = text->document_of(i);
      if (i + 1 < document.last) CHECK_MESSAGE(seen.contains(i), epoch, " ", i);
    }
  }
}

TEST_CASE("bert loader: B follows A in half of the pairs; about a tenth of sequences are short") {
  const auto text = numbered_text(Ids(300, 20), 6);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  Loader<BertBatch> loader =
      bert_loader(text, pieces, {.max_tokens = 27, .short_share = 0.1, .masked_share = 0});
  int64_t n = 0, random_next = 0, inside = 0, full = 0;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const Row& row : epoch_rows(loader)) {
      ++n;
      random_next += row.random_next;
      // Takes only spans far from the end of a document, where tokens may be too few.
      const int64_t a = sentence_of(*text, row.a.front()), b = sentence_of(*text, row.b.front());
      if (a % 20 > 6 || b % 20 > 6) continue;
      ++inside;
      full += std::ssize(row.tokens) == 27;
    }
  CHECK(n > 4000);
  check_share(random_next, n, 0.5);
  CHECK(inside > 1000);
  CHECK(full < inside);
  CHECK(10 * full > 8 * inside);
}

TEST_CASE("bert loader: 15 % of words are chosen: 80 % of them masked, 10 % random, 10 % kept") {
  const auto text = numbered_text(Ids(40, 50), 30);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  auto with_unknown = std::make_shared<Documents>(*text);
  for (size_t i = 0; i < with_unknown->tokens.size(); i += 9) with_unknown->tokens[i] = kUnknown;
  Loader<BertBatch> loader = bert_loader(with_unknown, pieces, {.batch = 8, .max_tokens = 130});
  int64_t masked = 0, as_mask = 0, kept = 0, replaced = 0, first_half = 0;
  for (int epoch = 0; epoch < 4; ++epoch)
    for (BertBatch& b : loader) {
      const Ids tokens = b.tokens.to_vector<int64_t>(), places = b.places.to_vector<int64_t>(),
                words = b.words.to_vector<int64_t>(), lengths = b.lengths.to_vector<int64_t>();
      const int64_t longest = b.tokens.size(1);
      REQUIRE(places.size() == words.size());
      CHECK(std::is_sorted(places.begin(), places.end()));
      CHECK(std::set<int64_t>(places.begin(), places.end()).size() == places.size());
      Ids whole = tokens;
      std::map<int64_t, int64_t> in_row;
      for (size_t k = 0; k < places.size(); ++k) {
        const int64_t now = tokens[places[k]];
        CHECK(words[k] >= kSpecial);
        CHECK((now == kMask || now >= kSpecial));
        (now == kMask ? as_mask : now == words[k] ? kept : replaced) += 1;
        whole[places[k]] = words[k];
        ++in_row[places[k] / longest];
        first_half += 2 * (places[k] % longest) < lengths[places[k] / longest];
      }
      masked += std::ssize(places);
      for (int64_t i = 0; i < std::ssize(lengths); ++i) {
        const auto row = whole.begin() + i * longest;
        const int64_t ordinary =
            std::count_if(row, row + lengths[i], [](int64_t id) { return id >= kSpecial; });
        const int64_t wanted = std::lround(0.15 * static_cast<double>(ordinary));
        CHECK(in_row[i] == std::min(ordinary, std::max<int64_t>(1, wanted)));
        CHECK(std::count(row, row + longest, kMask) == 0);
      }
    }
  CHECK(masked > 10000);
  check_share(as_mask, masked, 0.8);
  check_share(kept, masked, 0.1);  // a random word of thirty thousand is hardly ever the original
  check_share(replaced, masked, 0.1);
  check_share(first_half, masked, 0.5);
}

TEST_CASE("bert loader: options set the shares of masks; a short sequence has one mask") {
  const auto text = numbered_text(Ids(10, 10), 2);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  auto all = [&](double masked, double as_mask, double as_random) {
    Loader<BertBatch> loader = bert_loader(text, pieces,
                                           {.batch = 10000,
                                            .max_tokens = 8,
                                            .masked_share = masked,
                                            .as_mask = as_mask,
                                            .as_random = as_random});
    return *loader.next();
  };
  CHECK(all(0, 0.8, 0.1).places.shape() == Shape{0});
  const BertBatch few = all(1e-9, 0.8, 0.1);
  CHECK(few.places.size(0) == few.tokens.size(0));
  const BertBatch every = all(1, 1, 0);
  const Ids tokens = every.tokens.to_vector<int64_t>();
  CHECK(std::count(tokens.begin(), tokens.end(), kMask) == every.places.size(0));
  CHECK(*std::max_element(tokens.begin(), tokens.end()) == kMask);
  const BertBatch kept = all(1, 0, 0);
  const Ids still = kept.tokens.to_vector<int64_t>();
  const Ids places = kept.places.to_vector<int64_t>(), words = kept.words.to_vector<int64_t>();
  for (size_t k = 0; k < places.size(); ++k) CHECK(still[places[k]] == words[k]);
}

TEST_CASE("bert loader: without pairs a sequence is one span of sentences") {
  const auto text = numbered_text({7, 1, 12, 1}, 6);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  for (int64_t max_tokens : {5, 20, 400}) {
    Loader<BertBatch> loader = bert_loader(text, pieces,
                                           {.batch = 2,
                                            .max_tokens = max_tokens,
                                            .pairs = false,
                                            .short_share = 0.3,
                                            .masked_share = 0});
    std::set<int64_t> seen;
    for (BertBatch& batch : loader) {
      CHECK_FALSE(batch.next.defined());
      for (const Row& row : rows_of(batch)) {
        CHECK(row.b.empty());
        CHECK(is_run(*text, row.a));
        CHECK(std::ssize(row.tokens) <= max_tokens);
        for (int64_t id : row.a) seen.insert(id);
      }
    }
    if (max_tokens == 400) CHECK(seen.size() == text->tokens.size());
  }
}

TEST_CASE("bert loader: in a single document a random B is from another place in it") {
  for (int64_t sentences : {2, 3, 4, 30}) {
    const auto text = numbered_text({sentences}, 3);
    const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
    Loader<BertBatch> loader =
        bert_loader(text, pieces, {.max_tokens = 12, .masked_share = 0, .seed = 5});
    int64_t n = 0, random_next = 0;
    for (int epoch = 0; epoch < 60; ++epoch)
      for (const Row& row : epoch_rows(loader)) {
        ++n;
        random_next += row.random_next;
        CHECK(is_run(*text, row.a));
        CHECK(is_run(*text, row.b));
        for (int64_t id : row.b) CHECK(std::count(row.a.begin(), row.a.end(), id) == 0);
        if (!row.random_next) continue;
        const int64_t b = sentence_of(*text, row.b.front());
        CHECK(b != sentence_of(*text, row.a.back()) + 1);
      }
    CHECK((random_next > 0) == (sentences > 2));
    if (sentences == 30) check_share(random_next, n, 0.5);
  }
}

TEST_CASE("bert loader: workers do not change the batches; seeds and epochs do") {
  const auto text = numbered_text(Ids(20, 15), 6);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  auto epochs = [&](uint64_t seed, int workers) {
    Loader<BertBatch> loader =
        bert_loader(text, pieces, {.batch = 4, .max_tokens = 30, .seed = seed, .workers = workers});
    auto first = flat_epoch(loader), second = flat_epoch(loader);
    CHECK(first != second);
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const auto one = epochs(1, 1);
  CHECK(epochs(1, 0) == one);
  CHECK(epochs(1, 3) == one);
  CHECK(epochs(2, 1) != one);
}

TEST_CASE("bert loader: resumes from a saved position, also with epochs of unequal length") {
  const auto text = numbered_text(Ids(20, 15), 6);
  const WordPiece pieces = numbered_pieces(std::ssize(text->tokens));
  const BertLoaderOptions options{.batch = 2, .max_tokens = 30, .seed = 7, .workers = 2};
  Loader<BertBatch> whole = bert_loader(text, pieces, options);
  std::vector<std::vector<Ids>> epochs;
  std::set<size_t> counts;
  for (int e = 0; e < 4; ++e) {
    epochs.push_back(flat_epoch(whole));
    counts.insert(epochs.back().size());
  }
  CHECK(counts.size() > 1);
  for (LoaderPosition at : {LoaderPosition{0, 3}, {1, 0}, {2, 11}, {2, std::ssize(epochs[2])}}) {
    Loader<BertBatch> saved = bert_loader(text, pieces, options);
    saved.seek(at);
    Loader<BertBatch> resumed = bert_loader(text, pieces, options);
    resumed.load_state_dict(saved.state_dict());
    for (size_t e = static_cast<size_t>(at.epoch); e < epochs.size(); ++e) {
      const auto skip = static_cast<int64_t>(e) == at.epoch ? at.batch : 0;
      CHECK(flat_epoch(resumed) == std::vector<Ids>(epochs[e].begin() + skip, epochs[e].end()));
    }
  }
  BertLoaderOptions other = options;
  other.seed = 8;
  Loader<BertBatch> another = bert_loader(text, pieces, other);
  CHECK_THROWS_AS(another.load_state_dict(whole.state_dict()), Error);
}

TEST_CASE("bert loader: invalid options, texts and vocabularies are refused") {
  const auto text = numbered_text({3, 2}, 3), lonely = numbered_text({1, 1, 1}, 3);
  const WordPiece pieces = numbered_pieces(100);
  auto refused = [&](const BertLoaderOptions& options) {
    CHECK_THROWS_AS(bert_loader(text, pieces, options), Error);
  };
  refused({.batch = 0});
  refused({.max_tokens = 4});
  refused({.short_share = -0.1});
  refused({.masked_share = 1.1});
  refused({.as_mask = 0.8, .as_random = 0.3});
  CHECK_THROWS_WITH_AS(bert_loader(lonely, pieces, {}), doctest::Contains("two sentences"), Error);
  CHECK(bert_loader(lonely, pieces, {.pairs = false}).batches_per_epoch() == 1);
  CHECK_THROWS_AS(bert_loader(text, numbered_pieces(3), {}), Error);
  CHECK_THROWS_AS(bert_loader(text, numbered_pieces(0), {}), Error);
  CHECK_THROWS_AS(bert_loader(text, WordPiece({"[UNK]", "a"}), {}), Error);
  const auto nothing = std::make_shared<const Documents>();
  CHECK_FALSE(bert_loader(nothing, pieces, {.pairs = false}).next().has_value());
}

}  // namespace tern::test_bert_loader
