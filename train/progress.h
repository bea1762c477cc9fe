// How far a long run is: a bar on a terminal, a plain line now and then elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace tern::training {

/// What comes after the part of a run (an epoch) that a bar shows.
struct PartsToCome {
  int64_t count = 0;  ///< more parts like it
  /// The time between two parts, and after the last one (an epoch's evaluation): in seconds if it
  /// is known, else what it costs in units of the bar.
  double seconds = 0, units = 0;
  /// Seconds per unit of the bar in the part before. The time left is computed from it until this
  /// part has a speed of its own. 0: there was no part before.
  double pace = 0;
};

class Progress {
 public:
  /// `label` stands before the bar ("epoch 3/10"), `unit` after the speed ("images"). Drawn on
  /// `output`: standard error where standard output carries a result.
  Progress(const std::string& label, const std::string& unit, int64_t total, int64_t done = 0,
           std::FILE* output = stdout);
  /// Clears the bar if it is still there.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows the time left for the whole run too, beside that for the bar.
  void set_parts_to_come(PartsToCome parts);

  /// `done` of the total; `note` is shown too ("loss 1.234"; parts that may be left out on a narrow
  /// terminal stand two spaces apart, the last are left out first). Draws at most ten times a
  /// second; a line every half minute where the output is no terminal, or one that cannot move its
  /// cursor (TERM=dumb). The time left is an estimate from the speed so far. The first two
  /// seconds may be slower than all others: until then the estimate uses the part before
  /// (PartsToCome::pace), or is not shown.
  void update(int64_t done, const std::string& note = "");
  /// The same; `note` is called only when something is drawn.
  void update(int64_t done, const std::function<std::string()>& note);
  /// Units a second since the start.
  double speed() const;
  double seconds() const;

 private:
  void draw(const std::string& note);
  std::string label_, unit_;
  int64_t total_, first_, done_;
  PartsToCome to_come_ = {};
  std::FILE* output_;
  bool in_place_, drawn_ = false;
  double start_, last_;  // of a steady clock, in seconds
};

/// Lines of text, at once. Control characters are shown, not sent, wherever the text goes
/// (core/base/terminal_text.h); so are those in a bar's texts. On a terminal they fit its width: of
/// an epoch's line the rate and the speed are left out where it is too narrow, and what is still
/// too long is broken between words.
void say(const std::string& text, std::FILE* output = stdout);

/// Whether `output` is a terminal that shows colours, and its user wants them: TERM is not dumb and
/// NO_COLOR (https://no-color.org) not set.
bool shows_colours(std::FILE* output);
/// Columns of the terminal, which may change at any time; 0 where `output` is none, 80 where it
/// does not say.
int64_t terminal_columns(std::FILE* output);

/// "1:02:03" or "2:03".
std::string clock_time(double seconds);

/// "1,234,567".
std::string grouped(int64_t number);

}  // namespace tern::training
