#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/tests/data_files.h"
#include "tern/train/train.h"

namespace tern::train {
namespace {

using test::contains;
using test::read_file;
using test::TempDir;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Dropout and batch norm: generators and buffers besides weights.
struct Net {
  nn::Linear up, down;
  nn::BatchNorm2d norm;
  nn::Dropout dropout;
  explicit Net(Rng& rng) : up(4, 8, rng), down(8, 3, rng), norm(8), dropout(0.2, rng) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor h = norm(reshape(up(x), {-1, 8, 1, 1}));
    return down(dropout(gelu(reshape(h, {-1, 8}))));
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("norm", m.norm);
    visit("dropout", m.dropout);
    visit("down", m.down);
  }
};

struct Points {
  Tensor x, label;
};

// 22 points in batches of 4: six batches, the last of 2.
data::Loader<Points> points() {
  return data::Loader<Points>(22,
                              [](const data::BatchPlan& plan) {
                                const int64_t n = std::ssize(plan.indices);
                                Rng rng = plan.batch_rng();
                                Points p{randn({n, 4}, rng), zeros({n}, DType::i64)};
                                NoGradGuard no_grad;
                                p.label = gt(sum(p.x, {1}), 0).to(DType::i64);
                                return p;
                              },
                              {.batch = 4, .seed = 3});
}

// A training with everything that has a state: averages, a schedule, accumulation, a counter and a
// generator of the program's own.
struct Training {
  Rng rng{7};
  Net model{rng};
  data::Loader<Points> loader = points();
  optim::AdamW optimizer{nn::named_parameters(model), {.lr = 0.02}};
  Learner learner;
  int64_t seen = 0;
  Rng noise{11};
  // Hooks of the tests.
  double poison = 0;  // added to the loss
  bool quiet = false, give_up = false;
  int64_t batches = 0;
  std::function<void(int64_t number)> before_batch;
  std::function<void(double loss)> watch;
  std::function<Tensor()> extra;
  std::function<void()> evaluated;
  std::function<double()> metric;
  Loop loop;

  explicit Training(LoopOptions options = {}, LearnerOptions learning = busy())
      : learner(model, optimizer, std::move(learning)),
        loop(learner, loader, task(), with(options)) {
    loop.checkpoint().add("seen", seen);
    loop.checkpoint().add("noise", noise);
  }
  static LearnerOptions busy() {
    return {.schedule = optim::cosine({.warmup = 2, .total = 20}), .clip = 1, .ema = 0.9};
  }
  static LoopOptions with(LoopOptions o) {
    o.terminal = false;
    if (o.epochs == 1) o.epochs = 3;
    if (o.accumulate == 1) o.accumulate = 4;  // two steps an epoch, the second of two batches
    return o;
  }
  Task<Points> task() {
    return {.loss =
                [this](const Points& p, Means& means) {
                  if (before_batch) before_batch(++batches);
                  seen += p.label.size(0);
                  const Tensor logits = model(quiet ? p.x : p.x + 0.1 * noise.normal());
                  const auto n = static_cast<double>(p.label.size(0));
                  means.add("top1", sum(eq(argmax(logits.detach(), -1), p.label)).item(), n);
                  Tensor loss = cross_entropy(logits, p.label);
                  if (watch) watch(loss.item());
                  if (extra) loss = loss + extra();
                  return loss + poison;
                },
            .evaluate = [this]() -> std::optional<Metrics> {
              if (evaluated) evaluated();
              if (give_up) return std::nullopt;
              const Points p{ones({5, 4}), zeros({5}, DType::i64)};
              return Metrics{{"valid_loss", cross_entropy(model(p.x), p.label).item()},
                             {"none", kNaN},
                             {"rank", metric ? metric() : 0.0}};
            },
            .weight = [](const Points& p) { return static_cast<double>(p.label.size(0)); }};
  }
  void step() {  // epochs are closed before the step after them
    if (loop.epoch_trained()) REQUIRE(loop.close_epoch());
    loop.step();
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return dispatch(a.dtype(), [&]<class T>() {
    std::vector<T> x = a.to_vector<T>(), y = b.to_vector<T>();
    return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
  });
}

void check_same(const SafeTensors& x, const SafeTensors& y) {
  CHECK(x.metadata == y.metadata);
  REQUIRE(x.tensors.size() == y.tensors.size());
  for (size_t i = 0; i < x.tensors.size(); ++i) {
    CAPTURE(x.tensors[i].first);
    CHECK(x.tensors[i].first == y.tensors[i].first);
    CHECK(same_bits(x.tensors[i].second, y.tensors[i].second));
  }
}

}  // namespace

TEST_CASE("train: k steps, a checkpoint and the rest equal an unbroken loop bit for bit") {
  Training whole;
  for (int i = 0; i < 6; ++i) whole.step();
  REQUIRE(whole.loop.history().size() == 2);
  CHECK(whole.loop.history()[0].metrics[0].first == "train_loss");
  for (int before = 0; before < 6; ++before) {
    CAPTURE(before);
    TempDir dir;
    Training first, second;
    for (int i = 0; i < before; ++i) first.step();
    first.loop.checkpoint().save(dir / "c");
    second.loop.load_state(load_checkpoint(dir / "c"), "c");
    for (int i = before; i < 6; ++i) second.step();
    check_same(whole.loop.state(), second.loop.state());
  }
}

TEST_CASE("train: a killed run and a stopped one end with the files of an unbroken run") {
  TempDir dir;
  Training whole({.folder = dir / "whole", .best = {"valid_loss"}});
  REQUIRE(whole.loop.run() == Outcome::finished);
  struct Killed {};
  for (int64_t batch : {1, 2, 6, 8, 12, 13, 18}) {
    for (const bool killed : {false, true}) {
      CAPTURE(batch);
      CAPTURE(killed);
      const LoopOptions options{.folder = dir / fmt::format("{}-{}", batch, killed),
                                .best = {"valid_loss"},
                                .checkpoint_steps = killed ? 1 : 0};
      int64_t steps = 0;
      {
        Training t(options);
        t.before_batch = [&](int64_t number) {
          if (number != batch) return;
          if (killed) throw Killed();  // where the process would die: nothing is saved any more
          std::raise(SIGINT);
        };
        if (killed) {
          CHECK_THROWS_AS(t.loop.run(), Killed);
        } else {
          // After the last batch nothing asks for signals any more.
          CHECK(t.loop.run() == (batch < 18 ? Outcome::interrupted : Outcome::finished));
        }
        steps = t.learner.steps();
      }
      Training again(options);
      REQUIRE(again.loop.resume());
      CHECK(again.learner.steps() == steps);  // nothing that was done is done again
      REQUIRE(again.loop.run() == Outcome::finished);
      for (const char* file : {"model.safetensors", "best.safetensors"})
        CHECK(read_file(again.loop.folder().file(file)) ==
              read_file(whole.loop.folder().file(file)));
    }
  }
}

TEST_CASE("train: a run's folder, its log, and what it refuses") {
  TempDir dir;
  const LoopOptions options{.folder = dir / "a/b", .best = {"valid_loss"}};
  Training t(options);
  CHECK_FALSE(t.loop.resume());
  REQUIRE(t.loop.run() == Outcome::finished);
  const std::string log = read_file(t.loop.folder().log());
  CHECK(std::count(log.begin(), log.end(), '\n') == 3);
  CHECK(log.starts_with("{\"epoch\":1,\"train_loss\":"));
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
                       doctest::Contains("the run is in epoch 3 already, and is to have 2"),
                       IoError);
  LoopOptions longer = options;
  longer.epochs = 4;
  Training fourth(longer), whole(LoopOptions{.epochs = 4});
  REQUIRE(fourth.loop.resume());
  REQUIRE(fourth.loop.run() == Outcome::finished);
  REQUIRE(whole.loop.run() == Outcome::finished);
  const NamedTensors a = fourth.learner.weights(), b = whole.learner.weights();
  for (size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i].second, b[i].second));
}

TEST_CASE("train: the weights that count are written after each epoch, and the best of them") {
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

TEST_CASE("train: an interrupted evaluation leaves the epoch open") {
  Training t;
  while (!t.loop.epoch_trained()) t.loop.step();
  const SafeTensors before = t.loop.state();
  std::vector<std::vector<float>> values;
  for (const auto& [name, x] : before.tensors) values.push_back(x.to_vector<float>());
  t.give_up = true;
  CHECK_FALSE(t.loop.close_epoch());
  const SafeTensors after = t.loop.state();
  CHECK(before.metadata == after.metadata);
  for (size_t i = 0; i < values.size(); ++i)
    CHECK(after.tensors[i].second.to_vector<float>() == values[i]);
}

TEST_CASE("train: an evaluation that throws leaves weights and mode as they were") {
  Training t;
  while (!t.loop.epoch_trained()) t.loop.step();
  t.model.norm.training = false;  // frozen by the program
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

TEST_CASE("train: batches that are accumulated give the step of one large batch") {
  struct Linear {
    Rng rng{5};
    nn::Linear model{4, 3, rng};
    data::Loader<Points> loader = points();
    optim::Sgd optimizer{nn::named_parameters(model), {.lr = 0.5}};
    Learner learner{model, optimizer};
  } a, b;
  Task<Points> mean{.loss = [&](const Points& p) { return cross_entropy(a.model(p.x), p.label); },
                    .weight = [](const Points& p) { return static_cast<double>(p.label.size(0)); }};
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

}  // namespace tern::train
