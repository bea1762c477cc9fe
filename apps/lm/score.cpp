// Scores texts in overlapping windows, and a BERT on masked words and sentence pairs; ranks share
// the work.
#include "tern/apps/lm/score.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kNotCounted = -100;

/// Tokens [start, start + size) of a text each predict the next token. Only the last `counted`
/// predictions count.
struct Window {
  int64_t start, size, counted;
};

/// The windows of all texts, numbered from 0.
class Windows {
 public:
  Windows(const EncodedTexts& texts, int64_t window, int64_t stride)
      : texts_(texts), window_(window), stride_(stride) {
    int64_t begin = 0, windows = 0;
    for (int64_t end : texts.ends) {
      const int64_t beyond = std::max<int64_t>(0, end - begin - 1 - window);
      if (end - begin > 1) windows += 1 + ceil_div(beyond, stride);
      ends_.push_back(windows);
      begin = end;
    }
  }

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  Window operator[](int64_t i) const {
    const auto text = std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
    const int64_t begin = text > 0 ? texts_.ends[text - 1] : 0;
    const int64_t wanted = texts_.ends[text] - begin - 1,
                  number = i - (text > 0 ? ends_[text - 1] : 0);
    const int64_t end = std::min(wanted, window_ + number * stride_);
    const int64_t done = number > 0 ? window_ + (number - 1) * stride_ : 0;
    const int64_t start = std::max<int64_t>(0, end - window_);
    return {begin + start, end - start, end - done};
  }

 private:
  const EncodedTexts& texts_;
  int64_t window_, stride_;
  std::vector<int64_t> ends_;  // number after the last window of each text
};

double nats_of(const LanguageModel& model, const datasets::TokenStream& ids,
               std::span<const Window> windows) {
  const int64_t size = windows[0].size;
  std::vector<int64_t> tokens, targets;
  for (const Window& w : windows) {
    const std::vector<int64_t> read = ids.read(w.start, size + 1);
    tokens.insert(tokens.end(), read.begin(), read.end() - 1);
    targets.insert(targets.end(), static_cast<size_t>(size - w.counted), kNotCounted);
    targets.insert(targets.end(), read.end() - w.counted, read.end());
  }
  const Tensor logits = model(tensor(tokens, {std::ssize(windows), size}));
  return cross_entropy(flatten(logits, 0, 1), tensor(targets, {std::ssize(targets)}),
                       {.ignore_index = kNotCounted, .reduction = Reduction::sum})
      .item();
}

/// For logits (N, C) appends the sum of the cross entropy, N, and the number of right answers.
void add(const Tensor& logits, const Tensor& target, dist::Numbers& to) {
  to.push_back(cross_entropy(logits, target, {.reduction = Reduction::sum}).item());
  to.push_back(static_cast<double>(target.numel()));
  to.push_back(sum(eq(argmax(logits, -1), target)).item());
}

/// Consecutive windows of one size, which are scored together.
struct Lot {
  int64_t first, end;
};
std::vector<Lot> lots_of(const Windows& windows, int64_t batch) {
  std::vector<Lot> lots;
  for (int64_t i = 0; i < windows.size();) {
    const int64_t first = i, size = windows[first].size;
    while (i < windows.size() && i - first < batch && windows[i].size == size) ++i;
    lots.push_back({first, i});
  }
  return lots;
}

}  // namespace

std::optional<Score> score_texts(const LanguageModel& model, const EncodedTexts& texts,
                                 const ScoreOptions& o, const EvaluationProgress& progress,
                                 dist::World* world) {
  NoGradGuard no_grad;
  const int64_t window = o.window ? o.window : model.config().context;
  const int64_t stride = o.stride ? o.stride : window;
  check(window >= 1 && window <= model.config().context,
        "the window is {} tokens; it must be 1 to {}", window, model.config().context);
  check(stride >= 1 && stride <= window, "the stride is {} tokens; it must be 1 to {}", stride,
        window);
  check(o.batch >= 1, "batches of {} windows; at least 1", o.batch);
  const Windows windows(texts, window, stride);
  const std::vector<Lot> lots = lots_of(windows, o.batch);
  int64_t done = 0;
  const auto score_lot = [&](int64_t i) -> std::optional<dist::Numbers> {
    std::vector<Window> lot;
    for (int64_t w = lots[i].first; w < lots[i].end; ++w) lot.push_back(windows[w]);
    const double sum = nats_of(model, texts.ids, lot);
    for (const Window& w : lot) done += w.counted * (world ? world->size() : 1);
    if (progress && !progress(done)) return std::nullopt;
    return dist::Numbers{sum};
  };
  const auto nats = dist::share_numbers(world, "the validation", std::ssize(lots), score_lot);
  if (!nats) return std::nullopt;
  Score score{.tokens = texts.tokens, .bytes = texts.bytes};
  for (const dist::Numbers& n : *nats) score.nats += n[0];
  return score;
}

models::BertInput input_of(const datasets::BertBatch& b) {
  return {b.tokens, b.segments, nn::Mask::lengths(b.lengths)};
}

models::BertTargets targets_of(const datasets::BertBatch& b) { return {b.places, b.words, b.next}; }

std::optional<BertScore> score_batches(const models::Bert& model,
                                       datasets::Loader<datasets::BertBatch>& loader,
                                       const EvaluationProgress& progress, dist::World* world) {
  NoGradGuard no_grad;
  const auto score = [&](const datasets::BertBatch& b) {
    const Tensor hidden = model.bert(input_of(b));
    dist::Numbers n;
    if (b.words.numel() > 0)
      add(models::words_at(model, hidden, b.places), b.words, n);
    else
      n.resize(3);
    if (b.next.defined()) add((*model.seq_relationship)(model.bert.pooled(hidden)), b.next, n);
    return n;
  };
  const auto one = [](const datasets::BertBatch&) { return 1; };  // counts batches
  const auto batches = share_batches(world, "the validation", loader, progress, one, score);
  if (!batches) return std::nullopt;
  BertScore s;
  for (const dist::Numbers& n : *batches) {
    s.masked_nats += n[0], s.masked += std::llround(n[1]), s.masked_right += std::llround(n[2]);
    if (n.size() == 3) continue;
    s.next_nats += n[3], s.pairs += std::llround(n[4]), s.pairs_right += std::llround(n[5]);
  }
  return s;
}

}  // namespace tern::apps::lm
