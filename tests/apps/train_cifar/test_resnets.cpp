// The ResNets of train_cifar: stem and side, torchvision's weights, reports, and exact resume.
#include <doctest/doctest.h>

#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"

namespace tern::apps::train_cifar::test_resnets {
namespace {

using test::chosen, test::parse;

using models::ResNet, models::ResNetOptions;

const ResNet& resnet_of(const ImageClassifier& model) { return std::get<ResNet>(model.network); }

TrainOptions short_training() {
  TrainOptions o;
  o.epochs = 2;
  o.batch = 4;
  o.lr = 1e-2;
  o.schedule = "constant";
  o.warmup = 0;
  return o;
}

ImageClassifier narrow(const TrainOptions& o) {
  Rng rng(o.seed);
  return ClassifierEntry{"narrow", ResNetOptions{.layers = {1, 1}, .width = 8}}.make(0.1, rng);
}

void one_epoch(CifarTraining& t) {
  while (!t.loop.epoch_trained()) t.loop.step();
  REQUIRE(t.loop.close_epoch());
}

}  // namespace

TEST_CASE("train_cifar resnets: small pictures get a small stem, large ones torchvision's") {
  const ShapeOnlyScope no_memory;
  Rng rng(0);
  for (const auto& [side, is_small] : {std::pair{28, true}, {32, true}, {64, true}, {65, false}}) {
    const ImageClassifier model =
        find_classifier("resnet18")
            .make(0.25, rng, nn::Recompute::full, {.side = side, .channels = 1, .classes = 3});
    const ResNet& net = resnet_of(model);
    CHECK(net.conv1.weight.shape() == (is_small ? Shape{64, 1, 3, 3} : Shape{64, 1, 7, 7}));
    CHECK(net.dropout.p == 0.25);
    CHECK(net.options.recompute == nn::Recompute::full);
    CHECK(model(zeros({2, 1, side, side})).shape() == Shape{2, 3});
  }
  CHECK(find_classifier("resnet34").dropout == 0);
}

TEST_CASE("train_cifar resnets: the data choose the side; weights to start from choose 224") {
  const test::TempDir dir;
  datasets::write_cifar10(dir / "ten", draw_cifar10(20, 10, 1));
  const TrainOptions fresh = chosen({"--data", dir / "ten", "--model", "resnet18"});
  CHECK(fresh.form.side == 32);
  CHECK(fresh.batch == 64);
  CHECK(fresh.schedule == "cosine");
  CHECK(fresh.dropout == 0);
  CHECK(chosen({"--data", dir / "ten", "--model", "resnet18", "--side", "96"}).form.side == 96);

  Rng rng(9);
  NamedTensors state = nn::state_dict(ResNet(models::resnet_options("resnet18"), rng));
  std::erase_if(state, [](const auto& t) { return nn::is_batch_count(t.first); });  // as of 2017
  const std::string path = dir / "resnet18.safetensors";
  save_safetensors(path, {state, {{"format", "pt"}}});
  CHECK(model_of_weights(path) == "resnet18");
  TrainOptions o = chosen({"--data", dir / "ten", "--init", path, "--limit", "2"});
  CHECK(o.model == "resnet18");
  CHECK(o.form.side == 224);
  CHECK(o.form.normalization.mean[2] == 0.406);
  CHECK(o.form.normalization.std[0] == 0.229);
  ImageClassifier model = find_classifier("resnet18").make(0, rng, nn::Recompute::none, o.form);
  CHECK(start_from(path, model) ==
        path + ": the head of 1000 classes is left out; a new head for 10 classes is trained");
  const ResNet& net = resnet_of(model);
  CHECK(net.fc->weight.shape() == Shape{10, 512});
  for (const auto& [name, t] : state)
    if (name == "layer4.1.conv2.weight")
      CHECK(net.stages[3][1].conv2.weight.tensor().to_vector<float>() == t.to_vector<float>());
  o.form.side = 64;
  CHECK_THROWS_WITH_AS(make_model(o),
                       doctest::Contains("its conv1.weight is (64, 3, 7, 7), the model's is "
                                         "(64, 3, 3, 3)"),
                       IoError);
}

TEST_CASE("train_cifar resnets: a training resumes exactly, running statistics included") {
  const datasets::Cifar10 data = draw_cifar10(8, 4, 1);
  const TrainOptions o = short_training();
  CifarTraining whole(o, data, narrow(o));
  one_epoch(whole);
  CifarTraining second(o, data, narrow(o));
  second.loop.load_state(whole.loop.state(), "c");
  for (CifarTraining* t : {&whole, &second}) one_epoch(*t);
  test::check_same(nn::state_dict(whole.model), nn::state_dict(second.model));
  CHECK(resnet_of(second.model).bn1.num_batches_tracked.tensor().item<int64_t>() == 4);
}

TEST_CASE("train_cifar resnets: the report shows class activation maps and no patches") {
  const datasets::Cifar10 data = draw_cifar10(8, 6, 1);
  const TrainOptions o = short_training();
  CifarTraining t(o, data, narrow(o));
  one_epoch(t);
  const ReportData d = report_data(t, describe(t, "data"), data.class_names);
  CHECK(d.run.facts.at(0).second ==
        "narrow, 5,266 weights: 2 basic blocks in 2 stages of 8 to 16 channels, behind a stem for "
        "small pictures");
  CHECK(d.after.maps.empty());
  CHECK(d.patch == 0);
  REQUIRE(d.patches.maps.size() == 1);
  CHECK(d.patches.maps[0].values.shape() == Shape{4, 1, 16, 16});
  const std::string page = make_report(d);
  CHECK(page.find(">Class activation</h2>") != page.npos);
  CHECK(page.find("Each map has its own scale, from the least to the most") != page.npos);
  CHECK(page.find("What the model sees") == page.npos);
  CHECK(page.find("All heads") == page.npos);
}

}  // namespace tern::apps::train_cifar::test_resnets
