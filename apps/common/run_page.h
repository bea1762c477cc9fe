// What the reports of all training programs have in common: what ran, curves by step, tables.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/launch.h"
#include "tern/apps/common/run_record.h"
#include "tern/train/loop.h"

namespace tern::apps {

/// A run, as far as every report shows it.
struct RunSummary {
  std::string title;
  Facts facts;  ///< model, data, ...: a heading and a text each
  RunRecord record;
  std::vector<train::EpochRecord> epochs;
  std::vector<train::StepRecord> steps;  ///< none in runs of earlier versions
  int64_t best = 0;                      ///< number of the best epoch; 0: none is marked
};
RunSummary summary_of(const std::string& title, const Facts& facts, const RunRecord& record,
                      const train::Loop& loop);

/// The title and a table: the facts, the command line of each start, date, version and machine.
std::string page_head(const RunSummary& run);

/// A metric of epochs as the line of a chart.
struct MetricLine {
  std::string name, metric;
  double factor = 1;  ///< all values times this
};

/// How a report shows numbers.
struct MetricChart {
  std::string title;
  std::vector<MetricLine>
      lines;  ///< those that were never measured are left out, and so is an empty chart
  bool percent = false;
  bool logs = false;
};

/// The loss by step, with the lines of `loss` behind the first, which is its mean over epochs, at
/// the ends of those; the learning rate; the norm of the gradient; then `charts` by epoch. Where
/// the log has no steps, all by epoch.
std::string run_charts(const RunSummary& run, const MetricChart& loss,
                       const std::vector<MetricChart>& charts);

/// Columns of the table of epochs: heading, metric, and how a number is written.
struct EpochColumn {
  std::string heading, metric;
  int digits = 4;     ///< after the point
  double factor = 1;  ///< values times this
  std::string unit = {};
};
/// Every epoch, folded; the best one in bold. What was not measured is "-".
std::string epoch_table(const RunSummary& run, const std::vector<EpochColumn>& columns,
                        const std::string& weight_unit);

/// Writes the page into the run's folder, if that is still the run's, and gives its path.
std::string save_page(const train::Loop& loop, const std::string& html);

/// All settings, folded; nothing if none are known. For the end of the page.
std::string settings_table(const RunSummary& run);

}  // namespace tern::apps
