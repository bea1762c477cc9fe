// --decay-all in the recipes of train_cifar, and in configurations of versions without this option.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tern/apps/train_cifar/classifier.h"

namespace tern::apps::train_cifar::test_decay {
namespace {

TEST_CASE("train_cifar: recipes decay all weights, as versions without --decay-all did") {
  for (const std::string& name : classifier_names()) {
    TrainOptions o = default_options(name);
    CHECK(o.decay_all);
    o.decay_all = false;
    nlohmann::json j = nlohmann::json::parse(to_json(o));
    CHECK_FALSE(config_from_json<TrainOptions>(j.dump()).decay_all);
    j.erase("decay_all");
    CHECK(config_from_json<TrainOptions>(j.dump()).decay_all);
  }
}

}  // namespace
}  // namespace tern::apps::train_cifar::test_decay
