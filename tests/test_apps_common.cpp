#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "tern/apps/common/app.h"
#include "tern/apps/common/chart.h"
#include "tern/apps/common/checkpoint.h"
#include "tern/apps/common/html.h"
#include "tern/apps/common/progress.h"
#include "tern/core/ops/ops.h"

namespace tern::apps {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

struct TempFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               fmt::format("tern_apps_{}", static_cast<int>(getpid()));
  TempFolder() { std::filesystem::create_directories(path); }
  ~TempFolder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

SafeTensors sample() {
  SafeTensors s;
  s.tensors = {{"model.w", tensor({1, 2, 3, 4}, {2, 2})}, {"optimizer.step", arange(0, 3)}};
  s.metadata = {{"options", "{\"lr\": 0.1}"}};
  return s;
}

TEST_CASE("a checkpoint comes back as it was") {
  TempFolder folder;
  save_checkpoint(folder.file("c"), sample());
  SafeTensors back = load_checkpoint(folder.file("c"));
  CHECK(metadata(back, "options", "c") == "{\"lr\": 0.1}");
  CHECK_THROWS_AS(metadata(back, "none", "c"), IoError);
  auto model = take_prefixed(back, "model.");
  REQUIRE(model.size() == 1);
  CHECK(model[0].first == "w");
  CHECK(model[0].second.to_vector<double>() == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("every damaged byte and every truncation of a checkpoint is found") {
  TempFolder folder;
  std::string path = folder.file("c");
  save_checkpoint(path, sample());
  const std::string good = slurp(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x01);
    spill(path, bad);
    INFO("byte ", i);
    CHECK_THROWS_AS(load_checkpoint(path), IoError);
  }
  for (size_t size = 0; size < good.size(); size += 7) {
    spill(path, good.substr(0, size));
    CHECK_THROWS_AS(load_checkpoint(path), IoError);
  }
  save_safetensors(path, sample());
  CHECK_THROWS_WITH_AS(load_checkpoint(path), doctest::Contains("not a checkpoint"), IoError);
}

TEST_CASE("errors become exit codes") {
  CHECK(run_app("t", [] { return 130; }) == 130);
  CHECK(run_app("t", []() -> int { throw IoError("bad input (this line is part of a test)"); }) ==
        2);
  CHECK(run_app("t", []() -> int { throw std::runtime_error("a test"); }) == 1);
}

TEST_CASE("clock times") {
  CHECK(clock_time(0) == "0:00");
  CHECK(clock_time(125.4) == "2:05");
  CHECK(clock_time(3723) == "1:02:03");
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

TEST_CASE("a chart leaves out what is not finite and escapes names") {
  double nan = std::numeric_limits<double>::quiet_NaN();
  std::string svg = line_chart({{"a<b", {1, 2, 3}, {0.5, nan, 0.7}}}, {.title = "T & U"});
  CHECK(svg.find("a&lt;b") != std::string::npos);
  CHECK(svg.find("T &amp; U") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(line_chart({{"none", {}, {}}}, {}).find("</svg>") != std::string::npos);
}

TEST_CASE("colours of the diverging scale") {
  uint8_t blue[3], white[3], red[3], grey[3];
  diverging_color(-1, blue);
  diverging_color(0, white);
  diverging_color(7, red);
  diverging_color(std::nan(""), grey);
  CHECK(blue[2] > blue[0]);
  CHECK(white[0] == white[2]);
  CHECK(red[0] > red[2]);
  CHECK(grey[0] == 160);
}

TEST_CASE("pictures become PNG files of the right size") {
  std::string png = encode_png({3, 2, std::vector<uint8_t>(18, 7)});
  CHECK(png.substr(0, 8) == std::string("\x89PNG\r\n\x1a\n"));
  CHECK(png.substr(16, 8) == std::string("\0\0\0\3\0\0\0\2", 8));
  CHECK_THROWS_AS(encode_png({3, 2, std::vector<uint8_t>(17)}), Error);
  CHECK(html_image({1, 1, {1, 2, 3}}, 4, "x\"y").find("alt=\"x&quot;y\"") != std::string::npos);
}

}  // namespace
}  // namespace tern::apps
