#include "tern/apps/common/run_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/apps/common/chart.h"
#include "tern/apps/common/html.h"
#include "tern/core/io/safetensors.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

double value(const train::EpochRecord& e, const std::string& metric) {
  if (metric == "lr") return e.lr;
  return e.has(metric) ? e[metric] : std::numeric_limits<double>::quiet_NaN();
}

// Whether every epoch says after which step it was closed.
bool by_step(const RunSummary& run) {
  return !run.steps.empty() && std::all_of(run.epochs.begin(), run.epochs.end(),
                                           [](const train::EpochRecord& e) { return e.steps > 0; });
}

Series epoch_series(const RunSummary& run, const MetricLine& line, bool at_steps) {
  Series s{line.name, {}, {}};
  for (const train::EpochRecord& e : run.epochs) {
    const double v = value(e, line.metric) * line.factor;
    if (!std::isfinite(v)) continue;
    s.x.push_back(static_cast<double>(at_steps ? e.steps : e.epoch));
    s.y.push_back(v);
  }
  return s;
}

Series step_series(const RunSummary& run, const std::string& name,
                   double train::StepRecord::*number, double factor = 1) {
  Series s{name, {}, {}};
  for (const train::StepRecord& r : run.steps) {
    s.x.push_back(static_cast<double>(r.step));
    s.y.push_back(r.*number * factor);
  }
  return s;
}

std::string chart(const RunSummary& run, const MetricChart& c, bool at_steps,
                  std::vector<Series> lines = {}) {
  for (const MetricLine& line : c.lines) {
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

}  // namespace

RunSummary summary_of(const std::string& title, const Facts& facts, const RunRecord& record,
                      const train::Loop& loop) {
  return {.title = title,
          .facts = facts,
          .record = record,
          .epochs = loop.history(),
          .steps = loop.step_history(),
          .best = loop.history().empty() ? 0 : loop.best_epoch().epoch};
}

std::string page_head(const RunSummary& run) {
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
    heading = "gone on by";
  }
  return s + "</table>\n";
}

std::string run_charts(const RunSummary& run, const MetricChart& loss,
                       const std::vector<MetricChart>& charts) {
  const bool steps = by_step(run);
  std::string s = "<div class=\"charts\">\n";
  if (steps) {
    const MetricLine& trained = loss.lines.at(0);
    MetricChart others = loss;
    others.lines.erase(others.lines.begin());
    s += chart(run, others, true,
               {step_series(run, trained.name, &train::StepRecord::loss, trained.factor)});
    const ChartOptions options = {.x_label = "step", .whole_x = true, .logs = true};
    ChartOptions rate = options, norm = options;
    rate.title = "Learning rate";
    norm.title = "Norm of the gradient, before clipping";
    s += line_chart({step_series(run, "rate", &train::StepRecord::lr)}, rate) +
         line_chart({step_series(run, "norm", &train::StepRecord::grad_norm)}, norm);
  } else {
    s += chart(run, loss, false) +
         chart(run, {.title = "Learning rate", .lines = {{"rate", "lr"}}}, false);
  }
  for (const MetricChart& c : charts) s += chart(run, c, false);
  return s + "</div>\n";
}

std::string epoch_table(const RunSummary& run, const std::vector<EpochColumn>& columns,
                        const std::string& weight_unit) {
  std::string s =
      "<details><summary>Every epoch</summary>\n<div class=\"scroll\"><table>\n<tr><th>epoch</th>";
  for (const EpochColumn& c : columns) s += fmt::format("<th>{}</th>", escape_html(c.heading));
  s += fmt::format("<th>{}/s</th><th>time</th></tr>\n", escape_html(weight_unit));
  for (const train::EpochRecord& e : run.epochs) {
    s += fmt::format("<tr{}><td>{}</td>", e.epoch == run.best ? " class=\"best\"" : "", e.epoch);
    for (const EpochColumn& c : columns) {
      const double v = value(e, c.metric) * c.factor;
      s += std::isnan(v) ? "<td>-</td>"
                         : fmt::format("<td>{:.{}f}{}</td>", v, c.digits, escape_html(c.unit));
    }
    s += fmt::format("<td>{:.0f}</td><td>{}</td></tr>\n", e.speed, train::clock_time(e.seconds));
  }
  return s + "</table></div>\n</details>\n";
}

std::string save_page(const train::Loop& loop, const std::string& html) {
  const std::string path = loop.folder_to_write().file("report.html");
  write_file_atomically(path, html);
  return path;
}

std::string settings_table(const RunSummary& run) {
  if (run.record.settings.empty()) return "";
  std::string s = "<details><summary>All settings</summary>\n<table class=\"facts settings\">\n";
  for (const auto& [name, text] : run.record.settings)
    s += row(name, fmt::format("<code>{}</code>", escape_html(text)));
  return s + "</table>\n</details>\n";
}

}  // namespace tern::apps
