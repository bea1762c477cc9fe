// Task, model and recipe of a training. A run stores them in its folder as config.json, and in its
// checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training/training_options.h"
#include "tern/core/base/ceil_div.h"
#include "tern/data/tasks/sequence_tasks.h"
#include "tern/models/ntm.h"

namespace tern::apps::ntm {

struct NtmConfig : TrainingOptions {
  std::string task = "copy";
  bool baseline = false;            ///< an LSTM without a memory
  std::string controller = "lstm";  ///< lstm or ff
  int64_t layers = 1;               ///< of the controller, or of the baseline
  int64_t hidden = 100;             ///< units per layer
  int64_t slots = 128, width = 20;  ///< of the memory
  int64_t read_heads = 1, write_heads = 1;
  int64_t shift = 1;
  std::string memory = "constant";   ///< its initial state: constant, learned, random
  std::vector<std::string> without;  ///< stages of addressing that are off
  int64_t sequences = 30000;         ///< training sequences
  int64_t every = 1000;              ///< sequences from one validation to the next: an epoch
  int64_t batch = 2;

  NtmConfig() { optimizer = "adam"; }
  /// "ntm-copy", "lstm-copy": the default name of the run's folder.
  std::string name() const;
  /// The number of validations, which is the number of epochs.
  int64_t validations() const { return ceil_div(sequences, every); }
  /// Sequences of epoch 0, 1, ...; the last may have fewer.
  int64_t epoch_sequences(int64_t epoch) const;
  /// Steps of the optimizer in the whole run.
  int64_t steps() const;
  /// The number of sequences that this many steps have used.
  int64_t sequences_after(int64_t steps) const;
  bool leaves_out(const std::string& stage) const { return is_one_of(without, stage); }

 private:
  int64_t steps_of(int64_t n) const;
};

/// Lists the settings (apps/common/command_line/settings.h).
void settings(Settings& settings, NtmConfig& config);
/// Error if settings contradict each other.
void check_config(const NtmConfig& config);

/// The defaults of a task: sizes from tables 1 to 3 of the paper, recipe and length from our own
/// measurements. An empty `controller` is the default of the task: for sort ff, of fewer units and
/// heads than the paper's, and else lstm.
NtmConfig default_config(const std::string& task, bool baseline, const std::string& controller);

/// The model's options, with the task's numbers of inputs and outputs. REQUIRES: !baseline.
models::NtmOptions model_options(const NtmConfig& config);

}  // namespace tern::apps::ntm
