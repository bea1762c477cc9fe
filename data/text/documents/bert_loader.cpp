// Makes BERT's pre-training sequences from spans of sentences, masks words and packs the batches.
// bert_spans.cpp chooses the spans.
#include "tern/data/text/documents/bert_loader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/tape/record.h"
#include "tern/data/loading/dataset.h"
#include "tern/data/text/documents/bert_spans.h"

namespace tern::datasets {
namespace {

using detail::BertSpan, detail::BertSpans;
using Ids = std::vector<int64_t>;

struct Masked {
  int64_t position, word;
};
struct Sequence {
  Ids tokens;
  int64_t first_length;  // tokens of [CLS] a [SEP]
  bool random_next;
  std::vector<Masked> masked;
};

/// The ids of special and of ordinary tokens.
struct WordIds {
  explicit WordIds(const WordPiece& pieces)
      : pad(pieces.pad_id()),
        begin(pieces.begin_id()),
        separator(pieces.separator_id()),
        mask(pieces.mask_id()) {
    for (int64_t id = 0; id < pieces.size(); ++id) {
      special.push_back(pieces.is_special(id));
      if (!special.back()) ordinary.push_back(id);
    }
  }
  int64_t pad, begin, separator, mask;
  std::vector<bool> special;
  Ids ordinary;
};

/// Makes the batches of a plan.
class BatchMaker {
 public:
  BatchMaker(std::shared_ptr<const Documents> text, const WordPiece& pieces,
             const BertLoaderOptions& options)
      : text_(text), options_(options), spans_(std::move(text), options), ids_(pieces) {}

  const BertSpans& spans() const { return spans_; }
  const WordIds& ids() const { return ids_; }

  BertBatch operator()(const BatchPlan& plan) const {
    std::vector<Sequence> sequences;
    plan.for_each_sample(
        [&](int64_t, int64_t first) { sequences.push_back(sequence(plan, first)); });
    BertBatch batch = batch_of(sequences);
    if (plan.blocks > 1) {
      sequences.clear();
      for (const int64_t first : plan.batch) sequences.push_back(sequence(plan, first));
    }
    for (const Sequence& s : sequences) {
      batch.whole.tokens += std::ssize(s.tokens);
      batch.whole.words += std::ssize(s.masked);
      batch.whole.pairs += options_.pairs;
    }
    return batch;
  }

 private:
  Sequence sequence(const BatchPlan& plan, int64_t first) const {
    Rng rng = plan.sample_rng(first);
    return sequence(spans_.span(plan.position.epoch, first), rng);
  }
  // The tokens of sentences [from, to). Stops after the sentence that reaches `enough` tokens.
  Ids sentences(int64_t from, int64_t to, int64_t enough) const {
    Ids out;
    for (; from < to && std::ssize(out) < enough; ++from)
      for (int32_t id : text_->sentence(from)) out.push_back(id);
    return out;
  }

  Sequence sequence(const BertSpan& span, Rng& rng) const {
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    Ids a = sentences(span.first, span.middle, kAll), b;
    if (span.random_next) {
      const int64_t from = spans_.elsewhere(span, rng);
      const int64_t enough = std::max<int64_t>(1, span.target - std::ssize(a));
      b = sentences(from, end_elsewhere(span, from), enough);
    } else {
      b = sentences(span.middle, span.last, kAll);
    }
    cut_to_room(a, b, rng);
    Sequence out{{ids_.begin}, std::ssize(a) + 2, span.random_next, {}};
    for (const Ids* part : {&a, &b}) {
      if (part == &b && !options_.pairs) break;
      out.tokens.insert(out.tokens.end(), part->begin(), part->end());
      out.tokens.push_back(ids_.separator);
    }
    mask_words(out, rng);
    return out;
  }

  // If there is only one document, B must not run into A.
  int64_t end_elsewhere(const BertSpan& span, int64_t from) const {
    return text_->size() == 1 && from < span.first ? span.first : text_->document_of(from).last;
  }

  void cut_to_room(Ids& a, Ids& b, Rng& rng) const {
    int64_t first[2] = {0, 0}, length[2] = {std::ssize(a), std::ssize(b)};
    while (length[0] + length[1] > spans_.room()) {
      const int longer = length[1] > length[0];
      --length[longer];
      first[longer] += rng.below(2);
    }
    a = Ids(a.begin() + first[0], a.begin() + first[0] + length[0]);
    b = Ids(b.begin() + first[1], b.begin() + first[1] + length[1]);
  }

  void mask_words(Sequence& s, Rng& rng) const {
    Ids places;
    for (int64_t t = 0; t < std::ssize(s.tokens); ++t)
      if (!ids_.special[s.tokens[t]]) places.push_back(t);
    const int64_t n = std::ssize(places);
    const auto wanted =
        static_cast<int64_t>(std::lround(options_.masked_share * static_cast<double>(n)));
    const int64_t count = options_.masked_share > 0 ? std::min(n, std::max<int64_t>(1, wanted)) : 0;
    for (int64_t i = 0; i < count; ++i) std::swap(places[i], places[i + rng.below(n - i)]);
    std::sort(places.begin(), places.begin() + count);
    for (int64_t i = 0; i < count; ++i) {
      int64_t& token = s.tokens[places[i]];
      s.masked.push_back({places[i], token});
      const double u = rng.uniform();
      if (u < options_.as_mask)
        token = ids_.mask;
      else if (u < options_.as_mask + options_.as_random)
        token = ids_.ordinary[rng.below(std::ssize(ids_.ordinary))];
    }
  }

  BertBatch batch_of(const std::vector<Sequence>& sequences) const {
    const int64_t n = std::ssize(sequences);
    int64_t longest = 0, masked = 0;
    for (const Sequence& s : sequences) {
      longest = std::max(longest, std::ssize(s.tokens));
      masked += std::ssize(s.masked);
    }
    Fresh tokens({n, longest}, DType::i64), segments({n, longest}, DType::i64),
        lengths({n}, DType::i64), places({masked}, DType::i64), words({masked}, DType::i64),
        next({n}, DType::i64);
    int64_t k = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Sequence& s = sequences[i];
      const int64_t length = std::ssize(s.tokens);
      int64_t *row = tokens.data<int64_t>() + i * longest,
              *part = segments.data<int64_t>() + i * longest;
      std::fill(std::copy(s.tokens.begin(), s.tokens.end(), row), row + longest, ids_.pad);
      for (int64_t t = 0; t < longest; ++t) part[t] = t >= s.first_length && t < length;
      lengths.data<int64_t>()[i] = length;
      next.data<int64_t>()[i] = s.random_next;
      for (const Masked& m : s.masked) {
        places.data<int64_t>()[k] = i * longest + m.position;
        words.data<int64_t>()[k++] = m.word;
      }
    }
    BertBatch out{not_differentiable(tokens),  not_differentiable(segments),
                  not_differentiable(lengths), not_differentiable(places),
                  not_differentiable(words),   {}};
    if (options_.pairs) out.next = not_differentiable(next);
    return out;
  }

  std::shared_ptr<const Documents> text_;
  BertLoaderOptions options_;
  BertSpans spans_;
  WordIds ids_;
};

void check_share(const char* name, double share) {
  check(share >= 0 && share <= 1, "bert_loader: {} is {}; it must be 0 to 1", name, share);
}

void check_options(const Documents& text, const BertLoaderOptions& o) {
  check(o.batch >= 1, "bert_loader: batch is {}; at least 1", o.batch);
  check(o.max_tokens >= 5, "bert_loader: max_tokens is {}; [CLS] a [SEP] b [SEP] needs 5",
        o.max_tokens);
  check_share("short_share", o.short_share);
  check_share("masked_share", o.masked_share);
  check_share("as_mask", o.as_mask);
  check_share("as_random", o.as_random);
  check_share("as_mask + as_random", o.as_mask + o.as_random);
  int64_t begin = 0, longest = 0;
  for (int64_t end : text.document_ends)
    longest = std::max(longest, end - std::exchange(begin, end));
  check(!o.pairs || longest >= 2,
        "bert_loader: none of the {} documents has two sentences (lines), so there are no pairs; "
        "set .pairs = false, or use fewer blank lines",
        text.size());
}

}  // namespace

Loader<BertBatch> bert_loader(std::shared_ptr<const Documents> text, const WordPiece& pieces,
                              const BertLoaderOptions& options) {
  check_options(*text, options);
  auto maker = std::make_shared<const BatchMaker>(text, pieces, options);
  check(!maker->ids().ordinary.empty(),
        "bert_loader: the vocabulary has only special tokens, so no word can replace a masked one");
  for (int32_t id : text->tokens)
    check(id >= 0 && id < pieces.size(),
          "bert_loader: the text has the id {}, but the vocabulary has {} pieces", id,
          pieces.size());
  Planner planner = [maker, options](int64_t epoch, Rng random) {
    EpochPlan plan{maker->spans().starts(epoch), {}};
    const int64_t n = std::ssize(plan.order);
    if (options.shuffle) {
      std::vector<int64_t> order;
      for (int64_t i : permutation(n, random)) order.push_back(plan.order[i]);
      plan.order = std::move(order);
    }
    for (int64_t end = 0; end < n;) plan.ends.push_back(end = std::min(n, end + options.batch));
    return plan;
  };
  return Loader<BertBatch>(
      std::move(planner), [maker](const BatchPlan& plan) { return (*maker)(plan); },
      LoaderOptions{
          .seed = options.seed, .workers = options.workers, .prefetch = options.prefetch});
}

}  // namespace tern::datasets
