// Writes a run's page: the main result, tables of epochs and results, charts by epoch or step, and
// a table of contents.
#include "tern/apps/common/pages/run_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "tern/apps/common/pages/chart.h"
#include "tern/apps/common/pages/html.h"
#include "tern/core/io/safetensors.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

struct Known {
  const char *metric, *name;
  int digits = 4;
  bool percent = false, larger = false;
};
constexpr Known kKnown[] = {
    {"bleu", "BLEU", 2, false, true},
    {"bits_per_byte", "bits per byte", 3},
    {"wrong_bits", "wrong bits", 3},
    {"words", "words right", 1, true, true},
    {"pairs", "pairs right", 1, true, true},
    {"ppl", "perplexity", 3},
    {"loss", "loss"},
    {"masked", "loss of a masked word"},
    {"next", "loss of a pair"},
    {"bits_per_sequence", "bits per sequence"},
    {"best_predictor", "bits of the best predictor"},
    {"sequences", "sequences", 0, false, true},
    {"lr", "learning rate", 6},
};
constexpr std::pair<const char*, const char*> kSets[] = {
    {"train_", "training"}, {"valid_", "validation"}, {"test_", "test"}};

double value(const training::EpochRecord& e, const EpochMetric& m) {
  if (m.metric == "lr") return e.lr * m.factor;
  return e.has(m.metric) ? e[m.metric] * m.factor : kNaN;
}

std::string name_of(const EpochMetric& m, bool with_set) {
  if (!m.name.empty()) return m.name;
  const MetricText text = metric_text(m.metric);
  return with_set ? text.title() : text.name;
}

// Whether charts can be drawn by step: every epoch says after which step it ended.
bool by_step(const RunSummary& run) {
  return !run.steps.empty() &&
         std::all_of(run.epochs.begin(), run.epochs.end(),
                     [](const training::EpochRecord& e) { return e.steps > 0; });
}

Series epoch_series(const RunSummary& run, const EpochMetric& line, bool at_steps) {
  Series s{name_of(line, true), {}, {}};
  for (const training::EpochRecord& e : run.epochs) {
    const double v = value(e, line);
    if (!std::isfinite(v)) continue;
    s.x.push_back(static_cast<double>(at_steps ? e.steps : e.epoch));
    s.y.push_back(v);
  }
  return s;
}

Series step_series(const RunSummary& run, const std::string& name,
                   double training::StepRecord::*number, double factor = 1) {
  Series s{name, {}, {}, number != &training::StepRecord::lr};
  for (const training::StepRecord& r : run.steps) {
    s.x.push_back(static_cast<double>(r.step));
    s.y.push_back(r.*number * factor);
  }
  return s;
}

std::string chart(const RunSummary& run, const MetricChart& c, bool at_steps, int height = kCommon,
                  std::vector<Series> lines = {}) {
  for (const EpochMetric& line : c.lines) {
    Series s = epoch_series(run, line, at_steps);
    if (!s.y.empty()) lines.push_back(std::move(s));
  }
  if (lines.empty()) return "";
  return line_chart(lines, {.title = c.title,
                            .x_label = at_steps ? "step" : run.word,
                            .whole_x = true,
                            .percent = c.percent,
                            .logs = c.logs,
                            .height = height});
}

std::string curves(const RunSummary& run, const RunPage& page) {
  std::string loss;
  std::vector<std::string> minor, others;
  if (by_step(run)) {
    const EpochMetric& trained = page.loss.lines.at(0);
    MetricChart at_epochs = page.loss;
    at_epochs.lines.erase(at_epochs.lines.begin());
    loss = chart(
        run, at_epochs, true, kLeading,
        {step_series(run, name_of(trained, true), &training::StepRecord::loss, trained.factor)});
    ChartOptions options = {.title = "Learning rate",
                            .x_label = "step",
                            .whole_x = true,
                            .logs = true,
                            .height = kMinor};
    minor.push_back(line_chart({step_series(run, "rate", &training::StepRecord::lr)}, options));
    options.title = "Norm of the gradient (before --clip)";
    minor.push_back(
        line_chart({step_series(run, "norm", &training::StepRecord::grad_norm)}, options));
  } else {
    loss = chart(run, page.loss, false, kLeading);
    minor.push_back(
        chart(run, {.title = "Learning rate", .lines = {{"lr", "rate"}}}, false, kMinor));
  }
  for (const MetricChart& c : page.charts) others.push_back(chart(run, c, false));
  return leading_charts(loss, minor) + chart_grid(others);
}

// Whether every start names its machine. If so, the machine in the facts is left out: it is that of
// the process that writes the page, which need not have trained.
bool knows_machines(const RunSummary& run) {
  const std::vector<RunStart>& starts = run.record.starts;
  return !starts.empty() && std::none_of(starts.begin(), starts.end(), [](const RunStart& start) {
    return start.machine.empty();
  });
}

std::string row(const std::string& heading, const std::string& html) {
  return fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_html(heading), html);
}

// Readers ask first for model and data, so the other facts are folded.
bool is_folded(const std::string& heading) {
  return heading == "recipe" || heading == "machine" || heading == "ranks";
}

// "59.4% of 96 test images (95 % confidence: 49.4 to 68.7 %)"
std::string answer_text(const RunPage::Answer& answer, double value) {
  const MetricText metric = metric_text(answer.metric);
  const std::string samples =
      answer.samples > 0 ? fmt::format("{} {}", training::grouped(answer.samples), answer.of) : "";
  if (!metric.percent || samples.empty())
    return fmt::format("{} {}{}", samples.empty() ? metric.title() : metric.name,
                       metric.write(value), samples.empty() ? "" : " on " + samples);
  const auto [low, high] = wilson_interval(value, answer.samples);
  const std::string name = metric.name == "top-1" ? "" : metric.name + " ";
  return fmt::format("{}{:.1f} % of {} (95 % confidence: {:.1f} to {:.1f} %)", name, 100 * value,
                     samples, 100 * low, 100 * high);
}

// The run in two lines: the main metric, then epoch, time and speed.
std::string answer(const RunSummary& run, const RunPage& page) {
  const training::EpochRecord* epoch = run.result();
  if (!epoch) return "";
  RunPage::Answer wanted = page.answer;
  double number = kNaN;
  for (const ResultRow& row : page.more_results)
    for (const auto& [metric, v] : row.metrics)
      if (metric == wanted.metric) number = v;
  if (std::isnan(number)) number = value(*epoch, {wanted.metric});
  for (const EpochMetric& column : page.columns)
    if (std::isnan(number) && column.metric != "sequences")
      wanted = {column.metric}, number = value(*epoch, column);
  std::string s;
  if (std::isfinite(number))
    s += fmt::format("<p class=\"answer\">{}</p>\n", escape_html(answer_text(wanted, number)));
  s += fmt::format(
      "<p>{}{} {}{}, {}", run.best > 0 ? "best " : "", run.word, epoch->epoch,
      run.record.epochs > 0 ? fmt::format(" of {}", training::grouped(run.record.epochs)) : "",
      training::clock_time(total_seconds(run.epochs)));
  if (const double speed = median_speed(run.epochs); speed > 0)
    s += fmt::format(", {} {}/s", training::grouped(std::llround(speed)), escape_html(page.unit));
  if (run.record.weights > 0) s += fmt::format(", {} weights", short_count(run.record.weights));
  return s + "</p>\n";
}

std::string head(const RunSummary& run, const RunPage& page) {
  const std::string title = escape_html(run.title);
  std::string s = run.name.empty()
                      ? fmt::format("<h1>{}</h1>\n", title)
                      : fmt::format("<h1>{}</h1>\n<p>{}</p>\n", escape_html(run.name), title);
  s += answer(run, page);
  s += fmt::format("<p class=\"state\">{}</p>\n", state_of_run(run.epochs, run.record, run.word));
  std::string shown, folded;
  bool fold = false;
  for (const auto& [heading, text] : run.facts) {
    if (!heading.empty()) fold = is_folded(heading);  // no heading: continues the fact above
    if (heading != "machine" || !knows_machines(run))
      (fold ? folded : shown) += row(heading, escape_html(text));
  }
  const char* heading = "command";
  for (const RunStart& start : run.record.starts) {
    folded +=
        row(heading, fmt::format("<code>{}</code><br>{}, tern {}{}{}", escape_html(start.command),
                                 escape_html(start.date), escape_html(start.version),
                                 start.machine.empty() ? "" : "<br>", escape_html(start.machine)));
    heading = "resumed by";
  }
  s += "<table class=\"facts\">\n" + shown + "</table>\n";
  return s + "<details><summary>Recipe, command, machine</summary>\n<table class=\"facts\">\n" +
         folded + "</table>\n</details>\n";
}

// The columns that were measured in any epoch.
std::vector<EpochMetric> measured(const RunSummary& run, std::vector<EpochMetric> columns) {
  std::erase_if(columns, [&](const EpochMetric& m) {
    return std::none_of(run.epochs.begin(), run.epochs.end(),
                        [&](const training::EpochRecord& e) { return std::isfinite(value(e, m)); });
  });
  return columns;
}

// A row of a table of epochs: the first cell, then one cell per metric.
std::vector<std::string> headings(const char* first, const std::vector<EpochMetric>& columns,
                                  bool with_set) {
  std::vector<std::string> out = {first};
  for (const EpochMetric& m : columns) out.push_back(name_of(m, with_set));
  return out;
}
std::vector<std::string> numbers(const std::string& first, const std::vector<EpochMetric>& columns,
                                 const training::EpochRecord& e) {
  std::vector<std::string> out = {first};
  for (const EpochMetric& m : columns) out.push_back(metric_text(m.metric).write(value(e, m)));
  return out;
}

bool is_training(const EpochMetric& m) { return m.metric.starts_with("train_"); }

std::string results(const RunSummary& run, const RunPage& page) {
  if (run.epochs.empty()) return "";
  std::vector<EpochMetric> columns = measured(run, page.columns);
  std::erase_if(columns, [](const EpochMetric& m) { return m.metric == "lr"; });
  const bool trained = std::all_of(columns.begin(), columns.end(), is_training);
  if (!trained) std::erase_if(columns, is_training);
  std::string rows = html_row(headings("", columns, false), "th");
  auto add = [&](const std::string& name, const training::EpochRecord& e) {
    rows += html_row(numbers(name, columns, e));
  };
  const std::string on = ", " + (trained ? "training" : page.measured_on);
  const training::EpochRecord& last = run.epochs.back();
  if (run.best != last.epoch) add("last " + run.word + on, last);
  for (const training::EpochRecord& e : run.epochs)
    if (e.epoch == run.best) add(fmt::format("best {} ({}){}", run.word, e.epoch, on), e);
  for (const ResultRow& more : page.more_results) add(more.name, {.metrics = more.metrics});
  return html_table(rows, "results") +
         fmt::format("<p>{} {}{} in {}.</p>\n", training::grouped(last.epoch), run.word,
                     last.epoch == 1 ? "" : "s", training::clock_time(total_seconds(run.epochs)));
}

// Every epoch, folded; the best one in bold.
std::string epoch_table(const RunSummary& run, const RunPage& page) {
  const std::vector<EpochMetric> columns = measured(run, page.columns);
  std::vector<std::string> heading = headings(run.word.c_str(), columns, true);
  heading.insert(heading.end(), {page.unit + "/s", "time"});
  std::string rows = html_row(heading, "th");
  for (const training::EpochRecord& e : run.epochs) {
    std::vector<std::string> cells = numbers(fmt::format("{}", e.epoch), columns, e);
    cells.insert(cells.end(), {fmt::format("{:.0f}", e.speed), training::clock_time(e.seconds)});
    rows += html_row(cells, "td", e.epoch == run.best ? "best" : "");
  }
  return "<details><summary>Every " + run.word + "</summary>\n" + html_table(rows, "sortable") +
         "</details>\n";
}

// All settings, folded; nothing if none are known.
std::string settings_table(const RunSummary& run) {
  if (run.record.settings.empty()) return "";
  std::string s = "<details><summary>All settings</summary>\n<table class=\"facts settings\">\n";
  for (const auto& [name, text] : run.record.settings)
    s += row(run.record.flag_of(name), fmt::format("<code>{}</code>", escape_html(text)));
  return s + "</table>\n</details>\n";
}

// "Other lengths" as "other-lengths".
std::string anchor(const std::string& title) {
  std::string id;
  for (const char c : title) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool capital = c >= 'A' && c <= 'Z';
    id += plain ? c : capital ? static_cast<char>(c - 'A' + 'a') : '-';
  }
  return id;
}

}  // namespace

MetricText metric_text(const std::string& metric) {
  MetricText out;
  out.name = metric;
  for (const auto& [prefix, set] : kSets)
    if (metric.starts_with(prefix)) {
      out.set = set;
      out.name = metric.substr(std::string(prefix).size());
    }
  for (const Known& k : kKnown)
    if (out.name == k.metric)
      return {out.set, k.name, k.digits, k.percent, k.larger, static_cast<int>(&k - kKnown) + 1};
  if (out.name.starts_with("top") && out.name.size() > 3)
    return {out.set, "top-" + out.name.substr(3), 2, true, true};
  out.rank = std::size(kKnown) + 1;
  std::replace(out.name.begin(), out.name.end(), '_', ' ');
  return out;
}

std::string MetricText::write(double value) const {
  if (std::isnan(value)) return "-";
  return percent ? fmt::format("{:.{}f}%", 100 * value, digits)
                 : fmt::format("{:.{}f}", value, digits);
}

const training::EpochRecord* RunSummary::result() const {
  for (const training::EpochRecord& e : epochs)
    if (e.epoch == best) return &e;
  return epochs.empty() ? nullptr : &epochs.back();
}

std::string folder_name(const std::string& path) {
  if (path.empty()) return "";
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

std::string short_count(int64_t n) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  const auto number = static_cast<double>(n);
  for (const auto& [unit, letter] : kUnits)
    if (number >= unit) return fmt::format("{:.3g}{}", number / unit, letter);
  return fmt::format("{}", n);
}

double total_seconds(const std::vector<training::EpochRecord>& epochs) {
  double seconds = 0;
  for (const training::EpochRecord& e : epochs) seconds += e.seconds;
  return seconds;
}

double median_speed(const std::vector<training::EpochRecord>& epochs) {
  std::vector<double> speeds;
  for (const training::EpochRecord& e : epochs)
    if (std::isfinite(e.speed)) speeds.push_back(e.speed);
  if (speeds.empty()) return 0;
  const auto middle = speeds.begin() + std::ssize(speeds) / 2;
  std::nth_element(speeds.begin(), middle, speeds.end());
  return *middle;
}

std::pair<double, double> wilson_interval(double share, int64_t samples) {
  constexpr double z = 1.959964;  // 95 % of a normal distribution lie within z deviations
  const auto n = static_cast<double>(samples);
  const double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half =
      z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

std::string state_of_run(const std::vector<training::EpochRecord>& epochs, const RunRecord& record,
                         const std::string& word) {
  const int64_t done = epochs.empty() ? 0 : epochs.back().epoch;
  const std::string& ended = epochs.empty() ? "" : epochs.back().ended;
  if (!ended.empty())
    return fmt::format("Ended early, after {} {}{}: {}.", word, done,
                       record.epochs > 0 ? fmt::format(" of {}", record.epochs) : "",
                       escape_html(ended));
  if (record.epochs == 0) return "";  // a record of an earlier version
  if (done >= record.epochs)
    return fmt::format("Finished: {} of {} {}s.", done, record.epochs, word);
  return fmt::format("Not finished: {} of {} {}s are done.{}", done, record.epochs, word,
                     record.resume.empty()
                         ? ""
                         : fmt::format(" To resume: <code>{}</code>", escape_html(record.resume)));
}

RunSummary summary_of(const std::string& title, const Facts& facts, const RunRecord& record,
                      const training::Loop& loop) {
  return {.title = title,
          .name = folder_name(loop.folder().path),
          .facts = facts,
          .record = record,
          .epochs = loop.history(),
          .steps = loop.step_history(),
          .best = loop.history().empty() ? 0 : loop.best_epoch().epoch,
          .word = loop.epoch_word()};
}

std::string sections_with_contents(const std::vector<Section>& sections) {
  std::string links, s;
  for (const Section& one : sections) {
    if (one.html.empty()) continue;
    const std::string title = escape_html(one.title), id = anchor(one.title);
    links += fmt::format("<a href=\"#{}\">{}</a>\n", id, title);
    s += fmt::format("<h2 id=\"{}\">{}</h2>\n{}", id, title, one.html);
  }
  return fmt::format("<nav>\n{}</nav>\n{}", links, s);
}

std::string run_page(const RunSummary& run, const RunPage& page) {
  std::vector<Section> all = {{"Results", results(run, page)}, {"Training", curves(run, page)}};
  all.insert(all.end(), page.sections.begin(), page.sections.end());
  all.push_back({"Numbers", epoch_table(run, page) + settings_table(run)});
  return html_page(run.name.empty() ? run.title : run.name + ": " + run.title,
                   head(run, page) + sections_with_contents(all));
}

std::string save_page(const training::Loop& loop, const std::string& html) {
  const std::string name = "report.html";
  loop.write(
      [&](const training::RunFolder& here) { write_file_atomically(here.file(name), html); });
  return loop.folder().file(name);
}

void end_run(const training::Loop& loop, const Ending& end) {
  const std::string weights = loop.folder().weights();
  const training::EpochRecord& best = loop.best_epoch();
  const std::string path = save_page(loop, end.page);
  for (const std::string& sample : end.samples) training::say("\n" + sample, loop.output());
  training::say("", loop.output());
  if (std::isnan(best["valid_loss"]))
    training::say(fmt::format("weights of {} {}: {}", loop.epoch_word(), best.epoch, weights));
  else
    training::say(
        fmt::format("best {} {}: {}, {}", loop.epoch_word(), best.epoch, end.scores, weights));
  training::say(fmt::format("report{}: {}", end.attention ? " with attention" : "", path),
                loop.output());
}

}  // namespace tern::apps
