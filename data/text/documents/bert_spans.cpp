// Chooses spans of consecutive sentences, cuts each at random into A and B, and finds a B from
// another place.
#include "tern/data/text/documents/bert_spans.h"

namespace tern::datasets::detail {
namespace {

/// A stream of the seed's generator; the loader uses smaller numbers.
constexpr uint64_t kSpanStream = 3;

}  // namespace

BertSpans::BertSpans(std::shared_ptr<const Documents> text, const BertLoaderOptions& options)
    : text_(std::move(text)), options_(options) {}

BertSpan BertSpans::span(int64_t epoch, int64_t first) const {
  Rng rng = Rng(options_.seed)
                .stream(static_cast<uint64_t>(epoch))
                .stream(kSpanStream)
                .stream(static_cast<uint64_t>(first));
  const int64_t end = text_->document_of(first).last, least = options_.pairs ? 2 : 1;
  BertSpan s{first, first, first, room(), false};
  if (rng.uniform() < options_.short_share) s.target = least + rng.below(room() - least + 1);
  for (int64_t tokens = 0; s.last < end && (s.last - first < least || tokens < s.target); ++s.last)
    tokens += std::ssize(text_->sentence(s.last));
  if (!options_.pairs) {
    s.middle = s.last;
    return s;
  }
  if (end - s.last == 1) s.last = end;  // a single sentence cannot begin a pair
  s.middle = first + 1 + rng.below(s.last - first - 1);
  // If there is no other place (see below), B always follows A.
  const bool alone = text_->size() == 1 && text_->sentences() <= s.middle - first + 1;
  s.random_next = !alone && rng.uniform() < 0.5;
  return s;
}

std::vector<int64_t> BertSpans::starts(int64_t epoch) const {
  std::vector<int64_t> out;
  const int64_t least = options_.pairs ? 2 : 1;
  int64_t begin = 0;
  for (int64_t end : text_->document_ends) {
    for (int64_t at = begin; end - at >= least; at = span(epoch, at).next()) out.push_back(at);
    begin = end;
  }
  return out;
}

int64_t BertSpans::elsewhere(const BertSpan& s, Rng& rng) const {
  // B is not from this document. In the only document, B is neither from A nor right after A.
  Documents::Range hole = text_->document_of(s.first);
  if (text_->size() == 1) hole = {s.first, s.middle + 1};
  const int64_t i = rng.below(text_->sentences() - (hole.last - hole.first));
  return i < hole.first ? i : i + hole.last - hole.first;
}

}  // namespace tern::datasets::detail
