// The trainings of lm. What belongs to one kind of model alone is a struct of functions K, GptKind
// (gpt_training.h) or BertKind (bert_training.h).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tern/apps/common/run_page.h"
#include "tern/apps/common/train_program.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/folder.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

/// Adds what `options` (folder, terminal, tensorboard and on_epoch) lack: `losses` are said of an
/// epoch; `pictures` is called behind each.
train::LoopOptions loop_options(train::LoopOptions options, const TrainConfig& config,
                                std::string (*losses)(const train::EpochRecord&),
                                std::function<void(const train::EpochRecord&)> pictures);

/// A bar for the validation after an epoch of the loop.
train::Progress validation_bar(const train::Loop& loop, const char* unit, int64_t total);
/// Throws Diverged unless the nats of a validation are finite.
void check_validation(const train::Loop& loop, double nats, double loss);

/// The report, and what the program says at the end.
struct Ending {
  std::string page;
  bool attention;  ///< the page shows it
  std::vector<std::string> samples = {};
  std::string reached = {};  ///< ", 1.234 bits/byte"
  std::string use = {};      ///< how to use the weights
};

class LmProgram : public TrainingProgram {
 public:
  explicit LmProgram(TrainConfig c) : config(std::move(c)) {}

  std::string name() const override { return "lm"; }
  void settings(Settings& s) override { lm::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { lm::check_config(config); }
  std::string config_file() const override { return "lm.json"; }
  int64_t width() const override { return config.model.dim; }
  DryRunOptions dry_run_options() const override;
  std::string folder_name() const override;
  bool finish() override;

  TrainConfig config;
  std::string scratch = ".";  ///< the folder of a new run, or one above: for what has no name yet

 protected:
  virtual const train::Loop& loop() const = 0;
  virtual Ending ending(const RunSummary& run) const = 0;
};

/// Steps of the whole run. (A bert's epochs differ by a batch or two; the first one counts.)
template <class Corpus>
int64_t total_steps(const TrainConfig& c, const Corpus& corpus) {
  return c.epochs * train::steps_per_epoch(training_batches(c, corpus), c.accumulate);
}

/// The model that a new run begins with: drawn, or that of --from.
template <class K>
typename K::Model first_model(const TrainConfig& c, const typename K::Corpus& corpus) {
  typename K::Model model = K::draw(c, corpus);
  if (c.from.empty()) return model;
  const std::string path = ModelFiles{c.from}.weights();
  K::load(path, model);
  check_finite_weights(path, nn::named_parameters(model));
  return model;
}

/// The weights of the best epoch are written as model.safetensors. The corpus must outlive it.
template <class K>
struct Training {
  /// Of `options` folder, terminal, tensorboard and on_epoch count.
  Training(const TrainConfig& c, const typename K::Corpus& text, typename K::Model m,
           train::LoopOptions options = {})
      : config(c),
        corpus(text),
        model(std::move(m)),
        loader(training_batches(c, text)),
        optimizer(make_optimizer(c, nn::named_parameters(model))),
        learner(model, *optimizer, learner_options(c, total_steps(c, text), c.model.dim)),
        loop(learner, loader,
             {.loss = [this](const auto& b,
                             train::Means& m) { return K::loss(model, b, corpus, &m); },
              .evaluate = [this] { return K::validate(*this); },
              .weight = K::weight,
              .progress = [](const auto&) { return 1.0; }},
             loop_options(std::move(options), c, K::losses, [this](const train::EpochRecord& e) {
               if (!loop.events()) return;
               train::Learner::Evaluation scope(learner);
               NoGradGuard no_grad;
               K::add_pictures(*this, *loop.events(), e.steps);
             })) {
    loop.checkpoint().expect("data", corpus.checksum);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  TrainConfig config;
  const typename K::Corpus& corpus;
  typename K::Model model;
  data::Loader<typename K::Batch> loader;
  std::unique_ptr<optim::Optimizer> optimizer;
  train::Learner learner;
  train::Loop loop;
};

template <class K>
class KindProgram final : public LmProgram {
 public:
  using LmProgram::LmProgram;

  void load(const train::RunFolder* resumed) override {
    if (is_demo(config) && !resumed)
      train::say("generated stories, since there is no --text: the program makes them up now");
    const bool held_out = K::encode(config, resumed ? resumed->path : "", scratch, corpus);
    check_held_out(config, held_out, "--hold-out or --valid");
  }
  Facts describe() const override {
    ShapeOnlyScope nothing;
    return {{"model", K::describe(K::draw(config, corpus))},
            {"data", fmt::format("{}: {}", text_names(config), K::data_text(corpus))}};
  }
  std::string data_checksum() const override { return corpus.checksum; }
  int64_t steps() const override { return total_steps(config, corpus); }
  Summary summary() const override;
  void save(const train::RunFolder& folder) const override {
    save_description({folder.path}, config, corpus);
  }
  void save_missing(const train::RunFolder& folder) const override {
    K::save_missing({folder.path}, corpus);
  }
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override {
    check_resumed_fits(checkpoint, path, [&] { return K::draw(config, corpus); });
  }
  train::Loop& make_loop(train::LoopOptions options, bool resumed) override {
    options.evaluation = static_cast<double>(K::valid_tokens(corpus)) /
                         static_cast<double>(3 * config.batch * config.model.context);
    training = std::make_unique<Training<K>>(
        config, corpus, resumed ? K::draw(config, corpus) : first_model<K>(config, corpus),
        std::move(options));
    return training->loop;
  }

  typename K::Corpus corpus;
  std::unique_ptr<Training<K>> training;

 private:
  const train::Loop& loop() const override { return training->loop; }
  Ending ending(const RunSummary& run) const override {
    return K::ending(config, corpus, loop(), run);
  }
};

template <class K>
Summary KindProgram<K>::summary() const {
  auto loader = training_batches(config, corpus);
  const int64_t batches = loader.batches_per_epoch();
  typename K::Batch largest = K::largest(loader), batch;
  ShapeOnlyScope nothing;
  const typename K::Model model = K::draw(config, corpus);
  return tern::summary(
      model, [&] { return K::loss(model, batch, corpus, nullptr); },
      {.batch =
           [&] {
             batch = largest;
             for (Tensor* t : K::tensors(batch)) *t = copy_of(*t);
           },
       .optimizer = [&](const NamedTensors& p) { return make_optimizer(config, p); },
       .learner = learner_options(config),
       .accumulate = std::min(config.accumulate, batches),
       .optimizer_ranks = config.parallel.optimizer_ranks()});
}

}  // namespace tern::apps::lm
