// tern report: which folders it takes, what it compares, and which files it writes over.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/apps/common/html.h"
#include "tern/apps/tern/comparison.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::program::test_tern {
namespace {

using namespace tern::test;
namespace fs = std::filesystem;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

// A folder as a run leaves it: `epochs` epochs of ten steps.
std::string make_run(const std::string& folder, int epochs, const std::string& metric,
                     const std::string& record) {
  fs::create_directories(folder);
  std::string log;
  for (int i = 1; i <= 10 * epochs; ++i) {
    log += train::log_line(train::StepRecord{i, 1.0 / i, 0.1, 2}) + "\n";
    if (i % 10 == 0)
      log += train::log_line(
                 train::EpochRecord{.epoch = i / 10,
                                    .metrics = {{"train_loss", 2.0 / i}, {metric, 1.0 + (i == 20)}},
                                    .seconds = 60,
                                    .steps = i},
                 "images") +
             "\n";
  }
  write_file(folder + "/log.jsonl", log);
  if (!record.empty()) write_file(folder + "/run.json", record);
  return folder;
}

std::string record_of(const std::string& program, const std::string& lr) {
  return fmt::format(
      R"({{"program":"{0}","starts":[{{"command":"{0} --lr <{1}>","version":"0.1.0",)"
      R"("date":"2026-01-01 00:00:00 UTC","machine":"{0} cores"}}],)"
      R"("settings":{{"lr":"{1}","seed":"7"}},)"
      R"("best":{{"metric":"valid_loss","largest":true}}}})",
      program, lr);
}

ReportFlags parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "tern");
  ReportFlags o;
  apps::parse(tern_program(o), static_cast<int>(words.size()), const_cast<char**>(words.data()));
  return o;
}

}  // namespace

TEST_CASE("tern report: the flags") {
  CHECK(parsed({"report", "a"}).out == "comparison.html");
  const ReportFlags o = parsed({"report", "a", "b", "--out", "c.html"});
  CHECK(o.runs == std::vector<std::string>{"a", "b"});
  CHECK(o.out == "c.html");
  CHECK_THROWS_AS(parsed({"report"}), Error);
  CHECK_THROWS_AS(parsed({}), Error);
  CHECK_THROWS_AS(parsed({"report", "a", "--out", ""}), Error);
}

TEST_CASE("tern report: runs side by side, with curves, scores and what differs") {
  TempDir dir;
  const std::string a = make_run(dir / "x/run", 3, "valid_loss", record_of("lm", "0.1"));
  const std::string b = make_run(dir / "y/run", 2, "valid_loss", record_of("lm", "0.2"));
  const std::vector<Run> runs = load_runs({a, b + "/"});
  CHECK(runs[0].name == "x/run");
  CHECK(runs[1].name == "y/run");
  CHECK(runs[0].best_epoch()->epoch ==
        2);  // valid_loss is 2 there, and the record wants the largest
  const std::string page = comparison_page(runs);
  CHECK(contains(page, "2 runs side by side"));
  for (const char* title :
       {"Loss in training", "Learning rate", "Norm of the gradient", "valid_loss", "train_loss"})
    CHECK(contains(page, fmt::format("<text class=\"title\" x=\"8\" y=\"16\">{}</text>", title)));
  CHECK(count(page, "</svg> x/run</span>") == 5);  // a legend a chart
  CHECK(contains(page, "<td><code>0.1</code></td><td><code>0.2</code></td>"));
  CHECK_FALSE(contains(page, "<td>seed</td>"));
  CHECK(contains(page, "lm --lr &lt;0.1&gt;"));  // escaped
  CHECK_FALSE(contains(page, "<0.1>"));
  CHECK(contains(page, "<td>machine</td><td>lm cores</td>"));
  CHECK(contains(page, "<tr><td>steps</td><td>30</td><td>20</td></tr>"));
  CHECK(contains(page, "<tr><td>best epoch</td><td>2 by valid_loss</td><td>2 by valid_loss</td>"));
  CHECK(contains(page, "<tr><td>valid_loss, best epoch</td><td>2</td><td>2</td></tr>"));
  CHECK(contains(page, "<tr><td>valid_loss, last epoch</td><td>1</td><td>2</td></tr>"));
  CHECK_FALSE(contains(page, "<script"));
  CHECK_FALSE(contains(page, "http"));  // all of it is in the file
}

TEST_CASE("tern report: runs of other programs, at work, of old; one alone") {
  TempDir dir;
  const std::string a = make_run(dir / "a", 1, "valid_loss", record_of("lm", "0.1"));
  const std::string b = make_run(dir / "b", 2, "test_top1", "");  // without run.json
  const std::string c = dir / "c";                                // nothing is measured yet
  fs::create_directories(c);
  write_file(c + "/log.jsonl", "{\"step\":1,\"lo");
  const std::string page = comparison_page(load_runs({a, b, c}));
  CHECK(contains(page, "Loss in training"));
  // What only one has measured is no curve, but a number.
  CHECK_FALSE(contains(page, ">test_top1</text>"));
  CHECK(contains(page, "<tr><td>test_top1, last epoch</td><td>-</td><td>2</td><td>-</td></tr>"));
  CHECK(contains(page, "<tr><td>epochs</td><td>1</td><td>2</td><td>0</td></tr>"));
  CHECK(contains(page, "<td><code>-</code></td>"));
  CHECK(contains(comparison_page(load_runs({c})), "nothing yet"));
  const std::string alone = comparison_page(load_runs({a}));
  CHECK(contains(alone, ">valid_loss</text>"));
  CHECK(contains(alone, "<td>seed</td>"));
}

TEST_CASE("tern report: what is no run is refused by name") {
  TempDir dir;
  const std::string a = make_run(dir / "a", 1, "valid_loss", "");
  fs::create_directories(dir / "empty");
  CHECK_THROWS_WITH_AS(load_runs({a, dir / "empty"}),
                       doctest::Contains("empty: this is not the folder of a run"), Error);
  CHECK_THROWS_WITH_AS(load_runs({dir / "none"}),
                       doctest::Contains("none: there is no such folder"), Error);
  CHECK_THROWS_WITH_AS(load_runs({a + "/log.jsonl"}),
                       doctest::Contains("log.jsonl: this is a file, not a folder"), Error);
  fs::create_symlink("round", dir / "round");
  CHECK_THROWS_WITH_AS(load_runs({dir / "round"}), doctest::Contains("round: Too many levels"),
                       Error);
  CHECK_THROWS_WITH_AS(load_runs({a, a + "/../a"}), doctest::Contains("are the same run"), Error);
  CHECK_THROWS_AS(load_runs({}), Error);
  for (const char* bad : {"[]", "{", "{\"program\":1}", "[[[[[[[["}) {
    const std::string b = make_run(dir / "b", 1, "valid_loss", bad);
    CHECK_THROWS_WITH_AS(load_runs({b}), doctest::Contains("run.json: it cannot be read"), IoError);
  }
}

TEST_CASE("tern report: only its own page is written over") {
  TempDir dir;
  const std::vector<Run> runs = load_runs({make_run(dir / "a", 1, "valid_loss", "")});
  const std::string out = dir / "page.html";
  write_comparison(out, runs);
  const std::string first = read_file(out);
  CHECK(contains(first, "</html>"));
  write_comparison(out, runs);
  CHECK(read_file(out) == first);
  const std::string of_a_run = html_page("t", "tern report");
  for (const std::string& others : {std::string(), std::string("text"), of_a_run}) {
    write_file(out, others);
    CHECK_THROWS_WITH_AS(write_comparison(out, runs),
                         doctest::Contains("page.html is there, and no page of tern report"),
                         Error);
    CHECK(read_file(out) == others);
  }
  CHECK_THROWS_AS(write_comparison(dir / "a", runs), Error);  // a folder
}

}  // namespace tern::apps::program::test_tern
