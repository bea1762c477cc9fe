#include "tern/apps/train_cifar/run.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "tern/apps/common/checkpoint.h"
#include "tern/apps/common/interrupt.h"
#include "tern/apps/common/progress.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/folder.h"
#include "tern/apps/train_cifar/trainer.h"
#include "tern/core/error.h"
#include "tern/data/drawn.h"
#include "tern/nn/module.h"

namespace tern::apps {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsBetweenCheckpoints = 300;
// The drawn set: enough for over 90 % in about a minute on two cores.
constexpr int64_t kDrawnTrain = 10000, kDrawnTest = 2000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// A trainer at work in a folder.
class Run {
 public:
  Run(Trainer& trainer, RunFolder folder, Facts facts, std::vector<std::string> class_names)
      : trainer_(trainer),
        folder_(std::move(folder)),
        facts_(std::move(facts)),
        class_names_(std::move(class_names)) {}

  int go();

 private:
  int train_all();
  bool train_epoch();  // these two give false where a signal stopped them
  bool test_epoch();
  std::optional<Evaluation> test(const std::string& label);
  int finish();
  int stop();
  void save_checkpoint();
  void save_weights(const std::string& path) const;
  void write_report();
  std::string label(const char* what) const {
    return fmt::format("{} {}/{}", what, trainer_.epoch(), trainer_.options().epochs);
  }

  Trainer& trainer_;
  RunFolder folder_;
  Facts facts_;
  std::vector<std::string> class_names_;
  std::optional<Evaluation> evaluation_;  // of the last epoch that was closed here
  Clock::time_point last_save_;
  int64_t saved_step_ = 0;
};

int Run::go() {
  for (const auto& [heading, text] : facts_) say(fmt::format("{:8} {}", heading, text));
  say(fmt::format("{:8} {}", "folder", folder_.path));
  catch_interrupts();
  folder_.write_log(trainer_.progress().history);
  save_checkpoint();
  try {
    return train_all();
  } catch (const Diverged& e) {
    fmt::print(stderr,
               "train_cifar: {}; {} keeps the state after step {}. A lower --lr, --warmup or "
               "--clip may help\n",
               e.what(), folder_.checkpoint(), saved_step_);
    return 1;
  }
}

int Run::train_all() {
  while (!trainer_.finished()) {
    if (!train_epoch() || !test_epoch()) return stop();
  }
  return finish();
}

bool Run::train_epoch() {
  RunProgress& p = trainer_.progress();
  Progress bar(label("epoch"), "images", trainer_.train_images(), p.seen);
  while (!trainer_.epoch_trained()) {
    if (interrupted()) return false;
    auto start = Clock::now();
    trainer_.train_step();
    p.train_seconds += seconds_since(start);
    auto seen = static_cast<double>(p.seen);
    bar.update(p.seen, fmt::format("loss {:.4f}  top-1 {:.1f} %", p.loss_sum / seen,
                                   100 * static_cast<double>(p.correct) / seen));
    if (seconds_since(last_save_) > kSecondsBetweenCheckpoints) save_checkpoint();
  }
  return true;
}

std::optional<Evaluation> Run::test(const std::string& label) {
  Progress bar(label, "images", trainer_.test_set().size());
  return trainer_.test([&](int64_t done) {
    bar.update(done, "");
    return !interrupted();
  });
}

bool Run::test_epoch() {
  auto start = Clock::now();
  std::optional<Evaluation> result = test(label("testing"));
  if (!result) return false;
  RunProgress& p = trainer_.progress();
  p.test_seconds += seconds_since(start);
  if (!std::isfinite(result->loss))
    throw Diverged(
        fmt::format("the test loss after epoch {} is {}", trainer_.epoch(), result->loss));
  evaluation_ = std::move(result);
  const EpochRecord& epoch = trainer_.close_epoch(*evaluation_);
  // Weights and log first: a run that is killed in between repeats the epoch and writes the same.
  save_weights(folder_.last_weights());
  if (best_epoch(p.history).epoch == epoch.epoch) save_weights(folder_.best_weights());
  folder_.append_log(p.history);
  write_report();
  save_checkpoint();
  say(epoch_line(epoch, trainer_.options().epochs));
  return true;
}

int Run::finish() {
  if (!evaluation_) {  // a run that was finished before
    evaluation_ = test("testing");
    if (!evaluation_) return stop();
    write_report();
  }
  const EpochRecord& best = best_epoch(trainer_.progress().history);
  say(fmt::format("best epoch {}: top-1 {:.2f} %, {}", best.epoch, 100 * best.test_top[0],
                  folder_.best_weights()));
  say(fmt::format("report {}", folder_.report()));
  fmt::print("{}", accuracy_lines(evaluation_->top));
  return 0;
}

int Run::stop() {
  save_checkpoint();
  say(fmt::format("stopped in epoch {} after {} steps; to go on: --resume {}", trainer_.epoch(),
                  grouped(trainer_.progress().step), folder_.path));
  return kExitInterrupted;
}

void Run::save_checkpoint() {
  apps::save_checkpoint(folder_.checkpoint(), trainer_.state());
  last_save_ = Clock::now();
  saved_step_ = trainer_.progress().step;
}

void Run::save_weights(const std::string& path) const {
  save_safetensors(path,
                   {trainer_.weights(), {{"model", trainer_.options().model}, {"format", "pt"}}});
}

void Run::write_report() {
  ReportData data = report_data(trainer_, facts_, *evaluation_, class_names_);
  write_file_atomically(folder_.report(), make_report(data));
}

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

// The model of weights from anywhere: named by the user, by the file, or the post's.
std::string model_of(const TrainOptions& o) {
  if (o.model_given) return o.model;
  SafeTensors file = load_safetensors(o.eval);
  auto named = file.metadata.find("model");
  return named == file.metadata.end() ? "gmlp-4m" : named->second;
}

}  // namespace

int start_run(TrainOptions o) {
  if (!o.out.empty()) check_new_folder(o.out);
  models::Gmlp model = make_model(o);
  std::string data_path = o.data.empty() ? "" : o.data = absolute(o.data);
  Cifar10 data;
  if (!data_path.empty()) data = load_cifar10(data_path);
  RunFolder folder = make_run_folder(o.out, o.model);
  if (data_path.empty()) {
    data_path = folder.data();
    write_drawn_cifar(data_path, kDrawnTrain, kDrawnTest, o.seed);
    data = load_cifar10(data_path);
  }
  Trainer trainer(o, data, std::move(model));
  return Run(trainer, folder, describe(trainer, data_path), data.class_names).go();
}

int resume_run(const TrainOptions& given) {
  RunFolder folder{given.resume};
  check(std::filesystem::exists(folder.checkpoint()), "--resume {}: there is no {}", given.resume,
        folder.checkpoint());
  SafeTensors state = load_checkpoint(folder.checkpoint());
  TrainOptions o;
  options_from_json(metadata(state, "options", folder.checkpoint()), o);
  if (!given.data.empty()) o.data = absolute(given.data);
  std::string data_path = o.data.empty() ? folder.data() : o.data;
  Cifar10 data = load_cifar10(data_path);
  std::string init = std::exchange(o.init, "");
  models::Gmlp model = make_model(o);
  o.init = init;
  Trainer trainer(o, data, std::move(model));
  trainer.load_state(state, folder.checkpoint());
  state = {};
  return Run(trainer, folder, describe(trainer, data_path), data.class_names).go();
}

int evaluate_weights(const TrainOptions& o) {
  check(!o.data.empty(), "--eval needs --data, the images to test on");
  Rng rng(0);
  std::string name = model_of(o);
  models::Gmlp model(models::gmlp_options(name), rng);
  load_weights_of(o.eval, name, model);
  nn::set_training(model, false);
  Cifar10 data = load_cifar10(o.data);
  Dataset<ImageSample> test = image_dataset(data.test);
  if (o.limit > 0) test = test.limit(o.limit);
  std::optional<Evaluation> e;
  {
    Progress bar("testing", "images", test.size());
    e = evaluate(model, test, [&](int64_t done) {
      bar.update(done, "");
      return true;
    });
  }
  say(fmt::format("{} of {} on {} test images of {}", name, o.eval, grouped(e->images), o.data));
  say(fmt::format("test loss {:.4f}, top-1 {:.2f} %", e->loss, 100 * e->top[0]));
  fmt::print("{}", accuracy_lines(e->top));
  return 0;
}

}  // namespace tern::apps
