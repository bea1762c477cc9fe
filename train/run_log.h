// log.jsonl, the log of a run: one JSON object per line. A closed epoch (metrics.h) has the line
//
//   {"epoch":3,"train_loss":1.25,"valid_loss":1.31,"images_per_s":5400,"lr":0.001,"seconds":9.3,
//    "steps":4689}
//
// where an epoch is LoopOptions::evaluate_steps long, if that is set. If the run ended before its
// last epoch (patience), its last line has "ended":"WHY". Between them are lines for steps of the
// optimizer:
//
//   {"step":4096,"loss":1.27,"lr":0.001,"grad_norm":0.83}
//
// Not every step has a line. The first 255 steps do, so that a warm-up is visible; then 128 in each
// doubling: every second step from 256, every fourth from 512, and so on. The loss and the gradient
// norm (before clipping) are means over the steps since the previous line; the learning rate is
// that of the step. A million steps take 1800 lines, 160 KB. The number of a step alone decides
// whether it has a line, and the checkpoint holds the sums for the next line: a resumed run writes
// the same lines as an uninterrupted one. Step lines are written with each checkpoint and at the
// end of an epoch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/train/metrics.h"

namespace tern::training {

struct StepRecord {
  int64_t step = 0;  ///< number of the optimizer's step: 1, 2, ...
  double loss = 0, lr = 0, grad_norm = 0;
};

/// Whether this step has a line.
bool has_record(int64_t step);

/// The records of the steps so far, and the sums for the next record.
class StepLog {
 public:
  /// Sums over the steps since the last record.
  struct Sums {
    double loss = 0, grad_norm = 0;
    int64_t count = 0;
  };

  StepLog() = default;
  /// Restores a log from a checkpoint. Error unless the records are in order.
  StepLog(std::vector<StepRecord> records, const Sums& sums);

  /// Adds a step. Returns true if that completes a record.
  bool add(const StepRecord& step);
  const std::vector<StepRecord>& records() const { return records_; }
  const Sums& sums() const { return sums_; }

 private:
  std::vector<StepRecord> records_;
  Sums sums_;
};

/// A JSON object in one line; numbers that are not finite become null.
std::string log_line(const StepRecord& record);

/// All lines of a log in order; `unit` as in log_line of an epoch.
std::vector<std::string> log_lines(const std::vector<EpochRecord>& epochs,
                                   const std::vector<StepRecord>& steps, const std::string& unit);

struct RunLog {
  std::vector<EpochRecord> epochs;  ///< null is NaN; metrics by name
  std::vector<StepRecord> steps;    ///< empty in logs of earlier versions
  std::string unit;                 ///< "images"; empty if no epoch is closed
};

/// Reads a log, even of a run in progress or a killed one: an incomplete last line is left out.
/// IoError, with file and line, if a line is not such an object, or if steps or epochs are out of
/// order.
RunLog read_log(const std::string& path);

}  // namespace tern::training
