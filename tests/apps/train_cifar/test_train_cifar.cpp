// train_cifar: training and exact resume, evaluation, configurations, flags, and whole runs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"
#include "tern/nn/nn.h"
#include "tern/tests/apps/config_faults.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"
#include "tern/tests/train/run_checks.h"

namespace tern::apps::train_cifar::test_train_cifar {
namespace {

using test::parse;

namespace fs = std::filesystem;

struct TempFolder {
  fs::path path =
      fs::temp_directory_path() / fmt::format("tern_train_cifar_{}", static_cast<int>(getpid()));
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Everything with randomness and everything with a state is on. An epoch has four steps, and the
// last batch is short.
TrainOptions busy_options(const char* model) {
  TrainOptions o;
  o.model = model;
  o.epochs = 3;
  o.batch = 6;
  o.optimizer = o.model == "gmlp-stem" ? "muon" : "adamw";
  o.lr = 1e-3;
  o.schedule = "cosine";
  o.warmup = 3;
  o.label_smoothing = 0.1;
  o.augment = "strong";
  o.mixup = 0.2;
  o.cutmix = 1;
  o.ema = 0.9;
  o.clip = 1;
  o.seed = 5;
  if (o.model != "airbench94") return o;
  o.epochs = 5;
  o.optimizer = "sgd";
  o.details = {.momentum = 0.85, .nesterov = true, .norm_bias_lr = 64, .lookahead = 3};
  o.schedule = "triangle";
  o.alternate_flips = true;
  return o;
}

const datasets::Cifar10& tiny_data() {
  static const datasets::Cifar10 kData = draw_cifar10(20, 10, 1);
  return kData;
}

// Takes one step. Tests and closes a finished epoch, unless `leave_open`.
void step(CifarTraining& t, bool leave_open = false) {
  if (t.loop.epoch_trained()) REQUIRE(t.loop.close_epoch());
  t.loop.step();
  if (t.loop.epoch_trained() && !leave_open) REQUIRE(t.loop.close_epoch());
}

void check_resumes(const char* model, int stop_at, int steps) {
  CAPTURE(stop_at);
  TempFolder folder;
  TrainOptions o = busy_options(model);
  CifarTraining whole(o, tiny_data(), make_model(o)), first(o, tiny_data(), make_model(o));
  for (int i = 0; i < steps; ++i) step(whole);
  for (int i = 0; i < stop_at; ++i) step(first, i + 1 == stop_at);
  first.loop.checkpoint().save(folder.file("c"));

  SafeTensors saved = training::load_checkpoint(folder.file("c"));
  const auto read =
      config_from_json<TrainOptions>(training::checkpoint_text(saved, "options", "c"));
  CifarTraining second(read, tiny_data(), make_model(read));
  second.loop.load_state(saved, "c");
  for (int i = stop_at; i < steps; ++i) step(second);
  test::check_same(whole.loop.state(), second.loop.state());
  CHECK(whole.loop.history().size() == static_cast<size_t>(steps / 4));
}

TEST_CASE("train_cifar: a stopped and resumed run equals an unbroken one bit for bit") {
  check_resumes("gmlp-small", 0, 3);
  check_resumes("gmlp-small", 2, 9);
  check_resumes("gmlp-small", 4, 6);  // trained, not yet tested
  check_resumes("gmlp-small", 5, 8);
  check_resumes("gmlp-stem", 3, 5);     // batch norm, stochastic depth
  check_resumes("slides-vit", 3, 5);    // dropout of attention
  check_resumes("airbench94", 3, 5);    // slow weights, flips by epoch
  check_resumes("airbench94", 13, 15);  // and a bias that is frozen by now
}

TEST_CASE("train_cifar: same bits on any number of threads") {
  TrainOptions o = busy_options("gmlp-small");
  CifarTraining a(o, tiny_data(), make_model(o)), b(o, tiny_data(), make_model(o));
  for (int i = 0; i < 5; ++i) step(a);
  const test::Threads other(num_threads() == 1 ? 2 : 1);
  for (int i = 0; i < 5; ++i) step(b);
  test::check_same(a.loop.state(), b.loop.state());
}

TEST_CASE("train_cifar: recomputation and steps inside backward do not change the numbers") {
  for (const char* model : {"gmlp-stem", "slides-vit"}) {
    CAPTURE(model);
    auto state_of = [&](const char* recompute, bool inside) {
      TrainOptions o = busy_options(model);
      o.clip = 0;
      o.memory_use = {.step_in_backward = inside, .recompute = recompute};
      CifarTraining t(o, tiny_data(), make_model(o));
      for (int i = 0; i < 3; ++i) step(t);
      SafeTensors state = t.loop.state();
      state.metadata.clear();  // differs: the options
      std::erase_if(state.tensors, [](const auto& named) { return named.first == "options"; });
      return state;
    };
    const SafeTensors plain = state_of("none", false);
    test::check_same(state_of("selective", true), plain);
    test::check_same(state_of("full", false), plain);
  }
}

TEST_CASE("train_cifar: a state of another model or other data is refused") {
  TrainOptions small = busy_options("gmlp-small"), stem = busy_options("gmlp-stem");
  CifarTraining a(small, tiny_data(), make_model(small)), b(stem, tiny_data(), make_model(stem));
  CHECK_THROWS_AS(b.loop.load_state(a.loop.state(), "file"), IoError);
  CifarTraining c(small, draw_cifar10(20, 10, 2), make_model(small));
  CHECK_THROWS_WITH_AS(c.loop.load_state(a.loop.state(), "file"),
                       doctest::Contains("file: the run was started with other data"), IoError);
  SafeTensors damaged = a.loop.state();
  damaged.metadata["loop"] = "{\"step\": 99999}";
  CHECK_THROWS_AS(a.loop.load_state(damaged, "file"), IoError);
}

TEST_CASE("train_cifar: values that no flag could set are refused") {
  const TrainOptions fine = busy_options("gmlp-small");
  CHECK(to_json(config_from_json<TrainOptions>(to_json(fine))) == to_json(fine));
  auto senseless = [&](auto change) {
    TrainOptions o = fine;
    change(o);
    CHECK_THROWS_AS(config_from_json<TrainOptions>(to_json(o)), Error);
  };
  senseless([](TrainOptions& o) { o.mixup = -1; });
  senseless([](TrainOptions& o) { o.cutmix = -0.1; });
  senseless([](TrainOptions& o) { o.ema = 1; });
  senseless([](TrainOptions& o) { o.dropout = -0.1; });
  senseless([](TrainOptions& o) { o.label_smoothing = 1.5; });
  senseless([](TrainOptions& o) { o.lr = 0; });
  senseless([](TrainOptions& o) { o.batch = 0; });
  senseless([](TrainOptions& o) { o.epochs = -1; });
  senseless([](TrainOptions& o) { o.augment = "weak"; });
  senseless([](TrainOptions& o) { o.model = "oracle"; });
  CHECK_THROWS_AS(config_from_json<TrainOptions>("[[[["), Error);
}

TEST_CASE("train_cifar: every wrong option is refused by name") {
  TrainOptions o = busy_options("gmlp-small");
  o.memory_use.optimizer_bits = 8;
  test::check_every_option(
      to_json(o), config_from_json<TrainOptions>, {"seed"},
      {"model", "schedule", "augment", "precision", "recompute", "tta"},
      {"hold_out", "accumulate", "beta2", "weight_decay", "decay_all", "pictures", "exif_rotation",
       "flip", "skip_damaged", "alternate_flips", "drop_last", "tta"});
}

TEST_CASE("train_cifar: weights that are not finite stop a training before they are saved") {
  TrainOptions o = busy_options("gmlp-small");
  ImageClassifier model = make_model(o);
  {
    NoGradGuard no_grad;
    for (const auto& [name, t] : nn::named_parameters(model))
      if (name == "head.bias") fill_(t, std::numeric_limits<double>::quiet_NaN());
  }
  CifarTraining t(o, tiny_data(), model);
  CHECK_THROWS_WITH_AS(
      t.loop.step(),
      doctest::Contains("the loss is nan in step 1 (epoch 1); head: linear was given NaN; inputs:"),
      training::Diverged);
  CHECK_THROWS_WITH_AS(t.loop.state(), "the weights head.bias are not finite before the first step",
                       training::Diverged);
}

TEST_CASE("train_cifar: rank_of") {
  const float scores[] = {0.1f, 0.5f, 0.5f, 0.2f};
  CHECK(rank_of(scores, 4, 1) == 0);
  CHECK(rank_of(scores, 4, 2) == 1);
  CHECK(rank_of(scores, 4, 3) == 2);
  CHECK(rank_of(scores, 4, 0) == 3);
  const float broken[] = {0.1f, NAN, 0.5f};
  CHECK(rank_of(broken, 3, 2) == 3);
}

TEST_CASE("train_cifar: an evaluation is the mean over pictures evaluated one by one") {
  TrainOptions o = busy_options("gmlp-small");
  ImageClassifier model = make_model(o);
  nn::EvalScope evaluating(model);
  const datasets::Cifar10 set = draw_cifar10(5, 30, 3);
  const datasets::Dataset<LabelledPicture> data = limited(LabelledPictures(set).test, {}, 0);
  datasets::Loader<datasets::Batch> batches = test_batches(data, model.form);
  Evaluation e = *evaluate(model, batches);
  double loss = 0;
  std::array<double, 5> top = {};
  NoGradGuard no_grad;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto index = static_cast<size_t>(i);
    Tensor x = empty({1, 3, 32, 32});
    const datasets::Image& image = set.test->images[index];
    datasets::normalize({image.begin(), image.end()}, {}, x.mutable_data<float>());
    std::vector<double> p = softmax(model(x), -1).to_vector<double>();
    auto label = static_cast<size_t>(set.test->labels[index]);
    loss -= std::log(p[label]) / 30;
    size_t better = 0;
    for (double other : p) better += other > p[label];
    for (size_t k = better; k < 5; ++k) top[k] += 1.0 / 30;
    CHECK(e.probabilities[index * 10 + label] == doctest::Approx(p[label]).epsilon(1e-4));
  }
  CHECK(e.images == 30);
  CHECK(e.loss == doctest::Approx(loss).epsilon(1e-5));
  for (size_t k = 0; k < 5; ++k) CHECK(e.top[k] == doctest::Approx(top[k]));
  CHECK(std::accumulate(e.confusion.begin(), e.confusion.end(), int64_t{0}) == 30);
  CHECK_FALSE(evaluate(model, batches, [](int64_t) { return false; }).has_value());
  CHECK(evaluate(model, batches)->probabilities == e.probabilities);
}

TEST_CASE("train_cifar: one loader serves all evaluations, also after a stopped one") {
  const datasets::Cifar10 set = draw_cifar10(20, 600, 1);
  TrainOptions o = busy_options("gmlp-small");
  CifarTraining t(o, set, make_model(o), {.terminal = false});
  for (int i = 0; i < 8; ++i) step(t);
  CHECK(t.evaluation_loader.position() ==
        datasets::LoaderPosition{0, t.evaluation_loader.batches_per_epoch()});
  nn::EvalScope evaluating(t.model);
  const Evaluation whole = *evaluate(t.model, t.evaluation_loader);
  CHECK(whole.images == 600);
  CHECK_FALSE(evaluate(t.model, t.evaluation_loader, [](int64_t done) { return done < 500; }));
  CHECK(t.evaluation_loader.position().batch > 0);
  CHECK(evaluate(t.model, t.evaluation_loader)->probabilities == whole.probabilities);
}

TEST_CASE("train_cifar: options are read back from JSON exactly") {
  TrainOptions o = busy_options("gmlp-stem");
  TrainOptions back = config_from_json<TrainOptions>(to_json(o));
  CHECK(to_json(back) == to_json(o));
  CHECK(back.mixup == 0.2);
  CHECK(back.optimizer == "muon");
  o.optimizer = "adamw";
  o.memory_use = {.recompute = "full", .optimizer_bits = 8};
  back = config_from_json<TrainOptions>(to_json(o));
  CHECK(back.memory_use == o.memory_use);
  CHECK_THROWS_AS(config_from_json<TrainOptions>("{\"lr\": \"x\"}"), Error);
  nlohmann::json older = nlohmann::json::parse(to_json(o));
  for (const char* later : {"optimizer", "memory_use", "epoch_end"}) older.erase(later);
  back = config_from_json<TrainOptions>(older.dump());
  CHECK(back.optimizer == "adamw");
  CHECK(back.memory_use == MemoryOptions{});
}

TEST_CASE("train_cifar: flags") {
  const TrainOptions post = parse({"--data", "x"}).options;
  CHECK(post.model == "gmlp-4m");
  CHECK(post.epochs == 10);
  CHECK(post.batch == 32);
  CHECK(post.lr == 1e-4);
  CHECK(post.dropout == 0.1);
  const TrainOptions drawn = parse({}).options;
  CHECK(drawn.model == "gmlp-small");
  CHECK(drawn.schedule == "cosine");
  CHECK(drawn.warmup == 100);
  CHECK(drawn.lr == 1e-3);
  CHECK(parse({"--model", "gmlp-stem"}).options.dropout == 0);
  CHECK(parse({"--model", "gmlp-stem", "--dropout", ".3"}).options.dropout == 0.3);
  const CifarFlags with_vit = parse({"--data", "x", "--model", "vit-lite-7-4", "--lr", ".01"});
  const TrainOptions& vit = with_vit.options;
  CHECK(with_vit.model_given);
  CHECK(vit.lr == 0.01);
  CHECK(vit.batch == 64);
  CHECK(vit.optimizer == "muon");
  CHECK(vit.schedule == "cosine");
  CHECK(vit.warmup == 500);
  CHECK(vit.augment == "standard");
  CHECK(vit.dropout == 0);
  const TrainOptions constant = parse({"--model", "slides-vit", "--schedule", "constant"}).options;
  CHECK(constant.schedule == "constant");
  CHECK(constant.warmup == 500);
  CHECK(constant.lr == 1e-3);
  CHECK(constant.optimizer == "adamw");
  CHECK(constant.epochs == 6);
  CHECK(parse({"--optimizer", "muon"}).options.optimizer == "muon");
  CHECK(parse({"--resume", "d", "--threads", "2", "--data", "x"}).train.resume == "d");
  CHECK(parse({"--resume", "d", "--tensorboard"}).train.tensorboard);
  CHECK_FALSE(parse({"--resume", "a b"}).train.tensorboard);
  CHECK(parse({"--resume", "a b"}).train.command_line == "train_cifar --resume 'a b'");
  CHECK(parse({"--eval", "w", "--data", "x", "--limit", "9", "--threads", "1"}).options.limit == 9);
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--no-such-flag"},
                                             {"--eval", "w", "--data", "x", "--epochs", "4"},
                                             {"--eval", "w", "--data", "x", "--out", "y"},
                                             {"--lr", "0"},
                                             {"--lr", "nan"},
                                             {"--epochs", "1.5"},
                                             {"--batch", "0"},
                                             {"--seed", "-1"},
                                             {"--model", "vgg"},
                                             {"--augment", "wild"},
                                             {"--clip", "1", "--step-in-backward"},
                                             {"--recompute", "all"},
                                             {"--optimizer-bits", "1"},
                                             {"--optimizer", "adma"},
                                             {"--optimizer", "lion", "--optimizer-bits", "8"},
                                             {"--resume", "d", "--step-in-backward"},
                                             {"--resume", "d", "--lr", "1"}})
    CHECK_THROWS_AS(parse(wrong), Error);
}

TEST_CASE("train_cifar: a run, its folder, its end and its evaluation") {
  TempFolder folder;
  CifarFlags f;
  TrainOptions& o = f.options;
  o = busy_options("gmlp-small");
  o.data = folder.file("data");
  f.train.out = folder.file("run");
  datasets::write_cifar10(o.data, tiny_data());
  f.train.tensorboard = true;
  f.train.command_line = "train_cifar <x>";
  REQUIRE(train_classifier(f) == 0);
  test::check_run_files(f.train.out, f.train.command_line, "Spatial weights/", false);
  CHECK_THROWS_WITH_AS(train_classifier(f), doctest::Contains("holds a run already"), Error);

  training::RunFolder run{f.train.out};
  CHECK(slurp(run.file("report.html")).find("<svg") != std::string::npos);
  std::string log = slurp(run.log());
  std::istringstream lines(log);
  nlohmann::json line;
  int64_t epoch = 0;
  for (std::string text; std::getline(lines, text);) {
    if (text.starts_with("{\"step\"")) continue;
    line = nlohmann::json::parse(text);
    CHECK(line.at("epoch") == ++epoch);
    for (const char* key : {"train_loss", "train_top1", "test_loss", "test_top1", "test_top2",
                            "test_top3", "test_top4", "test_top5", "images_per_s", "lr", "seconds"})
      CHECK(line.at(key).is_number());
  }
  CHECK(epoch == 3);

  ImageClassifier model = make_model(o);
  load_weights_of(run.weights(), model);
  nn::EvalScope evaluating(model);
  auto batches = test_batches(limited(LabelledPictures(tiny_data()).test, {}, 0), model.form);
  CHECK(evaluate(model, batches)->loss == line.at("test_loss"));
  for (const std::string& weights : {run.best_weights(), run.path}) {
    f.eval = weights;
    CHECK(evaluate_weights(f) == 0);
  }

  CifarFlags again;
  again.train.resume = f.train.out;
  CHECK(train_classifier(again) == 0);  // finished: only the report is written again
  CHECK(slurp(run.log()) == log);
  std::string checkpoint = slurp(run.checkpoint());
  std::string half = checkpoint.substr(0, checkpoint.size() / 2);
  std::ofstream(run.checkpoint(), std::ios::binary) << half;
  CHECK_THROWS_AS(train_classifier(again), IoError);
  CHECK(slurp(run.checkpoint()) == half);
}

// With a constant rate, which allows a longer run.
CifarFlags plain_run(const TempFolder& folder, const char* name, int64_t epochs) {
  CifarFlags f;
  f.options = busy_options("gmlp-small");
  f.options.schedule = "constant";
  f.options.warmup = 2;  // fits two and three epochs
  f.options.epochs = epochs;
  f.options.data = folder.file("data");
  f.train.out = folder.file(name);
  return f;
}

TEST_CASE("train_cifar: a run with a constant rate can be made longer, one with cosine cannot") {
  TempFolder folder;
  datasets::write_cifar10(folder.file("data"), tiny_data());
  REQUIRE(train_classifier(plain_run(folder, "whole", 3)) == 0);
  REQUIRE(train_classifier(plain_run(folder, "part", 2)) == 0);
  CifarFlags more = parse({"--resume", "d", "--epochs", "3"});
  more.train.resume = folder.file("part");
  REQUIRE(train_classifier(more) == 0);
  const training::RunFolder whole{folder.file("whole")}, part{folder.file("part")};
  CHECK(slurp(part.weights()) == slurp(whole.weights()));
  CHECK(slurp(part.best_weights()) == slurp(whole.best_weights()));
  more.train.epochs = 2;
  CHECK_THROWS_WITH_AS(train_classifier(more), doctest::Contains("already in epoch 3"), IoError);

  CifarFlags cosine = plain_run(folder, "cosine", 1);
  cosine.options.schedule = "cosine";
  cosine.options.warmup = 1;
  REQUIRE(train_classifier(cosine) == 0);
  more.train.resume = cosine.train.out;
  CHECK_THROWS_WITH_AS(train_classifier(more), doctest::Contains("the cosine schedule"), Error);
}

TEST_CASE("train_cifar: the default warm-up is cut to a short run, a given one is refused") {
  TempFolder folder;
  datasets::write_cifar10(folder.file("data"), tiny_data());
  CifarFlags f = plain_run(folder, "short", 1);
  f.options.schedule = "cosine";
  f.options.warmup = 100;
  CHECK(train_classifier(f) == 0);  // 4 steps
  CHECK(load_config({f.train.out}, std::nullopt).warmup == 1);
  f.train.out = folder.file("given");
  f.train.warmup_given = true;
  CHECK_THROWS_WITH_AS(train_classifier(f), doctest::Contains("a warm-up of 100 steps"), Error);
}

TEST_CASE("train_cifar: a folder of an older version, without config.json, resumes") {
  TempFolder folder;
  datasets::write_cifar10(folder.file("data"), tiny_data());
  REQUIRE(train_classifier(plain_run(folder, "whole", 3)) == 0);
  const CifarFlags part = plain_run(folder, "part", 2);
  REQUIRE(train_classifier(part) == 0);
  const training::RunFolder run{part.train.out};
  fs::remove(run.file("config.json"));
  // The checkpoint of an older version: without the members that came later.
  SafeTensors saved = training::load_checkpoint(run.checkpoint());
  nlohmann::json older =
      nlohmann::json::parse(training::checkpoint_text(saved, "options", run.checkpoint()));
  for (const char* later :
       {"memory_use", "epoch_end", "optimizer", "hold_out", "precision", "accumulate", "beta2",
        "decay_all", "parallel", "matmul", "exif_rotation", "flip", "skip_damaged", "steps",
        "eval_steps", "alternate_flips", "drop_last", "tta", "optimizer_details"})
    older.erase(later);
  CHECK(older.erase("pictures") == 1);
  CHECK(older.size() == 18);
  const TrainOptions read = config_from_json<TrainOptions>(older.dump());
  TrainOptions expected = load_config(run, saved);
  expected.class_names.clear();
  expected.exif_rotation = false;  // older versions ignored EXIF rotation
  CHECK(to_json(read) == to_json(expected));

  fs::rename(folder.file("data"), folder.file("moved"));
  CifarFlags more = parse({"--resume", "d", "--epochs", "3"});
  more.train.resume = run.path;
  CHECK_THROWS_WITH_AS(train_classifier(more), doctest::Contains("data: no such file"), IoError);
  more.options.data = folder.file("moved");
  REQUIRE(train_classifier(more) == 0);
  CHECK(load_config(run, std::nullopt).epochs == 3);
  CHECK(load_config(run, std::nullopt).data == folder.file("moved"));
  const training::RunFolder whole{folder.file("whole")};
  CHECK(slurp(run.weights()) == slurp(whole.weights()));
  more.train.epochs = 0;
  more.options.data = "";
  CHECK(train_classifier(more) == 0);  // the run finds the data in their new place
}

TEST_CASE("train_cifar: the report describes the classifier") {
  TrainOptions o = busy_options("gmlp-small");
  CifarTraining g(o, tiny_data(), make_model(o));
  for (int i = 0; i < 4; ++i) step(g);
  const Facts facts = describe(g, "data");
  CHECK(facts.at(0).second.starts_with("gmlp-small, "));
  const ReportData data = report_data(g, facts, tiny_data().class_names);
  CHECK(make_report(data).find("Confusion matrix") != std::string::npos);
  REQUIRE(data.after.maps.size() == 3);
  CHECK(data.before.maps[0].values.to_vector<float>() !=
        data.after.maps[0].values.to_vector<float>());
  CHECK(data.patch == 4);
  CHECK(make_report(data).find("Spatial weights") != std::string::npos);
  CHECK_THROWS_WITH_AS(find_classifier("vgg"), doctest::Contains("there are gmlp-4m"), Error);
}

}  // namespace
}  // namespace tern::apps::train_cifar::test_train_cifar
