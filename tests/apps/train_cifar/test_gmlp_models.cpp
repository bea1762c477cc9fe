// The gMLPs of train_cifar: the spatial matrices in their reports, and exact resume.
#include <doctest/doctest.h>

#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/training.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp.h"
#include "tern/tests/support/same_bits.h"

namespace tern::apps::train_cifar::test_gmlp_models {
namespace {

TrainOptions options_of(const char* model) {
  TrainOptions o;
  o.model = model;
  o.epochs = 2;
  o.batch = 4;
  o.lr = 1e-2;
  o.schedule = "constant";
  o.warmup = 0;
  o.seed = 3;
  return o;
}

const datasets::Cifar10& two_steps_of_data() {
  static const datasets::Cifar10 kData = draw_cifar10(8, 4, 1);
  return kData;
}

void one_epoch(CifarTraining& t) {
  while (!t.loop.epoch_trained()) t.loop.step();
  REQUIRE(t.loop.close_epoch());
}

/// The spatial matrix W of every layer, row by row.
std::vector<std::vector<float>> spatial_weights(const models::Gmlp& model) {
  std::vector<std::vector<float>> out;
  for (const Tensor& w : model.spatial_weights()) out.push_back(w.to_vector<float>());
  return out;
}

}  // namespace

TEST_CASE(
    "train_cifar: the report shows W of each of four heads and their mean, before and after") {
  const TrainOptions o = options_of("gmlp-4m-heads4");
  Rng rng(o.seed);
  models::Gmlp fresh(models::gmlp_options(o.model), rng);
  CifarTraining t(o, two_steps_of_data(), make_model(o));
  const auto before = spatial_weights(fresh);
  one_epoch(t);
  nn::load_state_dict(fresh, nn::state_dict(t.model));
  const auto after = spatial_weights(fresh);

  const ReportData data = report_data(t, describe(t, "data"), two_steps_of_data().class_names);
  REQUIRE(data.before.maps.size() == 3);
  REQUIRE(data.after.maps.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(data.before.maps[i].values.numel() == 4 * 17 * 17);
    CHECK(data.before.maps[i].values.to_vector<float>() == before[i]);
    CHECK(data.after.maps[i].values.to_vector<float>() == after[i]);
    CHECK(before[i] != after[i]);
  }
  const std::string page = make_report(data);
  for (const char* when : {"before training", "after training"}) {
    for (int head = 1; head <= 4; ++head)
      CHECK(page.find(fmt::format("{}, head {}", when, head)) != std::string::npos);
    CHECK(page.find(fmt::format("{}, mean of the heads", when)) != std::string::npos);
  }
  CHECK(page.find("Token 0 is the class token") != std::string::npos);
}

TEST_CASE("train_cifar: the paper's gMLP resumes exactly, stochastic depth included") {
  TrainOptions o = options_of("gmlp-ti-p4");
  o.epochs = 3;
  CifarTraining whole(o, two_steps_of_data(), make_model(o));
  one_epoch(whole);
  CifarTraining second(o, two_steps_of_data(), make_model(o));
  second.loop.load_state(whole.loop.state(), "c");
  for (CifarTraining* t : {&whole, &second}) one_epoch(*t);
  const NamedTensors weights = nn::state_dict(whole.model);
  test::check_same(weights, nn::state_dict(second.model));
  CHECK(weights.at(0).first == "stem.proj.weight");

  const ReportData data =
      report_data(whole, describe(whole, "data"), two_steps_of_data().class_names);
  CHECK(data.run.facts.at(0).second ==
        "gmlp-ti-p4, 4,613,898 weights: 30 blocks on 64 tokens of 128 channels");
  CHECK(data.after.maps.size() == 30);
  CHECK(data.patch == 4);
}

}  // namespace tern::apps::train_cifar::test_gmlp_models
