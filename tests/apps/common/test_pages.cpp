// What all report pages are made of: colours, charts, pictures with scales, what ran.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <regex>

#include "tern/apps/common/attention_view.h"
#include "tern/apps/common/chart.h"
#include "tern/apps/common/color.h"
#include "tern/apps/common/heatmap.h"
#include "tern/apps/common/machine.h"
#include "tern/apps/common/page_style.h"
#include "tern/apps/common/run_page.h"
#include "tern/core/base/error.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::test_pages {
namespace {

using test::contains;
using test::TempDir;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

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
                                      {"never", std::nan("")}},
                          .lr = 0.1,
                          .steps = with_steps ? 4 * e : 0});
  for (int64_t s = 1; with_steps && s <= 12; ++s)
    run.steps.push_back({s, 1, 0.01 * static_cast<double>(s), 3});
  run.best = 2;
  return run;
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
  for (int r = 0; r < 256; r += 15)
    for (int g = 0; g < 256; g += 15)
      for (int b = 0; b < 256; b += 15) {
        const Rgb c = {static_cast<uint8_t>(r), static_cast<uint8_t>(g), static_cast<uint8_t>(b)};
        CHECK(contrast(c, readable_on(c)) >= 4.5);
      }
}

TEST_CASE("pages: text and lines can be told from light and dark paper") {
  for (const Theme* t : {&kLightTheme, &kDarkTheme}) {
    for (const Rgb& text : {t->ink, t->soft, t->good, t->bad, t->link})
      CHECK(contrast(text, t->paper) >= 4.5);
    for (const Rgb& line : t->series) CHECK(contrast(line, t->paper) >= 4.5);
  }
  const std::string style = page_style();
  CHECK(contains(style, "@media (prefers-color-scheme: dark)"));
  CHECK(contains(style, "--paper: #ffffff"));
  CHECK(contains(style, "--paper: #14171b"));
  CHECK(contains(style, "color-scheme: light dark"));
  // No colour but the themes' own.
  const std::string rules = style.substr(style.find("body {"));
  CHECK_FALSE(std::regex_search(rules, std::regex("#[0-9a-f]{3,6}[ ;]")));
}

TEST_CASE("pages: a page is one file that says what wrote it") {
  const std::string page = html_page("a <b>", "x", "tern \"report\"");
  CHECK(contains(page, "<title>a &lt;b&gt;</title>"));
  CHECK(contains(page, "content=\"tern &quot;report&quot;\""));
  CHECK(contains(page, "width=device-width"));
  for (const char* outside : {"<script", "<link", "http", "@import", "url("})
    CHECK_FALSE(contains(page, outside));
}

TEST_CASE("chart: a switch to a logarithmic axis where there is something above zero") {
  const Series s{"loss", {1, 2, 3, 4}, {100, 0, 10, 1}};
  const std::string chart = line_chart({s}, {.title = "Loss (a)", .logs = true});
  CHECK(count(chart, "<svg class=\"plain\"") == 1);
  CHECK(count(chart, "<svg class=\"logarithmic\"") == 1);
  CHECK(count(chart, "type=\"checkbox\"") == 1);
  CHECK(contains(chart, "id=\"logLoss-20-28a-29\"><label for=\"logLoss-20-28a-29\">"));
  // On the logarithmic sheet 0 is left out, and equal factors are equal distances.
  const std::string logs = chart.substr(chart.find("logarithmic"));
  CHECK(count(logs, "<circle") == 3);
  const std::regex at("cy=\"([0-9.]+)\"");
  std::vector<double> y;
  for (std::sregex_iterator it(logs.begin(), logs.end(), at), end; it != end; ++it)
    y.push_back(std::stod((*it)[1]));
  REQUIRE(y.size() == 3);
  CHECK(y[1] - y[0] == doctest::Approx(y[2] - y[1]).epsilon(0.01));
  CHECK(y[0] < y[1]);
  CHECK_FALSE(contains(line_chart({s}, {.title = "t"}), "checkbox"));
  CHECK_FALSE(contains(line_chart({{"n", {1}, {-1}}}, {.logs = true}), "checkbox"));
}

TEST_CASE("chart: ticks of a logarithmic axis cover the range, few and not one") {
  for (double low : {1e-9, 0.02, 0.97, 1.0, 3.0, 7000.0})
    for (double factor : {1.0, 1.01, 1.7, 9.0, 30.0, 1e3, 1e8, 1e20}) {
      CAPTURE(low);
      CAPTURE(factor);
      const std::vector<double> t = log_ticks(low, low * factor);
      CHECK(t.front() > 0);
      CHECK(t.front() <= low * (1 + 1e-9));
      CHECK(t.back() >= low * factor * (1 - 1e-9));
      CHECK(t.size() >= 2);
      CHECK(t.size() <= 11);
      CHECK(std::is_sorted(t.begin(), t.end()));
    }
}

TEST_CASE("chart: of many points the least and the largest of each part are drawn") {
  Series s{"x", {}, {}};
  for (int i = 0; i < 20000; ++i) {
    s.x.push_back(i);
    s.y.push_back(i == 7777 ? 50 : i == 12345 ? -50 : std::sin(i));
  }
  const std::string chart = line_chart({s}, {});
  CHECK(chart.size() < 15000);
  CHECK_FALSE(contains(chart, "<circle"));
  const std::regex point("([0-9.]+),([0-9.]+) ");
  double low = 1e9, high = -1e9;
  for (std::sregex_iterator it(chart.begin(), chart.end(), point), end; it != end; ++it) {
    low = std::min(low, std::stod((*it)[2]));
    high = std::max(high, std::stod((*it)[2]));
  }
  // The spikes, on a sheet from 28 (60) to 240 (-60).
  CHECK(low == doctest::Approx(45.7).epsilon(0.01));
  CHECK(high == doctest::Approx(222.3).epsilon(0.01));
}

TEST_CASE("chart: nothing but zeros stands on the ground") {
  const std::string chart = line_chart({{"x", {1, 2}, {0, 0}}}, {.percent = true});
  CHECK(contains(chart, ">100%</text>"));
  CHECK_FALSE(contains(chart, ">-"));
}

TEST_CASE("chart: a legend for several lines, however many") {
  std::vector<Series> lines;
  for (int i = 0; i < 9; ++i) lines.push_back({fmt::format("run <{}>", i), {1, 2}, {0, 1}});
  const std::string chart = line_chart(lines, {});
  CHECK(contains(chart, "<figcaption class=\"legend\">"));
  CHECK(count(chart, "run &lt;8&gt;</span>") == 1);
  CHECK(count(chart, "stroke-dasharray") == 2 * 3);  // from the seventh on: lines and legend
  CHECK_FALSE(contains(line_chart({lines[0]}, {}), "legend"));
}

TEST_CASE("pages: heatmaps have ticks, and a bar that says what colours mean") {
  const std::string map = html_heatmap(std::vector<float>(17 * 40, 1), 17, 40, 1, 6, "a \"b\"");
  CHECK(contains(map, "aria-label=\"a &quot;b&quot;\""));
  CHECK(count(map, ">0</text>") == 2);
  CHECK(count(map, ">10</text>") == 2);  // the last row is 16, the last column 39
  CHECK(count(map, ">20</text>") == 1);
  CHECK(count(map, ">30</text>") == 1);
  CHECK_FALSE(contains(map, ">40</text>"));
  const Bitmap tall{2, 100, std::vector<uint8_t>(600)};
  CHECK(contains(html_map(tall, 9, "t", 3), "width=\"18\" height=\"300\""));
  CHECK(contains(html_map(tall, 9, "t"), "width=\"18\" height=\"900\""));
  CHECK(count(html_heatmap({1}, 1, 1, 1, 4, "one"), ">0</text>") == 2);
  CHECK_THROWS_AS(html_heatmap({1, 2}, 1, 1, 1, 1, ""), Error);
  const std::string bar = heatmap_bar(0.25);
  for (const char* tick : {">-0.25</text>", ">-0.125</text>", ">0</text>", ">0.25</text>"})
    CHECK(contains(bar, tick));
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
        for (size_t k = 0; k < tokens * tokens; ++k)  // without a pattern that packing could use
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
    const std::string page = html_page("many", attention_page("Attention", sentences));
    CHECK(page.size() < 2'000'000);
    CHECK(page.size() > 1'000'000);  // the room is used
    for (size_t i = 0; i < n; ++i) CHECK(contains(page, fmt::format(">target {}<", i)));
    CHECK(contains(page, "Every head with its tokens"));  // the first has everything
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
  // Texts alone that are too much for a page.
  std::vector<AttentionSentence> texts(3000,
                                       {std::string(900, 's'), std::string(900, 't'), "", {}});
  const std::string page = attention_page("Attention", texts);
  CHECK(page.size() < 1'950'000);
  CHECK(contains(page, " more sentences have no room on this page."));
  // Few ones are as they were.
  CHECK_FALSE(contains(attention_page("few", {sentence(5, 1), sentence(5, 2)}), "To keep"));
}

TEST_CASE("run page: command, version, date, facts and settings, escaped") {
  const std::string head = page_head(some_run(true));
  for (const char* part :
       {"A &lt;title&gt;", "a &amp; b", "<code>lm train --out &#39;&lt;x&gt;&#39;</code>",
        "2026-01-02 03:04:05 UTC, tern 0.1.0", "gone on by", "lm train --resume x"})
    CHECK(contains(head, part));
  const std::string settings = settings_table(some_run(true));
  CHECK(contains(settings, "<td>model.dim</td><td><code>&lt;64&gt;</code></td>"));
  CHECK(settings.starts_with("<details>"));
  CHECK(settings_table(RunSummary{}).empty());
  CHECK(contains(page_head(RunSummary{}), "</table>"));
}

TEST_CASE("run page: the machines are those of the starts, not that which writes the page") {
  RunSummary run = some_run(true);
  run.facts.emplace_back("machine", "a third");
  CHECK(contains(page_head(run), "<td>machine</td><td>a third</td>"));  // records of old
  run.record.starts[0].machine = "the <first>";
  CHECK(contains(page_head(run), "a third"));
  run.record.starts[1].machine = "another";
  const std::string head = page_head(run);
  CHECK_FALSE(contains(head, "a third"));
  CHECK(contains(head, "03:04:05 UTC, tern 0.1.0<br>the &lt;first&gt;</td>"));
  CHECK(contains(head, "00:00:00 UTC, tern 0.2.0<br>another</td>"));
}

TEST_CASE("run page: loss, rate and norm by step; by epoch where the log is of old") {
  const MetricChart loss{.title = "Loss",
                         .lines = {{"train", "train_loss", 2}, {"validation", "valid_loss"}}};
  const std::vector<MetricChart> more = {{.title = "More", .lines = {{"v", "valid_loss"}}},
                                         {.title = "Never", .lines = {{"n", "never"}}},
                                         {.title = "Nothing", .lines = {{"n", "no_such"}}}};
  const std::string steps = run_charts(some_run(true), loss, more);
  for (const char* part : {">Loss</text>", ">Learning rate</text>", ">Norm of the gradient",
                           ">step</text>", "<title>train 1: 2</title>", "<title>rate 12: 0.12<",
                           "<title>validation 8: 2</title>", ">More</text>"})
    CHECK(contains(steps, part));
  CHECK_FALSE(contains(steps, "Never"));
  CHECK_FALSE(contains(steps, "Nothing"));
  const std::string epochs = run_charts(some_run(false), loss, more);
  CHECK(contains(epochs, "<title>train 2: 1</title>"));
  CHECK(contains(epochs, "Learning rate"));
  CHECK_FALSE(contains(epochs, "Norm of the gradient"));
  CHECK_FALSE(contains(epochs, ">step</text>"));
  CHECK(contains(run_charts(RunSummary{}, loss, more), "</div>"));
}

TEST_CASE("run page: the table of epochs is folded, the best one bold") {
  const std::string table = epoch_table(
      some_run(true),
      {{"loss", "train_loss", 2}, {"never", "never"}, {"x", "valid_loss", 0, 50, "%"}}, "tokens");
  CHECK(table.starts_with("<details><summary>Every epoch</summary>"));
  CHECK(contains(table, "<tr class=\"best\"><td>2</td><td>0.50</td><td>-</td><td>100%</td>"));
  CHECK(count(table, "class=\"best\"") == 1);
  CHECK(contains(table, "<th>tokens/s</th>"));
}

TEST_CASE("run record: a command line as a shell takes it") {
  const char* words[] = {"lm", "train", "--out", "a b", "it's", "", "naïve", "$x", "x=1,2"};
  CHECK(command_line(9, words) == "lm train --out 'a b' 'it'\\''s' '' naïve '$x' x=1,2");
  CHECK(settings_of(std::string(R"({"a":1,"b":{"c":"x","d":[1,2]},"e":true})")) ==
        SettingTexts{{"a", "1"}, {"b.c", "x"}, {"b.d", "[1,2]"}, {"e", "true"}});
}

TEST_CASE("run record: the start and each going on are written down, a finished run stays") {
  TempDir dir;
  Rng rng(1);
  Toy model{nn::Linear(2, 1, rng)};
  data::Loader<int> loader(4, [](const data::BatchPlan&) { return 1; }, {.batch = 2});
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.1});
  train::Learner learner(model, optimizer);
  train::Loop loop(learner, loader,
                   {.loss =
                        [&](int) {
                          return mean(square(model.layer(ones({1, 2}))));
                        }},
                   {.folder = dir / "run", .best = {"train_loss"}, .terminal = false});
  loop.folder().make();
  CHECK_FALSE(load_run_record(loop.folder()).has_value());
  record_start(loop, "toy", "toy --lr \xff", R"({"lr":0.1})");
  record_start(loop, "toy", "toy --resume x", R"({"lr":0.1})");
  REQUIRE(loop.run() == train::Outcome::finished);
  record_start(loop, "toy", "toy --resume y", R"({"lr":0.1})");
  const RunRecord r = *load_run_record(loop.folder());
  CHECK(r.program == "toy");
  REQUIRE(r.starts.size() == 2);
  CHECK(r.starts[0].command == "toy --lr \xEF\xBF\xBD");
  CHECK(r.starts[1].command == "toy --resume x");
  CHECK(std::regex_match(r.starts[0].date,
                         std::regex("20\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d UTC")));
  CHECK(r.starts[0].version.find('.') != std::string::npos);
  CHECK(r.starts[0].machine == describe_machine());
  CHECK(r.settings == SettingTexts{{"lr", "0.1"}});
  CHECK(r.best.metric == "train_loss");
  const RunSummary s = summary_of("t", {}, r, loop);
  CHECK(s.steps.size() == 2);
  CHECK(s.best == 1);
}

}  // namespace tern::apps::test_pages
