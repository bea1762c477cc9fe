// `tern report`: reads runs, groups them by program and data, and draws curves over epochs, time
// and steps. scores.cpp makes the table of results.
#include "tern/apps/tern/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tern/apps/common/pages/chart.h"
#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/pages/run_page.h"
#include "tern/apps/common/training/folder.h"
#include "tern/apps/tern/scores.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"
#include "tern/core/io/safetensors.h"
#include "tern/train/progress.h"

namespace tern::apps::program {

namespace fs = std::filesystem;

namespace {

Run load_run(const std::string& path) {
  const training::RunFolder folder{path};
  std::error_code error;
  check_folder(path, path);
  if (!fs::is_regular_file(folder.log(), error)) {
    const bool holds_runs = std::ranges::any_of(
        fs::directory_iterator(path, error), [&](const fs::directory_entry& entry) {
          return fs::is_regular_file(entry.path() / "log.jsonl", error);
        });
    fail(fmt::format("{0}: this is not the folder of a run: it has no log.jsonl{1}", path,
                     holds_runs ? fmt::format("; for the runs in it: {}/*", path) : ""));
  }
  return {.name = path,
          .path = path,
          .record = load_run_record(folder).value_or(RunRecord{}),
          .log = training::read_log(folder.log())};
}

// The last `count` components of a path.
std::string ending(const fs::path& path, int count) {
  fs::path out;
  fs::path at = path;
  for (int i = 0; i < count && at.has_relative_path(); ++i, at = at.parent_path())
    out = out.empty() ? at.filename() : at.filename() / out;
  return out.empty() ? path.string() : out.string();
}

// Names runs by the last components of their paths, as many as needed to make the names differ.
void name_runs(std::vector<Run>& runs) {
  constexpr int kMostParts = 16;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    std::vector<std::string> names;
    for (Run& run : runs) {
      fs::path path = fs::path(run.path).lexically_normal();
      if (!path.has_filename()) path = path.parent_path();  // a slash at the end
      names.push_back(run.name = ending(fs::absolute(path).lexically_normal(), parts));
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) == names.end()) return;
  }
}

constexpr const char* kGenerator = "tern report";

// The x axes of charts.
enum class Axis { epochs, time, steps };
constexpr Axis kAxes[] = {Axis::epochs, Axis::time, Axis::steps};

// Seconds, or minutes or hours for longer runs.
struct TimeUnit {
  const char* name;
  double seconds;
};

TimeUnit time_unit(const Runs& runs) {
  constexpr double kMost = 120;  // more seconds or minutes than this use the next unit
  double longest = 0;
  for (const Run* run : runs) longest = std::max(longest, total_seconds(run->log.epochs));
  if (longest > kMost * 60) return {"hours", 3600};
  return longest > kMost ? TimeUnit{"minutes", 60} : TimeUnit{"seconds", 1};
}

// The positions on the axis of the run's start and of the ends of its epochs. NaN where a log of an
// earlier version has no steps.
std::vector<double> epoch_ends(const Run& run, Axis axis, const TimeUnit& unit) {
  std::vector<double> ends = {0};
  double seconds = 0;
  for (const training::EpochRecord& e : run.log.epochs) {
    seconds += e.seconds;
    ends.push_back(axis == Axis::epochs ? static_cast<double>(e.epoch)
                   : axis == Axis::time ? seconds / unit.seconds
                   : e.steps > 0        ? static_cast<double>(e.steps)
                                        : kNaN);
  }
  return ends;
}

// The position of a step on the axis, by linear interpolation within its epoch. The epoch in
// progress is assumed to be like the one before. NaN if no epoch has ended.
double place_of(int64_t step, const Run& run, const std::vector<double>& ends) {
  const std::vector<training::EpochRecord>& epochs = run.log.epochs;
  auto at = std::find_if(epochs.begin(), epochs.end(),
                         [&](const training::EpochRecord& e) { return e.steps >= step; });
  if (epochs.empty()) return kNaN;
  if (at == epochs.end()) --at;
  const auto i = static_cast<size_t>(at - epochs.begin());
  const int64_t before = i == 0 ? 0 : epochs[i - 1].steps;
  if (at->steps <= before) return kNaN;
  return ends[i] + (ends[i + 1] - ends[i]) * static_cast<double>(step - before) /
                       static_cast<double>(at->steps - before);
}

// Makes the line of a run; its x values come from `ends`.
using Line = std::function<Series(const Run&, Axis, const std::vector<double>& ends)>;

// A chart with a line for each run that has the numbers. Empty unless at least two have them, or
// the only run.
std::string chart(const Runs& runs, const std::string& title, bool percent, const Line& line,
                  int height = kCommon) {
  const TimeUnit unit = time_unit(runs);
  std::vector<ChartAxis> axes;
  size_t filled = 0;
  for (const Axis axis : kAxes) {
    axes.push_back({axis == Axis::epochs  ? word_of(runs)
                    : axis == Axis::steps ? "step"
                                          : unit.name,
                    axis != Axis::time,
                    {}});
    filled = 0;
    for (const Run* run : runs) {  // also runs without numbers, so that all charts have one colour
      axes.back().series.push_back(line(*run, axis, epoch_ends(*run, axis, unit)));
      axes.back().series.back().name = run->name;
      const std::vector<double>& y = axes.back().series.back().y;
      filled += std::any_of(y.begin(), y.end(), [](double v) { return std::isfinite(v); });
    }
  }
  if (filled < std::min<size_t>(runs.size(), 2)) return "";
  return axes_chart(axes, {.title = title, .percent = percent, .logs = !percent, .height = height});
}

std::string step_chart(const Runs& runs, const std::string& title,
                       double training::StepRecord::*number, int height) {
  const Line line = [=](const Run& run, Axis axis, const std::vector<double>& ends) {
    Series s;
    s.smooth = number != &training::StepRecord::lr;
    for (const training::StepRecord& r : run.log.steps) {
      s.x.push_back(axis == Axis::steps ? static_cast<double>(r.step)
                                        : place_of(r.step, run, ends));
      s.y.push_back(r.*number);
    }
    return s;
  };
  return chart(runs, title, false, line, height);
}

std::string epoch_chart(const Runs& runs, const std::string& metric) {
  const MetricText text = metric_text(metric);
  std::string title = text.title();
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return chart(runs, title, text.percent,
               [&](const Run& run, Axis, const std::vector<double>& ends) {
                 Series s{"", {ends.begin() + 1, ends.end()}, {}};
                 for (const training::EpochRecord& e : run.log.epochs)
                   s.y.push_back(e.has(metric) ? e[metric] : kNaN);
                 return s;
               });
}

std::string curves(const Runs& runs) {
  std::vector<std::string> charts;
  for (const std::string& metric : metrics_of(runs)) charts.push_back(epoch_chart(runs, metric));
  const std::string s =
      leading_charts(
          step_chart(runs, "Loss in training", &training::StepRecord::loss, kLeading),
          {step_chart(runs, "Learning rate", &training::StepRecord::lr, kMinor),
           step_chart(runs, "Norm of the gradient", &training::StepRecord::grad_norm, kMinor)}) +
      chart_grid(charts);
  return s.empty() ? "<p>There is nothing yet that at least two of them have measured.</p>\n" : s;
}

std::string what_they_are(const Runs& runs) {
  std::string s = html_row({"run", "folder", "command", "date", "tern", "machine"}, "th");
  for (const Run* run : runs) {
    const std::vector<RunStart>& starts = run->record.starts;
    const RunStart start = starts.empty() ? RunStart{} : starts[0];
    std::vector<std::string> cells = {run->name, run->path};
    for (const std::string& text : {start.command, start.date, start.version, start.machine})
      cells.push_back(text.empty() ? "-" : text);
    s += html_row(cells);
  }
  return html_table(s, "facts");
}

// The settings that differ between runs; for a single run all settings.
std::string settings(const Runs& runs) {
  std::map<std::string, std::vector<std::string>> values;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& [name, text] : runs[i]->record.settings)
      values.try_emplace(name, runs.size(), "-").first->second[i] = text;
  if (values.empty()) return "<p>The folders do not say: they are of an earlier version.</p>\n";
  std::string s;
  for (const auto& [name, texts] : values) {
    if (runs.size() > 1 && std::set(texts.begin(), texts.end()).size() == 1) continue;
    std::string flag = name;
    for (const Run* run : runs)
      if (flag == name) flag = run->record.flag_of(name);
    s += fmt::format("<tr><td>{}</td>", escape_html(flag));
    for (const std::string& text : texts)
      s += fmt::format("<td><code>{}</code></td>", escape_html(text));
    s += "</tr>\n";
  }
  if (s.empty()) return "<p>None.</p>\n";
  std::vector<std::string> heading = {""};
  for (const Run* run : runs) heading.push_back(run->name);
  return html_table(html_row(heading, "th") + s, "facts settings");
}

// The text of a setting; for a list each of its texts.
std::vector<std::string> texts_of(const std::string& setting) {
  if (!setting.starts_with("[")) return {setting};
  try {
    return parse_json(setting).get<std::vector<std::string>>();
  } catch (const std::exception&) {
    return {setting};
  }
}

// The name of a run's group: its program and data, "lm on a.txt, b.txt". Runs of a group can be
// compared. `whole`: with whole paths of the data instead of file names.
std::string group_of(const Run& run, bool whole) {
  constexpr size_t kMost = 3;
  if (run.record.program.empty()) return "Runs of an earlier version";
  std::vector<std::string> data;
  for (const char* name : {"data", "text", "pairs", "source", "task"})
    for (const auto& [key, setting] : run.record.settings)
      if (key == name && setting != "true" && setting != "false")
        for (const std::string& text : texts_of(setting))
          if (!text.empty())
            data.push_back(whole ? fs::path(text).lexically_normal().string() : folder_name(text));
  const std::string more =
      !whole && data.size() > kMost ? fmt::format(" and {} more", data.size() - kMost) : "";
  if (!more.empty()) data.resize(kMost);
  return run.record.program + " on " +
         (data.empty() ? "generated data" : fmt::format("{}{}", fmt::join(data, ", "), more));
}

using Groups = std::vector<std::pair<std::string, Runs>>;

// The groups in the order of their first runs. Groups that would have the same name are named by
// whole paths.
Groups groups_of(const std::vector<Run>& runs) {
  Groups groups;
  for (const Run& run : runs) {
    const std::string name = group_of(run, true);
    auto at = std::find_if(groups.begin(), groups.end(), [&](auto& g) { return g.first == name; });
    if (at == groups.end()) at = groups.insert(at, {name, {}});
    at->second.push_back(&run);
  }
  std::map<std::string, int> names;
  for (const auto& group : groups) ++names[group_of(*group.second[0], false)];
  for (auto& group : groups)
    if (const std::string name = group_of(*group.second[0], false); names[name] == 1)
      group.first = name;
  return groups;
}

}  // namespace

const training::EpochRecord* Run::best_epoch() const {
  if (log.epochs.empty()) return nullptr;
  const std::string& metric = record.best.metric;
  const bool known =
      std::all_of(log.epochs.begin(), log.epochs.end(),
                  [&](const training::EpochRecord& e) { return !metric.empty() && e.has(metric); });
  return known ? &training::best_epoch(log.epochs, record.best) : &log.epochs.back();
}

std::vector<Run> load_runs(const std::vector<std::string>& folders) {
  check(!folders.empty(), "give the folders of runs");
  std::vector<Run> runs;
  for (const std::string& path : folders) {
    runs.push_back(load_run(path));
    std::error_code error;
    for (size_t i = 0; i + 1 < runs.size(); ++i)
      check(!fs::equivalent(runs[i].path, path, error), "{} and {} are the same run", runs[i].path,
            path);
  }
  name_runs(runs);
  return runs;
}

std::string comparison_page(const std::vector<Run>& runs) {
  const std::string title =
      runs.size() == 1 ? "Run " + runs[0].name : fmt::format("{} runs compared", runs.size());
  const Groups groups = groups_of(runs);
  const bool closed =
      std::any_of(runs.begin(), runs.end(), [](const Run& run) { return !run.log.epochs.empty(); });
  Runs all;
  for (const Run& run : runs) all.push_back(&run);
  // Charts start with the axis of steps if no epoch has ended, or if a run uses --eval-steps.
  const bool epochs = closed && word_of(all) == "epoch";
  std::vector<Section> sections;
  for (const auto& [name, group] : groups)
    sections.push_back(
        {name, fmt::format("{}<h3>Curves</h3>\n{}<h3>Settings{}</h3>\n{}<h3>Folders and "
                           "commands</h3>\n{}",
                           scores(group), curves(group), group.size() > 1 ? " that differ" : "",
                           settings(group), what_they_are(group))});
  return html_page(title,
                   fmt::format("<h1>{0}</h1>\n<p>Numbers are those of each run's best {1}, or of "
                               "its last one if none was chosen. A run with a hold-out is tested "
                               "once, at its end, with the weights of its best {1}.</p>\nCurves "
                               "over {2}{3}",
                               escape_html(title), word_of(all),
                               axis_choice({word_of(all, "s"), "time", "steps"}, epochs ? 0 : 2),
                               sections_with_contents(sections)),
                   kGenerator);
}

void write_comparison(const std::string& path, const std::vector<Run>& runs) {
  std::error_code error;
  check(!fs::exists(path, error) || is_page_from(path, kGenerator),
        "{} exists and was not written by tern report; choose another file with --out", path);
  write_file_atomically(path, comparison_page(runs));
}

Command report_command(ReportFlags& f) {
  const auto settings = [&f](Settings& s) {
    s.texts("runs", f.runs, "DIR", "folders of runs, of any of the training programs")
        .flag("runs")
        .must_be_given();
    s.text("out", f.out, "FILE", "the page; an earlier page of tern report is replaced");
  };
  const auto run = [&f] {
    write_comparison(f.out, load_runs(f.runs));
    training::say("report " + f.out);
    return 0;
  };
  return {.name = "report",
          .about =
              "Writes a page that compares runs: results, curves in one chart, and the settings "
              "that differ.",
          .settings = settings,
          .run = run,
          .examples =
              "report runs/first runs/second\n"
              "report runs/* --out models.html"};
}

}  // namespace tern::apps::program
