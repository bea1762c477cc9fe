// How far a long run is: a bar on a terminal, a plain line now and then elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tern::train {

class Progress {
 public:
  /// `label` stands before the bar ("epoch 3/10"), `unit` after the speed ("images").
  Progress(std::string label, std::string unit, int64_t total, int64_t done = 0);
  /// Clears the bar if it is still there.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total; `note` is shown too ("loss 1.234"). Draws at most ten times a second
  /// (a line every half minute where standard output is not a terminal).
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
  bool terminal_, drawn_ = false;
  double start_, last_;  // of a steady clock, in seconds
};

/// A line on standard output, at once.
void say(const std::string& line);

/// "1:02:03" or "2:03".
std::string clock_time(double seconds);

/// "1,234,567".
std::string grouped(int64_t number);

}  // namespace tern::train
