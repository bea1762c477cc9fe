// --weight-decay and --decay: which weights decay, for every optimizer, and how the recipe says it.
#include <doctest/doctest.h>

#include "tern/apps/common/training/training_options.h"
#include "tern/core/ops/ops.h"
#include "tern/train/optimizer.h"

namespace tern::apps::test_decay {
namespace {

TEST_CASE("decay: every optimizer decays only matrices, or on request all weights") {
  for (const std::string& name : training::optimizer_names())
    for (const bool all : {false, true})
      for (const double decay : {0.0, 0.5}) {
        CAPTURE(name);
        CAPTURE(all);
        CAPTURE(decay);
        const TrainingOptions o{
            .optimizer = name, .lr = 0.1, .weight_decay = decay, .decay_all = all};
        NamedTensors parameters;
        for (const auto& [key, shape] : std::vector<std::pair<std::string, Shape>>{
                 {"norm.weight", {4}}, {"blocks.0.fc.weight", {4, 4}}, {"blocks.0.fc.bias", {4}}}) {
          parameters.emplace_back(key, full(shape, 2).set_requires_grad());
          parameters.back().second.set_grad(zeros(shape));
        }
        auto optimizer = make_optimizer(o, parameters);
        optimizer->step();
        for (const auto& named : parameters) {
          CAPTURE(named.first);
          const bool decayed = decay > 0 && (all || named.second.ndim() > 1);
          CHECK((named.second.to_vector<float>()[1] < 2) == decayed);
        }
      }
}

TEST_CASE("decay: the recipe says what decays, and --decay matters only with a weight decay") {
  TrainingOptions o{.weight_decay = 0.25};
  const auto rows = [&] {
    Settings s;
    add_training_settings(s, o, {.optimizers = training::optimizer_names()});
    return s;
  };
  CHECK(recipe_text(rows()).find("weight decay 0.25, ") != std::string::npos);
  o.decay_all = true;
  CHECK(recipe_text(rows()).find("weight decay 0.25 of all weights, ") != std::string::npos);
  CHECK(rows().find("decay_all")->counts);
  o.weight_decay = 0;
  CHECK_FALSE(rows().find("decay_all")->counts);
  CHECK(recipe_text(rows()).find("decay") == std::string::npos);
}

}  // namespace
}  // namespace tern::apps::test_decay
