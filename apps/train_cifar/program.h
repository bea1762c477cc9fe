// The program train_cifar: its flags, and what the training driver needs of it.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/train_program.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/predict.h"

namespace tern::apps::train_cifar {

/// What the flags say.
struct CifarFlags {
  TrainOptions options;
  TrainFlags train;
  std::string eval;                     ///< weights that are only tested
  std::vector<std::string> predict;     ///< pictures that are classified, and folders of them
  std::string format = "text";          ///< how their classes are written
  int64_t top = 3;                      ///< and how many of them
  std::string weights;                  ///< by these: a run's folder, or a file in it
  bool model_given = false;             ///< --model
  std::optional<std::string> tta = {};  ///< --tta, if it was given
  /// Of a new run: these settings are the user's, the others are chosen by the data. None: all are
  /// as they are.
  std::optional<GivenKeys> given = {};
};

/// The program, with the defaults that --model chooses.
Program cifar_program(CifarFlags& flags, int argc, char** argv);

class CifarProgram : public TrainingProgram {
 public:
  explicit CifarProgram(TrainOptions o) : config(std::move(o)) {}
  explicit CifarProgram(const CifarFlags& flags);

  std::string name() const override { return "train_cifar"; }
  std::string command() const override { return name(); }
  void settings(Settings& s) override { train_cifar::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { train_cifar::check_config(config); }
  void read_config(const training::RunFolder& folder,
                   const std::optional<SafeTensors>& state) override;
  void load(const training::RunFolder* resumed) override;
  std::string data_checksum() const override { return train_cifar::data_checksum(data); }
  int64_t steps() const override { return total_steps(config, data.train.size()); }
  Summary summary() const override;
  DryRunOptions dry_run_options() const override;
  bool chose_by_data() const override { return !chosen_.empty(); }
  std::string folder_name() const override { return config.model; }
  void save(const training::RunFolder& folder) const override;
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override;
  training::Loop& make_loop(training::LoopOptions options, bool resumed) override;
  std::vector<std::string> may_change() const override { return {"epochs", "data"}; }
  Facts describe() const override;
  bool finish() override;
  std::pair<std::string, std::string> next(const std::string& folder) const override {
    return {"classify pictures", "train_cifar --predict FILE... --weights " + folder};
  }

  TrainOptions config;
  LabelledPictures data;
  std::unique_ptr<CifarTraining> training;

 private:
  Facts about_data() const;
  void read_pictures(const training::RunFolder* resumed);
  void write_report();

  bool dry_run_ = false;             ///< nothing is drawn
  std::optional<GivenKeys> given_;   ///< CifarFlags::given
  mutable bool said_start_ = false;  ///< what --init leaves out
  std::string chosen_;               ///< the flags that would set what was chosen by the data
  std::string moved_data_;           ///< where the data of a resumed run are now; empty: unmoved
  datasets::Cifar10 drawn_;          ///< of a new run without data
  std::string report_path_;
};

/// The configuration of the run in a folder; `state` is its checkpoint. IoError if it is damaged.
TrainOptions load_config(const training::RunFolder& folder,
                         const std::optional<SafeTensors>& state);

/// The file of weights that a flag names: itself, or that of a run's or a model's folder.
std::string weights_at(const std::string& flag, const std::string& path);
/// The configuration of the run in the folder of these weights; nothing if it has none.
std::optional<TrainOptions> config_beside(const std::string& weights);
/// The configuration of the run whose weights lie at a path; nothing if it is no run's.
std::optional<TrainOptions> run_of_weights(const std::string& path);

/// Settings that suit the data where no flag says otherwise. Before the pictures are read: the
/// model with its recipe, and the side of the pictures. Afterwards: batch, epochs and warm-up by
/// their number.
void choose_model(TrainOptions& options, const GivenKeys& given);
void choose_length(TrainOptions& options, const GivenKeys& given, const LabelledPictures& data);

/// Trains, or resumes.
int train_classifier(const CifarFlags& flags);
/// The pictures that a run is tested on: all of a folder, but of its own data those that it was not
/// trained on.
LabelledPictures pictures_to_test(const TrainOptions& run, const std::string& data,
                                  const datasets::FolderReading& reading);
/// Tests the weights in the file flags.eval on pictures_to_test(), and prints the accuracy.
int evaluate_weights(const CifarFlags& flags);
/// Writes the likeliest classes of each picture in flags.predict. Gives 2 if some cannot be read,
/// unless these are to be skipped.
int classify_pictures(const CifarFlags& flags, std::ostream& out);

}  // namespace tern::apps::train_cifar
