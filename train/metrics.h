// Metrics of a training by name: means over an epoch, and the record of an epoch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tern::training {

/// Named numbers in an order: {{"valid_loss", 1.25}, {"valid_top1", 0.61}}.
using Metrics = std::vector<std::pair<std::string, double>>;

/// Means over the batches of an epoch.
class Means {
 public:
  struct Entry {
    std::string name;
    double sum = 0, count = 0;
  };

  /// `sum` of something over `count` (pictures, tokens).
  void add(const std::string& name, double sum, double count);
  /// sum / count; NaN if nothing of that name was added.
  double mean(const std::string& name) const;
  /// The count so far; 0 if nothing was added.
  double count(const std::string& name) const;
  /// In the order in which the names came.
  const std::vector<Entry>& entries() const { return entries_; }
  void clear() { entries_.clear(); }

 private:
  std::vector<Entry> entries_;
};

/// A closed epoch: a line of log.jsonl (see run_log.h).
struct EpochRecord {
  int64_t epoch = 0;   ///< 1, 2, ...
  Metrics metrics;     ///< train_loss, other means of the training, and what the evaluation gave
  double speed = 0;    ///< weight of the batches (pictures, tokens) a second of training
  double lr = 0;       ///< of the first group, in the last step
  double seconds = 0;  ///< of training and evaluation
  int64_t steps = 0;   ///< of the run when it was closed; 0 in what earlier versions wrote
  /// Why the run ended early with this epoch; empty: it did not.
  std::string ended = {};
  /// The number of that name among `metrics`; an Error that lists the names if there is none.
  double operator[](const std::string& name) const;
  /// Whether there is one.
  bool has(const std::string& name) const;
};

/// A JSON object in one line; what is no finite number becomes null. `unit` names the speed:
/// "images" gives "images_per_s".
std::string log_line(const EpochRecord& record, const std::string& unit);

/// Which epoch is the best: the one with the least or largest of a metric, the first of equals.
struct Best {
  std::string metric;
  bool largest = false;

  // Not in the header: seeing through them, g++ 12 at -O3 warns users of a string that is not
  // initialised, wherever they write LoopOptions.
  Best();
  Best(std::string metric_name, bool is_largest = false);  // NOLINT: implicit on purpose
};
/// Where the metric is NaN in the last record, or has no name, that is the last one. REQUIRES: the
/// history is not empty.
const EpochRecord& best_epoch(const std::vector<EpochRecord>& history, const Best& best);
/// How many epochs there were since the best one. A metric that is NaN is never better.
int64_t epochs_since_best(const std::vector<EpochRecord>& history, const Best& best);

}  // namespace tern::training
