// The flags of train_cifar.
#pragma once

#include <cstdint>
#include <string>

#include "tern/apps/common/epoch_end.h"
#include "tern/apps/common/memory_options.h"

namespace tern::apps::train_cifar {

/// What a model may want to differ in from others (ClassifierEntry).
struct Recipe {
  int64_t batch = 32;
  double lr = 1e-4;
  double weight_decay = 0.01;
  std::string optimizer = "adamw";  ///< see train::optimizer_names
  std::string schedule = "constant";
  int64_t warmup = 0;  ///< steps
  double label_smoothing = 0;
  std::string augment = "none";
  double clip = 0;  ///< norm; 0: off

  bool operator==(const Recipe&) const = default;
};

struct TrainOptions : Recipe {
  std::string data;  ///< folder or archive; empty: the drawn set
  std::string model = "gmlp-4m";
  int64_t epochs = 10;
  double mixup = 0, cutmix = 0;  ///< alpha of the Beta distribution; 0: off
  double ema = 0;                ///< decay of the averaged weights; 0: off
  double dropout = 0.1;
  uint64_t seed = 0;
  int64_t limit = 0;              ///< use only so many training (and test) images; 0: all
  double hold_out = 0;            ///< share of the training images that chooses the best epoch
  std::string precision = "f32";  ///< of matrix products
  std::string init;               ///< weights to start from; empty: drawn ones
  MemoryOptions memory_use;
  EpochEndOptions epoch_end;
  // Not part of what makes a run the run it is:
  int threads = 0;  ///< 0: all cores
  bool dry_run = false, tensorboard = false;
  bool model_given = false, epochs_given = false, warmup_given = false;
  std::string out, resume, eval;
  std::string command_line;  ///< as it was given
};

/// Parses the command line. --help prints and returns false; wrong flags throw Error.
bool parse_options(int argc, char** argv, TrainOptions& options);

/// The options that make the run, as JSON, to be stored in a checkpoint; and back. IoError if the
/// text is no such options, or says what no flag could.
std::string options_to_json(const TrainOptions& options);
void options_from_json(const std::string& json, TrainOptions& options);

}  // namespace tern::apps::train_cifar
