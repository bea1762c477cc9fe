#include "tern/apps/train_cifar/commands.h"

#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "tern/apps/common/launch.h"
#include "tern/apps/common/new_run.h"
#include "tern/apps/common/run_page.h"
#include "tern/apps/common/standard_streams.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/images.h"
#include "tern/apps/train_cifar/training.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/train/progress.h"

namespace tern::apps::train_cifar {
namespace {

// Where the run's drawn pictures lie.
std::string drawn_data(const train::RunFolder& folder) { return folder.file("data"); }

/// A training at work in a folder, with a report after each epoch.
class Launch {
 public:
  Launch(const TrainOptions& options, const data::Cifar10& data, const std::string& data_path,
         ImageClassifier model, const LockedFolder& folder, const Facts& more = {})
      : training_(options, data, std::move(model),
                  {.folder = folder.path,
                   .lock = folder.lock,
                   .tensorboard = options.tensorboard,
                   .on_epoch = [this](const train::EpochRecord&) { write_report(); }}),
        facts_(describe(training_, data_path)),
        class_names_(data.class_names),
        command_line_(options.command_line) {
    facts_.insert(facts_.begin() + 3, more.begin(), more.end());  // behind the recipe
  }

  train::Loop& loop() { return training_.loop; }
  int go() {
    record_ =
        record_start(loop(), "train_cifar", command_line_, options_to_json(training_.options));
    return run_loop("train_cifar", loop(), facts_, [this] { return finish(); });
  }

 private:
  bool finish() {
    if (training_.options.hold_out > 0) {
      if (!training_.test_best()) return false;
      write_report();
    } else if (!training_.evaluation) {  // a run that was finished before
      {
        train::Learner::Evaluation scope(training_.learner);
        training_.evaluation = training_.test("testing");
      }
      if (!training_.evaluation) return false;
      write_report();
    }
    for (const std::string& line : result_lines(training_)) train::say(line, loop().output());
    train::say(fmt::format("report {}", report_path_), loop().output());
    print(accuracy_lines(training_.evaluation->top));
    return true;
  }
  void write_report() {
    std::optional<train::Learner::Evaluation> scope;
    if (!training_.best_tested) scope.emplace(training_.learner);
    report_path_ =
        save_page(loop(), make_report(report_data(training_, facts_, class_names_, record_)));
  }

  CifarTraining training_;
  Facts facts_;
  std::vector<std::string> class_names_;
  std::string command_line_, report_path_;
  RunRecord record_;
};

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

// The model of weights from anywhere: named by the user, by the file, or train_cifar's own.
std::string model_of(const TrainOptions& o) {
  if (o.model_given) return o.model;
  check_first_epoch_over(o.eval);
  SafeTensors file = load_safetensors(o.eval);
  auto named = file.metadata.find("model");
  return named == file.metadata.end() ? "gmlp-4m" : named->second;
}

}  // namespace

int start_run(TrainOptions o) {
  if (!o.out.empty()) check_new_folder(o.out);
  ImageClassifier model = make_model(o);
  std::string data_path = o.data.empty() ? "" : o.data = absolute(o.data);
  data::Cifar10 data;
  if (!data_path.empty()) data = data::load_cifar10(data_path);
  const int64_t steps = total_steps(o, data_path.empty() ? kDrawnTrain : data.train->size());
  Facts more;
  train::ScheduleOptions schedule{.name = o.schedule, .warmup = o.warmup};
  if (!o.warmup_given) fit_warmup(schedule, steps, more);
  o.warmup = schedule.warmup;
  train::make_schedule(schedule, steps);  // what cannot be trained leaves no folder behind
  NewRunGuard guard(o.out);
  const LockedFolder folder = make_run_folder(o.out, o.model);
  guard.made(folder.lock);
  if (data_path.empty()) {
    data_path = drawn_data(folder);
    check_io(!std::filesystem::is_symlink(data_path),
             "{}: this is a link; pictures are drawn into the run's own folder alone", data_path);
    write_drawn_cifar(data_path, kDrawnTrain, kDrawnTest, o.seed);
    data = data::load_cifar10(data_path);
  }
  Launch launch(o, data, data_path, std::move(model), folder, more);
  guard.keep();
  return launch.go();
}

int resume_run(const TrainOptions& given) {
  const LockedFolder folder = resumed_folder(given.resume);
  SafeTensors state = *load_resumed(folder);
  TrainOptions o;
  options_from_json(train::checkpoint_text(state, "options", folder.checkpoint()), o);
  const MatmulPrecisionScope precision(matmul_precision(o.precision));
  o.epochs = resumed_epochs(o.schedule, o.epochs, given.epochs_given ? given.epochs : 0);
  if (!given.data.empty()) o.data = absolute(given.data);
  o.tensorboard = given.tensorboard;
  o.command_line = given.command_line;
  std::string data_path = o.data.empty() ? drawn_data(folder) : o.data;
  data::Cifar10 data = data::load_cifar10(data_path);
  TrainOptions drawn = o;
  drawn.init.clear();  // the checkpoint has the weights
  Launch launch(o, data, data_path, make_model(drawn), folder);
  launch.loop().load_state(state, folder.checkpoint());
  state = {};
  return launch.go();
}

int evaluate_weights(const TrainOptions& o) {
  check(!o.data.empty(), "--eval needs --data, the images to test on");
  Rng rng(0);
  const ClassifierEntry& entry = find_classifier(model_of(o));
  ImageClassifier model = entry.make(entry.dropout, rng);
  check_first_epoch_over(o.eval);
  load_weights_of(o.eval, model);
  nn::EvalScope evaluating(model);
  data::Cifar10 data = data::load_cifar10(o.data);
  data::Dataset<data::ImageSample> test = limited(data.test, o.limit);
  std::optional<Evaluation> e;
  {
    train::Progress bar("testing", "images", test.size(), 0, stderr);
    e = evaluate(model, test, [&](int64_t done) {
      bar.update(done);
      return true;
    });
  }
  train::say(fmt::format("{} of {} on {} test images of {}", entry.name, o.eval,
                         train::grouped(e->images), o.data),
             stderr);
  train::say(fmt::format("test loss {:.4f}, top-1 {:.2f} %", e->loss, 100 * e->top[0]), stderr);
  print(accuracy_lines(e->top));
  return 0;
}

}  // namespace tern::apps::train_cifar
