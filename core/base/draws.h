// What a stretch of code draws from generators, so that it can be run again with the same numbers:
// a DrawLog is filled while a stretch runs in a DrawScope that records, and read while it runs in
// one that replays. The replay leaves the generators themselves alone: they may have been drawn
// from since, moved or destroyed. Of one thread. Inside of core only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::detail {

using RngState = std::array<uint64_t, 2>;  // Rng::State

/// Words [first, last) of the generator with this key.
struct DrawnWords {
  uint64_t key, first, last;
};
using DrawLog = std::vector<DrawnWords>;

class DrawScope {
 public:
  enum class Mode { record, replay };
  /// REQUIRES: `log` outlives this, and is not written to by others meanwhile.
  DrawScope(DrawLog& log, Mode mode);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

  /// Where a draw begins that a generator at `own` is asked for.
  RngState begin(const RngState& own) const;
  /// It has moved the position from `begin` on to `position`.
  void drawn(const RngState& begin, uint64_t position);
  /// Whether draws leave the generators alone.
  bool replays() const;
  /// After a replay: an Error if it drew less than the log has.
  void check_finished() const;

 private:
  DrawLog& log_;
  Mode mode_;
  DrawScope* outer_;
  size_t next_ = 0;        // in a replay: which words come next,
  uint64_t position_ = 0;  // and where in them
};

/// The innermost scope of this thread, or null. Every draw looks, so without a call: initial-exec.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit DrawScope* draw_scope;

}  // namespace tern::detail
