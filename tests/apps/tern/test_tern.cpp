// tern report: accepted folders, what the page compares, and which files it may overwrite.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/apps/common/pages/html.h"
#include "tern/apps/tern/comparison.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::program::test_tern {
namespace {

using namespace tern::test;
namespace fs = std::filesystem;

// Makes the folder of a run with `epochs` epochs of ten steps each.
std::string make_run(const std::string& folder, int epochs, const std::string& metric,
                     const std::string& record) {
  fs::create_directories(folder);
  std::string log;
  for (int i = 1; i <= 10 * epochs; ++i) {
    log += training::log_line(training::StepRecord{i, 1.0 / i, 0.1, 2}) + "\n";
    if (i % 10 == 0)
      log +=
          training::log_line(
              training::EpochRecord{.epoch = i / 10,
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
      R"("settings":{{"lr":"{1}","seed":"7","pairs":"true","text":"[]"}},)"
      R"("best":{{"metric":"valid_loss","largest":true}}}})",
      program, lr);
}

ReportFlags parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "tern");
  ReportFlags o;
  apps::parse({"tern", "", {report_command(o)}}, static_cast<int>(words.size()),
              const_cast<char**>(words.data()));
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

TEST_CASE("tern report: runs side by side, with curves, scores and differing settings") {
  TempDir dir;
  const std::string a = make_run(dir / "x/run", 3, "valid_loss", record_of("lm", "0.1"));
  const std::string b = make_run(dir / "y/run", 2, "valid_loss", record_of("lm", "0.2"));
  const std::vector<Run> runs = load_runs({a, b + "/"});
  CHECK(runs[0].name == "x/run");
  CHECK(runs[1].name == "y/run");
  CHECK(runs[0].best_epoch()->epoch ==
        2);  // valid_loss is 2 there, and the record says that larger is better
  const std::string page = comparison_page(runs);
  CHECK(contains(page, "2 runs compared"));
  for (const char* title : {"Loss in training", "Learning rate", "Norm of the gradient",
                            "Validation loss", "Training loss"})
    CHECK(contains(page, fmt::format("<b>{}</b>", title)));
  CHECK(count(page, "</svg> x/run</span>") == 5);  // one legend per chart
  CHECK(contains(page, "<h2 id=\"lm-on-generated-data\">lm on generated data</h2>"));
  CHECK(contains(page, "<td><code>0.1</code></td><td><code>0.2</code></td>"));
  CHECK_FALSE(contains(page, "<td>seed</td>"));
  CHECK(contains(page, "lm --lr &lt;0.1&gt;"));  // escaped
  CHECK_FALSE(contains(page, "<0.1>"));
  CHECK(contains(page, "<td>lm cores</td></tr>"));
  // One row per run with the scores of its best epoch; the lowest loss is bold.
  CHECK(contains(page,
                 "<tr><th>run</th><th>validation loss</th><th>weights</th><th>precision</th>"
                 "<th>speed</th><th>time</th><th>epochs</th><th>steps</th><th>epoch of the "
                 "scores</th><th>training loss</th></tr>"));
  CHECK(contains(page,
                 "<tr><td>x/run</td><td class=\"best\">2.0000</td><td>-</td><td>-</td><td>-</td>"
                 "<td>3:00</td><td>3</td><td>30</td><td>2 by validation loss</td>"
                 "<td>0.1000</td></tr>"));  // training metrics have no winner
  CHECK(contains(page, "<table class=\"scores sortable\">"));
  CHECK_FALSE(contains(page, "http:"));  // everything is in the file
  CHECK_FALSE(contains(page, "https:"));
}

TEST_CASE("tern report: the best run in each column, percentages, and tests at the end") {
  TempDir dir;
  auto record = [](const std::string& data, const std::string& tested) {
    return fmt::format(R"({{"program":"train_cifar","starts":[],"settings":{{"data":"{}"}},)"
                       R"("best":{{"metric":"","largest":false}},"tested":{}}})",
                       data, tested);
  };
  std::vector<std::string> folders;
  auto run = [&](const std::string& metrics, const std::string& data, const std::string& tested) {
    const std::string folder = dir / fmt::format("run{}", folders.size());
    fs::create_directories(folder);
    write_file(folder + "/log.jsonl",
               fmt::format("{{\"epoch\":1,{},\"images_per_s\":1,\"lr\":0.1,\"seconds\":60,"
                           "\"steps\":10}}\n",
                           metrics));
    write_file(folder + "/run.json", record(data, tested));
    folders.push_back(folder);
  };
  run(R"("test_top1":0.5,"test_loss":1.5,"best_top1":0.5)", "cifar", "{}");
  run(R"("test_top1":0.625,"test_loss":2.5)", "cifar", "{}");
  run(R"("valid_top1":0.9,"test_top1":null,"test_loss":null)", "cifar", R"({"test_top1":0.75})");
  run(R"("test_top1":0.99,"test_loss":0.1)", "mnist", "{}");
  const std::string page = comparison_page(load_runs(folders));
  CHECK(contains(page,
                 "<a href=\"#train-cifar-on-cifar\">train_cifar on cifar</a>\n"
                 "<a href=\"#train-cifar-on-mnist\">train_cifar on mnist</a>"));
  CHECK(contains(page,
                 "<tr><th>run</th><th>test top-1</th><th>validation top-1</th><th>test loss</th>"));
  CHECK_FALSE(contains(page, "best_top1"));
  CHECK_FALSE(contains(page, "best top1"));
  CHECK(contains(page, "<td>run0</td><td>50.00%</td><td>-</td><td class=\"best\">1.5000</td>"));
  CHECK(contains(page, "<td>run1</td><td>62.50%</td><td>-</td><td>2.5000</td>"));
  CHECK(contains(page, "<td>run2</td><td class=\"best\">75.00%</td><td>90.00%</td><td>-</td>"));
  CHECK(contains(page, "<td>run3</td><td>99.00%</td><td>0.1000</td>"));  // the only mnist run
}

TEST_CASE("tern report: curves over epochs, time or steps") {
  TempDir dir;
  const std::string a = make_run(dir / "a", 3, "valid_loss", record_of("lm", "0.1"));
  const std::string page = comparison_page(load_runs({a}));
  CHECK(page.find("id=\"axis0\" checked") < page.find("<figure"));
  const std::string loss = page.substr(page.find("<figure"), page.find("</figure>"));
  const auto first = [&](const std::string& sheet) {  // the first point of the curve
    const std::string name = "data-name=\"a\" data-values=\"";
    const size_t line = loss.find(name, loss.find("<svg class=\"plain " + sheet));
    REQUIRE(line != loss.npos);
    return loss.substr(line + name.size(), 6);
  };
  CHECK(first("axis0") == "0.1:1 ");  // the first of ten steps of an epoch
  CHECK(first("axis1") == "0.1:1 ");  // minutes
  CHECK(first("axis2") == "1:1 2:");
  CHECK(contains(loss, ">minutes</text>"));
  CHECK_FALSE(contains(page, "id=\"axis2\" checked"));

  // A run in its second epoch: assumes that the epoch takes as long as the first.
  std::string log = read_file(make_run(dir / "b", 1, "valid_loss", "") + "/log.jsonl");
  log += training::log_line(training::StepRecord{15, 1, 0.1, 2}) + "\n";
  write_file(dir / "b/log.jsonl", log);
  CHECK(contains(comparison_page(load_runs({dir / "b"})), " 1.5:1\""));
  // In its first epoch a run has only steps.
  write_file(dir / "b/log.jsonl", training::log_line(training::StepRecord{5, 1, 0.1, 2}) + "\n");
  const std::string early = comparison_page(load_runs({dir / "b"}));
  CHECK(contains(early, "id=\"axis2\" checked"));
  CHECK(contains(early, "data-name=\"b\" data-values=\"5:1\""));
  // Logs of earlier versions have no steps.
  write_file(dir / "b/log.jsonl",
             "{\"epoch\":1,\"train_loss\":2,\"images_per_s\":1,\"lr\":0.1,\"seconds\":60}\n");
  const std::string old = comparison_page(load_runs({dir / "b"}));
  CHECK(count(old, "data-name=\"b\" data-values=\"1:2\"") ==
        2);  // over epochs, linear and logarithmic
  CHECK_FALSE(contains(old, "data-values=\"0:"));
  CHECK(contains(loss, " 3:"));
}

TEST_CASE("tern report: runs with --eval-steps count steps and evaluations instead of epochs") {
  TempDir dir;
  const std::string epochs = record_of("lm", "0.1");
  std::string steps = epochs;
  steps.replace(steps.find("\"lr\""), 0, "\"eval_steps\":\"10\",");
  const std::string a = make_run(dir / "a", 3, "valid_loss", steps),
                    b = make_run(dir / "b", 1, "valid_loss", epochs);
  const std::string page = comparison_page(load_runs({a}));
  CHECK_FALSE(contains(page, "epoch"));
  CHECK(contains(page, "id=\"axis2\" checked"));
  CHECK(contains(page, ">evaluation</text>"));
  CHECK(contains(page, "<th>evaluations</th><th>steps</th><th>step of the scores</th>"));
  CHECK(contains(page, "<td>3</td><td>30</td><td>20 by validation loss</td>"));
  const std::string both = comparison_page(load_runs({a, b}));
  CHECK(contains(both, "<th>epochs or evaluations</th>"));
  CHECK(contains(both, "<td>3</td><td>30</td><td>step 20 by validation loss</td>"));
  CHECK(contains(both, "<td>1</td><td>10</td><td>1 by validation loss</td>"));
}

TEST_CASE(
    "tern report: runs of different programs, unfinished ones, older ones, and a single one") {
  TempDir dir;
  const std::string a = make_run(dir / "a", 1, "valid_loss", record_of("lm", "0.1"));
  const std::string b = make_run(dir / "b", 2, "test_top1", "");  // no run.json
  const std::string c = dir / "c";                                // no metric yet
  fs::create_directories(c);
  write_file(c + "/log.jsonl", "{\"step\":1,\"lo");
  const std::string page = comparison_page(load_runs({a, b, c}));
  CHECK(contains(page, "lm on generated data</h2>"));
  CHECK(contains(page, "Runs of an earlier version</h2>"));
  // A metric that only one run has is shown as a number, not as a curve.
  CHECK_FALSE(contains(page, "<b>Test top-1</b>"));
  CHECK(contains(page,
                 "<tr><td>b</td><td>200.00%</td><td>-</td><td>-</td><td>-</td><td>2:00</td>"
                 "<td>2</td><td>20</td><td>2</td>"));
  CHECK(contains(page,
                 "<tr><td>c</td><td>-</td><td>-</td><td>-</td><td>-</td><td>0:00</td><td>0</td>"
                 "<td>-</td><td>-</td>"));
  CHECK(contains(comparison_page(load_runs({c})), "nothing yet"));
  const std::string alone = comparison_page(load_runs({a}));
  CHECK(contains(alone, "<b>Validation loss</b>"));
  CHECK(contains(alone, "<td>seed</td>"));
}

namespace {

// Makes a run of one epoch with these metrics in its log and this program and settings in its
// record.
std::string make_small_run(const std::string& folder, const std::string& metrics,
                           const std::string& program, const std::string& settings,
                           const std::string& more = "") {
  fs::create_directories(folder);
  write_file(folder + "/log.jsonl",
             fmt::format("{{\"epoch\":1,{},\"tokens_per_s\":2500,\"lr\":0.1,\"seconds\":60,"
                         "\"steps\":10}}\n",
                         metrics));
  write_file(folder + "/run.json",
             fmt::format(R"({{"program":"{}","starts":[],"settings":{{{}}},)"
                         R"("best":{{"metric":"valid_loss","largest":false}}{}}})",
                         program, settings, more));
  return folder;
}

}  // namespace

TEST_CASE("tern report: no run is marked as best by numbers that are not comparable") {
  TempDir dir;
  const std::string loss = R"("valid_loss":1.5,"valid_bits_per_byte":0.5,"train_loss":1)",
                    less = R"("valid_loss":0.5,"valid_bits_per_byte":0.25,"train_loss":2)";
  auto page_of = [&](const std::string& a, const std::string& b) {
    const std::string flags = R"(,"flags":{"hold_out":"--hold-out"})";
    return comparison_page(load_runs({make_small_run(dir / "a", loss, "lm", a, flags),
                                      make_small_run(dir / "b", less, "lm", b, flags)}));
  };
  const std::string gpt = R"("model.model":"gpt","model.vocab":"512","hold_out":"0.1")";
  const std::string alike = page_of(gpt, gpt);
  CHECK(contains(alike, "<td class=\"best\">0.250</td><td class=\"best\">0.5000</td>"));
  CHECK_FALSE(contains(alike, "No run is marked"));
  CHECK_FALSE(contains(alike, "class=\"best\">1.0000"));  // the training loss
  // Another vocabulary: bits per byte are still comparable.
  const std::string tokens =
      page_of(gpt, R"("model.model":"gpt","model.vocab":"600","hold_out":"0.1")");
  CHECK(contains(tokens, "<td class=\"best\">0.250</td><td>0.5000</td>"));
  CHECK(contains(tokens,
                 "No run is marked as the best by validation loss, because these differ: "
                 "vocabularies."));
  CHECK(count(tokens, "No run is marked") == 1);
  // Other held-out samples.
  const std::string samples =
      page_of(gpt, R"("model.model":"gpt","model.vocab":"512","hold_out":"0.2")");
  CHECK_FALSE(contains(samples, "class=\"best\""));
  CHECK(contains(samples,
                 "best by validation bits per byte, validation loss, because these differ: "
                 "--hold-out."));
  // Another task.
  const std::string bert =
      page_of(gpt, R"("model.model":"bert","model.vocab":"512","hold_out":"0.1")");
  CHECK_FALSE(contains(bert, "class=\"best\""));
  CHECK(contains(bert, "validation loss, because these differ: models."));
  // The seed chooses generated data, and pairs that are held out.
  const auto seeds = [&](const std::string& program, const std::string& data) {
    const auto with = [&](int seed) { return fmt::format(R"("seed":"{}",{})", seed, data); };
    return comparison_page(load_runs({make_small_run(dir / "c", loss, program, with(0), ""),
                                      make_small_run(dir / "d", less, program, with(1), "")}));
  };
  CHECK(contains(seeds("lm", R"("text":"[]")"), "because these differ: seed."));
  CHECK(contains(seeds("translate", R"("pairs":"p.tsv","valid_source":"")"), "differ: seed."));
  CHECK(contains(seeds("lm", R"("text":"[a.txt]","model.model":"bert")"), "differ: seed."));
  CHECK(contains(seeds("train_cifar", R"("data":"cifar")"), "differ: seed."));
  for (const char* row : {R"("pairs":"p.tsv","valid_source":"v.de")", R"("text":"[a.txt]")"})
    CHECK(contains(seeds(row[1] == 'p' ? "translate" : "lm", row), "<td class=\"best\">0.5000"));
  // The seed chose the test pictures; BLEU of d2l.ai's tokens is that of lower case.
  const auto page = [&](const std::string& metric, const std::string& program, const std::string& a,
                        const std::string& b) {
    const auto run = [&](const char* name, const char* value, const std::string& settings) {
      return make_small_run(dir / name, fmt::format(R"("{}":{})", metric, value), program,
                            settings);
    };
    return comparison_page(load_runs({run("e", "0.25", a), run("f", "0.5", b)}));
  };
  const auto pictures = [&](const std::string& by_seed) {
    const std::string split = R"("data":"p","pictures.split_by_seed":")" + by_seed + "\"";
    return page("test_top1", "train_cifar", R"("seed":"0",)" + split, R"("seed":"1",)" + split);
  };
  CHECK(contains(pictures("true"), "differ: seed."));
  CHECK(contains(pictures("false"), "class=\"best\""));
  const std::string words = R"("pairs":"p","valid_source":"v","lowercase":"false","tokens":)";
  const std::string cased = words + R"("words")", lower = words + R"("d2l")";
  CHECK(contains(page("valid_bleu", "translate", cased, lower), "differ: lowercase."));
  CHECK(contains(page("valid_bleu", "translate", lower, lower), "class=\"best\""));
}

TEST_CASE("tern report: weights, precision, speed, and progress") {
  TempDir dir;
  const std::string a =
      make_small_run(dir / "a", R"("valid_loss":1)", "lm", R"("precision":"bf16","clip":"1")",
                     R"(,"weights":1264512,"epochs":3,"flags":{"clip":"--clip"})");
  const std::string page = comparison_page(load_runs({a}));
  CHECK(contains(page,
                 "<tr><td>a</td><td>1.0000</td><td>1.26M</td><td>bf16</td>"
                 "<td>2,500 tokens/s</td><td>1:00</td><td>1 of 3</td><td>10</td>"));
  CHECK(contains(page, "<td>--clip</td><td><code>1</code>"));
  CHECK(contains(page_style(), ".scores :is(td, th):first-child { position: sticky;"));
}

TEST_CASE("tern report: data are shown by name, without path and JSON syntax") {
  TempDir dir;
  auto run = [&](const char* name, const std::string& text) {
    return make_small_run(dir / name, R"("valid_loss":1)", "lm",
                          fmt::format(R"("text":"{}")", text));
  };
  const std::string a = run("a", R"([\"/r/../data/<x>.txt\",\"more\"])"),
                    b = run("b", R"([\"/data/<x>.txt\",\"more\"])"),
                    c = run("c", R"([\"1\",\"2\",\"3\",\"4\",\"5\"])");
  const std::string page = comparison_page(load_runs({a, b, c}));
  CHECK(count(page, "<h2 ") == 2);
  CHECK(contains(page, ">lm on &lt;x&gt;.txt, more</h2>"));  // a and b have the same data
  CHECK(contains(page, ">lm on 1, 2, 3 and 2 more</h2>"));
  // Different files of the same name are shown with their paths.
  const std::string d = run("d", R"([\"/other/<x>.txt\",\"more\"])");
  CHECK(contains(comparison_page(load_runs({a, d})), ">lm on /other/&lt;x&gt;.txt, more</h2>"));
}

TEST_CASE("tern report: of top-1 to top-5, the first and the last are shown, before the loss") {
  TempDir dir;
  const std::string a = make_small_run(
      dir / "a",
      R"("test_loss":1,"test_top1":0.1,"test_top2":0.2,"test_top3":0.3,"test_top4":0.4,)"
      R"("test_top5":0.5)",
      "train_cifar", "");
  const std::string page = comparison_page(load_runs({a}));
  CHECK(contains(page, "<th>run</th><th>test top-1</th><th>test top-5</th><th>test loss</th>"));
  CHECK_FALSE(contains(page, "top-2"));
  CHECK(contains(page, "<b>Test top-5</b>"));
  CHECK_FALSE(contains(page, "<b>Test top-4</b>"));
}

TEST_CASE("tern report: a folder that is not a run is refused by name") {
  TempDir dir;
  const std::string a = make_run(dir / "a", 1, "valid_loss", "");
  fs::create_directories(dir / "empty");
  CHECK_THROWS_WITH_AS(load_runs({a, dir / "empty"}),
                       doctest::Contains("empty: this is not the folder of a run"), Error);
  CHECK_THROWS_WITH_AS(load_runs({dir.path()}),
                       doctest::Contains("it has no log.jsonl; for the runs in it: "), Error);
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

TEST_CASE("tern report: overwrites only pages of its own") {
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
                         doctest::Contains("page.html exists and was not written by tern report"),
                         Error);
    CHECK(read_file(out) == others);
  }
  CHECK_THROWS_AS(write_comparison(dir / "a", runs), Error);  // a folder
}

}  // namespace tern::apps::program::test_tern
