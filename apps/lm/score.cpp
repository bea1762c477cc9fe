#include "tern/apps/lm/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kNotCounted = -100;

/// Tokens [start, start + size) of a text predict those behind them; the last `counted` count.
struct Window {
  const std::vector<int64_t>* text;
  int64_t start, size, counted;
};

std::vector<Window> windows_of(const EncodedTexts& texts, int64_t window, int64_t stride) {
  std::vector<Window> out;
  for (const std::vector<int64_t>& text : texts.ids) {
    const int64_t wanted = std::ssize(text) - 1;
    for (int64_t done = 0; done < wanted;) {
      const int64_t end = std::min(wanted, done == 0 ? window : done + stride);
      const int64_t start = std::max<int64_t>(0, end - window);
      out.push_back({&text, start, end - start, end - done});
      done = end;
    }
  }
  return out;
}

double nats_of(const LanguageModel& model, std::span<const Window> windows) {
  const int64_t size = windows[0].size;
  std::vector<int64_t> tokens, targets;
  for (const Window& w : windows) {
    const auto from = w.text->begin() + w.start;
    tokens.insert(tokens.end(), from, from + size);
    targets.insert(targets.end(), static_cast<size_t>(size - w.counted), kNotCounted);
    targets.insert(targets.end(), from + 1 + size - w.counted, from + 1 + size);
  }
  const Tensor logits = model(tensor(tokens, {std::ssize(windows), size}));
  return cross_entropy(flatten(logits, 0, 1), tensor(targets, {std::ssize(targets)}),
                       {.ignore_index = kNotCounted, .reduction = Reduction::sum})
      .item();
}

/// Adds cross entropy and right answers of logits (N, C).
void add(const Tensor& logits, const Tensor& target, double& nats, int64_t& count, int64_t& right) {
  nats += cross_entropy(logits, target, {.reduction = Reduction::sum}).item();
  count += target.numel();
  right += sum(eq(argmax(logits, -1), target)).item<int64_t>();
}

}  // namespace

Score score_texts(const LanguageModel& model, const EncodedTexts& texts, const ScoreOptions& o,
                  const std::function<bool(int64_t)>& progress) {
  NoGradGuard no_grad;
  const int64_t window = o.window ? o.window : model.config().context;
  const int64_t stride = o.stride ? o.stride : window;
  check(window >= 1 && window <= model.config().context, "a window of {} tokens; 1 to {}", window,
        model.config().context);
  check(stride >= 1 && stride <= window, "a stride of {} tokens; 1 to {}", stride, window);
  check(o.batch >= 1, "batches of {} windows", o.batch);
  const std::vector<Window> windows = windows_of(texts, window, stride);
  Score score{.bytes = texts.bytes};
  for (size_t i = 0; i < windows.size();) {
    size_t end = i;
    while (end < windows.size() && end - i < static_cast<size_t>(o.batch) &&
           windows[end].size == windows[i].size)
      score.tokens += windows[end++].counted;
    score.nats += nats_of(model, std::span(windows).subspan(i, end - i));
    i = end;
    if (progress && !progress(score.tokens)) break;
  }
  return score;
}

models::BertInput input_of(const data::BertBatch& b) {
  return {b.tokens, b.segments, nn::Mask::lengths(b.lengths)};
}

models::BertTargets targets_of(const data::BertBatch& b) { return {b.places, b.words, b.next}; }

BertScore score_batches(const models::Bert& model, data::Loader<data::BertBatch>& loader,
                        const std::function<bool(int64_t)>& progress) {
  NoGradGuard no_grad;
  BertScore score;
  int64_t batches = 0;
  for (const data::BertBatch& b : loader) {
    const Tensor hidden = model.bert(input_of(b));
    if (b.words.numel() > 0)
      add(models::words_at(model, hidden, b.places), b.words, score.masked_nats, score.masked,
          score.masked_right);
    if (b.next.defined())
      add((*model.seq_relationship)(model.bert.pooled(hidden)), b.next, score.next_nats,
          score.pairs, score.pairs_right);
    if (progress && !progress(++batches)) break;
  }
  return score;
}

}  // namespace tern::apps::lm
