// Decides which metrics of runs can be compared, marks the best values, and formats the table.
#include "tern/apps/tern/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/pages/run_page.h"
#include "tern/train/progress.h"

namespace tern::apps::program {
namespace {

bool is_training(const std::string& metric) { return metric.starts_with("train_"); }

// A run's value of a metric: on the test set at its end, else in its best epoch.
double reached(const Run& run, const std::string& metric) {
  for (const auto& [name, value] : run.record.tested)
    if (name == metric) return value;
  const training::EpochRecord* best = run.best_epoch();
  return best && best->has(metric) ? (*best)[metric] : kNaN;
}

// Finds a setting by the last part of its name. Returns its whole name and value; empty if there is
// none.
std::pair<std::string, std::string> setting_of(const Run& run, const std::string& name) {
  for (const auto& [key, text] : run.record.settings)
    if (key == name || key.ends_with("." + name)) return {key, text};
  return {};
}

// Whether the run was evaluated every so many steps, not at the end of each epoch.
bool by_steps(const Run& run) {
  const std::string every = setting_of(run, "eval_steps").second;
  return !every.empty() && every != "0";
}

bool all_by_steps(const Runs& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const Run* run) { return by_steps(*run); });
}

// The value of a setting, of those that measured_by() names.
std::string value_of(const Run& run, const std::string& name) {
  const bool d2l = name == "lowercase" && setting_of(run, "tokens").second == "d2l";
  return d2l ? "true" : setting_of(run, name).second;  // d2l.ai's tokens are lower case
}

// The flag of a setting, from the first run that has the setting.
std::string flag_in(const Runs& runs, const std::string& name) {
  for (const Run* run : runs)
    if (const std::string key = setting_of(*run, name).first; !key.empty())
      return run->record.flag_of(key);
  return name;
}

// The settings that determine the samples and the unit of a metric.
std::vector<std::string> measured_by(const std::string& metric) {
  std::vector<std::string> names = {"limit",        "hold_out",     "first",  "valid",
                                    "valid_source", "valid_target", "reverse"};
  const std::string name = metric_text(metric).name;
  if (name == "BLEU") names.emplace_back("lowercase");
  for (const char* of_tokens : {"loss", "ppl", "masked", "next", "words"})
    if (metric.ends_with(std::string("_") + of_tokens))  // a mean over the run's own tokens
      names.insert(names.end(), {"tokens", "tokenizer", "vocab", "source_vocab", "target_vocab",
                                 "lowercase", "cased", "pairs"});
  return names;
}

// Whether the run's seed chose the samples that a metric is measured on: pairs or pictures that it
// holds out, or generated data.
bool is_chosen_by_seed(const Run& run, const std::string& metric) {
  const auto has = [&](const char* name) {
    const std::string text = setting_of(run, name).second;
    return !text.empty() && text != "[]";
  };
  const bool validation = metric.starts_with("valid_");
  const std::string& program = run.record.program;
  if (program == "translate")
    return (validation && !has("valid_source")) || (!has("pairs") && !has("source"));
  if (program == "train_cifar")
    return validation || !has("data") || setting_of(run, "split_by_seed").second == "true";
  // A BERT validates on words that it masks at random.
  return program == "lm" && (!has("text") || setting_of(run, "model").second == "bert");
}

// The reasons why the runs' values of a metric cannot be compared: settings that differ, or models.
std::set<std::string> unlike_by(const Runs& runs, const std::string& metric) {
  std::set<std::string> why, kinds;
  for (const Run* run : runs)
    kinds.insert(setting_of(*run, "model").second == "bert" ? "bert" : "");
  if (kinds.size() > 1) return {"models"};  // predicting masked words differs from the next word
  std::vector<std::string> names = measured_by(metric);
  if (std::any_of(runs.begin(), runs.end(),
                  [&](const Run* run) { return is_chosen_by_seed(*run, metric); }))
    names.emplace_back("seed");
  for (const std::string& name : names) {
    std::set<std::string> texts;
    for (const Run* run : runs) texts.insert(value_of(*run, name));
    if (texts.size() > 1)
      why.insert(name.ends_with("vocab") ? "vocabularies" : flag_in(runs, name));
  }
  return why;
}

// Metrics without a marked best value, by reason.
using Unlike = std::map<std::string, std::vector<std::string>>;

// The best value of a column; NaN if none is marked. If so, `unlike` may get the reason.
double best_of(const Runs& runs, const std::string& metric, Unlike& unlike) {
  Runs measured;
  std::vector<double> values;
  for (const Run* run : runs)
    if (const double v = reached(*run, metric); std::isfinite(v)) {
      values.push_back(v);
      measured.push_back(run);
    }
  if (values.size() < 2 || is_training(metric) || metric == "sequences") return kNaN;
  const MetricText text = metric_text(metric);
  if (const std::set<std::string> why = unlike_by(measured, metric); !why.empty()) {
    unlike[fmt::format("{}", fmt::join(why, ", "))].push_back(text.title());
    return kNaN;
  }
  std::sort(values.begin(), values.end());
  return text.larger ? values.back() : values.front();
}

std::string notes_on(const Unlike& unlike) {
  std::string s;
  for (const auto& [why, metrics] : unlike)
    s += fmt::format(
        "<p class=\"note\">No run is marked as the best by {}, because these differ: {}.</p>\n",
        escape_html(fmt::format("{}", fmt::join(metrics, ", "))), escape_html(why));
  return s;
}

// "3", or "3 of 10" for a run that can be resumed.
std::string epochs_of(const Run& run) {
  const std::vector<training::EpochRecord>& epochs = run.log.epochs;
  const int64_t done = epochs.empty() ? 0 : epochs.back().epoch;
  const bool more = done < run.record.epochs && (epochs.empty() || epochs.back().ended.empty());
  return more ? fmt::format("{} of {}", done, run.record.epochs) : fmt::format("{}", done);
}

// The epoch or step of the run's scores, and the metric that chose it.
std::string chosen_text(const Runs& runs, const Run& run) {
  const training::EpochRecord* chosen = run.best_epoch();
  if (!chosen) return "-";
  const std::string& by = run.record.best.metric;
  const char* const mark = by_steps(run) && !all_by_steps(runs) ? "step " : "";
  return mark + training::grouped(by_steps(run) ? chosen->steps : chosen->epoch) +
         (by.empty() ? "" : " by " + metric_text(by).title());
}

// Size, speed and time of a run, with the headings of the columns.
std::vector<std::pair<std::string, std::string>> costs_of(const Runs& runs, const Run& run) {
  const std::vector<training::EpochRecord>& epochs = run.log.epochs;
  int64_t steps = run.log.steps.empty() ? 0 : run.log.steps.back().step;
  if (!epochs.empty()) steps = std::max(steps, epochs.back().steps);
  const double speed = median_speed(epochs);
  auto or_none = [](const std::string& text) { return text.empty() ? "-" : text; };
  return {
      {"weights", run.record.weights > 0 ? short_count(run.record.weights) : "-"},
      {"precision", or_none(setting_of(run, "precision").second)},
      {"speed", speed > 0
                    ? fmt::format("{} {}/s", training::grouped(std::llround(speed)), run.log.unit)
                    : "-"},
      {"time", training::clock_time(total_seconds(epochs))},
      {word_of(runs, "s"), epochs_of(run)},
      {"steps", steps > 0 ? training::grouped(steps) : "-"},
      {all_by_steps(runs) ? "step of the scores" : "epoch of the scores", chosen_text(runs, run)}};
}

}  // namespace

std::string word_of(const Runs& runs, const char* ending) {
  if (std::none_of(runs.begin(), runs.end(), [](const Run* run) { return by_steps(*run); }))
    return std::string("epoch") + ending;
  if (all_by_steps(runs)) return std::string("evaluation") + ending;
  return fmt::format("epoch{0} or evaluation{0}", ending);
}

std::vector<std::string> metrics_of(const Runs& runs) {
  std::set<std::string> names;
  for (const Run* run : runs) {
    for (const training::EpochRecord& e : run->log.epochs)
      for (const auto& metric : e.metrics) names.insert(metric.first);
    for (const auto& metric : run->record.tested) names.insert(metric.first);
  }
  names.erase("best_top1");
  for (const char* set : {"train_top", "valid_top", "test_top"})
    for (int k = 2; k < 5; ++k)
      if (names.contains(fmt::format("{}{}", set, k + 1))) names.erase(fmt::format("{}{}", set, k));
  std::vector<std::string> out(names.begin(), names.end());
  std::stable_sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
    return std::pair(is_training(a), metric_text(a).rank) <
           std::pair(is_training(b), metric_text(b).rank);
  });
  return out;
}

std::string scores(const Runs& runs) {
  const std::vector<std::string> metrics = metrics_of(runs);
  std::vector<double> best;
  Unlike unlike;
  for (const std::string& metric : metrics) best.push_back(best_of(runs, metric, unlike));
  // Metrics of training are the last ones; costs stand in front of them.
  const auto first_trained = std::find_if(metrics.begin(), metrics.end(), is_training);
  const auto results = static_cast<size_t>(first_trained - metrics.begin());
  std::string s;
  for (size_t r = 0; r <= runs.size(); ++r) {  // row 0 has the headings
    const bool heading = r == 0;
    const Run& run = *runs[heading ? 0 : r - 1];
    const char* const tag = heading ? "th" : "td";
    const auto add = [&](const std::string& text, const char* attributes = "") {
      s += fmt::format("<{0}{1}>{2}</{0}>", tag, attributes, escape_html(text));
    };
    s += "<tr>";
    add(heading ? "run" : run.name);
    for (size_t i = 0; i <= metrics.size(); ++i) {
      if (i == results)
        for (const auto& [name, text] : costs_of(runs, run)) add(heading ? name : text);
      if (i == metrics.size()) break;
      const MetricText text = metric_text(metrics[i]);
      const double v = reached(run, metrics[i]);
      add(heading ? text.title() : text.write(v),
          !heading && v == best[i] ? " class=\"best\"" : "");
    }
    s += "</tr>\n";
  }
  return html_table(s, "scores sortable") + notes_on(unlike);
}

}  // namespace tern::apps::program
