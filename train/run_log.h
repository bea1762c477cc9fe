// log.jsonl: what a run writes down, a JSON object a line. A closed epoch (metrics.h):
//
//   {"epoch":3,"train_loss":1.25,"valid_loss":1.31,"images_per_s":5400,"lr":0.001,"seconds":9.3,
//    "steps":4689}
//
// where an epoch is LoopOptions::evaluate_steps long, if that is set;
// with "ended":"WHY" in the last line of a run that ended before its last epoch (patience),
// and between them steps of the optimizer:
//
//   {"step":4096,"loss":1.27,"lr":0.001,"grad_norm":0.83}
//
// Not every step has a line. Up to step 255 all have, so that a warm-up is seen; then 128 in each
// doubling: every second one from 256, every fourth from 512, and so on. Loss and norm of the
// gradient (before clipping) are means over the steps since the line before, the rate is the
// step's own. A million steps take 1800 lines, 160 KB. Which steps have one depends on their
// number alone, and what is gathered is in the checkpoint: a run that is stopped or killed and
// goes on writes the lines of an unbroken one. Lines of steps are written with each checkpoint and
// at an epoch's end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/train/metrics.h"

namespace tern::training {

struct StepRecord {
  int64_t step = 0;  ///< of the optimizer: 1, 2, ...
  double loss = 0, lr = 0, grad_norm = 0;
};

/// Whether this step is one of those that have a line.
bool has_record(int64_t step);

/// What the log has of the steps so far.
class StepLog {
 public:
  /// Of the steps since the last record.
  struct Sums {
    double loss = 0, grad_norm = 0;
    int64_t count = 0;
  };

  StepLog() = default;
  /// As it was. Error unless the records are in order.
  StepLog(std::vector<StepRecord> records, const Sums& sums);

  /// Takes a step; true if that makes a record.
  bool add(const StepRecord& step);
  const std::vector<StepRecord>& records() const { return records_; }
  const Sums& sums() const { return sums_; }

 private:
  std::vector<StepRecord> records_;
  Sums sums_;
};

/// A JSON object in one line; what is no finite number becomes null.
std::string log_line(const StepRecord& record);

/// All lines of a log in order; `unit` as in log_line of an epoch.
std::vector<std::string> log_lines(const std::vector<EpochRecord>& epochs,
                                   const std::vector<StepRecord>& steps, const std::string& unit);

struct RunLog {
  std::vector<EpochRecord> epochs;  ///< null is NaN; metrics by name
  std::vector<StepRecord> steps;    ///< none in logs of earlier versions
  std::string unit;                 ///< "images"; empty if no epoch is closed
};

/// Reads a log, also of a run at work or a killed one: a last line without its end is left out.
/// IoError with file and line: what is no such object, or steps and epochs that go backwards.
RunLog read_log(const std::string& path);

}  // namespace tern::training
