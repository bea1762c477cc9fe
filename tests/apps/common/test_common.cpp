// Parts of all programs: exit codes, resumed lengths, warm-ups of short runs, ticks and lines of
// charts, colours, PNG files.
#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include <string>

#include "tern/apps/common/pages/chart.h"
#include "tern/apps/common/pages/heatmap.h"
#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/process/app.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/launch.h"
#include "tern/core/base/error.h"
#include "tern/core/base/out_of_memory.h"
#include "tern/core/io/atomic_file.h"
#include "tern/tests/support/tensors.h"
#include "tern/train/learner.h"

namespace tern::apps::test_common {
namespace {

TEST_CASE("errors become exit codes") {
  CHECK(run_app("t", [] { return 130; }) == 130);
  CHECK(run_app("t", []() -> int { throw IoError("bad input (this line is part of a test)"); }) ==
        2);
  CHECK(run_app("t", []() -> int { throw std::runtime_error("a test"); }) == 1);
}

TEST_CASE(
    "exit code 1 for faults that are not bad input: memory, disks, streams, also inside a loader") {
  const auto code = [](const std::function<void()>& fault) {
    return run_app("t", [&] {
      fault();
      return 0;
    });
  };
  CHECK(code([] {}) == 0);
  CHECK(code([] { throw OutOfMemory("out of memory (this line is part of a test)"); }) == 1);
  CHECK(code([] { throw WriteError("disk full (this line is part of a test)"); }) == 1);
  CHECK(code([] { throw StreamError("no output (this line is part of a test)"); }) == 1);
  CHECK(code([] { throw training::Diverged("nan (this line is part of a test)"); }) == 1);
  CHECK(code([] {
          try {
            throw std::bad_alloc();
          } catch (...) {
            std::throw_with_nested(Error("Loader: out of memory (this line is part of a test)"));
          }
        }) == 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("operator new says how many bytes were requested") {
  // Called directly: compilers may leave out a new-expression.
  CHECK_THROWS_WITH_AS(::operator delete(::operator new (size_t{1} << 50)),
                       "out of memory: 1125899906842624 bytes asked for", BadAlloc);
}
#endif

TEST_CASE("a resumed run with other epochs needs a schedule that does not depend on the length") {
  CHECK(resumed_epochs("cosine", 10, 0) == 10);
  CHECK(resumed_epochs("cosine", 10, 10) == 10);
  CHECK(resumed_epochs("constant", 10, 12) == 12);
  CHECK(resumed_epochs("inverse-sqrt", 10, 12) == 12);
  CHECK_THROWS_WITH_AS(resumed_epochs("cosine", 10, 12),
                       doctest::Contains("the cosine schedule of this run was made for 10 epochs"),
                       Error);
}

TEST_CASE("a warm-up longer than a short run is cut, and a fact says so") {
  Facts facts;
  training::ScheduleOptions cosine{.name = "cosine", .warmup = 100};
  fit_warmup(cosine, 400, facts);
  CHECK(cosine.warmup == 100);
  CHECK(facts.empty());
  fit_warmup(cosine, 20, facts);
  CHECK(cosine.warmup == 5);
  REQUIRE(facts.size() == 1);
  CHECK(facts[0].second == "warm-up cut from 100 to 5 steps, because the run has 20");
}

TEST_CASE("ticks are round and cover the range") {
  CHECK(round_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  for (double high : {1e-9, 0.37, 1.0, 73.0, 1e12}) {
    std::vector<double> t = round_ticks(-high / 3, high, 5);
    CHECK(t.front() <= -high / 3);
    CHECK(t.back() >= high);
    CHECK(t.size() >= 3);
    CHECK(t.size() <= 9);
  }
  CHECK(round_ticks(5, 5, 5).size() >= 2);
}

TEST_CASE("a chart leaves out values that are not finite, and escapes names") {
  std::string svg = line_chart({{"a<b", {1, 2, 3}, {0.5, test::kNan, 0.7}}}, {.title = "T & U"});
  CHECK(svg.find("a&lt;b") != std::string::npos);
  CHECK(svg.find("T &amp; U") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(line_chart({{"none", {}, {}}}, {}).find("</svg>") != std::string::npos);
}

TEST_CASE("the lines of a chart lie on its sheet, whatever the range") {
  const std::regex height("y1=\"([-0-9.]+)%\"");
  for (double low : {0.0, 0.182, 0.513, -3.0, 1e-7, 999.0})
    for (double high : {0.575, 1.5804, 2.05, 7.0, 1e3, 123456.0}) {
      if (high <= low) continue;
      CAPTURE(low);
      CAPTURE(high);
      const std::string svg = line_chart({{"s", {1, 2}, {low, high}}}, {});
      for (std::sregex_iterator it(svg.begin(), svg.end(), height), end; it != end; ++it) {
        CHECK(std::stod((*it)[1]) >= 0);
        CHECK(std::stod((*it)[1]) <= 100);
      }
    }
}

TEST_CASE("colour scales: 0 is white, NaN is grey, values beyond the ends take the end") {
  const Rgb blue = diverging_color(-1), red = diverging_color(7);
  CHECK(blue.blue > blue.red);
  CHECK(red.red > red.blue);
  CHECK(hex(diverging_color(0)) == "#ffffff");
  CHECK(hex(weight_color(0)) == "#ffffff");
  CHECK(hex(weight_color(1)) == hex(weight_color(5)));
  CHECK(hex(diverging_color(std::nan(""))) == "#a0a0a0");
  CHECK(hex(weight_color(std::nan(""))) == "#a0a0a0");
}

TEST_CASE("pictures become PNG files of the right size") {
  std::string png = datasets::encode_png({2, 3, std::vector<uint8_t>(18, 7)});
  CHECK(png.substr(0, 8) == std::string("\x89PNG\r\n\x1a\n"));
  CHECK(png.substr(16, 8) == std::string("\0\0\0\3\0\0\0\2", 8));
  CHECK_THROWS_AS(datasets::encode_png({2, 3, std::vector<uint8_t>(17)}), Error);
  CHECK(html_image({1, 1, {1, 2, 3}}, 4, "x\"y").find("alt=\"x&quot;y\"") != std::string::npos);
}

}  // namespace
}  // namespace tern::apps::test_common
