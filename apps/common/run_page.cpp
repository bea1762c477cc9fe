#include "tern/apps/common/run_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tern/apps/common/chart.h"
#include "tern/apps/common/html.h"
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
    {"loss", "loss"},
    {"ppl", "perplexity", 3},
    {"bits_per_byte", "bits per byte", 3},
    {"bleu", "BLEU", 2, false, true},
    {"masked", "loss of a masked word"},
    {"words", "words right", 1, true, true},
    {"next", "loss of a pair"},
    {"pairs", "pairs right", 1, true, true},
    {"bits_per_sequence", "bits per sequence"},
    {"wrong_bits", "wrong bits", 3},
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

// Whether every epoch says after which step it was closed.
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
  Series s{name, {}, {}};
  for (const training::StepRecord& r : run.steps) {
    s.x.push_back(static_cast<double>(r.step));
    s.y.push_back(r.*number * factor);
  }
  return s;
}

std::string chart(const RunSummary& run, const MetricChart& c, bool at_steps,
                  std::vector<Series> lines = {}) {
  for (const EpochMetric& line : c.lines) {
    Series s = epoch_series(run, line, at_steps);
    if (!s.y.empty()) lines.push_back(std::move(s));
  }
  if (lines.empty()) return "";
  return line_chart(lines, {.title = c.title,
                            .x_label = at_steps ? "step" : "epoch",
                            .whole_x = true,
                            .percent = c.percent,
                            .logs = c.logs});
}

std::string curves(const RunSummary& run, const RunPage& page) {
  std::vector<std::string> charts;
  if (by_step(run)) {
    const EpochMetric& trained = page.loss.lines.at(0);
    MetricChart others = page.loss;
    others.lines.erase(others.lines.begin());
    charts.push_back(chart(
        run, others, true,
        {step_series(run, name_of(trained, true), &training::StepRecord::loss, trained.factor)}));
    ChartOptions options = {
        .title = "Learning rate", .x_label = "step", .whole_x = true, .logs = true};
    charts.push_back(line_chart({step_series(run, "rate", &training::StepRecord::lr)}, options));
    options.title = "Norm of the gradient (before --clip)";
    charts.push_back(
        line_chart({step_series(run, "norm", &training::StepRecord::grad_norm)}, options));
  } else {
    charts.push_back(chart(run, page.loss, false));
    charts.push_back(chart(run, {.title = "Learning rate", .lines = {{"lr", "rate"}}}, false));
  }
  for (const MetricChart& c : page.charts) charts.push_back(chart(run, c, false));
  return chart_grid(charts);
}

// Whether each start says where it was: facts are of the process that writes the page, which may
// be another than those that trained.
bool knows_machines(const RunSummary& run) {
  const std::vector<RunStart>& starts = run.record.starts;
  return !starts.empty() && std::none_of(starts.begin(), starts.end(), [](const RunStart& start) {
    return start.machine.empty();
  });
}

std::string row(const std::string& heading, const std::string& html) {
  return fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_html(heading), html);
}

std::string head(const RunSummary& run) {
  std::string s = fmt::format("<h1>{}</h1>\n<table class=\"facts\">\n", escape_html(run.title));
  for (const auto& [heading, text] : run.facts)
    if (heading != "machine" || !knows_machines(run)) s += row(heading, escape_html(text));
  if (!run.epochs.empty() && !run.epochs.back().ended.empty())
    s += row("ended", escape_html(run.epochs.back().ended));
  const char* heading = "command";
  for (const RunStart& start : run.record.starts) {
    s += row(heading, fmt::format("<code>{}</code><br>{}, tern {}{}{}", escape_html(start.command),
                                  escape_html(start.date), escape_html(start.version),
                                  start.machine.empty() ? "" : "<br>", escape_html(start.machine)));
    heading = "resumed by";
  }
  return s + "</table>\n";
}

// Those that were measured in any epoch.
std::vector<EpochMetric> measured(const RunSummary& run, std::vector<EpochMetric> columns) {
  std::erase_if(columns, [&](const EpochMetric& m) {
    return std::none_of(run.epochs.begin(), run.epochs.end(),
                        [&](const training::EpochRecord& e) { return std::isfinite(value(e, m)); });
  });
  return columns;
}

// The cells of tables of epochs, behind the first.
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
  double seconds = 0;
  for (const training::EpochRecord& e : run.epochs) seconds += e.seconds;
  return html_table(rows, "results") +
         fmt::format("<p>{} {}{} in {}.</p>\n", training::grouped(last.epoch), run.word,
                     last.epoch == 1 ? "" : "s", training::clock_time(seconds));
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
  return "<details><summary>Every " + run.word + "</summary>\n" + html_table(rows) + "</details>\n";
}

// All settings, folded; nothing if none are known.
std::string settings_table(const RunSummary& run) {
  if (run.record.settings.empty()) return "";
  std::string s = "<details><summary>All settings</summary>\n<table class=\"facts settings\">\n";
  for (const auto& [name, text] : run.record.settings)
    s += row(name, fmt::format("<code>{}</code>", escape_html(text)));
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
    if (out.name == k.metric) return {out.set, k.name, k.digits, k.percent, k.larger};
  if (out.name.starts_with("top") && out.name.size() > 3)
    return {out.set, "top-" + out.name.substr(3), 2, true, true};
  std::replace(out.name.begin(), out.name.end(), '_', ' ');
  return out;
}

std::string MetricText::write(double value) const {
  if (std::isnan(value)) return "-";
  return percent ? fmt::format("{:.{}f}%", 100 * value, digits)
                 : fmt::format("{:.{}f}", value, digits);
}

RunSummary summary_of(const std::string& title, const Facts& facts, const RunRecord& record,
                      const training::Loop& loop) {
  return {.title = title,
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
  return html_page(run.title, head(run) + sections_with_contents(all));
}

std::string save_page(const training::Loop& loop, const std::string& html) {
  const std::string path = loop.folder_to_write().file("report.html");
  write_file_atomically(path, html);
  return path;
}

}  // namespace tern::apps
