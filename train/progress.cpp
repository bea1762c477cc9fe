// Draws the progress bar and prints lines that fit the terminal. detail/progress_line.cpp lays out
// the text.
#include "tern/train/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tern/core/base/terminal_text.h"
#include "tern/nn/print.h"
#include "tern/train/detail/progress_line.h"
#include "tern/train/detail/terminal.h"

namespace tern::training {
namespace {

constexpr int64_t kFreeColumns = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whether the terminal can neither move its cursor nor show colours: TERM is "dumb", empty or
// unset.
bool is_dumb() {
  const char* term = std::getenv("TERM");
  return !term || !*term || std::string_view(term) == "dumb";
}

}  // namespace

bool shows_colours(std::FILE* output) {
  const char* none = std::getenv("NO_COLOR");
  return terminal_columns(output) > 0 && !is_dumb() && !(none && *none);
}

int64_t terminal_columns(std::FILE* output) {
  if (isatty(fileno(output)) == 0) return 0;
  winsize size{};
  const bool known = ioctl(fileno(output), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void say(const std::string& text, std::FILE* output) {
  put(fitted(terminal_text(text), terminal_columns(output)) + "\n", output);
}

std::string clock_time(double seconds) {
  auto s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string grouped(int64_t number) {
  return fmt::format("{}{}", number < 0 ? "-" : "", nn::detail::with_commas(std::abs(number)));
}

Progress::Progress(const std::string& label, const std::string& unit, int64_t total, int64_t done,
                   std::FILE* output)
    : label_(terminal_text(label)),
      unit_(terminal_text(unit)),
      total_(total),
      first_(done),
      done_(done),
      output_(output),
      in_place_(terminal_columns(output) > 0 && !is_dumb()),
      start_(now()),
      last_(start_) {}

Progress::~Progress() {
  if (!drawn_ || !in_place_) return;
  put("\r\033[K", output_);
}

void Progress::set_parts_to_come(PartsToCome parts) { to_come_ = parts; }

double Progress::seconds() const { return now() - start_; }

double Progress::speed() const {
  double s = seconds();
  return s > 0 ? static_cast<double>(done_ - first_) / s : 0;
}

void Progress::update(int64_t done, const std::string& note) {
  update(done, [&] { return note; });
}

void Progress::update(int64_t done, const std::function<std::string()>& note) {
  done_ = done;
  double wait = in_place_ ? 0.1 : 30;
  if (now() - last_ < wait) return;
  last_ = now();
  draw(note());
}

void Progress::draw(const std::string& note) {
  const SecondsLeft left =
      seconds_left(seconds(), done_ - first_, total_ - done_, total_, to_come_);
  const ProgressText text{
      .label = label_,
      .share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1,
      .note = terminal_text(note),
      .speed = fmt::format("{:.0f} {}/s", speed(), unit_),
      .seconds_left = left.part,
      .run_left = left.run};
  // Free columns for a ^C, after which the line would wrap, and for terminals that wrap too soon.
  put(in_place_ ? "\r\033[K" + progress_line(text, terminal_columns(output_) - kFreeColumns)
                : fitted(progress_log_line(text), terminal_columns(output_)) + "\n",
      output_);
  drawn_ = true;
}

}  // namespace tern::training
