// Parts of report pages: colours, heatmaps with scales, metrics, the record of a run.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <regex>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/chart.h"
#include "tern/apps/common/pages/color.h"
#include "tern/apps/common/pages/heatmap.h"
#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/pages/run_page.h"
#include "tern/apps/common/process/machine.h"
#include "tern/core/base/error.h"
#include "tern/core/base/terminal_text.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::test_pages {
namespace {

using test::contains, test::count;
using test::TempDir;

RunSummary some_run(bool with_steps) {
  RunSummary run;
  run.title = "A <title>";
  run.facts = {{"model", "a & b"}};
  run.record = {.program = "lm",
                .starts = {{"lm train --out '<x>'", "0.1.0", "2026-01-02 03:04:05 UTC"},
                           {"lm train --resume x", "0.2.0", "2026-01-03 00:00:00 UTC"}},
                .settings = {{"model.dim", "<64>"}},
                .best = {}};
  for (int64_t e = 1; e <= 3; ++e)
    run.epochs.push_back({.epoch = e,
                          .metrics = {{"train_loss", 1.0 / static_cast<double>(e)},
                                      {"valid_loss", 2.0},
                                      {"valid_words", 0.1 * static_cast<double>(e)},
                                      {"never", std::nan("")}},
                          .lr = 0.1,
                          .seconds = 61,
                          .steps = with_steps ? 4 * e : 0});
  for (int64_t s = 1; with_steps && s <= 12; ++s)
    run.steps.push_back({s, 1, 0.01 * static_cast<double>(s), 3});
  run.best = 2;
  return run;
}

RunPage some_page() {
  return {.columns = {{"train_loss", "", 1}, {"valid_loss"}, {"valid_words"}, {"never"}},
          .measured_on = "some <set>",
          .unit = "tokens",
          .loss = {.title = "Loss", .lines = {{"train_loss", "", 2}, {"valid_loss", "held"}}},
          .charts = {{.title = "More", .lines = {{"valid_loss"}}},
                     {.title = "Never", .lines = {{"never"}}},
                     {.title = "Nothing", .lines = {{"no_such"}}}},
          .more_results = {{"tested", {{"valid_words", .555}}}},
          .sections = {{"A section<", "<p>here</p>\n"}, {"Left out", ""}}};
}

struct Toy {
  nn::Linear layer;
  static void fields(auto& m, auto&& visit) { visit("layer", m.layer); }
};

}  // namespace

TEST_CASE("pages: contrast as WCAG 2.1 defines it") {
  CHECK(contrast({0, 0, 0}, {255, 255, 255}) == doctest::Approx(21));
  CHECK(contrast({255, 255, 255}, {0, 0, 0}) == doctest::Approx(21));
  CHECK(contrast({10, 20, 30}, {10, 20, 30}) == doctest::Approx(1));
  CHECK(contrast({0x76, 0x76, 0x76}, {255, 255, 255}) == doctest::Approx(4.54).epsilon(0.002));
  CHECK(hex({1, 171, 255}) == "#01abff");
  CHECK(hex(mix({0, 0, 0}, {200, 100, 0}, .5)) == "#643200");
  CHECK(hex(mix({0, 0, 0}, {200, 100, 0}, 7)) == "#c86400");
}

TEST_CASE("pages: text and lines have enough contrast on light and dark paper") {
  for (const Theme* t : {&kLightTheme, &kDarkTheme}) {
    for (const Rgb& text : {t->ink, t->soft, t->good, t->bad, t->link})
      CHECK(contrast(text, t->paper) >= 4.5);
    for (const Rgb& line : t->series) CHECK(contrast(line, t->paper) >= 4.5);
  }
  const std::string style = page_style();
  CHECK(contains(style, "@media screen and (prefers-color-scheme: dark)"));
  CHECK(contains(style, "--paper: #ffffff"));
  CHECK(contains(style, "--paper: #14171b"));
  CHECK(contains(style, "color-scheme: light dark"));
  // Rules use no colours besides the themes'.
  const std::string rules = style.substr(style.find("body {"));
  CHECK_FALSE(std::regex_search(rules, std::regex("#[0-9a-f]{3,6}[ ;]")));
}

TEST_CASE("pages: a page is one file that names its generator") {
  const std::string page = html_page("a <b>", "x", "tern \"report\"");
  CHECK(contains(page, "<title>a &lt;b&gt;</title>"));
  CHECK(contains(page, "content=\"tern &quot;report&quot;\""));
  CHECK(contains(page, "width=device-width"));
  for (const char* outside :
       {"src=", "<link", "http", "@import", "import(", "url(", "fetch", "WebSocket"})
    CHECK_FALSE(contains(page, outside));
  CHECK(count(page, "<script>") == 1);
  CHECK(count(page, "</script>") == 1);
  // The script is the same on all pages, and makes no HTML of texts.
  CHECK(contains(page, "<script>" + page_script() + "</script>"));
  for (const char* html : {"innerHTML", "outerHTML", "insertAdjacentHTML", "eval"})
    CHECK_FALSE(contains(page, html));
}

TEST_CASE("pages: the script finds its charts and tables") {
  const std::string script = page_script(),
                    chart = line_chart(
                        {{"a <b>", {1, 2, 1234567}, {.5, .25, 1}}, {"none", {}, {}}},
                        {.title = "t", .x_label = "step", .whole_x = true, .percent = true});
  CHECK(contains(script, "querySelectorAll(\".chart > svg\")"));
  CHECK(contains(script, "querySelectorAll(\"polyline[data-values]\")"));
  CHECK(contains(script, "querySelectorAll(\"table.sortable\")"));
  for (const char* key : {"ArrowLeft", "ArrowRight", "Home", "End", "Escape"})
    CHECK(contains(script, key));
  CHECK(contains(chart, "<figure class=\"chart\">"));
  CHECK(contains(chart, " data-x=\"step\">"));
  CHECK(contains(chart, "data-name=\"a &lt;b&gt;\" data-values=\"1:50% 2:25% 1234567:100%\""));
  CHECK(count(chart, "data-values") == 1);  // a line without points has none
  const std::string page = run_page(some_run(true), some_page());
  CHECK(count(page, "<table class=\"sortable\">\n<tr><th>epoch</th>") == 1);
}

TEST_CASE("pages: heatmaps have ticks, and a bar that explains the colours") {
  const std::string map = html_heatmap(std::vector<float>(17 * 40, 1), 17, 40, 1, 6, "a \"b\"");
  CHECK(contains(map, "aria-label=\"a &quot;b&quot;\""));
  CHECK(count(map, ">0</text>") == 2);
  CHECK(count(map, ">10</text>") == 2);  // the last row is 16, the last column 39
  CHECK(count(map, ">20</text>") == 1);
  CHECK(count(map, ">30</text>") == 1);
  CHECK_FALSE(contains(map, ">40</text>"));
  const Bitmap tall{100, 2, std::vector<uint8_t>(600)};
  CHECK(
      contains(draw_matrix(tall, {.cell = 9, .row_height = 3}).svg, "width=\"18\" height=\"300\""));
  CHECK(contains(draw_matrix(tall, {.cell = 9}).svg, "width=\"18\" height=\"900\""));
  CHECK(count(html_heatmap({1}, 1, 1, 1, 4, "one"), ">0</text>") == 2);
  CHECK_THROWS_AS(html_heatmap({1, 2}, 1, 1, 1, 1, ""), Error);
  const std::string bar = heatmap_bar(0.25);
  for (const char* tick : {">-0.25</text>", ">-0.125</text>", ">0</text>", ">0.25</text>"})
    CHECK(contains(bar, tick));
  // Dark pages invert what is drawn on white; white is then no lighter than the page.
  CHECK(contains(map, "class=\"map ticks turned\""));
  CHECK(contains(bar, "class=\"bar turned\""));
  const std::string style = page_style();
  const std::string dark = style.substr(style.find("prefers-color-scheme: dark"));
  CHECK(
      contains(dark, ".turned { filter: invert(.92) hue-rotate(180deg); mix-blend-mode: lighten"));
  for (const uint8_t channel :
       {kDarkTheme.paper.red, kDarkTheme.paper.green, kDarkTheme.paper.blue})
    CHECK(std::floor(255 * (1 - .92)) <= channel);
}

TEST_CASE("pages: a layer's maps before and after training share one scale") {
  auto maps = [](float most) {
    return models::Heatmaps{"Title",
                            "Rows & columns.",
                            {{"Layer 1",
                              tensor({0, most, 0, 0}, {2, 1, 2}, DType::f32),
                              {"head <1>", "head 2"},
                              "mean of the heads"}}};
  };
  const std::string s = html_layer_maps(maps(1), maps(-4));
  CHECK(contains(s, "Rows &amp; columns."));
  CHECK(count(s, "<figcaption>") == 2 * 3);
  for (const char* caption : {"before training, head &lt;1&gt;", "after training, head 2",
                              "before training, mean of the heads", "after training, mean of"})
    CHECK(count(s, fmt::format("<figcaption>{}", caption)) == 1);
  CHECK(contains(s, ">-4</text>"));
  CHECK(contains(s, ">4</text>"));
  CHECK_FALSE(contains(s, ">0.5</text>"));
  CHECK(html_layer_maps({}, {}).empty());
}

TEST_CASE("attention page: more than a hundred sentences stay below two megabytes") {
  auto sentence = [](size_t tokens, size_t seed) {
    AttentionSentence s{fmt::format("source {}", seed), fmt::format("target {}", seed), "", {}};
    for (const char* name : {"Encoder", "Decoder", "Cross attention"}) {
      AttentionGroup group{name, {}};
      for (int64_t i = 0; i < 24; ++i) {
        AttentionMatrix m{"head", {}, {}, {}, i / 8 + 1, i % 8 + 1};
        for (size_t k = 0; k < tokens; ++k) m.rows.push_back(fmt::format("token{}", k * 37 % 100));
        m.columns = m.rows;
        for (size_t k = 0; k < tokens * tokens; ++k)  // without a pattern: does not compress
          m.weights.push_back(static_cast<float>((k * 7919 + seed * 104729) % 1009) / 1009);
        group.matrices.push_back(std::move(m));
      }
      s.groups.push_back(std::move(group));
    }
    return s;
  };
  for (const size_t n : {120, 1500}) {
    std::vector<AttentionSentence> sentences;
    for (size_t i = 0; i < n; ++i) sentences.push_back(sentence(n > 500 ? 6 : 22, i));
    const std::string page = html_page("many", attention_page(sentences));
    CHECK(page.size() < 2'000'000);
    CHECK(page.size() > 1'000'000);  // the allowed size is used
    for (size_t i = 0; i < n; ++i) CHECK(contains(page, fmt::format(">target {}<", i)));
    CHECK(contains(page, "every head with its tokens"));  // the first sentence has all details
    CHECK(contains(page, "To keep the page small"));
    const size_t second = page.find(">source 1<");
    if (n == 120) {
      // Every sentence has a picture.
      size_t at = second;
      for (size_t i = 1; i < n; ++i) {
        const size_t next = page.find("<details class=\"sentence\"", at);
        CHECK(page.substr(at, next - at).find("<svg") != std::string::npos);
        at = next + 1;
      }
    }
  }
  // Texts that exceed a page even without drawings.
  std::vector<AttentionSentence> texts(3000,
                                       {std::string(900, 's'), std::string(900, 't'), "", {}});
  const std::string page = attention_page(texts);
  CHECK(page.size() < 1'950'000);
  CHECK(contains(page, " more sentences have no room on this page."));
  // A few sentences keep all details.
  CHECK_FALSE(contains(attention_page({sentence(5, 1), sentence(5, 2)}), "To keep"));
}

TEST_CASE("run page: command, version, date, facts and settings, escaped") {
  const std::string page = run_page(some_run(true), some_page());
  for (const char* part :
       {"<h1>A &lt;title&gt;</h1>", "a &amp; b", "<code>lm train --out &#39;&lt;x&gt;&#39;</code>",
        "2026-01-02 03:04:05 UTC, tern 0.1.0", "resumed by", "lm train --resume x",
        "<td>model.dim</td><td><code>&lt;64&gt;</code></td>"})
    CHECK(contains(page, part));
  const std::string empty = run_page(RunSummary{}, some_page());
  CHECK(contains(empty, "</html>"));
  CHECK_FALSE(contains(empty, "All settings"));
}

TEST_CASE("run page: result, cost and state come first, the recipe is folded") {
  RunSummary run = some_run(true);
  run.name = "try <2>";
  run.facts.insert(
      run.facts.end(),
      {{"", "more of the model"}, {"recipe", "adam & co"}, {"", "more of the recipe"}});
  run.record.weights = 1264512;
  run.epochs[0].speed = 3000, run.epochs[1].speed = 1000, run.epochs[2].speed = 2000;
  RunPage page = some_page();
  page.answer = {"valid_words", 96, "test <words>"};
  std::string s = run_page(run, page);
  CHECK(contains(s, "<title>try &lt;2&gt;: A &lt;title&gt;</title>"));
  CHECK(contains(s, "<h1>try &lt;2&gt;</h1>\n<p>A &lt;title&gt;</p>\n"));
  // Measured at the end, with limits by Wilson's formula: n = 96, 53.28 right.
  CHECK(contains(s,
                 "<p class=\"answer\">words right 55.5 % of 96 test &lt;words&gt; (95 % "
                 "confidence: 45.5 to 65.0 %)</p>\n<p>best epoch 2, 3:03, 2,000 tokens/s, 1.26M "
                 "weights</p>"));
  const size_t folded = s.find("<details><summary>Recipe, command, machine</summary>");
  CHECK(s.find("more of the model") < folded);
  CHECK(s.find("adam &amp; co") > folded);
  CHECK(s.find("more of the recipe") > folded);
  CHECK(s.find("<td>command</td>") > folded);
  CHECK(s.find("<nav>") > folded);
  run.record.epochs = 78;
  CHECK(contains(run_page(run, page), "<p>best epoch 2 of 78, 3:03, "));
  page.more_results.clear();  // leaves the best epoch's result
  CHECK(contains(run_page(run, page), "words right 20.0 % of 96"));
  page.answer = {"valid_loss", 5000, "words"};
  CHECK(contains(run_page(run, page), "<p class=\"answer\">loss 2.0000 on 5,000 words</p>"));
  page.answer = {"no_such"};  // unknown: the first metric that was measured
  CHECK(contains(run_page(run, page), "<p class=\"answer\">training loss 0.5000</p>"));
  run.record.best = {};
  CHECK_FALSE(contains(run_page(RunSummary{}, page), "class=\"answer\""));
}

TEST_CASE("run page: the limits of a share are those of Wilson's interval") {
  // 57 of 96, 20 of 20, 0 of 10 and 5 of 10; the limits were computed outside of tern.
  const double known[][4] = {{57. / 96, 96, .493739, .686547},
                             {1, 20, .838875, 1},
                             {0, 10, 0, .277533},
                             {.5, 10, .236593, .763407}};
  for (const auto& [share, n, low, high] : known) {
    const auto [least, most] = wilson_interval(share, static_cast<int64_t>(n));
    CHECK(least == doctest::Approx(low).epsilon(1e-5));
    CHECK(most == doctest::Approx(high).epsilon(1e-5));
  }
  CHECK(short_count(1264512) == "1.26M");
  CHECK(short_count(62880) == "62.9k");
  CHECK(short_count(999) == "999");
  CHECK(median_speed({}) == 0);
  CHECK(folder_name("runs/a b/") == "a b");
  CHECK(folder_name("x/../runs/c") == "c");
  CHECK(folder_name("").empty());
}

TEST_CASE("run page: an unfinished run says so, and how to resume it") {
  RunSummary run = some_run(true);
  auto state = [&] { return state_of_run(run.epochs, run.record); };
  CHECK(state().empty());  // a record of an earlier version
  run.record.epochs = 78;
  run.record.resume = "train_cifar --resume 'a <b>'";
  CHECK(state() ==
        "Not finished: 3 of 78 epochs are done. To resume: <code>train_cifar --resume &#39;a "
        "&lt;b&gt;&#39;</code>");
  CHECK(contains(run_page(run, some_page()), "<p class=\"state\">Not finished: 3 of 78"));
  run.record.epochs = 3;
  CHECK(state() == "Finished: 3 of 3 epochs.");
  run.record.epochs = 78;
  run.epochs.back().ended = "no <better>";
  CHECK(state() == "Ended early, after epoch 3 of 78: no &lt;better&gt;.");
  run.epochs.clear();
  CHECK(state().starts_with("Not finished: 0 of 78"));
}

TEST_CASE("run page: settings have the names of their flags") {
  RunSummary run = some_run(false);
  run.record.settings = {{"epoch_end.keep", "3"}, {"classes", "2"}};
  run.record.flags = {{"epoch_end.keep", "--keep"}};
  const std::string page = run_page(run, some_page());
  CHECK(contains(page, "<td>--keep</td><td><code>3</code>"));
  CHECK(contains(page, "<td>classes</td>"));
  CHECK_FALSE(contains(page, "epoch_end"));
  Settings list;
  int64_t keep = 0;
  bool tie = true;
  std::string data;
  list.inside("epoch_end", [&] { list.number("keep", keep, kAnyCount, "kept"); });
  list.toggle("tie", tie, "tied").flag("--tie,!--no-tie");
  list.text("inner", data, "TEXT", "none").flag("");
  list.text("out", data, "DIR", "where").not_in_files();
  CHECK(flags_of(list) == SettingTexts{{"epoch_end.keep", "--keep"}, {"tie", "--tie"}});
}

TEST_CASE(
    "run page: the machines are those that ran the training, not the one that writes the page") {
  RunSummary run = some_run(true);
  run.facts.emplace_back("machine", "a third");
  const auto page = [&] { return run_page(run, some_page()); };
  CHECK(contains(page(), "<td>machine</td><td>a third</td>"));  // older records name no machine
  run.record.starts[0].machine = "the <first>";
  CHECK(contains(page(), "a third"));
  run.record.starts[1].machine = "another";
  CHECK_FALSE(contains(page(), "a third"));
  CHECK(contains(page(), "03:04:05 UTC, tern 0.1.0<br>the &lt;first&gt;</td>"));
  CHECK(contains(page(), "00:00:00 UTC, tern 0.2.0<br>another</td>"));
}

TEST_CASE("run page: loss, rate and norm by step; by epoch if an older log has no steps") {
  const std::string steps = run_page(some_run(true), some_page());
  for (const char* part :
       {"<b>Loss</b>", "<b>Learning rate</b>", "<b>Norm of the gradient", ">step</text>",
        "data-name=\"training loss\" data-values=\"1:2 ", " 12:0.12\"",
        "data-name=\"held\" data-values=\"4:2 8:2 12:2\"", "<b>More</b>"})
    CHECK(contains(steps, part));
  // The chart of the loss is large; those of rate and norm are small.
  CHECK(count(steps, fmt::format("height=\"{}\" role=\"img\" aria-label=\"Loss\"", kLeading)) == 1);
  for (const char* small : {"Learning rate", "Norm of the gradient (before --clip)"})
    CHECK(contains(steps,
                   fmt::format("height=\"{}\" role=\"img\" aria-label=\"{}\"", kMinor, small)));
  CHECK_FALSE(contains(steps, "Never"));
  CHECK_FALSE(contains(steps, "Nothing"));
  const std::string epochs = run_page(some_run(false), some_page());
  CHECK(contains(epochs, "data-name=\"training loss\" data-values=\"1:2 2:1 "));
  CHECK(contains(epochs, "Learning rate"));
  CHECK_FALSE(contains(epochs, "Norm of the gradient"));
  CHECK_FALSE(contains(epochs, ">step</text>"));
}

TEST_CASE("run page: results, contents and sections come first; all epochs come last, folded") {
  RunSummary run = some_run(true);
  const std::string page = run_page(run, some_page());
  CHECK(contains(page,
                 "<nav>\n<a href=\"#results\">Results</a>\n<a href=\"#training\">Training</a>\n"
                 "<a href=\"#a-section-\">A section&lt;</a>\n<a href=\"#numbers\">"));
  CHECK(contains(page, "<h2 id=\"a-section-\">A section&lt;</h2>\n<p>here</p>"));
  CHECK_FALSE(contains(page, "Left out"));
  // The last and the best epoch in the validation metrics, then the other results.
  const std::string results = page.substr(page.find("id=\"results\""));
  CHECK(contains(results, "<tr><th></th><th>loss</th><th>words right</th></tr>"));
  CHECK(
      contains(results, "<tr><td>last epoch, some &lt;set&gt;</td><td>2.0000</td><td>30.0%</td>"));
  CHECK(contains(results, "<tr><td>best epoch (2), some &lt;set&gt;</td><td>2.0000</td><td>20.0%"));
  CHECK(contains(results, "<tr><td>tested</td><td>-</td><td>55.5%</td></tr>"));
  CHECK(contains(results, "<p>3 epochs in 3:03.</p>"));
  const std::string table = page.substr(page.find("<summary>Every epoch"));
  CHECK(
      contains(table, "<th>training loss</th><th>validation loss</th><th>validation words right"));
  CHECK(
      contains(table, "<tr class=\"best\"><td>2</td><td>0.5000</td><td>2.0000</td><td>20.0%</td>"));
  CHECK(count(table, "class=\"best\"") == 1);
  CHECK(contains(table, "<th>tokens/s</th>"));
  CHECK_FALSE(contains(table, "<th>never"));  // no column that has only dashes

  run.best = 3;  // the last epoch is not shown twice
  CHECK_FALSE(contains(run_page(run, some_page()), "last epoch"));
  RunPage trained = some_page();  // without a validation
  trained.columns = {{"train_loss"}, {"never"}, {"lr"}};
  trained.more_results.clear();
  CHECK(contains(run_page(run, trained),
                 "<tr><th></th><th>loss</th></tr>\n<tr><td>best epoch (3), "
                 "training</td><td>0.3333</td></tr>"));
}

TEST_CASE("metrics: their names and formats") {
  CHECK(metric_text("valid_top1").title() == "validation top-1");
  CHECK(metric_text("test_top5").write(.61353) == "61.35%");
  CHECK(metric_text("train_bits_per_byte").title() == "training bits per byte");
  CHECK(metric_text("valid_bleu").write(27.943) == "27.94");
  CHECK(metric_text("valid_ppl").write(NAN) == "-");
  CHECK(metric_text("my_own").title() == "my own");
  for (const char* larger : {"test_top1", "valid_bleu", "valid_words", "valid_pairs"})
    CHECK(metric_text(larger).larger);
  for (const char* smaller : {"test_loss", "valid_ppl", "wrong_bits", "bits_per_sequence", "odd"})
    CHECK_FALSE(metric_text(smaller).larger);
}

TEST_CASE("run record: words in a shell's syntax; the settings of a JSON object") {
  for (const char* plain : {"lm", "--out", "naïve", "x=1,2"}) CHECK(shell_word(plain) == plain);
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("$x") == "'$x'");
  CHECK(settings_of(std::string(R"({"a":1,"b":{"c":"x","d":[1,2]},"e":true})")) ==
        SettingTexts{{"a", "1"}, {"b.c", "x"}, {"b.d", "[1,2]"}, {"e", "true"}});
}

TEST_CASE("run record: the start and each resume are recorded; a finished run stays as it is") {
  TempDir dir;
  Rng rng(1);
  Toy model{nn::Linear(2, 1, rng)};
  datasets::Loader<int> loader(4, [](const datasets::BatchPlan&) { return 1; }, {.batch = 2});
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.1});
  training::Learner learner(model, optimizer);
  training::Loop loop(learner, loader,
                      {.loss =
                           [&](int) {
                             return mean(square(model.layer(ones({1, 2}))));
                           }},
                      {.folder = dir / "run", .best = {"train_loss"}, .terminal = false});
  loop.folder().make();
  CHECK_FALSE(load_run_record(loop.folder()).has_value());
  record_start(loop, "toy", "toy --lr \xff", R"({"lr":0.1})");
  record_start(loop, "toy", "toy --resume x", R"({"lr":0.1})", 3, {{"lr", "--lr"}},
               "toy --resume run");
  REQUIRE(loop.run() == training::Outcome::finished);
  record_start(loop, "toy", "toy --resume y", R"({"lr":0.1})");
  record_tested(loop, {{"test_top1", 0.5}, {"test_loss", std::nan("")}});
  const RunRecord r = *load_run_record(loop.folder());
  CHECK(r.tested == training::Metrics{{"test_top1", 0.5}});
  CHECK(r.program == "toy");
  REQUIRE(r.starts.size() == 2);
  CHECK(r.starts[0].command == "toy --lr \xEF\xBF\xBD");
  CHECK(r.starts[1].command == "toy --resume x");
  CHECK(r.starts[0].ranks == 1);
  CHECK(r.starts[1].ranks == 3);
  CHECK(std::regex_match(r.starts[0].date,
                         std::regex("20\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d UTC")));
  CHECK(r.starts[0].version.find('.') != std::string::npos);
  CHECK(r.starts[0].machine == describe_machine());
  CHECK(r.settings == SettingTexts{{"lr", "0.1"}});
  CHECK(r.best.metric == "train_loss");
  CHECK(r.epochs == 1);
  CHECK(r.weights == 3);  // (1, 2) and (1)
  CHECK(r.flag_of("lr") == "--lr");
  CHECK(r.flag_of("other") == "other");
  CHECK(r.resume == "toy --resume run");
  const RunSummary s = summary_of("t", {}, r, loop);
  CHECK(s.steps.size() == 2);
  CHECK(s.best == 1);
  CHECK(s.name == "run");
  const std::string record = loop.folder().file("run.json");
  test::check_damaged(test::read_file(record), record + ": it cannot be read", 150,
                      [&](const std::string& text) {
                        test::write_file(record, text);
                        load_run_record(loop.folder());
                      });
}

}  // namespace tern::apps::test_pages
