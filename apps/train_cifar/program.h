// The program train_cifar: its flags, and its training for the driver
// (apps/common/training/train_program.h).
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/training/train_program.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/predict.h"

namespace tern::apps::train_cifar {

/// The values of the flags.
struct CifarFlags {
  TrainOptions options;
  TrainFlags train;
  std::string eval;                  ///< weights to test instead of training
  std::vector<std::string> predict;  ///< pictures to classify, and folders of pictures
  std::string format = "text";       ///< of the predictions
  int64_t top = 3;                   ///< number of classes per prediction
  std::string export_onnx;           ///< file for the model in ONNX
  int opset = 17;                    ///< of that file
  std::string weights;       ///< for `predict` and `export_onnx`: a run's folder, or a file in it
  bool model_given = false;  ///< --model
  std::optional<std::string> tta = {};  ///< --tta, if it was given
  /// For a new run: the settings that the user gave; the data choose the others. Empty: nothing is
  /// chosen.
  std::optional<GivenKeys> given = {};
  TrainOptions asked = {};  ///< the options before choose_model()
  bool suits_data = true;   ///< what choose_model() returned
};

/// The program, with the defaults that --model chooses.
Program cifar_program(CifarFlags& flags, int argc, char** argv);

class CifarProgram : public TrainingProgram {
 public:
  explicit CifarProgram(TrainOptions o) : config(std::move(o)) {}
  explicit CifarProgram(const CifarFlags& flags) : config(flags.options), flags_(flags) {}

  std::string name() const override { return "train_cifar"; }
  std::string command() const override { return ""; }
  void settings(Settings& s) override { train_cifar::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { train_cifar::check_config(config); }
  void read_config(const training::RunFolder& folder,
                   const std::optional<SafeTensors>& state) override;
  void load(const training::RunFolder* resumed) override;
  std::string data_checksum() const override { return train_cifar::data_checksum(data); }
  int64_t steps() const override { return total_steps(config, data.train.size()); }
  Summary summary() const override;
  int64_t prefetched() const override { return datasets::LoaderOptions().prefetch; }
  bool chose_by_data() const override { return !chosen_.empty(); }
  std::string folder_name() const override { return config.model; }
  void save(const training::RunFolder& folder) const override;
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override;
  training::Loop& make_loop(training::LoopOptions options, bool resumed) override;
  std::vector<std::string> may_change() const override { return {"data"}; }
  Facts describe() const override;
  bool finish() override;
  std::pair<std::string, std::string> next(const std::string& folder) const override {
    return {"classify pictures",
            as_started("train_cifar") + " --predict FILE... --weights " + folder};
  }

  TrainOptions config;
  LabelledPictures data;
  std::unique_ptr<CifarTraining> training;

 private:
  Facts about_data() const;
  void read_pictures(const training::RunFolder* resumed);
  void write_report();

  CifarFlags flags_;
  mutable bool said_start_ = false;  ///< the message about --init was printed
  std::string chosen_;               ///< flags that would set what the data chose
  datasets::Cifar10 drawn_;          ///< pictures of a new run without data
  std::string report_path_;
};

/// The configuration of the run in a folder; `state` is its checkpoint. IoError if it is damaged.
TrainOptions load_config(const training::RunFolder& folder,
                         const std::optional<SafeTensors>& state);

/// The file of weights that a flag names directly, or by the folder of a run or model.
std::string weights_at(const std::string& flag, const std::string& path);
/// The configuration of the run in the folder of these weights; empty if there is none.
std::optional<TrainOptions> config_beside(const std::string& weights);
/// The same, but empty also if `path` is empty or the configuration is of another kind.
std::optional<TrainOptions> run_of_weights(const std::string& path);

struct TrainedClassifier {
  std::string weights;  ///< their file
  TrainOptions run;     ///< its configuration
  ImageClassifier model;
};
/// The model of a run: weights_at() with config_beside(). IoError if one is missing or damaged.
TrainedClassifier load_trained(const std::string& flag, const std::string& path);

/// Choose settings that suit the data and that no flag gave. choose_model() runs before the
/// pictures are read, and chooses the model with its recipe and the side of pictures.
/// choose_length() runs afterwards, and chooses batch, epochs and warm-up by the number of
/// pictures. choose_model() returns whether the recipe suits the data; it does not where --model
/// names a model with a recipe for CIFAR-10.
bool choose_model(TrainOptions& options, const GivenKeys& given);
void choose_length(TrainOptions& options, const GivenKeys& given, const LabelledPictures& data);

/// Trains, or resumes a run.
int train_classifier(const CifarFlags& flags);
/// The pictures to test a run on: the test pictures of the run's own data, or all pictures of
/// another folder.
LabelledPictures pictures_to_test(const TrainOptions& run, const std::string& data,
                                  const datasets::FolderReading& reading);
/// Tests the weights in the file flags.eval on pictures_to_test(), and prints the accuracy.
int evaluate_weights(const CifarFlags& flags);
/// Writes the most likely classes of each picture in flags.predict. Returns 2 if some cannot be
/// read, unless they may be skipped.
int classify_pictures(const CifarFlags& flags, std::ostream& out);
/// Writes the model as flags.export_onnx. The file normalises its pictures itself, and has the
/// names of the classes as its property "classes", a JSON list.
int export_classifier(const CifarFlags& flags);

}  // namespace tern::apps::train_cifar
