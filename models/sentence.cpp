// Pools the states of an encoder, and makes batches of texts of similar lengths.
#include "tern/models/sentence.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tern/core/tape/autograd.h"
#include "tern/nn/eval_scope.h"

namespace tern::models {
namespace {

constexpr double kLeastLength = 1e-12;  // as torch.nn.functional.normalize

/// u8 (B, T, 1): 1 at tokens, 0 at padding.
Tensor real_tokens(const Tensor& lengths, int64_t tokens) {
  return unsqueeze(lt(arange(0, tokens), unsqueeze(lengths, 1)), 2);
}

/// The state at place[b] of each text: (B, T, D), i64 (B) -> (B, D).
Tensor state_at(const Tensor& hidden, const Tensor& place) {
  const Shape one = {hidden.size(0), 1, hidden.size(2)};
  return squeeze(gather(hidden, 1, expand(reshape(place, {-1, 1, 1}), one)), 1);
}

}  // namespace

const std::vector<std::string>& pooling_names() {
  static const std::vector<std::string> kNames = {"mean", "first", "last", "max"};
  return kNames;
}

Pooling pooling_named(const std::string& name) {
  const std::vector<std::string>& names = pooling_names();
  const auto at = std::ranges::find(names, name);
  check(at != names.end(), "there is no pooling '{}'; mean, first, last and max are known", name);
  return static_cast<Pooling>(at - names.begin());
}

Tensor pool(const Tensor& hidden, const Tensor& lengths, Pooling pooling) {
  check(hidden.ndim() == 3 && lengths.shape() == Shape{hidden.size(0)} &&
            lengths.dtype() == DType::i64,
        "pool: states are (B, T, D) and lengths i64 (B), got {} and {} {}", hidden.shape(),
        lengths.dtype(), lengths.shape());
  const std::vector<int64_t> each = lengths.to_vector<int64_t>();
  for (const int64_t length : each)
    check(length >= 1 && length <= hidden.size(1), "pool: a text of {} tokens; it needs 1 to {}",
          length, hidden.size(1));
  switch (pooling) {
    case Pooling::first:
      return select(hidden, 1, 0);
    case Pooling::last:
      return state_at(hidden, lengths - 1);
    case Pooling::max:
      return amax(where(real_tokens(lengths, hidden.size(1)), hidden,
                        -std::numeric_limits<double>::infinity()),
                  {1});
    case Pooling::mean:
      break;
  }
  const Tensor real = where(real_tokens(lengths, hidden.size(1)), hidden, 0);
  return sum(real, {1}) / unsqueeze(lengths.to(hidden.dtype()), 1);
}

Tensor embed(const Bert& model, const Tensor& tokens, const Tensor& lengths,
             const EmbedOptions& options) {
  const Tensor hidden = model.bert({tokens, {}, nn::Mask::lengths(lengths)});
  const Tensor pooled = pool(hidden, lengths, options.pooling);
  if (!options.normalise) return pooled;
  return pooled / clamp(norm(pooled, 2, {1}, /*keepdim=*/true), kLeastLength, {});
}

Tensor embed(const Bert& model, std::span<const std::vector<int64_t>> texts,
             const EmbedOptions& options) {
  if (texts.empty()) return zeros({0, model.options.dim});
  NoGradGuard no_grad;
  nn::EvalScope evaluating(model);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return texts[i].size(); });
  const int64_t pad = std::max<int64_t>(model.options.pad, 0);
  std::vector<Tensor> parts;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    // The first text is the longest.
    const int64_t longest = std::ssize(texts[order[begin]]);
    const int64_t rows = std::max<int64_t>(1, options.batch_tokens / std::max<int64_t>(1, longest));
    end = std::min(order.size(), begin + static_cast<size_t>(rows));
    std::vector<int64_t> ids, lengths;
    for (size_t i = begin; i < end; ++i) {
      const std::vector<int64_t>& text = texts[order[i]];
      check(!text.empty(), "embed: text {} has no tokens", order[i] + 1);
      ids.insert(ids.end(), text.begin(), text.end());
      ids.resize((i - begin + 1) * static_cast<size_t>(longest), pad);
      lengths.push_back(std::ssize(text));
    }
    const int64_t count = std::ssize(lengths);
    parts.push_back(embed(model, tensor(ids, {count, longest}), tensor(lengths, {count}), options));
    if (options.progress && !options.progress(static_cast<int64_t>(end))) return {};
  }
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int64_t>(i);
  return index_select(cat(parts, 0), 0, tensor(place, {std::ssize(place)}));
}

}  // namespace tern::models
