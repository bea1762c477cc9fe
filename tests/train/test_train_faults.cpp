// Infinite and NaN losses, gradients, weights and states: they stop the training before they reach
// weights or files, and the error says where they came from. Steps that throw can be repeated.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/tests/support/data_files.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_faults {

/// The text of the Diverged that fn throws.
template <class Fn>
std::string diverged(Fn fn) {
  try {
    fn();
  } catch (const Diverged& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST_CASE("train: a value that is not finite stops a step before weights change, and is named") {
  TempDir dir;
  for (const double clip : {0.0, 1.0}) {
    Training t({.folder = dir / fmt::format("loss-{}", clip)}, {.clip = clip});
    t.before_batch = [&](int64_t number) {
      if (number == 8) t.poison = kNan;
    };
    const std::string told = diverged([&] { t.loop.run(); });
    CHECK(told.find("in step 3 (epoch 2)") != told.npos);
    CHECK(told.find(t.loop.folder().checkpoint() + " keeps the state after step 2") != told.npos);
    const SafeTensors kept = load_checkpoint(t.loop.folder().checkpoint());
    for (const auto& [name, x] : kept.tensors)
      if (is_float(x.dtype())) CHECK(all(isfinite(x)).item<bool>());

    // A finite loss whose gradient is not finite: sqrt at 0.
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
      fill_(w.model.down.bias.tensor(), kNan);
    }
    CHECK(diverged([&] {
            w.loop.step();
          }).starts_with("the loss is nan in step 1 (epoch 1); down: linear was given NaN"));
    CHECK_THROWS_WITH_AS(w.loop.state(),
                         "the weights down.bias are not finite before the first step", Diverged);
    CHECK_THROWS_AS(w.learner.save_weights(dir / "w"), Diverged);
    CHECK_FALSE(std::filesystem::exists(dir / "w"));
  }
}

// Checks every tensor in every file of the run.
void check_files_are_finite(const RunFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafeTensors file = load_safetensors(entry.path().string());
    for (const auto& named : file.tensors)
      if (is_float(named.second.dtype()))
        CHECK_MESSAGE(all(isfinite(named.second)).item<bool>(), entry, named.first);
  }
}

/// A tensor of the training that a test sets to NaN after a step, where no loss depends on it.
struct Spoiled {
  std::string told;  ///< its name in the error
  std::function<NamedTensors(Training&)> where;
};

const std::vector<Spoiled> kSpoiled = {
    {"the weights down.bias", [](Training& t) { return nn::state_dict(t.model); }},
    {"the weights norm.running_var", [](Training& t) { return nn::state_dict(t.model); }},
    {"the optimizer's values up.weight.exp_avg_sq",
     [](Training& t) { return t.optimizer.state_dict(); }},
    {"the averaged weights up.bias", [](Training& t) { return t.learner.weights(); }}};

void spoil(Training& t, const Spoiled& spoiled) {
  NoGradGuard no_grad;
  for (const auto& [name, x] : spoiled.where(t))
    if (spoiled.told.ends_with(" " + name)) fill_(x, kNan);
}

TEST_CASE("train: values that are not finite never overwrite good files") {
  TempDir dir;
  int run = 0;
  for (const Spoiled& spoiled : kSpoiled)
    for (const double clip : {0.0, 1.0})
      for (const double ema : {0.0, 0.9})
        for (const char* best : {"", "valid_loss"}) {
          if (ema == 0 && spoiled.told.find("averaged") != std::string::npos) continue;
          LoopOptions options{.folder = dir / fmt::format("{}", run++)};
          if (*best) options.best = {best};
          Training t(options, {.clip = clip, .ema = ema});
          const RunFolder& folder = t.loop.folder();
          folder.make();
          for (int i = 0; i < 2; ++i) t.loop.step();
          REQUIRE(t.loop.close_epoch());
          t.loop.checkpoint().save(folder.checkpoint());
          for (int i = 0; i < 2; ++i) t.loop.step();
          spoil(t, spoiled);
          const std::string weights = read_file(folder.weights());
          const std::string checkpoint = read_file(folder.checkpoint());
          const std::string told = spoiled.told + " are no longer finite after step 4";
          CHECK(diverged([&] { t.loop.close_epoch(); }) == told);
          CHECK(std::ssize(t.loop.history()) == 1);
          CHECK(diverged([&] { t.loop.checkpoint().save(folder.checkpoint()); }) == told);
          CHECK(read_file(folder.weights()) == weights);
          CHECK(read_file(folder.checkpoint()) == checkpoint);
          check_files_are_finite(folder);
        }
}

TEST_CASE("train: the error about overflowed weights names step, layer and the good files") {
  TempDir dir;
  for (const bool validated : {false, true})
    for (const double clip : {0.0, 1.0}) {
      LoopOptions options{.folder = dir / fmt::format("{}-{}", validated, clip)};
      if (validated) options.best = {"valid_loss"};
      // In the middle of an epoch, where the next loss shows it, and at its end.
      for (const int64_t batch : {9, 12}) {
        options.folder += "-" + std::to_string(batch);
        Training t(options, {.clip = clip});
        t.before_batch = [&](int64_t number) {
          if (number == batch) t.optimizer.set_lr_factor(1e42);
        };
        const std::string told = diverged([&] { t.loop.run(); });
        CAPTURE(told);
        CHECK(told.starts_with(batch == 9
                                   ? "the loss is nan in step 4 (epoch 2); up: NaN first seen"
                                   : "the weights up.weight are no longer finite after "
                                     "step 4; "));
        CHECK(told.find(t.loop.folder().checkpoint() + " keeps the state after step 2, " +
                        t.loop.folder().weights() + " the weights of epoch 1") != told.npos);
        check_files_are_finite(t.loop.folder());
        CHECK(Training(options, {.clip = clip}).loop.resume());
      }
    }
}

TEST_CASE("train: a Diverged of the evaluation gets the step and the cause") {
  TempDir dir;
  Training t({.folder = dir / "run"});
  t.evaluated = [&] {
    const Tensor x = t.model.down(full({1, 8}, 1e30) * 1e30);
    throw Diverged(fmt::format("the test loss is {}", sum(x * 0).item()));
  };
  const std::string told = diverged([&] { t.loop.run(); });
  CHECK(told.find("nan (after step 2); ") != told.npos);
  CHECK(told.find("down") != told.npos);
  CHECK(told.ends_with("checkpoint.safetensors keeps the state after step 0"));
}

TEST_CASE("train: a diverged step is repeated with the same random numbers to find the cause") {
  std::vector<double> losses;
  Training t({}, {});
  t.watch = [&](double loss) { losses.push_back(loss); };
  t.extra = [&] { return sum(sqrt(t.model.down.bias.tensor() * 0)); };
  t.quiet = true;  // the program's own generator is not restored
  CHECK_THROWS_WITH_AS(t.loop.step(), doctest::Contains("NaN first seen in"), Diverged);
  REQUIRE(losses.size() == 5);  // of four batches, and of the first again, whose gradient is NaN
  CHECK(losses[4] == losses[0]);
  CHECK_FALSE(t.model.up.weight.grad().defined());
}

TEST_CASE("train: a step that threw can be repeated") {
  struct NoMemory {};
  Training whole, t;
  whole.quiet = t.quiet = true;  // the program's own generator is not restored
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
  check_same(nn::named_parameters(whole.model), nn::named_parameters(t.model));
}

}  // namespace tern::test::test_train_faults
