// Task, model and recipe of a training. A run keeps it in its folder as config.json, and in its
// checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training_options.h"
#include "tern/data/tasks/sequence_tasks.h"
#include "tern/models/ntm.h"

namespace tern::apps::ntm {

struct NtmConfig : TrainingOptions {
  std::string task = "copy";
  bool baseline = false;            ///< an LSTM without a memory
  std::string controller = "lstm";  ///< lstm or ff
  int64_t layers = 1;               ///< of the controller, or of the baseline
  int64_t hidden = 100;             ///< units of a layer
  int64_t slots = 128, width = 20;  ///< of the memory
  int64_t read_heads = 1, write_heads = 1;
  int64_t shift = 1;
  std::string memory = "constant";   ///< at the start: constant, learned, random
  std::vector<std::string> without;  ///< stages of addressing that are off
  int64_t sequences = 30000;         ///< of training
  int64_t every = 1000;              ///< sequences from one validation to the next: an epoch
  int64_t batch = 2;

  NtmConfig() { optimizer = "adam"; }
  /// "ntm-copy", "lstm-copy": the run's folder.
  std::string name() const;
  /// Epochs: from one validation to the next.
  int64_t validations() const { return (sequences + every - 1) / every; }
  /// Sequences of an epoch 0, 1, ...; the last may have fewer.
  int64_t epoch_sequences(int64_t epoch) const;
  /// Steps of the optimizer in the whole run.
  int64_t steps() const;
  /// How many sequences so many steps have taken.
  int64_t sequences_after(int64_t steps) const;
  bool leaves_out(const std::string& stage) const;

 private:
  int64_t steps_of(int64_t n) const;
};

/// Lists its settings (apps/common/settings.h).
void settings(Settings& settings, NtmConfig& config);
/// Error if settings contradict each other.
void check_config(const NtmConfig& config);

/// The defaults of a task: sizes from the paper's tables 1 to 3, recipe and length from our own
/// measurements.
NtmConfig default_config(const std::string& task, bool baseline, const std::string& controller);

/// The model's options on the task's inputs and outputs. REQUIRES: !baseline.
models::NtmOptions model_options(const NtmConfig& config);

}  // namespace tern::apps::ntm
