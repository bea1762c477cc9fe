// Metrics of a training by name: means over an epoch, the record of an epoch, and the best epoch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tern::training {

/// An ordered list of named numbers: {{"valid_loss", 1.25}, {"valid_top1", 0.61}}.
using Metrics = std::vector<std::pair<std::string, double>>;

/// Means over the batches of an epoch.
class Means {
 public:
  struct Entry {
    std::string name;
    double sum = 0, count = 0;
  };

  /// Adds the `sum` of a quantity over `count` items (pictures, tokens).
  void add(const std::string& name, double sum, double count);
  /// sum / count; NaN if nothing of that name was added.
  double mean(const std::string& name) const;
  /// The count so far; 0 if nothing was added.
  double count(const std::string& name) const;
  /// The entries in the order in which their names were first added.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// A closed epoch: a line of log.jsonl (see run_log.h).
struct EpochRecord {
  int64_t epoch = 0;   ///< 1, 2, ...
  Metrics metrics;     ///< train_loss, other means of the training, and the evaluation's metrics
  double speed = 0;    ///< weight of the batches (pictures, tokens) per second of training
  double lr = 0;       ///< learning rate of the first group in the last step
  double seconds = 0;  ///< time of training and evaluation
  int64_t steps = 0;   ///< steps of the run at the epoch's end; 0 if an earlier version wrote it
  /// Why the run ended early with this epoch; empty: it did not.
  std::string ended = {};
  /// The metric of that name; if there is none, an Error that lists the names.
  double operator[](const std::string& name) const;
  /// Whether there is a metric of that name.
  bool has(const std::string& name) const;
};

/// A JSON object in one line; numbers that are not finite become null. `unit` names the speed:
/// "images" gives "images_per_s".
std::string log_line(const EpochRecord& record, const std::string& unit);

/// Selects the best epoch: the one with the smallest or largest metric, the first of equals.
struct Best {
  std::string metric;
  bool largest = false;

  // Defined in metrics.cpp: if g++ 12 inlines them at -O3, every use of LoopOptions warns of an
  // uninitialised string.
  Best();
  Best(std::string metric_name, bool is_largest = false);  // NOLINT: implicit on purpose
};
/// The best epoch of a history. A metric that is NaN is never better. If the metric has no name, or
/// is NaN in all records, that is the last epoch.
/// REQUIRES: the history is not empty.
const EpochRecord& best_epoch(const std::vector<EpochRecord>& history, const Best& best);
/// The number of epochs since the best one; of all epochs, if the metric is NaN in all records.
int64_t epochs_since_best(const std::vector<EpochRecord>& history, const Best& best);

}  // namespace tern::training
