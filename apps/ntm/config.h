// What is trained on which task, and how. Stored in a run's folder as config.json and in its
// checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/epoch_end.h"
#include "tern/apps/common/memory_options.h"
#include "tern/data/tasks/sequence_tasks.h"
#include "tern/models/ntm.h"
#include "tern/train/schedule.h"

namespace tern::apps::ntm {

struct NtmConfig {
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
  std::string optimizer = "adam";  ///< one of optimizers()
  double lr = 1e-3;
  std::string schedule = "cosine";  ///< see train::schedule_names
  int64_t warmup = 0;
  double clip = 1;
  double ema = 0;
  uint64_t seed = 0;
  std::string precision = "f32";  ///< of matrix products
  MemoryOptions memory_use;
  EpochEndOptions epoch_end;

  /// "ntm-copy", "lstm-copy": the run's folder.
  std::string name() const;
  int64_t epochs() const { return (sequences + every - 1) / every; }
  /// Sequences of an epoch 0, 1, ...; the last may have fewer.
  int64_t epoch_sequences(int64_t epoch) const;
  /// Steps of the optimizer in the whole run.
  int64_t steps() const;
};

/// train::optimizer_names() without muon: these models have no lists of blocks, which it is for.
std::vector<std::string> optimizers();

/// The defaults of a task: sizes from the paper's tables 1 to 3, how long and how as measured here.
NtmConfig default_config(const std::string& task, bool baseline, const std::string& controller);

/// The model's options on the task's inputs and outputs. REQUIRES: !baseline.
models::NtmOptions model_options(const NtmConfig& config);

/// Error if a number is outside of what can be trained: files and flags may say anything.
void check_config(const NtmConfig& config);

/// As JSON; Error if the text is not such a configuration.
std::string to_json(const NtmConfig& config);
NtmConfig config_from_json(const std::string& json);

}  // namespace tern::apps::ntm
