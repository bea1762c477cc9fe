// Charts of pages: sheets, ticks, points beyond a sheet, legends, charts beside each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "tern/apps/common/pages/chart.h"
#include "tern/apps/common/pages/html.h"
#include "tern/core/base/error.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::test_chart {
namespace {

using test::contains, test::count;

// The heights of a chart's points.
std::vector<double> heights(const std::string& chart) {
  static const std::regex kPoint("[0-9.]+,([-0-9.]+) ");
  std::vector<double> out;
  for (std::sregex_iterator it(chart.begin(), chart.end(), kPoint), end; it != end; ++it)
    out.push_back(std::stod((*it)[1]));
  return out;
}

}  // namespace

TEST_CASE("chart: a switch to a logarithmic axis if any value is above zero") {
  const Series s{"loss", {1, 2, 3, 4}, {100, 0, 10, 1}};
  const std::string chart = line_chart({s}, {.title = "Loss (a)", .logs = true});
  CHECK(count(chart, "<svg class=\"plain\"") == 1);
  CHECK(count(chart, "<svg class=\"logarithmic\"") == 1);
  CHECK(count(chart, "type=\"checkbox\"") == 1);
  CHECK(contains(chart, "<label class=\"switch\"><input type=\"checkbox\">log scale</label>"));
  CHECK(contains(page_style(), ".chart:has(:checked) .plain { display: none; }"));
  CHECK(contains(page_style(), ".chart:has(:checked) .logarithmic { display: block; }"));
  // The logarithmic sheet leaves out 0, and equal factors are equal distances.
  const std::string logs = chart.substr(chart.find("logarithmic"));
  CHECK(count(logs, "<circle") == 3);
  const std::regex at("cy=\"([0-9.]+)%\"");
  std::vector<double> y;
  for (std::sregex_iterator it(logs.begin(), logs.end(), at), end; it != end; ++it)
    y.push_back(std::stod((*it)[1]));
  REQUIRE(y.size() == 3);
  CHECK(y[1] - y[0] == doctest::Approx(y[2] - y[1]).epsilon(0.01));
  CHECK(y[0] < y[1]);
  CHECK_FALSE(contains(line_chart({s}, {.title = "t"}), "checkbox"));
  CHECK_FALSE(contains(line_chart({{"n", {1}, {-1}}}, {.logs = true}), "checkbox"));
}

TEST_CASE("chart: ticks of a logarithmic axis cover the range; there are few, but more than one") {
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

TEST_CASE("chart: of many points, the smallest and the largest of each part are drawn") {
  Series s{"x", {}, {}};
  for (int i = 0; i < 20000; ++i) {
    s.x.push_back(i);
    s.y.push_back(i == 7777 ? 5 : i == 12345 ? -5 : std::sin(i));
  }
  const std::string chart = line_chart({s}, {});
  CHECK(chart.size() < 24000);  // 600 points, each with its place and its text
  CHECK_FALSE(contains(chart, "<circle"));
  CHECK_FALSE(contains(chart, "beyond"));
  const std::vector<double> y = heights(chart);
  // The peaks: 0 on the sheet is 6, 1000 is -6.
  CHECK(*std::min_element(y.begin(), y.end()) == doctest::Approx(1000. / 12).epsilon(0.01));
  CHECK(*std::max_element(y.begin(), y.end()) == doctest::Approx(11000. / 12).epsilon(0.01));
}

TEST_CASE("chart: a spike does not flatten the rest; it is marked and named") {
  Series s{"norm <x>", {}, {}};
  for (int i = 0; i < 200; ++i) {
    s.x.push_back(i);
    s.y.push_back(i == 50 ? 6000 : i == 60 ? -700 : 1 + .1 * std::sin(i));
  }
  const std::string chart = line_chart({s}, {.title = "Norm", .logs = true});
  const std::string plain = chart.substr(0, chart.find("<svg class=\"logarithmic"));
  CHECK(contains(plain, ">2 points beyond: down to -700 up to 6000</text>"));
  CHECK(contains(plain, " 50:6000 "));
  CHECK(contains(plain, " 60:-700 "));
  CHECK(count(plain, "<path class=\"c0\" ") == 2);
  std::vector<double> y = heights(plain);
  for (const double v : y) CHECK((v >= 0 && v <= 1000));  // on the sheet, which goes from .8 to 1.2
  std::sort(y.begin(), y.end());
  CHECK(y[y.size() - 2] - y[1] > 425);  // waves of .2 on a sheet of .4, which is 1000 high
  // The logarithmic sheet shows the spike.
  CHECK_FALSE(contains(chart.substr(plain.size()), "beyond"));
  // A fall from a high start is no spike, and neither is the largest of a few points.
  Series fall{"loss", {}, {}};
  for (int i = 1; i <= 200; ++i) fall.x.push_back(i), fall.y.push_back(i < 20 ? 600 / i : 1);
  CHECK_FALSE(contains(line_chart({fall}, {}), "beyond"));
  CHECK_FALSE(contains(line_chart({{"few", {1, 2, 3, 4}, {1, 900, 1, 1}}}, {}), "beyond"));
}

// The heights of a class's polyline, from left to right.
std::vector<double> line_of(const std::string& chart, const std::string& kind) {
  const size_t at = chart.find("<polyline class=\"" + kind + "\"");
  REQUIRE(at != chart.npos);
  return heights(chart.substr(at, chart.find("/>", at) - at));
}

TEST_CASE("chart: a smooth line is the mean of its neighbours, beside the points") {
  constexpr int kPoints = 80;  // 5 % are then two neighbours on each side
  Series s{"loss", {}, {}, true};
  for (int i = 0; i < kPoints; ++i) s.x.push_back(i), s.y.push_back(i * 37 % 101);
  s.y[3] = 0, s.y[4] = 100;  // the ends of the sheet
  const std::string chart = line_chart({s}, {});
  const std::vector<double> raw = line_of(chart, "c0 raw"), smooth = line_of(chart, "c0");
  REQUIRE(raw.size() == kPoints);
  REQUIRE(smooth.size() == kPoints);
  for (int i = 0; i < kPoints; ++i) {
    const auto at = static_cast<size_t>(i);
    double sum = 0;
    int count = 0;
    for (int k = i - 2; k <= i + 2; ++k)
      if (k >= 0 && k < kPoints) sum += s.y[static_cast<size_t>(k)], ++count;
    CHECK(raw[at] == doctest::Approx(10 * (100 - s.y[at])).epsilon(0.001));
    CHECK(smooth[at] == doctest::Approx(10 * (100 - sum / count)).epsilon(0.001));
  }
  CHECK(contains(chart, "pale: as logged; strong: mean over 5 % of the points"));
  s.smooth = false;
  CHECK_FALSE(contains(line_chart({s}, {}), "raw"));
  CHECK_FALSE(contains(line_chart({{"few", {1, 2, 3}, {1, 2, 1}, true}}, {}), "raw"));
}

TEST_CASE("chart: text has the same size at all widths, and ticks have room around the sheet") {
  const std::string chart = line_chart({{"x", {0, 6000}, {1, 2}}}, {.title = "Long <title>"});
  // Only the lines are in a box that stretches, and they keep their width.
  CHECK(contains(chart, "<svg class=\"plain\" height=\"212\""));
  CHECK(count(chart, "viewBox") == 1);
  CHECK(contains(chart, "preserveAspectRatio=\"none\"><polyline"));
  CHECK(contains(chart, "<b>Long &lt;title&gt;</b>"));
  CHECK(contains(chart, "<text x=\"100.00%\" y=\"100%\" dy=\"16\" text-anchor=\"middle\">6000<"));
  const std::string style = page_style();
  CHECK(contains(style, "vector-effect: non-scaling-stroke"));
  // Half of the widest label, six letters of 12 pixels, is 22 pixels wide.
  CHECK(contains(style, ".chart > svg { width: calc(100% - 90px); margin: 8px 24px 42px 66px; }"));
  CHECK(contains(style, ".chart > svg, .chart > svg svg { overflow: visible; }"));
}

TEST_CASE("chart: a low sheet has fewer labels; a range without a whole number has other ticks") {
  const Series s{"x", {0.01, 0.99}, {1e-3, 1e4}};
  auto labels = [&](int height, bool logs) {
    const std::string chart = line_chart({s}, {.whole_x = true, .logs = logs, .height = height});
    return count(chart.substr(logs ? chart.find("logarithmic") : 0), "text-anchor=\"end\"");
  };
  CHECK(labels(kMinor, true) <= kMinor / 18);
  CHECK(labels(kLeading, true) > kMinor / 18);
  CHECK(contains(line_chart({s}, {.whole_x = true}), ">0.2</text>"));
}

TEST_CASE("chart: the leading chart of a page, with others beside it") {
  const std::string both = leading_charts("<figure>a", {"", "<figure>b", "<figure>c"});
  CHECK(both == "<div class=\"leading\">\n<figure>a<figure>b<figure>c</div>\n");
  CHECK(contains(leading_charts("", {"<figure>b"}), "class=\"charts\""));
  CHECK(leading_charts("", {}).empty());
}

TEST_CASE("chart: points beyond the sheet are named after the axis label, not over it") {
  Series s{"norm", {}, {}};
  for (int i = 0; i < 200; ++i) s.x.push_back(i), s.y.push_back(i == 50 ? 6000 : 1 + i % 2);
  const std::string chart = line_chart({s}, {.x_label = "step"});
  CHECK(contains(chart, ">step; 1 point beyond: up to 6000</text>"));
}

TEST_CASE("chart: a percentage at a tick is on the sheet, and no tick is above 100 %") {
  // The tick 12 * .05 exceeds .6 by a rounding.
  const std::string chart = line_chart({{"top-1", {1, 2, 3}, {.6, .7, .77}}}, {.percent = true});
  CHECK_FALSE(contains(chart, "beyond"));
  CHECK(contains(chart, ">60%</text>"));
  for (const double constant : {0., 1.}) {
    const std::string line =
        line_chart({{"top-1", {1, 2}, {constant, constant}}}, {.percent = true});
    CHECK(contains(line, ">100%</text>"));
    CHECK(contains(line, ">0%</text>"));
    CHECK_FALSE(contains(line, ">120%</text>"));
    CHECK_FALSE(contains(line, ">150%</text>"));
  }
}

TEST_CASE("chart: a constant, or one point, has few ticks with short labels") {
  for (const double v : {1e-4, 3e-4, 5e-7, 7.0, 250000.0, -2.0}) {
    CAPTURE(v);
    const std::string chart = line_chart({{"rate", {1, 2, 3}, {v, v, v * (1 + 1e-9)}}}, {});
    const std::regex tick("text-anchor=\"end\">([^<]*)</text>");
    size_t ticks = 0;
    for (std::sregex_iterator it(chart.begin(), chart.end(), tick), end; it != end; ++it, ++ticks)
      CHECK((*it)[1].length() <= 7);
    CHECK(ticks >= 3);
    CHECK(ticks <= 8);
    CHECK(contains(chart, ">0</text>"));  // so that a constant does not look like a change
  }
  CHECK(contains(line_chart({{"rate", {1, 2}, {2e-5, 2e-5}}}, {}), ">2e-5</text>"));
  const std::string one = line_chart({{"loss", {1}, {.5}}}, {.whole_x = true});
  const std::regex across("text-anchor=\"middle\">([^<]+)</text>");
  std::vector<std::string> ticks;
  for (std::sregex_iterator it(one.begin(), one.end(), across), end; it != end; ++it)
    ticks.push_back((*it)[1]);
  CHECK(ticks == std::vector<std::string>{"1"});
}

TEST_CASE("chart: one sheet per axis, and buttons that choose one") {
  const Series a{"a", {1, 2}, {3, 4}}, b{"a", {10, 20}, {3, 4}}, c{"a", {.5, 1}, {3, 4}};
  const std::string chart =
      axes_chart({{"epoch", true, {a}}, {"minutes", false, {c}}, {"step", true, {b}}},
                 {.title = "t", .logs = true});
  for (const char* sheet : {"plain axis0", "logarithmic axis0", "plain axis2", "logarithmic axis1"})
    CHECK(count(chart, fmt::format("<svg class=\"{}\"", sheet)) == 1);
  CHECK(contains(chart.substr(chart.find("plain axis1")), ">0.5</text>"));
  CHECK(count(chart, ">minutes</text>") == 2);
  CHECK_FALSE(contains(line_chart({a}, {}), "axis0"));
  const std::string choice = axis_choice({"epochs", "<time>", "steps"});
  CHECK(count(choice, "type=\"radio\"") == 3);
  CHECK(count(choice, " checked>") == 1);
  CHECK(contains(choice, "<label for=\"axis1\">&lt;time&gt;</label>"));
  CHECK(contains(page_style(), "#axis1:checked ~ * :is(.axis0, .axis2)"));
  CHECK_THROWS_AS(axis_choice({"one"}), Error);
  // In the first epoch the axis of epochs has no points yet.
  const std::string early = axes_chart(
      {{"epoch", true, {{"a", {}, {}}, {"b", {}, {}}}}, {"step", true, {a, b}}}, {.logs = true});
  CHECK(contains(early, "log scale"));
}

TEST_CASE("chart: no chart is the only one in the last row") {
  const std::regex rule("--columns([2-4]):([1-4]);--first[2-4]:([12]);");
  for (size_t n = 1; n <= 30; ++n) {
    const std::string grid = chart_grid(std::vector<std::string>(n, "<figure/>"));
    CHECK(count(grid, "<figure/>") == n);
    size_t rooms = 0;
    for (std::sregex_iterator it(grid.begin(), grid.end(), rule), end; it != end; ++it, ++rooms) {
      const size_t room = std::stoul((*it)[1]), columns = std::stoul((*it)[2]),
                   first = std::stoul((*it)[3]);
      CHECK(columns <= room);
      CHECK(first <= columns);
      if (n > 1) CHECK((columns > 1 && (n + first - 1) % columns != 1));
      if (n >= 12 && n <= 13) CHECK(columns >= (n == 12 ? room : 2));
    }
    CHECK(rooms == 3);
  }
  CHECK(chart_grid({}).empty());
  CHECK(count(chart_grid({"", "<figure/>", ""}), "<figure/>") == 1);
}

TEST_CASE("chart: a line of zeros is at the bottom") {
  const std::string chart = line_chart({{"x", {1, 2}, {0, 0}}}, {.percent = true});
  CHECK(contains(chart, ">100%</text>"));
  CHECK_FALSE(contains(chart, ">-"));
}

TEST_CASE("chart: two or more lines have a legend") {
  std::vector<Series> lines;
  for (int i = 0; i < 9; ++i) lines.push_back({fmt::format("run <{}>", i), {1, 2}, {0, 1}});
  const std::string chart = line_chart(lines, {});
  CHECK(contains(chart, "<figcaption class=\"legend\">"));
  CHECK(count(chart, "run &lt;8&gt;</span>") == 1);
  CHECK(count(chart, "stroke-dasharray") == 2 * 3);  // from the seventh on, in lines and legend
  CHECK_FALSE(contains(line_chart({lines[0]}, {}), "legend"));
}

}  // namespace tern::apps::test_chart
