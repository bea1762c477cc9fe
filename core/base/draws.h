// Records which random numbers a piece of code draws, so that it can run again with the same ones.
// A DrawLog is filled while the code runs in a recording DrawScope, and read while it runs in a
// replaying one. A replay does not touch the generators, which may have advanced or may no longer
// exist. For one thread. Inside of tern only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::detail {

using RngState = std::array<uint64_t, 2>;  // Rng::State

/// Words [first, last) from the generator with this key.
struct DrawnWords {
  uint64_t key, first, last;
};
using DrawLog = std::vector<DrawnWords>;

class DrawScope {
 public:
  enum class Mode { record, replay };
  /// REQUIRES: `log` outlives this scope, and no other code writes to it meanwhile.
  DrawScope(DrawLog& log, Mode mode);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

  /// The position at which a draw from a generator in state `own` begins.
  RngState begin(const RngState& own) const;
  /// Tells the scope that this draw ended at `position`.
  void drawn(const RngState& begin, uint64_t position);
  /// Whether draws leave the generators unchanged.
  bool replays() const;
  /// Call it after a replay. Error if the replay drew fewer numbers than the log has.
  void check_finished() const;

 private:
  DrawLog& log_;
  Mode mode_;
  DrawScope* outer_;
  size_t next_ = 0;        // in a replay: the current entry of the log
  uint64_t position_ = 0;  // in a replay: the position in that entry
};

/// The innermost scope of this thread, or null. Initial-exec, since every draw reads it.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit DrawScope* draw_scope;

}  // namespace tern::detail
