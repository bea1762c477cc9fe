#include "tern/apps/tern/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "tern/apps/common/chart.h"
#include "tern/apps/common/html.h"
#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"
#include "tern/train/progress.h"

namespace tern::apps::program {
namespace {

constexpr const char* kGenerator = "tern report";

using Numbers = std::function<Series(const Run&)>;

// A chart of those runs that have the numbers; nothing unless they can be compared.
std::string chart(const std::vector<Run>& runs, const ChartOptions& options,
                  const Numbers& numbers) {
  std::vector<Series> lines;
  size_t filled = 0;
  for (const Run& run : runs) {  // all of them, so that each has the same colour everywhere
    lines.push_back(numbers(run));
    lines.back().name = run.name;
    filled += std::any_of(lines.back().y.begin(), lines.back().y.end(),
                          [](double y) { return std::isfinite(y); });
  }
  return filled < std::min<size_t>(runs.size(), 2) ? "" : line_chart(lines, options);
}

std::string step_chart(const std::vector<Run>& runs, const std::string& title,
                       double train::StepRecord::*number) {
  return chart(runs, {.title = title, .x_label = "step", .whole_x = true, .logs = true},
               [=](const Run& run) {
                 Series s;
                 for (const train::StepRecord& r : run.log.steps) {
                   s.x.push_back(static_cast<double>(r.step));
                   s.y.push_back(r.*number);
                 }
                 return s;
               });
}

std::string epoch_chart(const std::vector<Run>& runs, const std::string& metric) {
  return chart(runs, {.title = metric, .x_label = "epoch", .whole_x = true, .logs = true},
               [&](const Run& run) {
                 Series s;
                 for (const train::EpochRecord& e : run.log.epochs) {
                   s.x.push_back(static_cast<double>(e.epoch));
                   s.y.push_back(e.has(metric) ? e[metric] : NAN);
                 }
                 return s;
               });
}

// The metrics of all runs: those of validation and test first.
std::vector<std::string> metrics_of(const std::vector<Run>& runs) {
  std::set<std::string> names;
  for (const Run& run : runs)
    for (const train::EpochRecord& e : run.log.epochs)
      for (const auto& metric : e.metrics) names.insert(metric.first);
  std::vector<std::string> out(names.begin(), names.end());
  std::stable_partition(out.begin(), out.end(),
                        [](const std::string& name) { return !name.starts_with("train_"); });
  return out;
}

std::string curves(const std::vector<Run>& runs) {
  std::string s = step_chart(runs, "Loss in training", &train::StepRecord::loss) +
                  step_chart(runs, "Learning rate", &train::StepRecord::lr) +
                  step_chart(runs, "Norm of the gradient", &train::StepRecord::grad_norm);
  for (const std::string& metric : metrics_of(runs)) s += epoch_chart(runs, metric);
  if (s.empty()) return "<p>There is nothing yet that at least two of them have measured.</p>\n";
  return "<div class=\"charts\">\n" + s + "</div>\n";
}

std::string headings(const std::vector<Run>& runs) {
  std::string s = "<tr><th></th>";
  for (const Run& run : runs) s += fmt::format("<th>{}</th>", escape_html(run.name));
  return s + "</tr>\n";
}

// A row of the table, a cell a run.
std::string row(const std::vector<Run>& runs, const std::string& heading,
                const std::function<std::string(const Run&)>& text) {
  std::string s = fmt::format("<tr><td>{}</td>", escape_html(heading));
  for (const Run& run : runs) s += fmt::format("<td>{}</td>", escape_html(text(run)));
  return s + "</tr>\n";
}

std::string table(const std::string& rows, const char* kind) {
  return fmt::format("<div class=\"scroll\"><table class=\"{}\">\n{}</table></div>\n", kind, rows);
}

std::string folded(const char* summary, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", summary, html);
}

std::string what_they_are(const std::vector<Run>& runs) {
  const auto first = [](const Run& run, std::string RunStart::*text) {
    const std::vector<RunStart>& starts = run.record.starts;
    return starts.empty() || (starts[0].*text).empty() ? std::string("-") : starts[0].*text;
  };
  std::string s = headings(runs);
  s += row(runs, "program", [](const Run& r) {
    return r.record.program.empty() ? std::string("-") : r.record.program;
  });
  s += row(runs, "folder", [](const Run& r) { return r.path; });
  s += row(runs, "command", [&](const Run& r) { return first(r, &RunStart::command); });
  s += row(runs, "date", [&](const Run& r) { return first(r, &RunStart::date); });
  s += row(runs, "tern", [&](const Run& r) { return first(r, &RunStart::version); });
  s += row(runs, "machine", [&](const Run& r) { return first(r, &RunStart::machine); });
  return table(s, "facts");
}

std::string number(const train::EpochRecord* e, const std::string& metric) {
  const double v = e && e->has(metric) ? (*e)[metric] : NAN;
  return std::isnan(v) ? "-" : fmt::format("{:.5g}", v);
}

std::string scores(const std::vector<Run>& runs) {
  const auto last = [](const Run& r) {
    return r.log.epochs.empty() ? nullptr : &r.log.epochs.back();
  };
  const auto count = [](int64_t n) { return n > 0 ? train::grouped(n) : std::string("-"); };
  std::string s = headings(runs);
  s += row(runs, "epochs", [&](const Run& r) { return last(r) ? count(last(r)->epoch) : "0"; });
  s += row(runs, "steps", [&](const Run& r) {
    return count(
        std::max(last(r) ? last(r)->steps : 0, r.log.steps.empty() ? 0 : r.log.steps.back().step));
  });
  s += row(runs, "time of the epochs", [](const Run& r) {
    double seconds = 0;
    for (const train::EpochRecord& e : r.log.epochs) seconds += e.seconds;
    return train::clock_time(seconds);
  });
  s += row(runs, "best epoch", [](const Run& r) {
    const train::EpochRecord* best = r.best_epoch();
    if (!best) return std::string("-");
    const std::string& metric = r.record.best.metric;
    return fmt::format("{}{}", best->epoch, metric.empty() ? "" : " by " + metric);
  });
  std::string others = headings(runs);
  bool any = false;
  for (const std::string& metric : metrics_of(runs)) {
    const auto measured = [&](const Run& r) { return last(r) && last(r)->has(metric); };
    const bool one = runs.size() > 1 && std::count_if(runs.begin(), runs.end(), measured) < 2;
    any = any || one;
    std::string& rows = one ? others : s;
    rows += row(runs, metric + ", best epoch",
                [&](const Run& r) { return number(r.best_epoch(), metric); });
    rows +=
        row(runs, metric + ", last epoch", [&](const Run& r) { return number(last(r), metric); });
  }
  s = table(s, "scores");
  return any ? s + folded("What only one of them has measured", table(others, "scores")) : s;
}

// Those that are not the same in all runs.
std::string settings(const std::vector<Run>& runs) {
  std::map<std::string, std::vector<std::string>> values;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& [name, text] : runs[i].record.settings)
      values.try_emplace(name, runs.size(), "-").first->second[i] = text;
  std::string s, others;
  for (const auto& entry : values) {  // clang 14 captures no structured binding
    const std::string& name = entry.first;
    const std::vector<std::string>& texts = entry.second;
    const bool same = std::all_of(texts.begin(), texts.end(),
                                  [&](const std::string& t) { return t == texts.front(); });
    if (same && runs.size() > 1) continue;
    const bool all = std::none_of(runs.begin(), runs.end(), [&](const Run& r) {
      return std::none_of(r.record.settings.begin(), r.record.settings.end(),
                          [&](const auto& setting) { return setting.first == name; });
    });
    std::string& rows = all ? s : others;
    rows += fmt::format("<tr><td>{}</td>", escape_html(name));
    for (const std::string& text : texts)
      rows += fmt::format("<td><code>{}</code></td>", escape_html(text));
    rows += "</tr>\n";
  }
  if (values.empty()) return "<p>The folders do not say: they are of an earlier version.</p>\n";
  s = s.empty() ? "<p>None that all of them have.</p>\n"
                : table(headings(runs) + s, "facts settings");
  if (others.empty()) return s;
  return s + folded("SettingTexts that not all of them have",
                    table(headings(runs) + others, "facts settings"));
}

}  // namespace

std::string comparison_page(const std::vector<Run>& runs) {
  const std::string title =
      runs.size() == 1 ? "Run " + runs[0].name : fmt::format("{} runs side by side", runs.size());
  return html_page(title,
                   fmt::format("<h1>{}</h1>\n{}<h2>Curves</h2>\n{}<h2>What they reached</h2>\n{}"
                               "<h2>SettingTexts{}</h2>\n{}",
                               escape_html(title), what_they_are(runs), curves(runs), scores(runs),
                               runs.size() > 1 ? " that differ" : "", settings(runs)),
                   kGenerator);
}

void write_comparison(const std::string& path, const std::vector<Run>& runs) {
  std::error_code error;
  check(!std::filesystem::exists(path, error) || is_page_from(path, kGenerator),
        "tern report: {} is there, and no page of tern report; choose another by --out", path);
  write_file_atomically(path, comparison_page(runs));
}

Program tern_program(ReportFlags& f) {
  const auto settings = [&f](Settings& s) {
    s.texts("runs", f.runs, "DIR", "folders of runs, of any of the training programs")
        .flag("runs")
        .must_be_given();
    s.text("out", f.out, "FILE", "the page; one of its own from before is replaced");
  };
  const auto check_flags = [&f](const Given&) {
    check(!f.runs.empty(), "tern report: give the folders of runs");
    check(!f.out.empty(), "--out: the name of the page is empty");
  };
  const auto run = [&f] {
    write_comparison(f.out, load_runs(f.runs));
    train::say("report " + f.out);
    return 0;
  };
  return {"tern",
          "Looks at runs that the training programs have left. `tern report A B C` sets them side "
          "by side on one page.",
          {{.name = "report",
            .about = "writes a page that compares runs: their curves over each other, the settings "
                     "that differ, and what they reached",
            .settings = settings,
            .check = check_flags,
            .run = run}}};
}

}  // namespace tern::apps::program
