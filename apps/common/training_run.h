// A training at work in a folder: epochs, progress, log, checkpoints, Ctrl-C. What is trained and
// how it is tested is the program's own and given as a Training.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/run_folder.h"
#include "tern/core/io/safetensors.h"

namespace tern::apps {

/// The training cannot go on: the loss or a weight is no number any more.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Headings and texts that say what runs.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// What run_training asks of a program. Epochs are numbered 1, 2, ...
class Training {
 public:
  virtual ~Training() = default;

  virtual int64_t epoch() const = 0;   ///< the one in progress
  virtual int64_t epochs() const = 0;  ///< how many there are to be
  virtual int64_t step() const = 0;    ///< steps done, in all epochs
  virtual bool finished() const = 0;   ///< all epochs are closed
  /// All batches of the epoch in progress are done: it is to be tested and closed.
  virtual bool epoch_trained() const = 0;
  /// One step of the optimizer. Throws Diverged before weights are changed.
  virtual void train_step() = 0;

  /// How far the epoch is, in `unit`s ("images"), with something to show beside it.
  struct Status {
    std::string unit;
    int64_t done = 0, total = 0;
    std::string note;
  };
  virtual Status status() const = 0;
  /// Seconds that train_step took, to be added to the epoch's.
  virtual void add_seconds(double seconds) = 0;

  /// Tests the model, closes the epoch and writes weights and report. False, with nothing changed,
  /// if the user interrupted it.
  virtual bool close_epoch() = 0;
  /// The lines of the log for the epochs closed so far.
  virtual std::vector<std::string> log_lines() const = 0;
  /// One line on the epoch that was closed last.
  virtual std::string epoch_line() const = 0;
  /// After the last epoch: says what has been reached. False if it was interrupted.
  virtual bool finish() = 0;
  /// Everything that the run needs to go on exactly.
  virtual SafeTensors state() const = 0;
};

/// Says what runs, trains, and saves the state now and then, at every epoch's end and on Ctrl-C.
/// Gives the program's exit code. `program` is the name before messages.
int run_training(const std::string& program, Training& training, const RunFolder& folder,
                 const Facts& facts);

/// A line on standard output, at once.
void say(const std::string& line);

}  // namespace tern::apps
