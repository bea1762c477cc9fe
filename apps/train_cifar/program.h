// The program train_cifar: its flags, and what it gives to the driver of trainings.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/train_program.h"
#include "tern/apps/train_cifar/describe.h"

namespace tern::apps::train_cifar {

/// What the flags say.
struct CifarFlags {
  TrainOptions options;
  TrainFlags train;
  std::string eval;                  ///< weights that are only tested
  std::vector<std::string> predict;  ///< pictures that are classified
  std::string weights;               ///< by these: a run's folder, or a file in it
  bool model_given = false;          ///< --model
};

/// The program, with the defaults that --model chooses.
Program cifar_program(CifarFlags& flags, int argc, char** argv);

class CifarProgram : public TrainingProgram {
 public:
  /// `moved_data`: where the data of a run that goes on are now; empty: in their place.
  explicit CifarProgram(TrainOptions o, std::string moved_data = "")
      : config(std::move(o)), moved_data_(std::move(moved_data)) {}

  std::string name() const override { return "train_cifar"; }
  void settings(Settings& s) override { train_cifar::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { train_cifar::check_config(config); }
  void read_config(const train::RunFolder& folder,
                   const std::optional<SafeTensors>& state) override;
  void load(const train::RunFolder* resumed) override;
  int64_t steps() const override { return total_steps(config, data.train.size()); }
  Summary summary() const override;
  DryRunOptions dry_run_options() const override;
  std::string folder_name() const override { return config.model; }
  void save(const train::RunFolder& folder) const override;
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override;
  train::Loop& make_loop(train::LoopOptions options, bool resumed) override;
  std::vector<std::string> may_change() const override { return {"epochs", "data"}; }
  Facts describe() const override { return train_cifar::describe(*training, data_path_); }
  bool finish() override;

  TrainOptions config;
  Pictures data;
  std::unique_ptr<CifarTraining> training;

 private:
  void write_report();

  data::Cifar10 drawn_;  ///< of a new run without data
  std::string moved_data_, data_path_, report_path_;
};

/// The configuration of a run in a folder; `state` is its checkpoint. IoError if it is damaged.
TrainOptions load_config(const train::RunFolder& folder, const std::optional<SafeTensors>& state);

/// Trains, or goes on.
int train_classifier(const CifarFlags& flags);
/// Prints how well the weights in the file flags.eval do on the test images.
int evaluate_weights(const CifarFlags& flags);
/// Prints what the pictures flags.predict show, a line each. Gives 2 if some cannot be read.
int classify_pictures(const CifarFlags& flags);

}  // namespace tern::apps::train_cifar
