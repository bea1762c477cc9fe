// airbench94 and its recipe against the published program: rates, whitening weights from the data,
// averages over views of a picture, tests at the end of a run.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/model_checks.h"

namespace tern::apps::train_cifar::test_airbench {
namespace {

using test::parse;

const datasets::Cifar10& tiny_data() {
  static const datasets::Cifar10 kData = draw_cifar10(50, 10, 1);
  return kData;
}

TrainOptions small_options() {
  TrainOptions o = default_options("airbench94");
  o.batch = 16;
  o.lr *= 16. / 1024;
  return o;
}

const models::Airbench& network_of(const CifarTraining& t) {
  return std::get<models::Airbench>(t.model.network);
}

void step(CifarTraining& t) {
  t.loop.step();
  if (t.loop.epoch_trained()) REQUIRE(t.loop.close_epoch());
}

}  // namespace

TEST_CASE("airbench94: learning rates and weight decay are those of the published program") {
  // airbench94.py gives them for the sum of a batch's losses, and for PyTorch's SGD.
  const double momentum = 0.85, kilostep = 1024 * (1 + 1 / (1 - momentum)), lr = 11.5 / kilostep,
               decay = 0.0153 * 1024 / kilostep;
  const TrainOptions o = default_options("airbench94");
  CHECK(o.lr == doctest::Approx(lr * 1024));                      // for the mean over 1024
  CHECK(o.weight_decay == doctest::Approx(decay / (lr * 1024)));  // the same decay per step
  const auto optimizer = make_optimizer(o, nn::named_parameters(make_untrained(o)));
  REQUIRE(optimizer->num_groups() == 2);
  CHECK(optimizer->names_in(0).front() == "whitening.weight");
  CHECK(optimizer->names_in(1) ==
        std::vector<std::string>{"blocks.0.norm1.bias", "blocks.0.norm2.bias",
                                 "blocks.1.norm1.bias", "blocks.1.norm2.bias",
                                 "blocks.2.norm1.bias", "blocks.2.norm2.bias"});
  CHECK(optimizer->lr(1) == doctest::Approx(64 * lr * 1024));
  CHECK(optimizer->weight_decay(1) * optimizer->lr(1) == doctest::Approx(decay));
  CHECK(total_steps(o, 50000) == 480);  // 48 full batches per epoch
  CHECK(total_steps(o, 1023) == 10);    // the only batch
  CHECK(test::contains(recipe_text(settings_of(const_cast<TrainOptions&>(o))),
                       "momentum 0.85 (Nesterov)"));
}

TEST_CASE(
    "airbench94: the first weights whiten the pictures; only their bias trains, for three epochs") {
  TrainOptions o = small_options();
  o.details.lookahead = 0;  // it would also move weights that are not trained
  CifarTraining t(o, tiny_data(), make_model(o));
  CHECK(training::steps_per_epoch(t.loader) == 3);  // full batches of 16 of the 50 pictures
  const Tensor y = network_of(t).whitening(first_images(t.train_set, t.form, 50));
  const Tensor columns = reshape(transpose(narrow(y, 1, 0, 12), 0, 1), {12, -1});
  const Tensor moments =
      matmul(columns, transpose(columns, 0, 1)) / static_cast<double>(columns.size(1));
  const auto m = moments.to_vector<double>();
  for (size_t k = 0; k < 144; ++k)
    if (k / 12 != k % 12) CHECK(std::abs(m[k]) < 1e-3);
  CHECK(m[0] == doctest::Approx(1).epsilon(1e-3));

  const auto bias = [&] { return network_of(t).whitening.bias.tensor().detach().clone(); };
  const Tensor weight = network_of(t).whitening.weight.tensor().detach().clone();
  Tensor before = bias();
  for (int i = 1; i <= 12; ++i) {
    step(t);
    CHECK(test::same(bias(), before) == (i > 9));  // frozen after three epochs
    before = bias();
  }
  CHECK(test::same(network_of(t).whitening.weight.tensor().detach(), weight));
}

TEST_CASE("train_cifar: the outputs for several views are averaged, for every model") {
  for (const char* name : {"gmlp-small", "airbench94"}) {
    TrainOptions o = default_options(name);
    const ImageClassifier model = make_model(o);
    nn::EvalScope evaluating(model);
    NoGradGuard no_grad;
    Rng rng(3);
    const Tensor x = randn({2, 3, 32, 32}, rng);
    const auto mirrored = [](const Tensor& t) { return index_select(t, 3, arange(31, -1, -1)); };
    const auto moved = [](const Tensor& t, int64_t by) {
      std::vector<int64_t> from;
      for (int64_t i = 0; i < 32; ++i)
        from.push_back(std::abs(i + by) > 31 ? 30 : std::abs(i + by));
      const Tensor index = tensor(from);
      return index_select(index_select(t, 2, index), 3, index);
    };
    const Tensor both = (model(x) + model(mirrored(x))) / 2;
    const Tensor a = moved(x, -1), b = moved(x, 1);
    const Tensor all =
        both / 2 + (model(a) + model(mirrored(a)) + model(b) + model(mirrored(b))) / 8;
    CHECK(test::same(logits_of(model, x, Views::none), model(x)));
    CHECK(test::close(logits_of(model, x, Views::mirror), both));
    CHECK(test::close(logits_of(model, x, Views::translate), all));
    datasets::Loader<datasets::Batch> batches =
        test_batches(datasets::Dataset<LabelledPicture>(
                         limited(LabelledPictures(tiny_data(), 32).test, model.form, 0)),
                     model.form);
    const auto one = evaluate(model, batches),
               six = evaluate(model, batches, {}, nullptr, Views::translate);
    REQUIRE((one && six));
    CHECK(one->probabilities != six->probabilities);
  }
  CHECK(views_named("mirror") == Views::mirror);
  CHECK_THROWS_WITH_AS(views_named("crop"), doctest::Contains("none, mirror, translate"), Error);
}

TEST_CASE("airbench94: a run is tested with views at its end, and --eval uses them") {
  const test::TempDir dir;
  datasets::write_cifar10(dir / "ten", tiny_data());
  const CifarFlags f = parse({"--model", "airbench94", "--data", dir / "ten", "--batch", "16",
                              "--lr", "0.02", "--epochs", "1", "--out", dir / "run"});
  CHECK(f.options.lr == 0.02);
  REQUIRE(train_classifier(f) == 0);
  const training::RunFolder run{f.train.out};
  const auto record = nlohmann::json::parse(test::read_file(run.file("run.json")));
  CHECK(record.at("tested").contains("test_top1"));
  CHECK(test::contains(test::read_file(run.file("report.html")),
                       "last epoch, test images with mirror images and translations"));
  CifarFlags eval = parse({"--eval", run.path, "--data", dir / "ten"});
  CHECK_FALSE(eval.tta.has_value());  // the run's choice counts
  CHECK(evaluate_weights(eval) == 0);
  CHECK(parse({"--eval", run.path, "--data", dir / "ten", "--tta", "none"}).tta == "none");
  CHECK_THROWS_AS(parse({"--resume", run.path, "--tta", "none"}), Error);
}

TEST_CASE("train_cifar: for own pictures, the sgd recipe scales with the batch size") {
  CHECK_THROWS_WITH_AS(parse({"--alternate-flips"}), doctest::Contains("there are no flips"),
                       Error);
  CHECK_THROWS_WITH_AS(parse({"--model", "airbench94", "--local-steps", "50"}),
                       doctest::Contains("give --lookahead 0"), Error);
  CHECK_NOTHROW(parse({"--model", "airbench94", "--local-steps", "50", "--lookahead", "0"}));
  CHECK_THROWS_WITH_AS(parse({"--momentum", "0.5"}), doctest::Contains("adamw has none"), Error);
  CHECK_THROWS_WITH_AS(parse({"--optimizer", "sgd", "--momentum", "0", "--nesterov"}),
                       doctest::Contains("--nesterov needs"), Error);
  LabelledPictures own = {tiny_data(), 32};
  own.kind = "pictures";
  TrainOptions o = default_options("airbench94");
  choose_length(o, {}, own);
  CHECK(o.batch == 8);
  CHECK(o.lr == doctest::Approx(1.5 * 8 / 1024));
  TrainOptions larger = default_options("airbench94");
  larger.batch = 64;
  choose_length(larger, {"batch"}, own);
  CHECK(larger.batch == 64);
  CHECK(larger.lr == doctest::Approx(1.5 * 64 / 1024));
  TrainOptions given = default_options("airbench94");
  choose_length(given, {"lr"}, own);
  CHECK(given.lr == 1.5);
  const TrainOptions drawn = parse({"--model", "airbench94"}).options;
  CHECK(drawn.lr == 1.5);
  CHECK(drawn.schedule == "triangle");
  TrainOptions whole = default_options("airbench94");
  whole.memory_use.recompute = "full";
  CHECK_THROWS_WITH_AS(make_untrained(whole), doctest::Contains("no blocks to recompute"), Error);
}

}  // namespace tern::apps::train_cifar::test_airbench
