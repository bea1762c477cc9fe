// The layout of progress on a terminal: the bar, the time left, long lines. Inside of train only.
#pragma once

#include <cstdint>
#include <string>

#include "tern/train/progress.h"

namespace tern::training {

struct ProgressText {
  std::string label;
  double share = 0;         // the share that is done, in [0, 1]
  std::string note = {};    // its parts, two spaces apart, may be left out
  std::string speed = {};   // "812 images/s"
  double seconds_left = 0;  // negative: unknown
  double run_left = -1;     // for the whole run; negative: there is no run around the bar
};

/// "LABEL [###.....]  37%  NOTE  SPEED  epoch 0:05, all 12:34 left", within `columns`: a line that
/// wraps would stay on the screen. On a narrower terminal the bar is halved; then parts are left
/// out in this order: the speed, the bar, the time of the epoch, the note's parts from the last to
/// the second, the time, the note.
std::string progress_line(const ProgressText& text, int64_t columns);
/// The same line without the bar and of any length, for an output that is no terminal.
std::string progress_log_line(const ProgressText& text);

struct SecondsLeft {
  double part = -1, run = -1;  // negative: unknown (part), or no run around the part (run)
};

/// The time left for a bar that has done `done` units of its `total` in `seconds`, with `left` to
/// do.
SecondsLeft seconds_left(double seconds, int64_t done, int64_t left, int64_t total,
                         const PartsToCome& to_come);

/// The text with its lines fitted to `columns` (0: unchanged): see say(). Parts of a line are two
/// spaces apart. A line that does not fit continues below its second part. Words are never broken.
std::string fitted(const std::string& text, int64_t columns);

}  // namespace tern::training
