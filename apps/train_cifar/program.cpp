// The flags of train_cifar, loading of its data, and the steps that the driver calls.
#include "tern/apps/train_cifar/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include "tern/apps/common/pages/run_page.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/train/progress.h"

namespace tern::apps::train_cifar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAbout =
    "Trains an image classifier on CIFAR-10 or any labelled pictures (--data), and uses it.\n"
    "Without --data it generates pictures of ten shapes and trains gmlp-small on them, in less "
    "than a minute. With CIFAR-10 it trains gmlp-4m: patches of 8, batch 32, AdamW, 10 epochs. "
    "With other pictures it chooses model, size, batch and epochs by the data, and says what it "
    "chose; your flags win. A run has a folder with log, weights, checkpoint and report.html; "
    "Ctrl-C saves it, --resume continues it.";

// The folder of the run's generated pictures.
std::string drawn_data(const training::RunFolder& folder) { return folder.file("data"); }

// The generated set is easy: a small model learns it in seconds.
void use_drawn_defaults(TrainOptions& o, const Given& given) {
  if (!given("--model") && o.init.empty())
    o.model = "gmlp-small";  // its other defaults are those of gmlp-4m
  if (!given("--epochs")) o.epochs = 6;
  if (o.optimizer == "sgd") return;  // it needs other learning rates
  if (!given("--lr")) o.lr = 1e-3;
  if (given("--schedule") || given("--warmup")) return;
  o.schedule = "cosine";
  o.warmup = 100;
}

void check_predict(const CifarFlags& f, const Given& given) {
  given.check_beside("--predict",
                     {"--weights", "--format", "--top", "--tta", "--skip-damaged", "--threads",
                      "--precision", "--matmul"},
                     "nothing is trained");
  check(!f.weights.empty(), "--predict needs --weights, the folder of a run or a file of weights");
}

void check_export(const CifarFlags& f, const Given& given) {
  given.check_beside("--export-onnx", {"--weights", "--opset", "--threads"}, "nothing is trained");
  check(!f.weights.empty(),
        "--export-onnx needs --weights, the folder of a run or a file of weights");
}

void add_settings(Settings& s, CifarFlags& f) {
  settings(s, f.options);
  s.group(Group::run);
  s.text("eval", f.eval, "DIR|FILE",
         "only test these weights, or those of the run in a folder, on the test images of --data; "
         "of a folder without a test set on all")
      .not_in_files();
  const bool predicts = !f.predict.empty();
  s.find("skip_damaged")
      ->only_if(!f.options.data.empty() || predicts, "it is for --data and --predict");
  s.texts("predict", f.predict, "DIR|FILE",
          "only classify these pictures (.png, .jpg) and those in these folders, with --weights")
      .not_in_files();
  s.word("format", f.format, guess_formats(), "how --predict writes the classes")
      .not_in_files()
      .only_if(predicts, "it is for --predict");
  s.number("top", f.top, kCount, "so many likeliest classes of each picture of --predict")
      .not_in_files()
      .only_if(predicts, "it is for --predict");
  s.text(
       "export_onnx", f.export_onnx, "FILE.onnx",
       "only write the model of --weights for onnxruntime: f32 pictures (N, channels, side, side) "
       "with values in [0, 1], not normalised, to logits; N is any number")
      .not_in_files();
  add_opset(s, f.opset).not_in_files().only_if(!f.export_onnx.empty(), "it is for --export-onnx");
  s.text("weights", f.weights, "DIR|FILE",
         "for --predict and --export-onnx: the folder of a run, or its weights")
      .not_in_files()
      .only_if(predicts || !f.export_onnx.empty(), "it is for --predict and --export-onnx");
}

// Completes the flags of a new run.
void complete_flags(CifarFlags& f, const Given& given) {
  f.given = given_keys(settings_of(f.options), given);
  f.given->push_back("parallel.blocks");  // not chosen by the data, but perhaps for mpirun's ranks
  if (!f.options.init.empty()) f.options.init = weights_at("--init", f.options.init);
  if (!f.model_given && !f.options.init.empty()) {
    TrainOptions o = default_options(find_classifier(model_of_weights(f.options.init)).name);
    copy_settings(*f.given, f.options, o);
    f.options = o;
  }
  make_absolute(f.options.init);  // behind the errors about it, which name the path as it was given
  if (f.options.data.empty()) use_drawn_defaults(f.options, given);
  f.asked = f.options;
  TrainOptions& o = f.options;
  f.suits_data = choose_model(o, *f.given);
  if (o.optimizer != "sgd" && default_options(o.model).optimizer == "sgd") {
    check(given("--lr") || !o.init.empty() || o.data.empty(),
          "--optimizer {}: the recipe of {} is for sgd, with a rate of {:g}; give --lr too, for "
          "example --lr 1e-3",
          o.optimizer, o.model, o.lr);
    if (!given("--norm-bias-lr")) o.details.norm_bias_lr = 1;
  }
  check_config(f.options);
}

}  // namespace

Program cifar_program(CifarFlags& f, int argc, char** argv) {
  f.options = default_options(value_of("--model", argc, argv));
  Command command = train_command(f.train, f.options,
                                  {.name = "",
                                   .about = "",
                                   .settings = [&f](Settings& s) { add_settings(s, f); },
                                   .check = [&f](const Given& given) { complete_flags(f, given); }},
                                  {"--data"});
  command.check = [&f, check_training = command.check](const Given& given) {
    f.model_given = given("--model");
    if (given("--tta")) f.tta = f.options.tta;
    if (!f.predict.empty()) return check_predict(f, given);
    if (!f.export_onnx.empty()) return check_export(f, given);
    if (f.eval.empty()) return check_training(given);
    given.check_beside("--eval",
                       {"--data", "--model", "--tta", "--threads", "--limit", "--skip-damaged",
                        "--precision", "--matmul"},
                       "nothing is trained");
  };
  command.examples =
      "--data cifar-10-binary.tar.gz --out runs/cifar\n"
      "--resume runs/cifar\n"
      "--predict cat.png --weights runs/cifar\n"
      "--predict photos --weights runs/cifar --format csv > classes.csv\n"
      "--export-onnx cifar.onnx --weights runs/cifar";
  command.bare = "--data";
  command.run = [&f] {
    if (!f.predict.empty()) return classify_pictures(f, std::cout);
    if (!f.export_onnx.empty()) return export_classifier(f);
    return f.eval.empty() ? train_classifier(f) : evaluate_weights(f);
  };
  const std::string& model = f.options.model;
  return {"train_cifar",
          fmt::format("{} The defaults below are {}'s.", kAbout, model),
          {command},
          other_defaults(model)};
}

int train_classifier(const CifarFlags& f) {
  CifarProgram program(f);
  return train(program, f.train);
}

std::optional<TrainOptions> run_of_weights(const std::string& path) {
  try {
    return path.empty() ? std::nullopt : config_beside(path);
  } catch (const Error&) {  // a folder of timm has another kind of config.json
    return std::nullopt;
  }
}

TrainOptions load_config(const training::RunFolder& folder,
                         const std::optional<SafeTensors>& state) {
  CifarProgram program(TrainOptions{});
  program.read_config(folder, state);
  return program.config;
}

void CifarProgram::read_config(const training::RunFolder& folder,
                               const std::optional<SafeTensors>& state) {
  if (!state || fs::exists(folder.file(config_file())))
    return TrainingProgram::read_config(folder, state);
  reading(folder.checkpoint(), [&] {  // runs of earlier versions have it only in the checkpoint
    config = config_from_json<TrainOptions>(
        training::checkpoint_text(*state, "options", folder.checkpoint()));
  });
}

void CifarProgram::read_pictures(const training::RunFolder* resumed) {
  const bool drawn = config.data.empty();
  const std::string path = drawn && resumed ? drawn_data(*resumed) : config.data;
  const int64_t train = drawn_count(config.limit, kDrawnTrain);
  const int64_t test = drawn_count(config.limit, kDrawnTest);
  training::say(
      drawn ? fmt::format("{} generated pictures of shapes, not CIFAR-10; --data DIR trains "
                          "on pictures of your own",
                          training::grouped(train))
            : "reading " + path,
      log_stream());
  if (path.empty()) {
    drawn_ =
        flags_.train.dry_run ? blank_cifar10(train, test) : draw_cifar10(train, test, config.seed);
    data = {drawn_, config.form.side};
  } else {
    data = datasets::load_labelled_pictures(path, config.form.side, config.seed,
                                            folder_reading(config));
  }
  check(resumed || data.kind == "pictures" || (!config.skip_damaged && config.exif_rotation),
        "{}: these are not picture files, so --skip-damaged and --no-exif-rotation would change "
        "nothing",
        drawn ? "without --data" : path);
}

void CifarProgram::load(const training::RunFolder* resumed) {
  // --data of a resumed run: its pictures were moved.
  const std::string& given_data = flags_.options.data;
  if (!flags_.train.resume.empty() && !given_data.empty()) config.data = given_data;
  make_absolute(config.data);
  read_pictures(resumed);
  if (resumed) {
    const bool same = config.class_names.empty() ? config.form.classes == data.form.classes
                                                 : config.class_names == data.class_names;
    check_io(same && config.form.channels == data.form.channels,
             "{}: the run was started with other data: the classes are not the same", config.data);
    config.class_names = data.class_names;
    data.form = config.form;
    return;
  }
  if (flags_.given) {
    choose_length(config, *flags_.given, data);
    flags_.asked.data = config.data;
    chosen_ = flags_between(flags_.asked, config);
  }
  if (const auto run = run_of_weights(config.init))
    data.form.normalization = run->form.normalization;
  else if (!config.init.empty() && config.form.side > datasets::kImageSide)
    data.form.normalization = find_classifier(config.model).normalization;
  config.form = data.form;
  config.class_names = data.class_names;
  config.split_by_seed = data.split_by_seed;
  try {
    make_untrained(config);
  } catch (const Error& e) {
    fail(fmt::format("{}; give another --side or --model", e.what()));
  }
}

// Remarks on the data, and the settings that were chosen by them.
Facts CifarProgram::about_data() const {
  constexpr int64_t kFew = 500;
  Facts facts;
  for (const std::string& remark : data.remarks) facts.emplace_back("", remark);
  if (chosen_.empty()) return facts;
  facts.emplace_back("chosen", "by the data:" + chosen_);
  if (!flags_.suits_data)
    facts.emplace_back("", "the rest is the recipe of " + config.model +
                               " for CIFAR-10, because --model names it; without --model all of "
                               "the recipe suits the data");
  if (chosen_.find(" --no-flip") != chosen_.npos)
    facts.emplace_back("",
                       "pictures are not mirrored, because mirrored letters and digits would be "
                       "wrong; --flip mirrors them");
  if (config.init.empty() && data.train.size() < kFew)
    facts.emplace_back("", "with so few pictures start from timm's weights: --init FILE");
  return facts;
}

// Before make_loop() there is neither a folder with the data nor a number of steps.
Facts CifarProgram::describe() const {
  Facts facts;
  if (training) {
    facts = train_cifar::describe(
        *training, config.data.empty() ? drawn_data(training->loop.folder()) : config.data);
  } else {
    const int64_t all = data.train.size(), train = trained_images(config, all);
    const int64_t used = config.limit > 0 ? std::min(all, config.limit) : all;
    const int64_t test = limited(data.test, data.form, config.limit).size();
    facts = {
        {"model", describe_model(make_untrained(config))},
        {"data", fmt::format("{} of {} classes", images_text(train, used - train, test, data.note),
                             data.form.classes)}};
  }
  for (const auto& fact : about_data()) facts.push_back(fact);
  return facts;
}

void CifarProgram::save(const training::RunFolder& folder) const {
  if (!config.data.empty()) return;
  const std::string path = drawn_data(folder);
  check_io(!fs::is_symlink(path),
           "{}: this is a link; pictures are generated only into the run's own folder", path);
  datasets::write_cifar10(path, drawn_);
}

Summary CifarProgram::summary() const {
  std::optional<ShapeOnlyScope> nothing;
  if (config.init.empty()) nothing.emplace();
  const ImageClassifier model = make_model(config, !std::exchange(said_start_, true));
  const int64_t count = std::min(config.batch, trained_images(config, data.train.size()));
  datasets::Batch batch;
  training::Means means;
  auto make_batch = [&] {
    const PictureForm& f = config.form;
    batch.images = zeros({count, f.channels, f.side, f.side});
    batch.labels = zeros({count}, DType::i64);
    if (config.mixup + config.cutmix > 0) batch.targets = zeros({count, f.classes});
  };
  return tern::summary(
      model, [&] { return training_loss(model, config, batch, means); },
      {.batch = make_batch,
       .optimizer = [&](const NamedTensors& p) { return make_optimizer(config, p); },
       .learner = learner_options(config),
       .accumulate = std::min(config.accumulate, epoch_batches(config, data.train.size())),
       .optimizer_ranks = config.parallel.optimizer_ranks()});
}

void CifarProgram::check_fits(const SafeTensors& checkpoint, const std::string& path) const {
  check_resumed_fits(checkpoint, path, [&] { return make_untrained(config); });
}

training::Loop& CifarProgram::make_loop(training::LoopOptions options, bool resumed) {
  TrainOptions start = config;
  if (resumed) start.init.clear();  // the checkpoint has the weights
  options.on_epoch = [this](const training::EpochRecord&) { write_report(); };
  training.reset();  // frees a training that only timed steps
  training = std::make_unique<CifarTraining>(
      config, data, make_model(start, !std::exchange(said_start_, true)), std::move(options));
  return training->loop;
}

bool CifarProgram::finish() {
  CifarTraining& t = *training;
  if (config.hold_out > 0 || config.tta != "none") {
    if (!t.test_best()) return false;
    record_tested(t.loop, metrics_of(*t.evaluation, "test"));
    write_report();
  } else if (!t.evaluation) {  // the run was already finished when it was resumed
    {
      training::Learner::Evaluation scope(t.learner);
      t.evaluation = t.test("testing");
    }
    if (!t.evaluation) return false;
    write_report();
  }
  for (const std::string& line : result_lines(t)) training::say(line, t.loop.output());
  training::say(fmt::format("report {}", report_path_), t.loop.output());
  print(accuracy_lines(t.evaluation->top, t.evaluation->ranks()));
  return true;
}

void CifarProgram::write_report() {
  std::optional<training::Learner::Evaluation> scope;
  if (!training->best_tested) scope.emplace(training->learner);
  report_path_ = save_page(training->loop,
                           make_report(report_data(*training, facts, data.class_names, record)));
}

}  // namespace tern::apps::train_cifar
