// The program translate: its commands, and its training for the driver
// (apps/common/training/train_program.h).
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "tern/apps/common/training/train_program.h"
#include "tern/apps/translate/choose.h"
#include "tern/apps/translate/training.h"

namespace tern::apps::translate {

/// The values of the flags.
struct TranslateFlags {
  TrainConfig config;                 ///< train; its precision and matmul also for run, eval, plot
  GivenKeys given;                    ///< train: settings of new runs whose flags were given
  TrainFlags train;                   ///< train; its threads also for run, eval, plot
  std::string model;                  ///< folder: run, eval, plot, shortlist, tune
  SearchOptions search;               ///< run, eval, plot
  std::optional<double> alpha;        ///< run, eval, plot: that of `search`, if its flag was given
  int64_t tuned_beam = 5;             ///< tune
  std::string attention;              ///< run, plot: page or picture to write
  std::string source, target;         ///< eval, shortlist, tune
  std::string pairs;                  ///< eval, tune: a file in place of both
  int64_t show = 0;                   ///< eval: sentences to print
  std::string hypotheses, reference;  ///< score
  bool lowercase = false, lowercase_given = false;  ///< eval, score
  std::string tokenize = "13a";                     ///< score
  std::string sentence;                             ///< plot
  std::string out;                                  ///< export: a folder
  int opset = 17;                                   ///< export
};

/// The commands, with the defaults of --preset, or of the preset that suits the other flags.
Program translate_program(TranslateFlags& flags, int argc, char** argv);

class TranslateProgram : public TrainingProgram {
 public:
  explicit TranslateProgram(TrainConfig c, GivenKeys given_flags = {})
      : config(std::move(c)), given(std::move(given_flags)) {}

  std::string name() const override { return "translate"; }
  void settings(Settings& s) override { translate::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { translate::check_config(config); }
  void load(const training::RunFolder* resumed) override;
  std::string data_checksum() const override { return corpus.checksum; }
  int64_t steps() const override { return total_steps(config, corpus); }
  int64_t width() const override { return config.model.dim; }
  /// Describes a step on the batch of the first epoch that needs the most memory.
  Summary summary() const override;
  int64_t prefetched() const override { return datasets::PairLoaderOptions().prefetch; }
  /// "translate-PRESET"; for the preset own it has the name of the file: "translate-fra".
  std::string folder_name() const override;
  void save(const training::RunFolder& folder) const override;
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override;
  training::Loop& make_loop(training::LoopOptions options, bool resumed) override;
  Facts describe() const override;
  bool finish() override;
  std::pair<std::string, std::string> next(const std::string& folder) const override;

  TrainConfig config;
  GivenKeys given;
  std::string chosen;  ///< flags that would set what the data chose
  PairFiles files;
  Tokenizers tokenizers;
  Corpus corpus;
  std::unique_ptr<TranslationTraining> training;
};

// The commands. Each returns the exit code.
int train_translation(const TranslateFlags& flags);
/// Translates the lines of a file descriptor. A single waiting line is translated at once; several
/// waiting lines are translated together.
int run_translations(const TranslateFlags& flags, int in, std::ostream& out);
int evaluate_model(const TranslateFlags& flags);
int score_files(const TranslateFlags& flags);
int plot_attention(const TranslateFlags& flags);
/// Finds the length penalty of a model folder, for searches without --alpha.
int tune_search(const TranslateFlags& flags);
/// Writes the lexicon of a model folder, for --shortlist.
int learn_shortlist(const TranslateFlags& flags);
/// Writes the encoder and a step of the decoder as ONNX files.
int export_model(const TranslateFlags& flags);

}  // namespace tern::apps::translate
