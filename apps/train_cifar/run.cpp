#include "tern/apps/train_cifar/run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tern/apps/common/checkpoint.h"
#include "tern/apps/common/interrupt.h"
#include "tern/apps/common/progress.h"
#include "tern/apps/common/training_run.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/trainer.h"
#include "tern/core/base/error.h"
#include "tern/nn/module.h"

namespace tern::apps {
namespace {

// The drawn set: enough for over 90 % in seconds on two cores.
constexpr int64_t kDrawnTrain = 10000, kDrawnTest = 2000;

/// A trainer at work in a folder.
class CifarRun final : public Training {
 public:
  CifarRun(Trainer& trainer, RunFolder folder, const std::string& data_path,
           std::vector<std::string> class_names)
      : trainer_(trainer),
        folder_(std::move(folder)),
        facts_(describe(trainer, data_path)),
        class_names_(std::move(class_names)) {}

  int go() { return run_training("train_cifar", *this, folder_, facts_); }

  int64_t epoch() const override { return trainer_.epoch(); }
  int64_t epochs() const override { return trainer_.options().epochs; }
  int64_t step() const override { return trainer_.progress().step; }
  bool finished() const override { return trainer_.finished(); }
  bool epoch_trained() const override { return trainer_.epoch_trained(); }
  void train_step() override { trainer_.train_step(); }
  void add_seconds(double seconds) override { trainer_.progress().train_seconds += seconds; }
  SafeTensors state() const override { return trainer_.state(); }
  std::string epoch_line() const override { return apps::epoch_line(history().back(), epochs()); }
  Status status() const override;
  std::vector<std::string> log_lines() const override;
  bool close_epoch() override;
  bool finish() override;

 private:
  const std::vector<EpochRecord>& history() const { return trainer_.progress().history; }
  std::optional<Evaluation> test(const std::string& label, double* seconds);
  void save_weights(const std::string& path) const;
  void write_report();

  Trainer& trainer_;
  RunFolder folder_;
  Facts facts_;
  std::vector<std::string> class_names_;
  std::optional<Evaluation> evaluation_;  // of the last epoch that was closed here
};

Training::Status CifarRun::status() const {
  const RunProgress& p = trainer_.progress();
  auto seen = static_cast<double>(std::max<int64_t>(p.seen, 1));
  return {"images", p.seen, trainer_.train_images(),
          fmt::format("loss {:.4f}  top-1 {:.1f} %", p.loss_sum / seen,
                      100 * static_cast<double>(p.correct) / seen)};
}

std::vector<std::string> CifarRun::log_lines() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < history().size(); ++i) lines.push_back(log_line(history(), i));
  return lines;
}

std::optional<Evaluation> CifarRun::test(const std::string& label, double* seconds) {
  Progress bar(label, "images", trainer_.test_set().size());
  std::optional<Evaluation> result = trainer_.test([&](int64_t done) {
    bar.update(done, "");
    return !interrupted();
  });
  *seconds = bar.seconds();
  return result;
}

bool CifarRun::close_epoch() {
  double seconds = 0;
  std::optional<Evaluation> result =
      test(fmt::format("testing {}/{}", epoch(), epochs()), &seconds);
  if (!result) return false;
  trainer_.progress().test_seconds += seconds;
  if (!std::isfinite(result->loss))
    throw Diverged(fmt::format("the test loss after epoch {} is {}", epoch(), result->loss));
  evaluation_ = std::move(result);
  const EpochRecord& closed = trainer_.close_epoch(*evaluation_);
  save_weights(folder_.last_weights());
  if (best_epoch(history()).epoch == closed.epoch) save_weights(folder_.best_weights());
  write_report();
  return true;
}

bool CifarRun::finish() {
  if (!evaluation_) {  // a run that was finished before
    double seconds = 0;
    evaluation_ = test("testing", &seconds);
    if (!evaluation_) return false;
    write_report();
  }
  const EpochRecord& best = best_epoch(history());
  say(fmt::format("best epoch {}: top-1 {:.2f} %, {}", best.epoch, 100 * best.test_top[0],
                  folder_.best_weights()));
  say(fmt::format("report {}", folder_.report()));
  fmt::print("{}", accuracy_lines(evaluation_->top));
  return true;
}

void CifarRun::save_weights(const std::string& path) const {
  save_safetensors(path,
                   {trainer_.weights(), {{"model", trainer_.options().model}, {"format", "pt"}}});
}

void CifarRun::write_report() {
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
  data::Cifar10 data;
  if (!data_path.empty()) data = data::load_cifar10(data_path);
  RunFolder folder = make_run_folder(o.out, o.model);
  if (data_path.empty()) {
    data_path = folder.data();
    write_drawn_cifar(data_path, kDrawnTrain, kDrawnTest, o.seed);
    data = data::load_cifar10(data_path);
  }
  Trainer trainer(o, data, std::move(model));
  return CifarRun(trainer, folder, data_path, data.class_names).go();
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
  data::Cifar10 data = data::load_cifar10(data_path);
  std::string init = std::exchange(o.init, "");
  models::Gmlp model = make_model(o);
  o.init = init;
  Trainer trainer(o, data, std::move(model));
  trainer.load_state(state, folder.checkpoint());
  state = {};
  return CifarRun(trainer, folder, data_path, data.class_names).go();
}

int evaluate_weights(const TrainOptions& o) {
  check(!o.data.empty(), "--eval needs --data, the images to test on");
  Rng rng(0);
  std::string name = model_of(o);
  models::Gmlp model(models::gmlp_options(name), rng);
  load_weights_of(o.eval, name, model);
  nn::set_training(model, false);
  data::Cifar10 data = data::load_cifar10(o.data);
  data::Dataset<data::ImageSample> test = data::image_dataset(data.test);
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
