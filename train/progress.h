// Shows the progress of a long run: a bar on a terminal, a plain line every half minute elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace tern::training {

/// The rest of a run after the part (an epoch) that a bar shows.
struct PartsToCome {
  int64_t count = 0;  ///< number of further parts of the same length
  /// The time after each part (an epoch's evaluation): in seconds if it is known, else its cost in
  /// units of the bar.
  double seconds = 0, units = 0;
  /// Seconds per unit of the bar in the previous part. The time left is computed from it until the
  /// speed of this part is known. 0: this is the first part.
  double pace = 0;
};

class Progress {
 public:
  /// `label` is printed before the bar ("epoch 3/10"), `unit` with the speed ("images"). Use
  /// standard error as `output` if standard output carries a result.
  Progress(const std::string& label, const std::string& unit, int64_t total, int64_t done = 0,
           std::FILE* output = stdout);
  /// Clears the bar if it is still there.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From now on also shows the time left for the whole run.
  void set_parts_to_come(PartsToCome parts);

  /// Shows that `done` of the total is done, and `note` ("loss 1.234"). Parts of the note, two
  /// spaces apart, may be left out on a narrow terminal, the last ones first. Draws at most ten
  /// times per second; if the output is no terminal or cannot move its cursor (TERM=dumb), prints a
  /// line every half minute. The time left is an estimate from the speed so far. The first two
  /// seconds may be slower than the rest: until then the estimate uses the previous part
  /// (PartsToCome::pace), or is not shown.
  void update(int64_t done, const std::string& note = "");
  /// The same; calls `note` only when something is drawn.
  void update(int64_t done, const std::function<std::string()>& note);
  /// Units per second since the start.
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

/// Prints lines of text immediately. Control characters are made visible, not sent, wherever the
/// text goes (core/base/terminal_text.h); so are those in the texts of a bar. On a terminal the
/// lines fit its width: if the line of an epoch is too long, the learning rate and then the speed
/// are left out; lines that are still too long are broken between words.
void say(const std::string& text, std::FILE* output = stdout);

/// Whether `output` is a terminal that shows colours and its user wants them: TERM is not "dumb"
/// and NO_COLOR (https://no-color.org) is not set.
bool shows_colours(std::FILE* output);
/// Columns of the terminal, which may change at any time; 0 if `output` is no terminal, 80 if its
/// width is unknown.
int64_t terminal_columns(std::FILE* output);

/// "1:02:03" or "2:03".
std::string clock_time(double seconds);

/// "1,234,567".
std::string grouped(int64_t number);

}  // namespace tern::training
