// Which weights of a run count: those of the last epoch, or with --hold-out those of the best epoch
// on held-out images. Only the latter see the test set.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tern/apps/common/training/run_record.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/images.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/data_files.h"
#include "tern/train/run_log.h"

namespace tern::apps::train_cifar::test_hold_out {
namespace {

const datasets::Cifar10& tiny_data() {
  static const datasets::Cifar10 kData = draw_cifar10(40, 20, 1);
  return kData;
}

// The rate is far too high, so that the last epoch is not the best.
TrainOptions wild_options(double share) {
  TrainOptions o;
  o.model = "gmlp-small";
  o.epochs = 4;
  o.batch = 6;
  o.lr = 0.05;
  o.ema = 0.5;
  o.seed = 5;
  o.hold_out = share;
  return o;
}

CifarFlags in_folder(const test::TempDir& dir, const char* name, double share) {
  CifarFlags f;
  f.options = wild_options(share);
  f.options.data = dir / "data";
  f.train.out = dir / name;
  if (!std::filesystem::exists(f.options.data))
    datasets::write_cifar10(f.options.data, tiny_data());
  return f;
}

CifarFlags to_resume(const CifarFlags& run) {
  CifarFlags f;
  f.train.resume = run.train.out;
  return f;
}

// The whole set; hold_out() divides it.
datasets::Dataset<LabelledPicture> all_of(const std::shared_ptr<const datasets::ImageSet>& set) {
  const LabelledPictures pictures({set, set, {}});
  return limited(pictures.train, pictures.form, 0);
}

std::set<const uint8_t*> pictures(const datasets::Dataset<LabelledPicture>& set) {
  std::set<const uint8_t*> all;
  for (int64_t i = 0; i < set.size(); ++i) all.insert(set.get(i).bytes.get());
  return all;
}

Evaluation evaluation_of(const TrainOptions& o, const std::string& weights,
                         const datasets::Dataset<LabelledPicture>& set) {
  const MatmulBackendScope as_the_run(matmul_backend(o.matmul));
  ImageClassifier model = make_model(o);
  load_weights_of(weights, model);
  nn::EvalScope evaluating(model);
  auto batches = test_batches(set, model.form);
  return *evaluate(model, batches);
}

}  // namespace

TEST_CASE("train_cifar: a share of the training images is held out, by the seed") {
  const datasets::Dataset<LabelledPicture> all = all_of(tiny_data().train);
  for (double share : {0.1, 0.25, 0.5}) {
    datasets::Dataset<LabelledPicture> left = all, again = all, other = all;
    const auto held = hold_out(left, share, 7);
    CHECK(static_cast<double>(held.size()) == 40 * share);
    CHECK(left.size() + held.size() == 40);
    std::set<const uint8_t*> both = pictures(left);
    both.merge(pictures(held));
    CHECK(both == pictures(all));
    CHECK(pictures(hold_out(again, share, 7)) == pictures(held));
    CHECK(pictures(hold_out(other, share, 8)) != pictures(held));
  }
  datasets::Dataset<LabelledPicture> left = all;
  CHECK(hold_out(left, 0, 7).size() == 0);
  for (int64_t i = 0; i < 40; ++i) CHECK(left.get(i).bytes == all.get(i).bytes);
  for (double share : {0.01, 0.99})
    CHECK_THROWS_WITH_AS(hold_out(left, share, 7), doctest::Contains("of 40 training images"),
                         Error);
}

TEST_CASE("train_cifar: without --hold-out the weights of the last epoch count") {
  const test::TempDir dir;
  const CifarFlags f = in_folder(dir, "run", 0);
  const TrainOptions& o = f.options;
  REQUIRE(train_classifier(f) == 0);
  const training::RunFolder run{f.train.out};
  const training::RunLog log = training::read_log(run.log());
  REQUIRE(log.epochs.size() == 4);
  // The test set would choose another epoch.
  CHECK(training::best_epoch(log.epochs, {"test_top1", true}).epoch < 4);
  CHECK(test::read_file(run.best_weights()) == test::read_file(run.weights()));
  CHECK(evaluation_of(o, run.best_weights(), all_of(tiny_data().test)).loss ==
        log.epochs.back()["test_loss"]);
  CHECK_FALSE(log.epochs.back().has("best_top1"));
  CHECK(load_run_record(run)->best.metric == "");
  const std::string page = test::read_file(run.file("report.html"));
  CHECK(test::contains(page, "last epoch, test images"));
  CHECK_FALSE(test::contains(page, "best epoch"));
  CHECK_FALSE(test::contains(page, "class=\"best\""));
}

TEST_CASE(
    "train_cifar: with --hold-out the held-out images choose, and the test set is used once") {
  const test::TempDir dir;
  const CifarFlags f = in_folder(dir, "run", 0.25);
  const TrainOptions& o = f.options;
  REQUIRE(train_classifier(f) == 0);
  const training::RunFolder run{f.train.out};
  const training::RunLog log = training::read_log(run.log());
  REQUIRE(log.epochs.size() == 4);
  for (const training::EpochRecord& e : log.epochs) {
    CHECK(e.has("valid_loss"));
    for (const auto& [name, value] : e.metrics) CHECK_FALSE(name.starts_with("test"));
  }
  const training::EpochRecord& best = training::best_epoch(log.epochs, {"valid_top1", true});
  CHECK(best.epoch < 4);
  datasets::Dataset<LabelledPicture> left = all_of(tiny_data().train);
  const auto held = hold_out(left, o.hold_out, o.seed);
  CHECK(evaluation_of(o, run.best_weights(), held).loss == best["valid_loss"]);
  CHECK(evaluation_of(o, run.weights(), held).loss == log.epochs.back()["valid_loss"]);
  CHECK(load_run_record(run)->best.metric == "valid_top1");

  // The test uses the averaged weights, which are the weights of the best epoch.
  const Evaluation tested = evaluation_of(o, run.best_weights(), all_of(tiny_data().test));
  const training::Metrics recorded = load_run_record(run)->tested;
  REQUIRE(recorded.size() >= 2);
  CHECK(recorded[0] == std::pair<std::string, double>("test_loss", tested.loss));
  CHECK(recorded[1] == std::pair<std::string, double>("test_top1", tested.top[0]));
  const std::string page = test::read_file(run.file("report.html"));
  CHECK(test::contains(page, fmt::format("best epoch ({}), images held out", best.epoch)));
  CHECK(test::contains(page, fmt::format("<td>best epoch ({}), test images</td><td>{:.2f}%</td>",
                                         best.epoch, 100 * tested.top[0])));
  CHECK(test::contains(page, fmt::format("<td>{:.4f}</td>", tested.loss)));
  CHECK(test::contains(page, "Test images with their true class"));
  CHECK(test::contains(page, "30 training, 10 held-out and 20 test images"));
  CHECK(test::contains(page, "hold-out 0.25"));

  std::filesystem::remove(run.file("report.html"));
  CHECK(train_classifier(to_resume(f)) == 0);  // finished: only tests the chosen weights again
  CHECK(test::contains(test::read_file(run.file("report.html")),
                       fmt::format("best epoch ({}), test images", best.epoch)));
}

TEST_CASE("train_cifar: in an unfinished run, pictures in the report are those held out") {
  const TrainOptions o = wild_options(0.25);
  CifarTraining t(o, tiny_data(), make_model(o));
  while (!t.loop.epoch_trained()) t.loop.step();
  REQUIRE(t.loop.close_epoch());
  const std::string page = make_report(report_data(t, {}, tiny_data().class_names));
  CHECK(test::contains(page, "Images held out with their true class"));
  CHECK_FALSE(test::contains(page, "est images"));
}

TEST_CASE("train_cifar: --hold-out reduces the steps; files of older versions hold nothing out") {
  TrainOptions o = wild_options(0.25);
  CHECK(total_steps(o, 40) == 4 * 5);
  o.limit = 20;  // 15 of them for training
  CHECK(total_steps(o, 40) == 4 * 3);
  nlohmann::json older = nlohmann::json::parse(to_json(o));
  CHECK(older.erase("hold_out") == 1);
  const auto read = config_from_json<TrainOptions>(older.dump());
  CHECK(read.hold_out == 0);
  CHECK(total_steps(read, 40) == 4 * 4);

  CHECK(test::parse({"--hold-out", ".1"}).options.hold_out == 0.1);
  CHECK(test::parse({}).options.hold_out == 0);
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--hold-out", "1"},
                                             {"--hold-out", "-0.1"},
                                             {"--resume", "d", "--hold-out", ".1"},
                                             {"--eval", "w", "--data", "x", "--hold-out", ".1"}})
    CHECK_THROWS_AS(test::parse(wrong), Error);
}

TEST_CASE("train_cifar: shares are printed with four digits") {
  CHECK(accuracy_lines({0.994, 0.99949, 1, 1, 1}) ==
        "Top-1 accuracy: 0.9940\nTop-2 accuracy: 0.9995\nTop-3 accuracy: 1.0000\n"
        "Top-4 accuracy: 1.0000\nTop-5 accuracy: 1.0000\n");
}

}  // namespace tern::apps::train_cifar::test_hold_out
