// What all trainings of lm have in common; what is of a kind of model alone is in gpt_training.h
// and bert_training.h.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tern/apps/common/run_page.h"
#include "tern/apps/common/train_program.h"
#include "tern/apps/lm/corpus.h"

namespace tern::apps::lm {

/// What there is not, among metrics.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Adds what `options` (folder, terminal, tensorboard and on_epoch) lack: `losses` are said of an
/// epoch; `pictures` is called behind each.
train::LoopOptions loop_options(train::LoopOptions options, const TrainConfig& config,
                                std::string (*losses)(const train::EpochRecord&),
                                std::function<void(const train::EpochRecord&)> pictures);

/// Throws Diverged unless the validation cost finitely many nats.
void check_validation(const train::Loop& loop, double nats, double loss);

/// The same ids elsewhere; in a ShapeOnlyScope without their memory.
Tensor copy_of(const Tensor& ids);

class LmProgram : public TrainingProgram {
 public:
  explicit LmProgram(TrainConfig c) : config(std::move(c)) {}

  std::string name() const override { return "lm"; }
  void settings(Settings& s) override { lm::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { lm::check_config(config); }
  std::string config_file() const override { return "lm.json"; }
  void load(const train::RunFolder* resumed) override;
  int64_t width() const override { return config.model.dim; }
  DryRunOptions dry_run_options() const override;
  std::string folder_name() const override;
  Facts describe() const override;
  bool finish() override;

  TrainConfig config;
  Texts texts;

 protected:
  /// What is said in the end, and the report.
  struct Ending {
    std::string page;
    bool attention;  ///< the page shows it
    std::vector<std::string> samples = {};
    std::string reached = {};  ///< ", 1.234 bits/byte"
    std::string use = {};      ///< how to use the weights
  };

  /// Makes of the texts what is trained on; for a new run tokenizer and sizes, too. Whether
  /// something is held out.
  virtual bool encode(bool resumed) = 0;
  virtual std::string model_text() const = 0;
  virtual std::string data_text() const = 0;  ///< behind the names of the texts
  virtual const train::Loop& loop() const = 0;
  virtual Ending ending(const RunSummary& run) const = 0;

  /// Of a step, for summary(), in an epoch of so many batches.
  SummaryOptions step_options(int64_t batches, std::function<void()> batch) const;
};

}  // namespace tern::apps::lm
