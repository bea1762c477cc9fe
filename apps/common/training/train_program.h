// The driver of all training programs: flags, a run's folder and configuration, start, resume, dry
// run, report and exit code. A program derives from TrainingProgram, which describes what it
// trains, and adds the command `train` with train_command().
//
// Under mpirun every rank runs the same program on the same data. Only rank 0 prints, locks and
// writes the folder, and makes the report.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/apps/common/training/dry_run.h"
#include "tern/apps/common/training/launch.h"
#include "tern/apps/common/training/run_record.h"
#include "tern/apps/common/training/training_options.h"
#include "tern/dist/world.h"
#include "tern/train/loop.h"

namespace tern::apps {

/// The flags of `train` that are not part of a run's configuration.
struct TrainFlags {
  std::string out, resume;
  bool dry_run = false, tensorboard = false;
  NetworkFlags network = {};             ///< for dry_run
  int threads = 0;                       ///< 0: all cores
  std::string command_line;              ///< the whole line, quoted for a shell
  int64_t epochs = 0;                    ///< --epochs, if it was given
  std::optional<int64_t> steps = {};     ///< --steps, if it was given
  std::optional<int64_t> patience = {};  ///< --patience, if it was given
  bool warmup_given = false;
  /// The ranks that mpirun started. nullptr: train() makes it.
  std::shared_ptr<dist::World> world = {};
};

/// A training: its data, model and report. The driver calls the members in this order.
class TrainingProgram {
 public:
  virtual ~TrainingProgram() = default;

  virtual std::string name() const = 0;  ///< "ntm"
  /// The command that starts a training; empty if the program needs none.
  virtual std::string command() const { return "train"; }
  /// Lists the whole configuration, which the run's folder stores. options() is the part that all
  /// programs share.
  virtual void settings(Settings& settings) = 0;
  virtual TrainingOptions& options() = 0;
  /// Error if a configuration from a file contradicts itself.
  virtual void check_config() const {}
  /// The file in the folder that holds the configuration.
  virtual std::string config_file() const { return "config.json"; }
  /// Reads the configuration from a folder. `state` is the folder's checkpoint, if there is one.
  virtual void read_config(const training::RunFolder& folder,
                           const std::optional<SafeTensors>& state);

  /// Loads the data, and completes the configuration accordingly. `resumed` is the folder of a
  /// resumed run, which may hold some of the data; nullptr for a new run.
  virtual void load(const training::RunFolder* resumed) { static_cast<void>(resumed); }
  /// A checksum of the loaded data, which must be the same on all ranks; empty: the settings
  /// determine the data.
  virtual std::string data_checksum() const { return ""; }
  /// Steps of the whole run without --steps, and the model width for the schedule noam.
  virtual int64_t steps() const = 0;
  virtual int64_t width() const { return 0; }
  /// Memory and operations of a step, for --dry-run. Must work before make_loop().
  virtual Summary summary() const = 0;
  /// Batches that the loader makes in advance, for --dry-run.
  virtual int64_t prefetched() const { return 0; }
  /// Whether the program chose model and length by the data. Then the driver prints an estimate of
  /// the time before it starts.
  virtual bool chose_by_data() const { return false; }
  /// "ntm-copy": the run's folder is runs/NAME unless --out names it.
  virtual std::string folder_name() const = 0;
  /// Writes the folder's files other than the configuration. Called only on rank 0.
  virtual void save(const training::RunFolder&) const {}
  /// Writes files that load() had to make anew because the folder of a resumed run lacks them.
  /// Called only on rank 0.
  virtual void save_missing(const training::RunFolder&) const {}
  /// Error unless the checkpoint's weights fit this configuration (check_resumed_fits).
  virtual void check_fits(const SafeTensors& checkpoint, const std::string& config_path) const = 0;
  /// Makes the model and its loop, which live as long as this object. `resumed`: a checkpoint will
  /// overwrite the weights.
  virtual training::Loop& make_loop(training::LoopOptions options, bool resumed) = 0;
  /// Members of the configuration that a resumed run may change, beside epochs, steps and patience.
  /// The driver refuses a checkpoint whose other members differ from the folder's configuration.
  virtual std::vector<std::string> may_change() const { return {}; }
  /// Model and data, as headings and texts. The recipe comes from the settings. Must work before
  /// make_loop(), for --dry-run.
  virtual Facts describe() const = 0;
  /// Prints the result and writes the report, after the last epoch and only on rank 0. Returns
  /// false if a signal stopped it.
  virtual bool finish() = 0;
  /// How to use the run's weights: {"write with it", "lm generate --model FOLDER"}.
  virtual std::pair<std::string, std::string> next(const std::string& folder) const = 0;

  /// For the report. The driver sets them before the loop runs, the record only on rank 0.
  Facts facts;
  RunRecord record;
};

/// Trains in a new folder, or resumes the run in flags.resume. Returns the exit code.
int train(TrainingProgram& program, TrainFlags flags);

/// The command `train`. `command` has the program's settings, which include `options`; its check
/// runs only for new runs. `more`: flags of the program that are allowed with --resume.
Command train_command(TrainFlags& flags, TrainingOptions& options, Command command,
                      const std::vector<std::string>& more = {});

/// Write and read a configuration as a JSON file. IoError if it is missing or damaged.
void save_config(const std::string& path, const Settings& settings);
void load_config(const std::string& path, const Settings& settings,
                 const std::function<void()>& check = {});
/// The configuration C in a file, checked by check_config().
template <class C>
C load_config(const std::string& path) {
  C config;
  load_config(path, settings_of(config), [&] { check_config(config); });
  return config;
}

}  // namespace tern::apps
