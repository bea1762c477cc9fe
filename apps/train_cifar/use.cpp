// Uses trained models: tests them (--eval), classifies pictures (--predict), and writes them for
// other programs (--export-onnx).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/train_cifar/program.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/onnx/onnx.h"
#include "tern/train/checkpoint.h"
#include "tern/train/progress.h"

namespace tern::apps::train_cifar {
namespace {

namespace fs = std::filesystem;

// Makes the model with these weights, for pictures of this form.
ImageClassifier trained_model(const std::string& weights, const std::string& name,
                              const PictureForm& form) {
  Rng rng(0);
  const ClassifierEntry& entry = find_classifier(name);
  ImageClassifier model = entry.make(entry.dropout, rng, nn::Recompute::none, form);
  load_weights_of(weights, model);
  return model;
}

// Error if the seed chooses other test pictures than in training, since the run's own pictures have
// changed: most of them would have been trained on.
void check_same_split(const std::string& weights, const std::string& path,
                      const LabelledPictures& data) {
  const training::RunFolder run{folder_of(weights)};
  if (!data.split_by_seed || !fs::exists(run.checkpoint())) return;
  const SafeTensors state = training::load_checkpoint(run.checkpoint());
  check(data_checksum(data) == training::checkpoint_text(state, "data", run.checkpoint()),
        "--data {}: these pictures have changed since the training of {}, and so has the share "
        "that was held back for tests; test on other pictures",
        path, weights);
}

// Whether `data` is the path of the run's own data.
bool are_its_own(const TrainOptions& run, const std::string& data) {
  std::error_code error;
  return !run.data.empty() && fs::equivalent(run.data, data, error);
}

}  // namespace

LabelledPictures pictures_to_test(const TrainOptions& o, const std::string& data,
                                  const datasets::FolderReading& reading) {
  if (are_its_own(o, data))
    return datasets::load_labelled_pictures(data, o.form.side, o.seed, reading);
  return datasets::load_test_pictures(data, o.form, o.class_names, o.seed, reading);
}

std::string weights_at(const std::string& flag, const std::string& path) {
  std::string file = path;
  if (fs::is_directory(path)) {
    const training::RunFolder run{path};
    const bool trained = fs::exists(run.checkpoint()) || fs::exists(run.best_weights());
    file = trained ? run.best_weights() : run.weights();
  }
  check_first_epoch_over(file);
  check_io(fs::exists(path), "{} {}: no such file or folder", flag, path);
  return file;
}

std::optional<TrainOptions> config_beside(const std::string& weights) {
  const training::RunFolder folder{folder_of(weights)};
  if (fs::exists(folder.file("config.json"))) return load_config(folder, std::nullopt);
  if (!fs::exists(folder.checkpoint())) return std::nullopt;
  return load_config(folder, training::load_checkpoint(folder.checkpoint()));
}

TrainedClassifier load_trained(const std::string& flag, const std::string& path) {
  const std::string weights = weights_at(flag, path);
  const std::optional<TrainOptions> run = config_beside(weights);
  check_io(run.has_value(),
           "{} {}: there is no config.json beside {}; is this a run of train_cifar?", flag, path,
           weights);
  return {weights, *run, trained_model(weights, run->model, run->form)};
}

int evaluate_weights(const CifarFlags& f) {
  check(!f.options.data.empty(), "--eval needs --data, the images to test on");
  const std::string weights = weights_at("--eval", f.eval);
  const std::string name = f.model_given ? f.options.model : model_of_weights(weights);
  const std::optional<TrainOptions> run = config_beside(weights);
  TrainOptions o = run.value_or(TrainOptions{});
  o.tta = f.tta.value_or(o.tta);
  const LabelledPictures data = pictures_to_test(
      o, f.options.data, {.upright = o.exif_rotation, .skip_damaged = f.options.skip_damaged});
  check_same_split(weights, f.options.data, data);
  if (!run && data.kind != "CIFAR-10")
    complain(
        fmt::format("train_cifar: there is no config.json beside {}: takes pictures of {} x {}, "
                    "normalised by those of the test",
                    weights, o.form.side, o.form.side));
  check(o.class_names.empty() || o.class_names == data.class_names,
        "--data {}: these are not the classes that {} was trained on", f.options.data, weights);
  const int64_t channels = o.class_names.empty() ? data.form.channels : o.form.channels;
  check(data.form.channels == channels,
        "--data {}: its pictures have {} channels, and {} was trained on {}", f.options.data,
        data.form.channels, weights, channels);
  for (const std::string& remark : data.remarks) complain("train_cifar: " + remark);
  const ImageClassifier model =
      trained_model(weights, name, o.class_names.empty() ? data.form : o.form);
  nn::EvalScope evaluating(model);
  const datasets::Dataset<LabelledPicture> test = limited(data.test, data.form, f.options.limit);
  std::optional<Evaluation> e;
  {
    training::Progress bar("testing", "images", test.size(), 0, stderr);
    datasets::Loader<datasets::Batch> batches = test_batches(test, model.form);
    const auto progress = [&](int64_t done) {
      bar.update(done);
      return true;
    };
    e = evaluate(model, batches, progress, nullptr, views_named(o.tta));
  }
  training::say(fmt::format("{} of {} on {} test images of {}{}", name, weights,
                            training::grouped(e->images), f.options.data, data.note),
                stderr);
  check_finite_result(weights, "test loss", e->loss);
  const std::string views = views_text(views_named(o.tta));
  training::say(fmt::format("test loss {:.4f}, top-1 {:.2f} %{}", e->loss, 100 * e->top[0],
                            views.empty() ? "" : " with " + views),
                stderr);
  print(accuracy_lines(e->top, e->ranks()));
  return 0;
}

int classify_pictures(const CifarFlags& f, std::ostream& out) {
  const auto [weights, run, model] = load_trained("--weights", f.weights);
  nn::EvalScope evaluating(model);
  std::vector<std::string> remarks;
  const std::vector<std::string> files = pictures_to_guess(f.predict, remarks);
  for (const std::string& remark : remarks) complain("train_cifar: " + remark);
  out << guess_heading(f.format, std::min(f.top, model.form.classes));
  constexpr size_t kAtOnce = 64;
  size_t damaged = 0;
  bool missing = false;
  for (size_t i = 0; i < files.size(); i += kAtOnce) {
    const std::vector<std::string> some(
        files.begin() + static_cast<std::ptrdiff_t>(i),
        files.begin() + static_cast<std::ptrdiff_t>(std::min(i + kAtOnce, files.size())));
    for (const Guesses& g : guess(some, model, run.class_names,
                                  {.top = f.top,
                                  .upright = run.exif_rotation,
                                  .views = views_named(f.tta.value_or(run.tta))})) {
      if (g.error.empty()) {
        out << for_standard_output(guess_line(g, f.format));
        continue;
      }
      ++damaged;  // the other pictures are still classified
      missing = missing || !fs::exists(g.file);
      complain("train_cifar: " + g.error);
    }
    check_written(out);
  }
  if (damaged == 0) return 0;
  complain(fmt::format("train_cifar: {} of {} pictures could not be read", damaged, files.size()));
  return f.options.skip_damaged && !missing && damaged < files.size() ? 0 : 2;
}

int export_classifier(const CifarFlags& f) {
  const TrainedClassifier trained = load_trained("--weights", f.weights);
  const ImageClassifier& model = trained.model;
  const TrainOptions& run = trained.run;
  const PictureForm& form = run.form;
  auto by_channel = [&](const auto& values) {
    return reshape(tensor(std::vector<float>(values.begin(), values.begin() + form.channels)),
                   {form.channels, 1, 1});
  };
  const Tensor mean = by_channel(form.normalization.mean), std = by_channel(form.normalization.std);
  auto fn = [&](const OnnxTensors& x) { return OnnxTensors{model((x[0] - mean) / std)}; };
  Rng rng(0);
  std::vector<OnnxTensors> examples;
  for (const int64_t n : {2, 5})
    examples.push_back({uniform({n, form.channels, form.side, form.side}, 0, 1, rng)});
  const std::string what =
      export_onnx(f.export_onnx, model, fn, examples,
                  {.inputs = {"images"},
                   .outputs = {"logits"},
                   .opset = f.opset,
                   .metadata = {{"classes", nlohmann::json(run.class_names).dump()}}});
  const std::string views = views_text(views_named(run.tta));
  training::say(
      fmt::format(
          "{} of {} as {}: {}, with pictures in [0, 1]{}", run.model, trained.weights,
          f.export_onnx, what,
          views.empty()
              ? ""
              : fmt::format("; one view of each, without the {} of tests and --predict", views)),
      stderr);
  return 0;
}

}  // namespace tern::apps::train_cifar
