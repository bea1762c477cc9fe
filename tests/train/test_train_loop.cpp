// Loops that are stopped, killed and resumed against uninterrupted ones; the files of a run; and
// the weight of batches in losses and steps.
#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/loading/dataset_loader.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_loop {

TEST_CASE("train: k steps, a checkpoint and the rest equal an uninterrupted loop bit for bit") {
  Training whole;
  for (int i = 0; i < 6; ++i) whole.step();
  REQUIRE(whole.loop.history().size() == 2);
  CHECK(whole.loop.history()[0].metrics[0].first == "train_loss");
  for (int before = 0; before < 6; ++before) {
    CAPTURE(before);
    Training first, second;
    resume_after(before, first, second);
    for (int i = before; i < 6; ++i) second.step();
    check_same(whole.loop.state(), second.loop.state());
  }
}

TEST_CASE("train: a plateau lowers the rate in addition to the schedule, and resumes exactly") {
  const LoopOptions options{.epochs = 5, .best = {"rank"}};  // the metric stays 0
  LearnerOptions learning = Training::busy();
  learning.plateau = optim::PlateauOptions{.factor = 0.5, .patience = 0};
  Training whole(options, learning), flat(options);
  for (int i = 0; i < 8; ++i) whole.step(), flat.step();
  // The first of three closed epochs was the best; two were no better.
  CHECK(whole.loop.history().size() == 3);
  CHECK(whole.learner.lr() == doctest::Approx(flat.learner.lr() / 4));
  for (int before = 0; before < 8; ++before) {
    Training first(options, learning), second(options, learning);
    resume_after(before, first, second);
    for (int i = before; i < 8; ++i) second.step();
    check_same(whole.loop.state(), second.loop.state());
    CHECK(second.learner.lr() == whole.learner.lr());
  }
  CHECK_THROWS_WITH_AS(Training({}, learning), doctest::Contains("needs a metric"), Error);
}

TEST_CASE("train: killed and stopped runs end with the files of an uninterrupted run") {
  TempDir dir;
  Training whole({.folder = dir / "whole", .best = {"valid_loss"}});
  REQUIRE(whole.loop.run() == Outcome::finished);
  for (int64_t batch : {1, 2, 6, 8, 12, 13, 18}) {
    for (const bool killed : {false, true}) {
      CAPTURE(batch);
      CAPTURE(killed);
      const LoopOptions options{.folder = dir / fmt::format("{}-{}", batch, killed),
                                .best = {"valid_loss"},
                                .checkpoint_steps = killed ? 1 : 0};
      const EndedRun ended = run_to_batch(options, batch, killed);
      // The loop does not check for signals after the last batch.
      CHECK(ended.outcome == (killed || batch < 18 ? Outcome::interrupted : Outcome::finished));
      Training again(options);
      REQUIRE(again.loop.resume());
      CHECK(again.learner.steps() == ended.steps);  // no step is repeated
      REQUIRE(again.loop.run() == Outcome::finished);
      for (const char* file : {"model.safetensors", "best.safetensors"})
        CHECK(read_file(again.loop.folder().file(file)) ==
              read_file(whole.loop.folder().file(file)));
    }
  }
}

TEST_CASE("train: the folder of a run, its log, and errors about it") {
  TempDir dir;
  const LoopOptions options{.folder = dir / "a/b", .best = {"valid_loss"}};
  Training t(options);
  CHECK_FALSE(t.loop.resume());
  REQUIRE(t.loop.run() == Outcome::finished);
  const std::string log = read_file(t.loop.folder().log());
  CHECK(std::count(log.begin(), log.end(), '\n') == 6 + 3);  // six steps and three epochs
  CHECK(contains(log, "\n{\"epoch\":1,\"train_loss\":"));
  CHECK(contains(log, "\"train_top1\":"));
  CHECK(contains(log, "\"none\":null,\"rank\":0.0,\"batches_per_s\":"));

  Training second(options);
  CHECK_THROWS_WITH_AS(second.loop.run(), doctest::Contains("holds a run already"), Error);
  REQUIRE(second.loop.resume());
  CHECK(second.loop.finished());
  CHECK(second.loop.run() == Outcome::finished);
  CHECK(read_file(second.loop.folder().log()) == log);

  LoopOptions shorter = options;
  shorter.epochs = 2;
  Training third(shorter);
  CHECK_THROWS_WITH_AS(third.loop.resume(),
                       doctest::Contains("the run is already in epoch 3, but its length is 2"),
                       IoError);
  LoopOptions longer = options;
  longer.epochs = 4;
  Training fourth(longer), whole(LoopOptions{.epochs = 4});
  REQUIRE(fourth.loop.resume());
  REQUIRE(fourth.loop.run() == Outcome::finished);
  REQUIRE(whole.loop.run() == Outcome::finished);
  check_same(fourth.learner.weights(), whole.learner.weights());
}

TEST_CASE("train: the averaged weights are written after each epoch, and the best ones") {
  TempDir dir;
  const RunFolder folder{dir / "run"};
  std::vector<std::string> written;
  LoopOptions options{.folder = folder.path, .best = {"rank", true}};
  options.on_epoch = [&](const EpochRecord&) { written.push_back(read_file(folder.weights())); };
  Training t(options);
  t.metric = [&] { return t.loop.epoch() == 2 ? 1.0 : 0.0; };
  REQUIRE(t.loop.run() == Outcome::finished);
  REQUIRE(written.size() == 3);
  CHECK(written[1] != written[2]);
  CHECK(read_file(folder.best_weights()) == written[1]);
  const SafeTensors file = load_safetensors(folder.weights());
  const auto now = t.model.up.weight.tensor().to_vector<float>();
  CHECK(file.find("up.weight").to_vector<float>() != now);
  Learner::Evaluation averaged(t.learner);
  for (const auto& [name, x] : nn::state_dict(t.model)) CHECK(same_bits(file.find(name), x));
}

TEST_CASE("train: only_best writes only the weights of the best epoch") {
  TempDir dir;
  const RunFolder folder{dir / "run"};
  std::vector<std::string> written;
  LoopOptions options{.folder = folder.path, .best = {"rank", true}, .only_best = true};
  options.on_epoch = [&](const EpochRecord&) { written.push_back(read_file(folder.weights())); };
  Training t(options);
  t.metric = [&] { return t.loop.epoch() == 2 ? 1.0 : 0.0; };
  REQUIRE(t.loop.run() == Outcome::finished);
  REQUIRE(written.size() == 3);
  CHECK(written[0] != written[1]);
  CHECK(written[1] == written[2]);
  CHECK_FALSE(std::filesystem::exists(folder.best_weights()));
}

TEST_CASE("train: only_best without a metric is refused") {
  CHECK_THROWS_WITH_AS(Training t({.only_best = true}),
                       doctest::Contains("name it in LoopOptions::best"), Error);
}

TEST_CASE("train: a loader with different batches is refused") {
  Training a, b;
  a.step();
  SafeTensors state = a.loop.state();
  std::string& text = state.metadata.at("loop");
  const size_t at = text.find("\"batches\":6");
  REQUIRE(at != std::string::npos);
  text.replace(at, 11, "\"batches\":7");
  CHECK_THROWS_WITH_AS(b.loop.load_state(state, "file"),
                       doctest::Contains("has 7 batches, but the loader's has 6"), IoError);
  // Another seed gives the same number of batches. Earlier versions did not write the order.
  text.replace(at, 11, "\"batches\":6");
  const size_t order = text.find("\"order\":");
  REQUIRE(order != std::string::npos);
  text.insert(order + 8, "1");
  CHECK_THROWS_WITH_AS(b.loop.load_state(state, "file"),
                       doctest::Contains("epoch 1 takes the samples in another order"), IoError);
  text.erase(order, text.find(',', order) + 1 - order);
  b.loop.load_state(state, "file");
  CHECK(b.learner.steps() == 1);
}

TEST_CASE("train: an interrupted evaluation leaves the epoch open") {
  Training t;
  while (!t.loop.epoch_trained()) t.loop.step();
  SafeTensors before = t.loop.state();
  before.tensors = copies(before.tensors);
  t.give_up = true;
  CHECK_FALSE(t.loop.close_epoch());
  check_same(before, t.loop.state());
}

TEST_CASE("train: an evaluation that ended early draws and counts again what it did") {
  Training whole, stopped, failed;
  for (Training* t : {&whole, &stopped, &failed}) {
    const bool fails = t == &failed;
    t->evaluated = [t, fails] {
      const double drawn = t->noise.normal() + t->model.dropout.rng.normal();
      const auto counted = static_cast<double>(++t->seen);
      t->metric = [=] { return drawn + counted; };
      if (fails) throw Error("no data");
    };
    while (!t->loop.epoch_trained()) t->loop.step();
  }
  REQUIRE(whole.loop.close_epoch());
  stopped.give_up = true;
  CHECK_FALSE(stopped.loop.close_epoch());
  stopped.give_up = false;
  REQUIRE(stopped.loop.close_epoch());
  CHECK(stopped.loop.history()[0]["rank"] == whole.loop.history()[0]["rank"]);
  check_same(stopped.loop.state().tensors, whole.loop.state().tensors);

  const Rng noise = failed.noise, dropout = failed.model.dropout.rng;
  const int64_t seen = failed.seen;
  CHECK_THROWS_WITH_AS(failed.loop.close_epoch(), "no data", Error);
  CHECK(failed.noise == noise);
  CHECK(failed.seen == seen);
  CHECK(failed.model.dropout.rng == dropout);
}

TEST_CASE("train: an evaluation that throws leaves weights and mode as they were") {
  Training t;
  while (!t.loop.epoch_trained()) t.loop.step();
  t.model.norm.training = false;  // set by the program
  const auto before = t.model.up.weight.tensor().to_vector<float>();
  t.evaluated = [&] {
    CHECK_FALSE(t.model.dropout.training);
    CHECK(t.model.up.weight.tensor().to_vector<float>() != before);  // the averages
    throw Error("no data");
  };
  CHECK_THROWS_WITH_AS(t.loop.close_epoch(), "no data", Error);
  CHECK(t.model.up.weight.tensor().to_vector<float>() == before);
  CHECK(t.model.dropout.training);
  CHECK_FALSE(t.model.norm.training);
}

namespace {

struct Offset {
  nn::Parameter value{zeros({})};
  static void fields(auto& m, auto&& visit) { visit("value", m.value); }
};

double samples_of(const Points& p) { return static_cast<double>(p.label.size(0)); }

}  // namespace

TEST_CASE("train: accumulated batches give the step of one large batch") {
  Linear a, b;
  Task<Points> mean{.loss = loss_of(a.model)};
  Loop loop(a.learner, a.loader, mean, {.accumulate = 6, .terminal = false});
  loop.step();
  REQUIRE(loop.epoch_trained());
  std::vector<Tensor> x, label;
  for (Points& p : b.loader) {
    x.push_back(p.x);
    label.push_back(p.label);
  }
  const double loss = b.learner.backward(cross_entropy(b.model(cat(x, 0)), cat(label, 0)));
  b.learner.step();
  CHECK(loop.means().mean("loss") == doctest::Approx(loss).epsilon(1e-6));
  CHECK(max(abs(a.model.weight.tensor() - b.model.weight.tensor())).item() < 1e-6);
}

TEST_CASE("train: 10 numbers in batches of 4, 4 and 2 have the mean of 10") {
  Offset model;
  // The loss of x is value * x, and its gradient the mean of x.
  const datasets::Dataset<Tensor> numbers(10, [](int64_t i) { return full({}, double(i)); });
  auto loader = datasets::dataset_loader(
      numbers, [](const std::vector<Tensor>& all) { return stack(all, 0); },
      {.batch = 4, .shuffle = false});
  optim::Sgd sgd(nn::named_parameters(model), {.lr = 1});
  Learner learner(model, sgd);
  Loop loop(learner, loader,
            {.loss = [&](const Tensor& x) { return mean(x * model.value) + mean(x); }},
            {.accumulate = 3, .terminal = false});
  loop.step();
  CHECK(model.value.own().item() == doctest::Approx(-4.5));
  REQUIRE(loop.close_epoch());
  CHECK(loop.history()[0]["train_loss"] == doctest::Approx(4.5));
}

TEST_CASE("train: without a weight, batches are weighted by their samples, with the same bits") {
  dist::World alone;
  for (const bool shared : {false, true})
    for (const int64_t accumulate : {1, 4}) {
      if (shared && accumulate > 1) continue;
      const auto trained = [&](const std::function<double(const Points&)>& weight) {
        Linear t;
        LoopOptions o{.accumulate = accumulate, .terminal = false};
        if (shared) o.parallel = {.world = &alone, .blocks = 3};
        Loop loop(t.learner, t.loader, {.loss = loss_of(t.model), .weight = weight}, o);
        while (!loop.epoch_trained()) loop.step();
        REQUIRE(loop.close_epoch());
        return std::pair(t.model.weight.own().to_vector<float>(), loop.history()[0]["train_loss"]);
      };
      CAPTURE(shared);
      CAPTURE(accumulate);
      CHECK(trained({}) == trained(samples_of));
    }
}

TEST_CASE("train: outer steps begin at weights that were loaded after the loop was made") {
  dist::World alone;
  const auto trained = [&](bool late) {
    Linear t;
    const auto load = [&] { nn::init::constant(t.model.weight, 2); };
    if (!late) load();
    LoopOptions o{.terminal = false};
    o.parallel = {.world = &alone, .local_steps = 4};
    Loop loop(t.learner, t.loader, {.loss = loss_of(t.model)}, o);
    if (late) load();
    REQUIRE(loop.run() == Outcome::finished);
    return t.model.weight.own().to_vector<float>();
  };
  CHECK(trained(true) == trained(false));
}

namespace {

struct SharedDropout {
  nn::Linear linear;
  nn::Dropout dropout;
  static void fields(auto& m, auto&& visit) {
    visit("linear", m.linear), visit("encoder.dropout", m.dropout);
    visit("decoder.dropout", m.dropout);
  }
};

}  // namespace

TEST_CASE("train: ranks that train apart keep one generator, even where two parts share it") {
  dist::World alone;
  Linear t;
  SharedDropout model{t.model, nn::Dropout(0.5, t.rng)};
  optim::Sgd optimizer(nn::named_parameters(model), {.lr = 0.5});
  Learner learner(model, optimizer);
  LoopOptions o{.terminal = false};
  o.parallel = {.world = &alone, .local_steps = 4};
  Loop loop(learner, t.loader,
            {.loss =
                 [&](const Points& p) {
                   return cross_entropy(model.dropout(model.linear(p.x)), p.label);
                 }},
            o);
  Rng expected = model.dropout.rng;
  static_cast<void>(expected.split());
  loop.step();
  CHECK(model.dropout.rng == expected);
}

TEST_CASE("train: outer steps do not move a parameter that was frozen meanwhile") {
  dist::World alone;
  Linear t;
  std::vector<float> frozen;
  LoopOptions o{.epochs = 3, .terminal = false};
  o.on_epoch = [&](const EpochRecord& e) {
    if (e.epoch == 1) {
      t.model.bias.own().set_requires_grad(false);
      frozen = t.model.bias.own().to_vector<float>();
    }
  };
  o.parallel = {.world = &alone, .local_steps = 4};
  Loop loop(t.learner, t.loader, {.loss = loss_of(t.model)}, o);
  REQUIRE(loop.run() == Outcome::finished);
  CHECK(frozen != std::vector<float>(3));
  CHECK(t.model.bias.own().to_vector<float>() == frozen);
}

TEST_CASE("train: Lookahead is refused beside outer steps") {
  dist::World alone;
  Linear t;
  Learner learner(t.model, t.optimizer, {.lookahead = optim::LookaheadOptions{}});
  LoopOptions o{.terminal = false};
  o.parallel = {.world = &alone, .local_steps = 4};
  Task<Points> task{.loss = loss_of(t.model)};
  CHECK(test::contains(test::error_of([&] { Loop(learner, t.loader, task, o); }),
                       "leave out lookahead or local_steps"));
}

TEST_CASE("train: shared steps refuse a parameter whose gradient no rank would send") {
  dist::World alone;
  Linear t;
  nn::Parameter scale{ones({1})};
  LoopOptions o{.terminal = false};
  o.parallel = {.world = &alone, .blocks = 4};
  Task<Points> task{
      .loss = [&](const Points& p) { return cross_entropy(t.model(p.x) * scale, p.label); }};
  NamedTensors both = nn::named_parameters(t.model);
  both.emplace_back("scale", scale.own());
  optim::Sgd optimizer(both, {.lr = 0.5});
  Learner learner(t.model, optimizer, {.check_graph = false});
  CHECK(test::contains(test::error_of([&] { Loop(learner, t.loader, task, o); }),
                       "the optimizer has the parameter scale, which is not in the model"));

  // Unfrozen by the loss, after the step has begun.
  t.model.bias.own().set_requires_grad(false);
  const auto weight = t.model.weight.own().to_vector<float>();
  task.loss = [&](const Points& p) {
    t.model.bias.own().set_requires_grad(true);
    return cross_entropy(t.model(p.x), p.label);
  };
  Loop loop(t.learner, t.loader, task, o);
  CHECK(test::contains(test::error_of([&] { loop.run(); }),
                       "the loss unfroze the parameter bias during a step"));
  CHECK(t.model.weight.own().to_vector<float>() == weight);
}

TEST_CASE("train: an interrupted loop with a world can be run again") {
  dist::World alone;
  for (const int64_t local_steps : {0, 50}) {
    Linear t;
    bool stop = true;
    LoopOptions o{.epochs = 20, .terminal = false};
    o.parallel = {.world = &alone, .blocks = 4, .local_steps = local_steps};
    Loop loop(t.learner, t.loader,
              {.loss =
                   [&](const Points& p) {
                     if (std::exchange(stop, false)) std::raise(SIGINT);
                     return cross_entropy(t.model(p.x), p.label);
                   }},
              o);
    CHECK(loop.run() == Outcome::interrupted);
    CHECK(loop.run() == Outcome::finished);
  }
}

TEST_CASE("train: with equal batches, weights by samples give the bits of weights of 1") {
  const auto trained = [&](const std::function<double(const Points&)>& weight) {
    Linear t;
    t.loader =
        datasets::Loader<Points>(21,
                                 [](const datasets::BatchPlan& plan) {
                                   Rng rng = plan.batch_rng();
                                   return Points{randn({std::ssize(plan.indices), 4}, rng),
                                                 zeros({std::ssize(plan.indices)}, DType::i64)};
                                 },
                                 {.batch = 3});
    Loop loop(t.learner, t.loader, {.loss = loss_of(t.model), .weight = weight},
              {.accumulate = 7, .terminal = false});
    loop.step();
    return t.model.weight.own().to_vector<float>();
  };
  CHECK(trained({}) == trained([](const Points&) { return 1.0; }));
}

TEST_CASE("train: steps that draw from an Rng that nothing restores are refused") {
  dist::World alone;
  for (int i = 0; i < 16; ++i) {
    const bool folder = i & 1, registered = i & 2, fresh = i & 4, shared = i & 8;
    CAPTURE(folder);
    CAPTURE(registered);
    CAPTURE(fresh);
    CAPTURE(shared);
    TempDir dir;
    Rng rng(1), noise(2);
    Net model(rng);
    optim::Sgd optimizer(nn::named_parameters(model), {.lr = 0.1});
    Learner learner(model, optimizer);
    auto loader = points(24);  // batch norm refuses a block of one
    LoopOptions options{.folder = folder ? dir / "run" : "", .terminal = false};
    if (shared) options.parallel = {.world = &alone, .blocks = 2};
    Loop loop(learner, loader,
              {.loss =
                   [&](const Points& p) {
                     Rng own(3);
                     return mean(square(model(p.x) + uniform({3}, 0, 1, fresh ? own : noise)));
                   }},
              options);
    if (registered) loop.checkpoint().add("noise", noise);
    const std::string error = test::error_of([&] { loop.run(); });
    CAPTURE(error);
    const bool lost = folder && !registered && !fresh && !shared;
    CHECK(error.starts_with("Loop: the steps draw random numbers from an Rng that the") == lost);
    CHECK(error.starts_with("Loop: the steps draw random numbers from an Rng that is not") ==
          (shared && !fresh));
    CHECK((error.empty() || loop.steps() == 2));
  }
}

TEST_CASE("train: a model whose layers draw the same random numbers is refused") {
  Rng rng(1);
  std::vector<Net> nets(2, Net(rng));
  optim::Sgd optimizer(nn::named_parameters(nets), {.lr = 0.1});
  const Tensor x = ones({4, 4});
  const auto train = [&] {
    optimizer.zero_grad();
    Learner learner(nets, optimizer);
    learner.backward(mean(nets[0](x) * nets[1](x)));
  };
  CHECK(test::error_of(train).starts_with(
      "Learner: '1.dropout.rng' is a copy of '0.dropout.rng' and draws the same random numbers"));
  for (Net& net : nets) net.dropout.p = 0;
  for (Rng* g : nn::generators(nets)) *g = Rng(5);
  CHECK_NOTHROW(train());  // neither draws
  for (Net& net : nets) net.dropout.p = 0.5;
  for (Rng* g : nn::generators(nets)) *g = rng.split();
  CHECK_NOTHROW(train());
}

TEST_CASE("train: a task has a loss or a step") {
  Linear t;
  CHECK_THROWS_WITH_AS(Loop(t.learner, t.loader, {}),
                       doctest::Contains("a Task has a loss or a step"), Error);
}

TEST_CASE("train: a batch whose weight is negative or not finite is refused before the step") {
  for (const double bad : {-1.0, kInf, kNan}) {
    CAPTURE(bad);
    Linear t;
    const auto before = t.model.weight.tensor().to_vector<float>();
    std::optional<float> first;  // of the first batch, which has a good weight
    const auto weight = [&](const Points& p) {
      const float value = p.x[0][0].item();
      if (!first) first = value;
      return value == first ? 3 : bad;
    };
    Loop loop(t.learner, t.loader, {.loss = loss_of(t.model), .weight = weight},
              {.accumulate = 2, .terminal = false});
    CHECK_THROWS_WITH_AS(loop.step(), doctest::Contains("a batch of step 1 has the weight"), Error);
    CHECK(t.model.weight.tensor().to_vector<float>() == before);
  }
}

TEST_CASE("train: a task that adds to the loop's own mean of the loss is refused") {
  Linear t;
  Loop loop(t.learner, t.loader,
            {.loss =
                 [&](const Points& p, Means& means) {
                   means.add("loss", 1, 1);
                   return cross_entropy(t.model(p.x), p.label);
                 }},
            {.terminal = false});
  CHECK_THROWS_WITH_AS(loop.step(), doctest::Contains("keeps the mean called 'loss'"), Error);
  CHECK(loop.steps() == 0);
  CHECK(loop.means().count("loss") == 0);
}

TEST_CASE("train: metrics whose names would be lost in the log are refused") {
  const auto error_of = [](const Metrics& metrics) -> std::string {
    Linear t;
    Loop loop(t.learner, t.loader, {.loss = loss_of(t.model), .evaluate = [&] { return metrics; }},
              {.terminal = false});
    while (!loop.epoch_trained()) loop.step();
    try {
      loop.close_epoch();
    } catch (const Error& e) {
      CHECK(loop.history().empty());
      return e.what();
    }
    return "";
  };
  CHECK(error_of({{"a", 1}, {"b", 1}, {"loss", 1}}).empty());
  for (const std::string name :
       {"epoch", "lr", "seconds", "steps", "ended", "train_loss", "words_per_s"})
    CHECK(contains(error_of({{name, 1}}), "cannot be called '" + name + "'"));
  CHECK(contains(error_of({{"a", 1}, {"b", 2}, {"a", 3}}), "cannot be called 'a'"));
  CHECK(contains(error_of({{"a\xff", 1}}), "is not UTF-8"));
}

}  // namespace tern::test::test_train_loop
