// The page of a run, as the reports of all training programs have it: what ran, a table of
// contents, results, curves, the program's own sections, and every number at the end.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "tern/apps/common/launch.h"
#include "tern/apps/common/run_record.h"
#include "tern/train/loop.h"

namespace tern::apps {

/// A run, as far as every report shows it.
struct RunSummary {
  std::string title;
  std::string name = {};  ///< of its folder; empty: it has none
  Facts facts;            ///< model, data, ...: a heading and a text each
  RunRecord record;
  std::vector<training::EpochRecord> epochs;
  std::vector<training::StepRecord> steps;  ///< none in runs of earlier versions
  int64_t best = 0;                         ///< number of the best epoch; 0: none is marked
  std::string word = "epoch";               ///< what an epoch is called: training::Loop::epoch_word

  /// The best epoch if one is marked, or the last one; nullptr if none is closed.
  const training::EpochRecord* result() const;
};
RunSummary summary_of(const std::string& title, const Facts& facts, const RunRecord& record,
                      const training::Loop& loop);

/// The last part of the path of a run's folder.
std::string folder_name(const std::string& path);
/// 1264512 as "1.26M".
std::string short_count(int64_t n);
/// The median of the epochs' speeds; 0 if there are none.
double median_speed(const std::vector<training::EpochRecord>& epochs);
/// The limits between which a share lies with 95 % confidence where `share` of `n` samples was
/// measured (Wilson 1927).
std::pair<double, double> wilson_interval(double share, int64_t n);
/// Whether the run is over, what ended it early, or how it is resumed. HTML; empty in old records.
std::string state_of_run(const std::vector<training::EpochRecord>& epochs, const RunRecord& record,
                         const std::string& word = "epoch");

/// A metric for which there is no data.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// How a number of a log is called and written: "valid_top1" is "validation top-1", in percent.
struct MetricText {
  std::string set;   ///< "training", "validation", "test"; empty: the metric's name says none
  std::string name;  ///< "top-1"; of an unknown metric its own name, with spaces
  int digits = 4;    ///< after the point
  bool percent = false;
  bool larger = false;  ///< whether a larger number is better
  int rank = 0;         ///< of known metrics: those that people compare first have low ones

  /// "validation top-1".
  std::string title() const { return set.empty() ? name : set + " " + name; }
  /// "61.35%"; "-" if the number is NaN.
  std::string write(double value) const;
};

MetricText metric_text(const std::string& metric);

/// A number of epochs: a column of tables, or the line of a chart.
struct EpochMetric {
  std::string metric;     ///< "valid_loss", or "lr"
  std::string name = {};  ///< empty: as metric_text() calls it
  double factor = 1;      ///< all values times this
};

struct MetricChart {
  std::string title;
  std::vector<EpochMetric> lines;  ///< one that was never measured is left out
  bool percent = false;
  bool logs = false;  ///< with a switch to a logarithmic axis
};

/// Another row of the results, such as what the best epoch's weights do on the test set.
struct ResultRow {
  std::string name;
  training::Metrics metrics;  ///< by the names of the columns that they stand in
};

/// A part of the page below a heading of its own. One without any HTML is left out.
struct Section {
  std::string title, html;
};

/// What a program shows of its runs.
struct RunPage {
  /// Of the table of epochs. Those of validation or test are also in the results; only where none
  /// was measured, those of training are.
  std::vector<EpochMetric> columns;
  std::string measured_on;  ///< what `columns` were measured on, for the results: "test images"
  /// What the page begins with: this metric, of more_results if they have it, and how many samples
  /// it was measured on ("96 test images"; 0: not said). None: the first of `columns`.
  struct Answer {
    std::string metric = {};
    int64_t samples = 0;
    std::string of = {};
  };
  Answer answer = {};
  std::string unit;  ///< of the speed: "images"
  /// By step, if the log has steps: the first line is then that of every step, the others are
  /// points at the ends of epochs.
  MetricChart loss;
  std::vector<MetricChart> charts;  ///< by epoch; one without lines is left out
  std::vector<ResultRow> more_results = {};
  std::vector<Section> sections = {};  ///< between the curves and the tables at the end
};

/// The whole page as text: write it with save_page().
std::string run_page(const RunSummary& run, const RunPage& page);

/// Links to the sections, and the sections themselves.
std::string sections_with_contents(const std::vector<Section>& sections);

/// Writes the page into the run's folder, if that is still the run's, and gives its path.
std::string save_page(const training::Loop& loop, const std::string& html);

}  // namespace tern::apps
