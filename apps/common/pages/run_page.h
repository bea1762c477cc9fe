// The report page of a run, the same for all training programs: what ran, a table of contents,
// results, curves, the program's own sections, and every number at the end.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "tern/apps/common/training/launch.h"
#include "tern/apps/common/training/run_record.h"
#include "tern/train/loop.h"

namespace tern::apps {

/// The facts of a run that every report shows.
struct RunSummary {
  std::string title;
  std::string name = {};  ///< name of its folder; empty: it has none
  Facts facts;            ///< model, data, ...: a heading and a text each
  RunRecord record;
  std::vector<training::EpochRecord> epochs;
  std::vector<training::StepRecord> steps;  ///< empty in runs of earlier versions
  int64_t best = 0;                         ///< number of the best epoch; 0: none is marked
  std::string word = "epoch";               ///< name of an epoch: training::Loop::epoch_word

  /// The best epoch if one is marked, else the last one; nullptr if no epoch is finished.
  const training::EpochRecord* result() const;
};
RunSummary summary_of(const std::string& title, const Facts& facts, const RunRecord& record,
                      const training::Loop& loop);

/// The last component of the path of a run's folder.
std::string folder_name(const std::string& path);
/// 1264512 as "1.26M".
std::string short_count(int64_t n);
/// The time of all epochs together.
double total_seconds(const std::vector<training::EpochRecord>& epochs);
/// The median of the epochs' speeds; 0 if there are none.
double median_speed(const std::vector<training::EpochRecord>& epochs);
/// The 95 % confidence interval of a proportion, if `share` of `n` samples was measured
/// (Wilson 1927).
std::pair<double, double> wilson_interval(double share, int64_t n);
/// HTML that says whether the run is finished, what ended it early, or how to resume it. Empty for
/// old records.
std::string state_of_run(const std::vector<training::EpochRecord>& epochs, const RunRecord& record,
                         const std::string& word = "epoch");

/// The value of a metric without data.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Name and format of a metric in a log: "valid_top1" is "validation top-1", in percent.
struct MetricText {
  std::string set;   ///< "training", "validation", "test"; empty: the metric's name has none
  std::string name;  ///< "top-1"; an unknown metric keeps its own name, with spaces
  int digits = 4;    ///< after the decimal point
  bool percent = false;
  bool larger = false;  ///< whether a larger number is better
  int rank = 0;         ///< order of known metrics: those that people compare first are lowest

  /// "validation top-1".
  std::string title() const { return set.empty() ? name : set + " " + name; }
  /// "61.35%"; "-" if the number is NaN.
  std::string write(double value) const;
};

MetricText metric_text(const std::string& metric);

/// A number that every epoch has: a column of a table, or a line of a chart.
struct EpochMetric {
  std::string metric;     ///< "valid_loss", or "lr"
  std::string name = {};  ///< empty: the name from metric_text()
  double factor = 1;      ///< multiplies all values
};

struct MetricChart {
  std::string title;
  std::vector<EpochMetric> lines;  ///< metrics that were never measured are left out
  bool percent = false;
  bool logs = false;  ///< adds a switch to a logarithmic axis
};

/// Another row of the results, such as the metrics of the best epoch's weights on the test set.
struct ResultRow {
  std::string name;
  training::Metrics metrics;  ///< by name of column
};

/// A part of the page with its own heading. A section without HTML is left out.
struct Section {
  std::string title, html;
};

/// The parts of a page that depend on the program.
struct RunPage {
  /// The columns of the table of epochs. The results show those of validation and test, or those of
  /// training if no other was measured.
  std::vector<EpochMetric> columns;
  std::string measured_on;  ///< the data of `columns`, for the results: "test images"
  /// The page begins with this metric, from more_results if it is there, and with the number of
  /// samples that it was measured on ("96 test images"; 0: not shown). Empty: the first of
  /// `columns`.
  struct Answer {
    std::string metric = {};
    int64_t samples = 0;
    std::string of = {};
  };
  Answer answer = {};
  std::string unit;  ///< unit of the speed: "images"
  /// Drawn by step if the log has steps: the first line then has every step, the others have points
  /// at the ends of epochs.
  MetricChart loss;
  std::vector<MetricChart> charts;  ///< by epoch; charts without lines are left out
  std::vector<ResultRow> more_results = {};
  std::vector<Section> sections = {};  ///< between the curves and the tables at the end
};

/// The whole page as text: write it with save_page().
std::string run_page(const RunSummary& run, const RunPage& page);

/// Links to the sections, and the sections themselves.
std::string sections_with_contents(const std::vector<Section>& sections);

/// Writes the page into the run's folder and returns its path. WriteError if the folder was moved
/// or removed.
std::string save_page(const training::Loop& loop, const std::string& html);

/// The report, and the texts that a program prints at the end of a training.
struct Ending {
  std::string page;  ///< the report
  bool attention;    ///< whether the report shows attention
  std::vector<std::string> samples = {};
  std::string scores = {};  ///< validation scores of the best epoch: "valid ppl 12.34"
};
/// Saves the report. Prints the samples, the best epoch with its scores and the file of its
/// weights, and the path of the report. Without validation (valid_loss is NaN) it prints no scores.
void end_run(const training::Loop& loop, const Ending& ending);

}  // namespace tern::apps
