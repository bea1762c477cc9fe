#include "tern/train/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tern/nn/print.h"
#include "tern/train/detail/progress_line.h"
#include "tern/train/detail/terminal.h"

namespace tern::train {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the terminal, which may change its size at any time; 0: unknown.
int64_t terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

void say(const std::string& line) { put(line + "\n"); }

std::string clock_time(double seconds) {
  auto s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string grouped(int64_t number) {
  return fmt::format("{}{}", number < 0 ? "-" : "", nn::detail::with_commas(std::abs(number)));
}

Progress::Progress(std::string label, std::string unit, int64_t total, int64_t done)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      first_(done),
      done_(done),
      terminal_(isatty(STDOUT_FILENO) != 0),
      start_(now()),
      last_(start_) {}

Progress::~Progress() {
  if (!drawn_ || !terminal_) return;
  put("\r\033[K");
}

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
  double wait = terminal_ ? 0.1 : 30;
  if (now() - last_ < wait) return;
  last_ = now();
  draw(note());
}

void Progress::draw(const std::string& note) {
  double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
  double v = speed();
  std::string left = v > 0 ? clock_time(static_cast<double>(total_ - done_) / v) : "?";
  const std::string text = fmt::format("{}  {:.0f} {}/s  {} left", note, v, unit_, left);
  if (terminal_)
    put("\r\033[K" + progress_line(label_, share, text, terminal_columns()));
  else
    put(fmt::format("{} {:.0f}%  {}\n", label_, share * 100, text));
  drawn_ = true;
}

}  // namespace tern::train
