// What progress looks like on a terminal. Inside of train only.
#pragma once

#include <cstdint>
#include <string>

#include "tern/train/progress.h"

namespace tern::training {

struct ProgressText {
  std::string label;
  double share = 0;         // done, in [0, 1]
  std::string note = {};    // parts that may be left out stand two spaces apart
  std::string speed = {};   // "812 images/s"
  double seconds_left = 0;  // negative: nobody knows
  double run_left = -1;     // of the whole run; negative: there is none
};

/// "LABEL [###.....]  37%  NOTE  SPEED  epoch 0:05, all 12:34 left", within `columns`: a line that
/// wraps would stay on the screen. On a narrower terminal the bar is halved; then parts are left
/// out in this order: the speed, the bar, the time of the epoch, the note's parts from the last to
/// the second, the time, the note.
std::string progress_line(const ProgressText& text, int64_t columns);
/// All of it but the bar, for what is no terminal.
std::string progress_log_line(const ProgressText& text);

struct SecondsLeft {
  double part = -1, run = -1;  // negative: nobody knows; there is no run around the part
};

/// The time left for a bar that did `done` units in `seconds`, with `left` of its `total` to come.
SecondsLeft seconds_left(double seconds, int64_t done, int64_t left, int64_t total,
                         const PartsToCome& to_come);

/// Lines of `text` that fit `columns` (0: as they are): see say(). Parts of a line stand two spaces
/// apart; what does not fit goes on below the second part. A word longer than a line stays whole.
std::string fitted(const std::string& text, int64_t columns);

}  // namespace tern::training
