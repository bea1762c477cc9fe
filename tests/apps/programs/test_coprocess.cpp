// translate run as a coprocess: another program writes a line and reads its translation, in turn.
#include <doctest/doctest.h>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_coprocess {
namespace {

/// A child process; this process holds the other ends of its standard input and output.
class Coprocess {
 public:
  Coprocess(const std::string& program, Words arguments, const std::string& folder) {
    int in[2], out[2];
    check(::pipe(in) == 0 && ::pipe(out) == 0, "pipe failed");
    child_ = ::fork();
    check(child_ >= 0, "fork failed");
    if (child_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      for (int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
      arguments.insert(arguments.begin(), std::string(TERN_BINARY_DIR "/apps/") + program);
      detail::become(arguments, {.folder = folder});
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  void write(const std::string& text) const {
    check(::write(to_, text.data(), text.size()) == std::ssize(text), "write failed");
  }
  /// Waits for `count` lines of output; returns fewer if the output ends.
  std::string read_lines(int64_t count) {
    const auto is_there = [&] { return std::count(text_.begin(), text_.end(), '\n') >= count; };
    while (!is_there() && read()) {
    }
    size_t end = 0;
    for (int64_t i = 0; i < count; ++i) end = std::min(text_.find('\n', end), text_.size() - 1) + 1;
    const std::string lines = text_.substr(0, end);
    text_.erase(0, end);
    return lines;
  }
  /// Closes the child's input and returns the rest of its output.
  std::string finish() {
    ::close(to_);
    while (read()) {
    }
    ::close(from_);
    CHECK(detail::exit_code(child_) == 0);
    return text_;
  }

 private:
  // A timeout makes the test fail instead of hang.
  bool read() {
    constexpr int kLongest = 120000;  // milliseconds
    pollfd file{from_, POLLIN, 0};
    if (::poll(&file, 1, kLongest) <= 0) return false;
    char buffer[4096];
    const ssize_t n = ::read(from_, buffer, sizeof buffer);
    if (n > 0) text_.append(buffer, static_cast<size_t>(n));
    return n > 0;
  }

  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
  std::string text_;
};

std::string file_of(const std::string& path, const Words& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return write_file(path, text);
}

TEST_CASE(
    "programs: translate run answers each line before the next one, as it does in one batch") {
  TempDir dir;
  const Ran trained = run_program("translate",
                                  {"train", "--first", "60", "--epochs", "2", "--batch", "8",
                                   "--dim", "16", "--out", "model", "--threads", "1"},
                                  {.folder = dir.path()});
  REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const Words lines = {"The cat sleeps in the house.", "", "A dog eats an apple.",
                       "Every bird sees the old horse near the river.", "Yes"};
  file_of(dir / "lines", lines);
  for (const Words& flags :
       std::vector<Words>{{}, {"--beam", "3"}, {"--int8"}, {"--beam", "3", "--n-best", "2"}}) {
    CAPTURE(flags.size());
    Words words = {"run", "--model", "model", "--threads", "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::string command = TERN_BINARY_DIR "/apps/translate";
    for (const std::string& word : words) command += " " + word;
    const Ran whole = run_words({"sh", "-c", command + " < lines"}, {.folder = dir.path()});
    REQUIRE_MESSAGE(whole.code == 0, whole.err);

    Coprocess one("translate", words, dir.path());
    const bool list = flags.size() > 2;
    std::string answers;
    for (const std::string& line : lines) {
      one.write(line + "\n");
      const std::string answer = one.read_lines(list && !line.empty() ? 2 : 1);
      REQUIRE(answer.ends_with("\n"));
      answers += answer;
    }
    CHECK(answers == whole.out);
    CHECK(one.finish() == "");
  }
}

TEST_CASE("programs: translate run waits only for whole lines") {
  TempDir dir;
  REQUIRE(run_program("translate",
                      {"train", "--first", "60", "--epochs", "1", "--batch", "8", "--dim", "16",
                       "--out", "model", "--threads", "1"},
                      {.folder = dir.path()})
              .code == 0);
  Coprocess one("translate", {"run", "--model", "model", "--threads", "1"}, dir.path());
  one.write("The cat sleeps.\nThe dog sleeps.\nThe ho");  // two lines, and part of a third
  const std::string two = one.read_lines(2);
  CHECK(std::count(two.begin(), two.end(), '\n') == 2);
  one.write("rse sleeps.\n");
  const std::string third = one.read_lines(1);
  REQUIRE(third.ends_with("\n"));
  one.write("The bird sle");  // the input ends here: this part is the last line
  const std::string rest = one.finish();
  CHECK(std::count(rest.begin(), rest.end(), '\n') == 1);
  write_file(dir / "lines", "The cat sleeps.\nThe dog sleeps.\nThe horse sleeps.\nThe bird sle");
  const Ran whole = run_words(
      {"sh", "-c", TERN_BINARY_DIR "/apps/translate run --model model --threads 1 < lines"},
      {.folder = dir.path()});
  CHECK(two + third + rest == whole.out);
}

}  // namespace
}  // namespace tern::test::test_coprocess
