// Batches of windows over a stream of tokens, for language models.
//
//   auto stream = std::make_shared<const std::vector<int64_t>>(bpe.encode(text));
//   Loader<WindowBatch> loader = window_loader(stream, {.batch = 16, .window = 128, .seed = 1});
//   for (WindowBatch& b : loader) ...  cross_entropy(flatten(model(b.tokens), 0, 1),
//                                                    flatten(b.targets))
#pragma once

#include <cstdint>

#include "tern/core/tensor/tensor.h"
#include "tern/data/loading/loader.h"
#include "tern/data/text/stream/token_stream.h"

namespace tern::datasets {

/// i64 (B, T).
struct WindowBatch {
  Tensor tokens;
  Tensor targets;  ///< the token after each of `tokens`
};

struct WindowLoaderOptions {
  int64_t batch = 16;    ///< windows per batch; the last of an epoch may have fewer
  int64_t window = 128;  ///< tokens per window
  int64_t parts = 1;     ///< number of epochs per pass over the stream
  uint64_t seed = 0;
  int workers = 1;   ///< as in LoaderOptions
  int prefetch = 4;  ///< as in LoaderOptions
};

/// A pass over the stream begins at a random offset below `window` and visits windows side by side,
/// in random order. So every token after the offset is a target once, except fewer than two windows
/// of them at the end, and window bounds differ between passes. Batches depend only on the options
/// and the epoch, so a loader can seek to a saved position. It reads only the windows of the
/// batches that it makes (of its blocks, if it is cut), and keeps 8 bytes per window of the epoch.
/// Error: the stream has fewer than window + 1 tokens, or fewer windows than parts.
Loader<WindowBatch> window_loader(const TokenStream& stream, const WindowLoaderOptions& options);
/// The same for ids in memory.
inline Loader<WindowBatch> window_loader(std::shared_ptr<const std::vector<int64_t>> stream,
                                         const WindowLoaderOptions& options) {
  return window_loader(TokenStream(std::move(stream)), options);
}

}  // namespace tern::datasets
