// The trainings of lm. Code for only one kind of model is in a struct of functions K: GptKind or
// BertKind.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/pages/run_page.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/train_program.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/folder.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

/// Completes `options`, which already have folder, terminal and tensorboard. `losses` formats the
/// losses of an epoch; `pictures` is called after each epoch. `loop` may be constructed later.
training::LoopOptions loop_options(training::LoopOptions options, const TrainConfig& config,
                                   const training::Loop& loop,
                                   std::string (*losses)(const training::EpochRecord&),
                                   std::function<void(const training::EpochRecord&)> pictures);

/// A progress bar for the validation after an epoch.
training::Progress validation_bar(const training::Loop& loop, const char* unit, int64_t total);

/// Steps of the whole run. (The epochs of a bert differ by a batch or two; this uses the first.)
template <class Corpus>
int64_t total_steps(const TrainConfig& c, const Corpus& corpus) {
  return c.epochs * training::steps_per_epoch(training_batches(c, corpus), c.accumulate);
}

/// The model of a new run: with random weights, or with those of --from.
template <class K>
typename K::Model first_model(const TrainConfig& c, const typename K::Corpus& corpus) {
  typename K::Model model = K::draw(c, corpus);
  if (c.from.empty()) return model;
  const std::string path = pretrained::weights_path(c.from);
  K::load(path, model);
  check_finite_weights(path, nn::named_parameters(model));
  return model;
}

/// Model, optimizer, learner and loop of a training. The weights of the best epoch are written as
/// model.safetensors. REQUIRES: the corpus outlives it.
template <class K>
struct Training {
  /// Uses folder, terminal and tensorboard of `options`.
  Training(const TrainConfig& c, const typename K::Corpus& text, typename K::Model m,
           training::LoopOptions options = {})
      : config(c),
        corpus(text),
        model(std::move(m)),
        loader(training_batches(c, text)),
        optimizer(make_optimizer(c, nn::named_parameters(model))),
        learner(model, *optimizer, learner_options(c, total_steps(c, text), c.model.dim)),
        loop(learner, loader,
             {.loss = [this](const auto& b,
                             training::Means& m) { return K::loss(model, b, corpus, &m); },
              .evaluate = [this] { return K::validate(*this); },
              .weight = K::weight},
             loop_options(std::move(options), c, loop, K::losses,
                          [this](const training::EpochRecord& e) {
                            if (!loop.events()) return;
                            training::Learner::Evaluation scope(learner);
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
  datasets::Loader<typename K::Batch> loader;
  std::unique_ptr<optim::Optimizer> optimizer;
  training::Learner learner;
  training::Loop loop;
};

template <class K>
class KindProgram final : public TrainingProgram {
 public:
  explicit KindProgram(TrainConfig c) : config(std::move(c)) {}

  std::string name() const override { return "lm"; }
  void settings(Settings& s) override { lm::settings(s, config); }
  TrainingOptions& options() override { return config; }
  void check_config() const override { lm::check_config(config); }
  std::string config_file() const override { return "lm.json"; }
  void load(const training::RunFolder* resumed) override {
    if (is_demo(config) && !resumed)
      training::say("there is no --text, so the program generates stories", log_stream());
    const bool held_out = K::encode(config, resumed ? resumed->path : "", scratch, corpus);
    check_held_out(config, held_out, "--hold-out or --valid");
  }
  Facts describe() const override {
    ShapeOnlyScope nothing;
    Facts facts = {{"model", K::describe(K::draw(config, corpus))},
                   {"data", fmt::format("{}: {}", text_names(config), K::data_text(corpus))}};
    if (const std::string documents = K::documents(config, corpus); !documents.empty())
      facts.emplace_back("", documents);
    for (const std::string& remark : remarks_on_files(config)) facts.emplace_back("", remark);
    return facts;
  }
  std::string data_checksum() const override { return corpus.checksum; }
  int64_t steps() const override { return total_steps(config, corpus); }
  int64_t width() const override { return config.model.dim; }
  Summary summary() const override;
  int64_t prefetched() const override { return datasets::WindowLoaderOptions().prefetch; }
  std::string folder_name() const override {
    return fmt::format("lm-{}{}", config.model.model, is_demo(config) ? "-demo" : "");
  }
  void save(const training::RunFolder& folder) const override {
    save_description({folder.path}, config, corpus);
  }
  void save_missing(const training::RunFolder& folder) const override {
    K::save_missing({folder.path}, corpus);
  }
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override {
    check_resumed_fits(checkpoint, path, [&] { return K::draw(config, corpus); });
  }
  training::Loop& make_loop(training::LoopOptions options, bool resumed) override {
    options.bar.evaluation = static_cast<double>(K::valid_tokens(corpus)) /
                             static_cast<double>(3 * config.batch * config.window_tokens());
    training = std::make_unique<Training<K>>(
        config, corpus, resumed ? K::draw(config, corpus) : first_model<K>(config, corpus),
        std::move(options));
    return training->loop;
  }
  bool finish() override {
    const std::string title = fmt::format("{} on {}", config.model.model, text_names(config));
    const training::Loop& loop = training->loop;
    end_run(loop, K::ending(config, corpus, loop, summary_of(title, facts, record, loop)));
    return true;
  }
  std::pair<std::string, std::string> next(const std::string& folder) const override {
    return K::next(folder);
  }

  TrainConfig config;
  std::string scratch = ".";  ///< folder of a new run, or one above it, for unnamed files
  typename K::Corpus corpus;
  std::unique_ptr<Training<K>> training;
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

struct GptKind;
struct BertKind;
using LmTraining = Training<GptKind>;
using BertTraining = Training<BertKind>;
using GptProgram = KindProgram<GptKind>;
using BertProgram = KindProgram<BertKind>;

/// A language model that continues texts. Its metrics: train_loss (mean per token),
/// train_bits_per_byte, valid_loss, valid_ppl (exp(valid_loss)), valid_bits_per_byte; the last
/// three are NaN without a validation text.
struct GptKind {
  using Model = LanguageModel;
  using Corpus = lm::Corpus;
  using Batch = datasets::WindowBatch;

  /// Opens the corpus of the folder `resumed`, or makes it anew with that folder's tokenizer. For a
  /// new run (`resumed` is empty) makes tokenizer, sizes and, near the folder `scratch`, the
  /// corpus. Returns whether text is held out.
  static bool encode(TrainConfig& config, const std::string& resumed, const std::string& scratch,
                     Corpus& corpus);
  static void save_missing(const ModelFiles& files, const Corpus& corpus) {
    corpus.file.keep(files.tokens());
  }
  static Model draw(const TrainConfig& config, const Corpus&) { return make_model(config); }
  static void load(const std::string& path, const Model& model) { model.load(path); }
  static std::array<Tensor*, 2> tensors(Batch& b) { return {&b.tokens, &b.targets}; }
  /// A largest batch of an epoch.
  static Batch largest(datasets::Loader<Batch>& loader) { return loader.next().value(); }
  static double weight(const Batch& b) { return static_cast<double>(b.tokens.numel()); }
  static Tensor loss(const Model& model, const Batch& batch, const Corpus& corpus,
                     training::Means* means);
  static int64_t valid_tokens(const Corpus& c) { return c.valid.tokens; }
  static std::optional<training::Metrics> validate(const LmTraining& training);
  static std::string losses(const training::EpochRecord& epoch);
  static void add_pictures(const LmTraining& training, training::EventWriter& events, int64_t step);
  /// "gpt, 805,248 weights: 4 layers of 128 channels, ...".
  static std::string describe(const Model& model);
  static std::string data_text(const Corpus& corpus);
  static std::string documents(const TrainConfig& config, const Corpus& corpus);
  static std::pair<std::string, std::string> next(const std::string& folder) {
    return {"write with it",
            as_started("lm") + " generate --model " + folder + " --prompt \"...\""};
  }
  static Ending ending(const TrainConfig& config, const Corpus& corpus, const training::Loop& loop,
                       const RunSummary& run);
};

/// A BERT. Its metrics: train_loss, train_masked, train_next; valid_loss, valid_masked, valid_ppl
/// (exp(valid_masked)), valid_words (accuracy on masked words), valid_next, valid_pairs (accuracy
/// on pairs). Metrics without data are NaN: no pairs, or no validation text.
struct BertKind {
  using Model = models::Bert;
  using Corpus = BertCorpus;
  using Batch = datasets::BertBatch;

  /// Takes sizes, heads and dropout from the model that --from names.
  static void take_from(TrainConfig& config);
  /// As GptKind::encode, but the corpus is only in memory.
  static bool encode(TrainConfig& config, const std::string& resumed, const std::string& scratch,
                     Corpus& corpus);
  static void save_missing(const ModelFiles&, const Corpus&) {}
  static Model draw(const TrainConfig& config, const Corpus& corpus);
  static void load(const std::string& path, Model& model) {
    models::load_bert_weights(path, model);
  }
  static std::array<Tensor*, 6> tensors(Batch& b) {
    return {&b.tokens, &b.segments, &b.lengths, &b.places, &b.words, &b.next};
  }
  static Batch largest(datasets::Loader<Batch>& loader);
  static double weight(const Batch& b) { return sum(b.lengths).item(); }
  static Tensor loss(const Model& model, const Batch& batch, const Corpus& corpus,
                     training::Means* means);
  static int64_t valid_tokens(const Corpus& c) { return std::ssize(c.valid->tokens); }
  static std::optional<training::Metrics> validate(const BertTraining& training);
  static std::string losses(const training::EpochRecord& epoch);
  static void add_pictures(const BertTraining& training, training::EventWriter& events,
                           int64_t step);
  /// "bert, 805,248 weights: 4 layers of 128 channels, ...".
  static std::string describe(const Model& model);
  static std::string data_text(const Corpus& corpus);
  static std::string documents(const TrainConfig& config, const Corpus& corpus) {
    return documents_text(config, config.documents_found, corpus.marks);
  }
  static std::pair<std::string, std::string> next(const std::string& folder) {
    return {"fill gaps with it",
            as_started("lm") + " fill --model " + folder + " \"... [MASK] ...\""};
  }
  static Ending ending(const TrainConfig& config, const Corpus& corpus, const training::Loop& loop,
                       const RunSummary& run);
};

}  // namespace tern::apps::lm
