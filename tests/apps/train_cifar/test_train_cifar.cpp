// train_cifar: evaluation, configurations, flags, and runs.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"
#include "tern/nn/nn.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::train_cifar::test_train_cifar {
namespace {

using test::parse;

namespace fs = std::filesystem;

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
  return o;
}

const datasets::Cifar10& tiny_data() {
  static const datasets::Cifar10 kData = draw_cifar10(20, 10, 1);
  return kData;
}

// Takes one step. Tests and closes a finished epoch.
void step(CifarTraining& t) {
  t.loop.step();
  if (t.loop.epoch_trained()) REQUIRE(t.loop.close_epoch());
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

TEST_CASE("train_cifar: of mixed pictures, the label with the larger weight counts as right") {
  const TrainOptions o = busy_options("gmlp-small");
  const ImageClassifier model = make_model(o);
  nn::EvalScope evaluating(model);
  const Tensor images = zeros({1, 3, 32, 32});
  const auto found = argmax(model(images), -1).item<int64_t>();
  const int64_t other = (found + 1) % model.form.classes;
  auto top1 = [&](double share) {  // of the class that the model finds
    std::vector<float> targets(static_cast<size_t>(model.form.classes));
    targets[static_cast<size_t>(found)] = static_cast<float>(share);
    targets[static_cast<size_t>(other)] = static_cast<float>(1 - share);
    datasets::Batch b{images, full({1}, other, DType::i64), {}, {}};
    b.targets = tensor(targets, {1, model.form.classes});
    training::Means means;
    CHECK(std::isfinite(training_loss(model, o, b, means).item()));
    return means.mean("top1");
  };
  CHECK(top1(.7) == 1);
  CHECK(top1(.3) == 0);
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
  const test::TempDir dir;
  datasets::write_cifar10(dir / "ten", draw_cifar10(20, 10, 1));
  const TrainOptions post = parse({"--data", dir / "ten"}).options;
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
  const CifarFlags with_vit =
      parse({"--data", dir / "ten", "--model", "vit-lite-7-4", "--lr", ".01"});
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
       std::vector<std::vector<std::string>>{{"--eval", "w", "--data", "x", "--epochs", "4"},
                                             {"--eval", "w", "--data", "x", "--out", "y"},
                                             {"--epochs", "1.5"},
                                             {"--batch", "0"},
                                             {"--model", "vgg"},
                                             {"--augment", "wild"}})
    CHECK_THROWS_AS(parse(wrong), Error);
}

TEST_CASE("train_cifar: the log of a run without held-out images, and its evaluation") {
  test::TempDir folder;
  CifarFlags f;
  TrainOptions& o = f.options;
  o = busy_options("gmlp-small");
  o.data = folder / "data";
  f.train.out = folder / "run";
  datasets::write_cifar10(o.data, tiny_data());
  REQUIRE(train_classifier(f) == 0);

  training::RunFolder run{f.train.out};
  const training::EpochRecord last = training::read_log(run.log()).epochs.back();
  for (const char* key :
       {"test_loss", "test_top1", "test_top2", "test_top3", "test_top4", "test_top5"})
    CHECK(std::isfinite(last[key]));

  ImageClassifier model = make_model(o);
  load_weights_of(run.weights(), model);
  nn::EvalScope evaluating(model);
  auto batches = test_batches(limited(LabelledPictures(tiny_data()).test, {}, 0), model.form);
  CHECK(evaluate(model, batches)->loss == last["test_loss"]);
  for (const std::string& weights : {run.best_weights(), run.path}) {
    f.eval = weights;
    CHECK(evaluate_weights(f) == 0);
  }
}

// With a constant rate, which allows a longer run.
CifarFlags plain_run(const test::TempDir& folder, const char* name, int64_t epochs) {
  CifarFlags f;
  f.options = busy_options("gmlp-small");
  f.options.schedule = "constant";
  f.options.warmup = 2;  // fits two and three epochs
  f.options.epochs = epochs;
  f.options.data = folder / "data";
  f.train.out = folder / name;
  return f;
}

TEST_CASE("train_cifar: a folder of an older version, without config.json, resumes") {
  test::TempDir folder;
  datasets::write_cifar10(folder / "data", tiny_data());
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

  fs::rename(folder / "data", folder / "moved");
  CifarFlags more = parse({"--resume", "d", "--epochs", "3"});
  more.train.resume = run.path;
  CHECK_THROWS_WITH_AS(train_classifier(more), doctest::Contains("data: no such file"), IoError);
  more.options.data = folder / "moved";
  REQUIRE(train_classifier(more) == 0);
  CHECK(load_config(run, std::nullopt).epochs == 3);
  CHECK(load_config(run, std::nullopt).data == (folder / "moved"));
  const training::RunFolder whole{folder / "whole"};
  CHECK(test::read_file(run.weights()) == test::read_file(whole.weights()));
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
