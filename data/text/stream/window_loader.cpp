// Plans the windows of a pass from a random offset, and copies tokens and targets of each window.
#include "tern/data/text/stream/window_loader.h"

#include <algorithm>

#include "tern/core/base/error.h"
#include "tern/core/tape/record.h"
#include "tern/data/loading/dataset.h"

namespace tern::datasets {
namespace {

/// The number of windows in a pass: one less than would fit, so that it can begin at any offset.
int64_t windows_of(int64_t tokens, int64_t window) {
  return std::max<int64_t>(1, (tokens - window) / window);
}

/// The windows of one part of a pass, in order. All parts of a pass need the same order, so it
/// comes from the seed and the pass, not from the epoch's generator.
EpochPlan plan_part(int64_t tokens, const WindowLoaderOptions& o, int64_t epoch) {
  Rng pass = Rng(o.seed).stream(4).stream(static_cast<uint64_t>(epoch / o.parts));
  const int64_t all = windows_of(tokens, o.window);
  const int64_t first = pass.below(std::min(o.window, tokens - all * o.window));
  EpochPlan plan{permutation(all, pass.split()), {}};
  const int64_t part = epoch % o.parts, begin = all * part / o.parts;
  if (o.parts > 1)
    plan.order = std::vector<int64_t>(plan.order.begin() + begin,
                                      plan.order.begin() + all * (part + 1) / o.parts);
  for (int64_t& start : plan.order) start = first + start * o.window;
  const int64_t count = std::ssize(plan.order);
  for (int64_t end = o.batch; end < count; end += o.batch) plan.ends.push_back(end);
  plan.ends.push_back(count);
  return plan;
}

WindowBatch make_batch(const TokenStream& stream, int64_t window, const BatchPlan& plan) {
  const Shape shape{std::ssize(plan.indices), window};
  Fresh tokens(shape, DType::i64), targets(shape, DType::i64);
  std::vector<int64_t> ids(static_cast<size_t>(window) + 1);
  plan.for_each_sample([&](int64_t i, int64_t start) {
    stream.read(start, ids);
    std::copy_n(ids.begin(), window, tokens.data<int64_t>() + i * window);
    std::copy_n(ids.begin() + 1, window, targets.data<int64_t>() + i * window);
  });
  return {not_differentiable(tokens), not_differentiable(targets)};
}

}  // namespace

Loader<WindowBatch> window_loader(const TokenStream& stream, const WindowLoaderOptions& o) {
  const int64_t tokens = stream.size();
  check(o.batch > 0 && o.window > 0 && o.parts > 0,
        "window_loader: batches of {} windows of {} tokens in {} parts; at least 1 each", o.batch,
        o.window, o.parts);
  check(tokens > o.window, "window_loader: {} tokens are too few for a window of {} and one more",
        tokens, o.window);
  const int64_t windows = windows_of(tokens, o.window);
  check(windows >= o.parts, "window_loader: {} windows cannot be cut into {} parts", windows,
        o.parts);
  return Loader<WindowBatch>(
      [tokens, o](int64_t epoch, Rng) { return plan_part(tokens, o, epoch); },
      [stream, window = o.window](const BatchPlan& plan) {
        return make_batch(stream, window, plan);
      },
      LoaderOptions{.seed = o.seed, .workers = o.workers, .prefetch = o.prefetch});
}

}  // namespace tern::datasets
