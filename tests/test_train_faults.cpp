#include <doctest/doctest.h>

#include <filesystem>

#include "tern/tests/data_files.h"
#include "tern/tests/train_fixture.h"

namespace tern::test {

/// The words of the Diverged that fn throws.
template <class Fn>
std::string diverged(Fn fn) {
  try {
    fn();
  } catch (const Diverged& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST_CASE("train: what is not finite stops a step before weights change, and says where") {
  TempDir dir;
  for (const double clip : {0.0, 1.0}) {
    Training t({.folder = dir / fmt::format("loss-{}", clip)}, {.clip = clip});
    t.before_batch = [&](int64_t number) {
      if (number == 8) t.poison = kNaN;
    };
    const std::string told = diverged([&] { t.loop.run(); });
    CHECK(told.find("in step 3 (epoch 2)") != told.npos);
    CHECK(told.find(t.loop.folder().checkpoint() + " keeps the state after step 2") != told.npos);
    const SafeTensors kept = load_checkpoint(t.loop.folder().checkpoint());
    for (const auto& [name, x] : kept.tensors)
      if (is_float(x.dtype())) CHECK(all(isfinite(x)).item<bool>());

    // A loss that is finite, but whose gradient is not: sqrt at 0.
    Training g({}, {.clip = clip});
    g.extra = [&] { return sum(sqrt(g.model.down.bias.tensor() * 0)); };
    const auto before = g.model.up.weight.tensor().to_vector<float>();
    const std::string where = diverged([&] { g.loop.step(); });
    CHECK(
        where.starts_with("the gradient of 'down.bias' is nan (element 0) in step 1 (epoch 1); "
                          "down: NaN first seen in mul, backward"));
    CHECK(where.find("before that, down: infinity first seen in sqrt, backward") != where.npos);
    CHECK(g.model.up.weight.tensor().to_vector<float>() == before);
    CHECK_FALSE(g.model.up.weight.grad().defined());
    CHECK(g.learner.steps() == 0);

    Training w({}, {.clip = clip});
    {
      NoGradGuard no_grad;
      fill_(w.model.down.bias.tensor(), kNaN);
    }
    CHECK(diverged([&] {
            w.loop.step();
          }).starts_with("the loss is nan in step 1 (epoch 1); down: linear was given NaN"));
    CHECK_THROWS_WITH_AS(w.loop.state(), "the weights down.bias are no longer finite", Diverged);
    CHECK_THROWS_AS(w.learner.save_weights(dir / "w"), Diverged);
    CHECK_FALSE(std::filesystem::exists(dir / "w"));
  }
}

TEST_CASE("train: a step that failed can be run again with the same random numbers") {
  std::vector<double> first, second;
  LoopOptions options;
  bool again = false;
  options.diagnose = [&](const std::function<void()>& run) {
    again = true;
    run();
    return std::string("; in down");
  };
  Training t(options, {});
  t.watch = [&](double loss) { (again ? second : first).push_back(loss); };
  t.extra = [&] { return sum(sqrt(t.model.down.bias.tensor() * 0)); };
  t.quiet = true;  // the program's own generator is not put back
  CHECK_THROWS_WITH_AS(t.loop.step(), doctest::Contains("(epoch 1); in down"), Diverged);
  CHECK(first.size() == 4);
  CHECK(first == second);
  CHECK_FALSE(t.model.up.weight.grad().defined());
}

TEST_CASE("train: a step that threw can be taken again") {
  struct NoMemory {};
  Training whole, t;
  whole.quiet = t.quiet = true;  // the program's own generator would go on
  t.before_batch = [](int64_t number) {
    if (number == 6 || number == 9) throw NoMemory();
  };
  for (int i = 0; i < 6; ++i) whole.step();
  int failed = 0;
  while (t.learner.steps() < 6) {
    try {
      t.step();
    } catch (const NoMemory&) {
      ++failed;
    }
  }
  CHECK(failed == 2);
  CHECK(t.seen > whole.seen);
  CHECK(whole.loop.history().at(1)["train_loss"] == t.loop.history().at(1)["train_loss"]);
  const NamedTensors x = nn::named_parameters(whole.model), y = nn::named_parameters(t.model);
  for (size_t i = 0; i < x.size(); ++i) CHECK(same_bits(x[i].second, y[i].second));
}

}  // namespace tern::test
