// What a program does with the model beside the steps.
#include "tern/tests/train/train_fixture.h"

namespace tern::test_train_models {
namespace {

using namespace test;

void check_same(const NamedTensors& a, const NamedTensors& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK_MESSAGE(same(a[i].second, b[i].second), a[i].first);
}

TEST_CASE("averages: they start at weights that were loaded after the learner was made") {
  for (const bool in_backward : {false, true}) {
    CAPTURE(in_backward);
    Rng rng(1);
    nn::Linear pretrained(3, 2, rng), late(3, 2, rng), early = pretrained;
    const LearnerOptions options = {.ema = 0.999,
                                    .lookahead = optim::LookaheadOptions{.every = 2, .decay = 0.5},
                                    .step_in_backward = in_backward};
    optim::Sgd late_sgd(nn::named_parameters(late), {.lr = 0.1});
    optim::Sgd early_sgd(nn::named_parameters(early), {.lr = 0.1});
    Learner after(early, early_sgd, options), before(late, late_sgd, options);
    nn::load_state_dict(late, nn::state_dict(pretrained));
    check_same(before.weights(), nn::state_dict(pretrained));
    {
      const Learner::Evaluation evaluation(before);
      check_same(nn::state_dict(late), nn::state_dict(pretrained));
    }
    for (int i = 0; i < 4; ++i) {
      for (auto [learner, model] : {std::pair(&before, &late), {&after, &early}}) {
        learner->backward(mean(square((*model)(ones({1, 3})))));
        learner->step();
      }
    }
    check_same(nn::state_dict(late), nn::state_dict(early));
    check_same(before.weights(), after.weights());
  }
}

}  // namespace
}  // namespace tern::test_train_models
