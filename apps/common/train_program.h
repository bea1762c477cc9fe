// The driver of all training programs: flags, a run's folder and configuration, start, resume, dry
// run, report and exit code stand here once. A program says what it trains: it derives from
// TrainingProgram and adds the command `train` to its commands by train_command().
//
// Under mpirun every rank runs the same program on the same data. Rank 0 alone speaks, locks and
// writes the folder, and makes the report.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tern/apps/common/command_line.h"
#include "tern/apps/common/dry_run.h"
#include "tern/apps/common/launch.h"
#include "tern/apps/common/run_record.h"
#include "tern/apps/common/training_options.h"
#include "tern/dist/world.h"
#include "tern/train/loop.h"

namespace tern::apps {

/// The flags of `train` that are not part of a run's configuration.
struct TrainFlags {
  std::string out, resume;
  bool dry_run = false, tensorboard = false;
  NetworkFlags network = {};             ///< for dry_run
  int threads = 0;                       ///< 0: all cores
  std::string command_line;              ///< as it was given
  int64_t epochs = 0;                    ///< --epochs, if it was given
  std::optional<int64_t> steps = {};     ///< --steps, if it was given
  std::optional<int64_t> patience = {};  ///< --patience, if it was given
  bool warmup_given = false;
  /// The ranks that mpirun started. None: train() makes it.
  std::shared_ptr<dist::World> world = {};
};

/// A training: its data, model and report. The driver calls these members in this order.
class TrainingProgram {
 public:
  virtual ~TrainingProgram() = default;

  virtual std::string name() const = 0;  ///< "ntm"
  /// The words that start a training on a command line.
  virtual std::string command() const { return name() + " train"; }
  /// Lists the whole configuration, which the run's folder keeps. options() is its common part.
  virtual void settings(Settings& settings) = 0;
  virtual TrainingOptions& options() = 0;
  /// Error if a configuration from a file contradicts itself.
  virtual void check_config() const {}
  /// The file of the folder that keeps it.
  virtual std::string config_file() const { return "config.json"; }
  /// Reads it from a folder. `state` is the folder's checkpoint, if there is one.
  virtual void read_config(const training::RunFolder& folder,
                           const std::optional<SafeTensors>& state);

  /// Loads the data, and completes the configuration by them. `resumed` is the folder of a resumed
  /// run, which keeps part of them; nullptr for a new run.
  virtual void load(const training::RunFolder* resumed) { static_cast<void>(resumed); }
  /// A checksum of what was loaded, which all ranks must have; empty: the settings say it all.
  virtual std::string data_checksum() const { return ""; }
  /// Steps of the whole run, where it is not --steps that says it; and the width that the schedule
  /// noam asks for.
  virtual int64_t steps() const = 0;
  virtual int64_t width() const { return 0; }
  /// Memory and operations of a step, for --dry-run. (The model has no memory yet.)
  virtual Summary summary() const = 0;
  virtual DryRunOptions dry_run_options() const = 0;
  /// Whether the program chose by the data what it trains, and for how long: then the driver says
  /// before it begins how long that takes.
  virtual bool chose_by_data() const { return false; }
  /// "ntm-copy": the run's folder is runs/NAME unless --out names it.
  virtual std::string folder_name() const = 0;
  /// Writes what the folder keeps beside the configuration. Rank 0 alone.
  virtual void save(const training::RunFolder&) const {}
  /// Writes what load() had to make anew because the folder of a resumed run lacks it. Called on
  /// rank 0 alone.
  virtual void save_missing(const training::RunFolder&) const {}
  /// Error unless the checkpoint is of a model of this configuration (check_resumed_fits).
  virtual void check_fits(const SafeTensors& checkpoint, const std::string& config_path) const = 0;
  /// Makes the model and its loop, which live as long as this. `resumed`: the weights come from a
  /// checkpoint afterwards.
  virtual training::Loop& make_loop(training::LoopOptions options, bool resumed) = 0;
  /// Members of the configuration that a resumed run may change, beside patience and steps. (The
  /// driver refuses a checkpoint whose other members differ from the folder's configuration.)
  virtual std::vector<std::string> may_change() const { return {"epochs"}; }
  /// Model and data, as headings and texts. The recipe comes from the settings.
  virtual Facts describe() const = 0;
  /// After the last epoch, on rank 0 alone: prints the result and writes the report. False: a
  /// signal stopped it.
  virtual bool finish() = 0;
  /// What the run's weights are for, and how: {"write with it", "lm generate --model FOLDER"}.
  virtual std::pair<std::string, std::string> next(const std::string& folder) const = 0;

  /// For the report; set before the loop runs, the record on rank 0 alone.
  Facts facts;
  RunRecord record;
};

/// Trains in a new folder, or resumes the run in flags.resume. Returns the exit code.
int train(TrainingProgram& program, TrainFlags flags);

/// The command `train`. `command` has the program's settings, with `options` among them; its check
/// is for new runs alone. `more` are flags of the program that may stand beside --resume.
Command train_command(TrainFlags& flags, TrainingOptions& options, Command command,
                      const std::vector<std::string>& more = {});

/// Writes and reads a configuration as a file of JSON. IoError if it is not there or damaged.
void save_config(const std::string& path, const Settings& settings);
void load_config(const std::string& path, const Settings& settings,
                 const std::function<void()>& check = {});

}  // namespace tern::apps
