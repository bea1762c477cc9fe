// Batches of windows over a stream of tokens: what language models are trained on.
//
//   auto stream = std::make_shared<const std::vector<int64_t>>(bpe.encode(text));
//   Loader<WindowBatch> loader = window_loader(stream, {.batch = 16, .window = 128, .seed = 1});
//   for (WindowBatch& b : loader) ...  cross_entropy(flatten(model(b.tokens), 0, 1),
//                                                    flatten(b.targets))
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tern/core/tensor/tensor.h"
#include "tern/data/loading/loader.h"

namespace tern::data {

/// i64 (B, T).
struct WindowBatch {
  Tensor tokens;
  Tensor targets;  ///< the token behind each of `tokens`
};

struct WindowLoaderOptions {
  int64_t batch = 16;    ///< windows in a batch; the last of an epoch may have fewer
  int64_t window = 128;  ///< tokens in one
  int64_t parts = 1;     ///< epochs that a pass over the stream is cut into
  uint64_t seed = 0;
  int workers = 1;   ///< as in LoaderOptions
  int prefetch = 4;  ///< as in LoaderOptions
};

/// A pass over the stream begins at a place of its own among the first `window` tokens and goes in
/// steps of a window, in random order: every token behind that place is a target once, but
/// for less than two windows at the end, and from pass to pass the windows have other bounds.
/// Batches depend on the options and the epoch alone, so a loader can seek to a saved position.
/// Error: the stream has fewer than window + 1 tokens, or fewer windows than parts.
Loader<WindowBatch> window_loader(std::shared_ptr<const std::vector<int64_t>> stream,
                                  const WindowLoaderOptions& options);

}  // namespace tern::data
