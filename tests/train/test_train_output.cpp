// The output of a loop on a given stream, and the columns and colours of a terminal.
#include <doctest/doctest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tern/tests/support/data_files.h"
#include "tern/tests/support/temporary_stream.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_output {
namespace {

/// The output of a run of two epochs of six steps that is stopped in step `last`, if that is not 0.
std::string said(const std::string& folder, int64_t last = 0) {
  const TemporaryStream output;
  run_linear({.epochs = 2, .folder = folder, .output = output.get()}, 0.1, last);
  return output.text();
}

/// Sets environment variables and restores them in the end.
class Environment {
 public:
  using Variables = std::map<std::string, const char*>;
  explicit Environment(const Variables& variables) {
    for (const auto& [name, value] : variables) {
      const char* old = ::getenv(name.c_str());
      before_[name] = old ? std::optional<std::string>(old) : std::nullopt;
      set(name, value);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value ? value->c_str() : nullptr);
  }

 private:
  static void set(const std::string& name, const char* value) {
    if (value)
      ::setenv(name.c_str(), value, 1);
    else
      ::unsetenv(name.c_str());
  }
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_CASE("train: a loop prints to LoopOptions::output, and prints where it resumes") {
  TempDir dir;
  const std::string folder = dir / "run";
  const std::string first = said(folder, 8);
  CHECK(first.starts_with("epoch 1/2  train_loss "));
  CHECK(first.ends_with("\nstopped in epoch 2 after 8 steps; to resume: run it again\n"));
  const std::string second = said(folder);
  CHECK(second.starts_with("resumes in epoch 2/2, batch 3 of 6, after 8 steps\nepoch 2/2  "));
  CHECK(said(folder) == "all 2 epochs are done, after 12 steps\n");
}

TEST_CASE("train: the columns and colours of a terminal") {
  int ends[2];
  REQUIRE(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) == 0);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> terminal(::fdopen(ends[1], "w"),
                                                                 std::fclose);
  const TemporaryStream none;
  auto resize = [&](unsigned short columns) {
    winsize size{};
    size.ws_col = columns;
    REQUIRE(::ioctl(ends[0], TIOCSWINSZ, &size) == 0);
  };
  resize(60);
  CHECK(terminal_columns(terminal.get()) == 60);
  resize(132);
  CHECK(terminal_columns(terminal.get()) == 132);
  resize(0);
  CHECK(terminal_columns(terminal.get()) == 80);
  CHECK(terminal_columns(none.get()) == 0);
  {
    const Environment plain(Environment::Variables{{"TERM", "xterm"}, {"NO_COLOR", nullptr}});
    CHECK(shows_colours(terminal.get()));
    CHECK_FALSE(shows_colours(none.get()));
    const Environment empty(Environment::Variables{{"NO_COLOR", ""}});  // empty counts as not set
    CHECK(shows_colours(terminal.get()));
  }
  for (const Environment::Variables& unwanted :
       {Environment::Variables{{"TERM", "xterm"}, {"NO_COLOR", "1"}},
        {{"TERM", "dumb"}, {"NO_COLOR", nullptr}},
        {{"TERM", nullptr}, {"NO_COLOR", nullptr}}}) {
    const Environment set(unwanted);
    CHECK_FALSE(shows_colours(terminal.get()));
  }
  ::close(ends[0]);
}

}  // namespace
}  // namespace tern::test::test_train_output
