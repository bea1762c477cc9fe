// The program ntm: its commands, and its training for the driver
// (apps/common/training/train_program.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/training/train_program.h"
#include "tern/apps/ntm/training.h"

namespace tern::apps::ntm {

/// The values of the flags.
struct NtmFlags {
  NtmConfig config;                     ///< train
  TrainFlags train;                     ///< train
  std::vector<int64_t> heads;           ///< train: reading and writing heads, or both in one number
  std::string model = "runs/ntm-copy";  ///< eval: folder of a run
  std::vector<int64_t> lengths;         ///< eval
  int64_t count = 100;                  ///< eval: sequences per length
  int64_t repeats = 0;                  ///< eval: for repeat-copy; 0: random
  uint64_t seed = 0;                    ///< eval: random seed of the sequences
  std::string attention;                ///< eval: page or picture of the weightings
  std::string out;                      ///< export: the file
  int opset = 17;                       ///< export
};

/// The commands, with the defaults that --task, --baseline and --controller choose.
Program ntm_program(NtmFlags& flags, int argc, char** argv);

class NtmProgram : public TrainingProgram {
 public:
  explicit NtmProgram(NtmConfig c) : config(std::move(c)) {}

  std::string name() const override { return "ntm"; }
  void settings(Settings& s) override { ntm::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { ntm::check_config(config); }
  int64_t steps() const override { return config.steps(); }
  Summary summary() const override;
  std::string folder_name() const override { return config.name(); }
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override;
  training::Loop& make_loop(training::LoopOptions options, bool resumed) override;
  Facts describe() const override;
  bool finish() override;
  std::pair<std::string, std::string> next(const std::string& folder) const override {
    return {"test it", as_started("ntm") + " eval --model " + folder};
  }

  NtmConfig config;
  std::unique_ptr<NtmTraining> training;
};

/// The configuration of a run. IoError if it is missing or damaged.
NtmConfig load_config(const training::RunFolder& folder);

/// Trains or resumes; tests the model of a run on other lengths; writes one step of it as ONNX.
/// Each returns the exit code.
int train_ntm(const NtmFlags& flags);
int evaluate_model(const NtmFlags& flags);
int export_model(const NtmFlags& flags);

}  // namespace tern::apps::ntm
