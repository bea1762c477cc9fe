// Settings that decide a run besides its state: resuming restores them, refuses them, or notes the
// difference in a line.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tern/tests/support/data_files.h"
#include "tern/tests/support/temporary_stream.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_settings {
namespace {

using Notes = std::vector<std::string>;

// A run that begins with `up` frozen and the norm in training. After the first epoch `up` is
// trained and the norm is in evaluation mode.
struct Thawed : Training {
  static LoopOptions thawing(Thawed& self, LoopOptions o) {
    o.on_epoch = [&self](const EpochRecord&) {
      nn::set_requires_grad(self.model.up, true);
      nn::set_training(self.model.norm, false);
    };
    return o;
  }
  explicit Thawed(LoopOptions o = {}, LearnerOptions l = busy()) : Training(thawing(*this, o), l) {
    nn::set_requires_grad(model.up, false);
  }
};

bool is_trained(const Net& net) { return net.up.weight.own().requires_grad(); }

// The state in the form of an earlier version.
SafeTensors without_settings(SafeTensors state) {
  std::string& parts = state.metadata.at("parts");
  for (const std::string part :
       {"optimizer_settings", "modes", "loop_recipe", "loop_best", "recipe"}) {
    REQUIRE(state.metadata.erase(part) == 1);
    const size_t at = parts.find("," + part);
    REQUIRE(at != std::string::npos);
    parts.erase(at, part.size() + 1);
  }
  std::string& loop = state.metadata.at("loop");
  for (const std::string name : {"\"data_epoch\":", "\"epoch_steps\":", "\"own_steps\":"}) {
    const size_t at = loop.find(name);
    REQUIRE(at != std::string::npos);
    loop.erase(at, loop.find(',', at) + 1 - at);
  }
  return state;
}

SafeTensors copy_of(const SafeTensors& state) { return {copies(state.tensors), state.metadata}; }

// A model of two layers with one optimizer, without a loop.
template <class Optimizer>
struct Small {
  Rng rng{3};
  nn::Linear model{2, 2, rng};
  Optimizer optimizer;
  Learner learner;
  Checkpoint checkpoint;
  explicit Small(typename Optimizer::Options options, LearnerOptions learning = {})
      : optimizer(nn::named_parameters(model), options), learner(model, optimizer, learning) {
    learner.add_to(checkpoint);
  }
  void step() {
    learner.backward(mean(square(model(ones({3, 2})) - 1)));
    learner.step();
  }
};
using optim::Adam;
using optim::AdamW;

}  // namespace

TEST_CASE("settings: a resume restores frozen parameters and evaluation modes, and is exact") {
  for (const bool in_backward : {false, true}) {
    CAPTURE(in_backward);
    // The fixture's two steps per epoch, or six of one batch each.
    LearnerOptions learning = Training::busy();
    if (in_backward) learning = {.ema = 0.5, .step_in_backward = true};
    const int each = in_backward ? 6 : 2, all = 3 * each;
    const auto make = [&] {
      return std::make_unique<Thawed>(LoopOptions{.accumulate = in_backward ? 0 : 1}, learning);
    };
    const auto whole = make();
    for (int i = 0; i < all; ++i) whole->step();
    for (int before = 0; before < all; ++before) {
      CAPTURE(before);
      const auto first = make(), second = make();
      for (int i = 0; i < before; ++i) first->step();
      second->loop.load_state(copy_of(first->loop.state()), "c");
      CHECK(is_trained(second->model) == is_trained(first->model));
      CHECK(second->model.norm.training == first->model.norm.training);
      CHECK(second->loop.checkpoint().notes().empty() == (before <= each));
      for (int i = before; i < all; ++i) second->step();
      check_same(whole->loop.state(), second->loop.state());
    }
  }
  Thawed third, fourth;
  for (int i = 0; i < 3; ++i) third.step();
  fourth.loop.load_state(copy_of(third.loop.state()), "c");
  CHECK(fourth.loop.checkpoint().notes() ==
        Notes{"'up.weight' and 1 other are trained as in the checkpoint, not frozen as in the "
              "program",
              "'norm' is in evaluation mode as in the checkpoint, not in training as in the "
              "program"});
}

TEST_CASE("settings: a checkpoint of an earlier version resumes with the program's settings") {
  Thawed whole, first, second;
  for (int i = 0; i < 5; ++i) whole.step();
  for (int i = 0; i < 3; ++i) first.step();
  nn::set_requires_grad(second.model.up, true);
  nn::set_training(second.model.norm, false);
  second.loop.load_state(without_settings(copy_of(first.loop.state())), "c");
  CHECK(second.loop.checkpoint().notes().empty());
  for (int i = 3; i < 5; ++i) second.step();
  check_same(whole.loop.state(), second.loop.state());
}

TEST_CASE("settings: a state saved during an evaluation does not change the program's modes") {
  Training a, b;
  a.step();
  SafeTensors state;
  {
    Learner::Evaluation scope(a.learner);
    state = copy_of(a.loop.state());
  }
  b.loop.load_state(state, "c");
  CHECK(b.model.dropout.training);
}

TEST_CASE("settings: an optimizer resumes with those of the checkpoint and notes differences") {
  Small<AdamW> a({.lr = 1e-3, .beta2 = 0.9}), b({.lr = 1e-2, .weight_decay = 0.5}),
      same({.lr = 1e-3, .beta2 = 0.9});
  a.step();
  same.checkpoint.load_state(copy_of(a.checkpoint.state()), "c");
  CHECK(same.checkpoint.notes().empty());
  b.checkpoint.load_state(copy_of(a.checkpoint.state()), "c");
  CHECK(b.checkpoint.notes() ==
        Notes{"lr is 0.001 as in the checkpoint, not 0.01 as in the program",
              "weight_decay is 0.01 as in the checkpoint, not 0.5 as in the program",
              "beta2 is 0.9 as in the checkpoint, not 0.999 as in the program"});
  a.step(), b.step();
  CHECK(same_bits(a.model.weight.own(), b.model.weight.own()));
  // The program may set another rate after loading.
  b.optimizer.set_settings({{"lr", 0.25}});
  CHECK(b.optimizer.lr() == 0.25);
  b.step(), a.step();
  CHECK_FALSE(same_bits(a.model.weight.own(), b.model.weight.own()));
}

TEST_CASE("settings: a factor of the rate that the program has set is restored") {
  Small<AdamW> a({.lr = 0.5}), b({.lr = 0.5});
  a.step();
  a.optimizer.set_lr_factor(0.125);  // as a program may do after an epoch
  b.checkpoint.load_state(copy_of(a.checkpoint.state()), "c");
  CHECK(b.optimizer.lr() == 0.0625);
  a.step(), b.step();
  CHECK(same_bits(a.model.weight.own(), b.model.weight.own()));
}

TEST_CASE("settings: the factor of a schedule is not kept without the schedule") {
  const auto half = [](int64_t) { return 0.5; };
  Small<AdamW> a({.lr = 1}, {.schedule = half}), b({.lr = 1});
  a.step();
  CHECK(a.optimizer.lr() == 0.5);
  b.checkpoint.load_state(copy_of(a.checkpoint.state()), "c");
  CHECK(b.checkpoint.notes().size() == 1);
  CHECK(contains(b.checkpoint.notes()[0], "it multiplies the rate by 1 in step 1; it was 0.5"));
  CHECK(b.optimizer.lr() == 1);
}

TEST_CASE("settings: an optimizer with another rule or other groups is refused and unchanged") {
  Small<AdamW> a({.lr = 1e-3});
  Small<Adam> b({.lr = 1e-2});
  a.step();
  const SafeTensors state = copy_of(a.checkpoint.state());
  const auto before = b.model.weight.own().to_vector<float>();
  CHECK_THROWS_WITH_AS(
      b.checkpoint.load_state(state, "file"),
      doctest::Contains("file: its 'optimizer_settings' does not fit: it was written with AdamW, "
                        "and this optimizer is Adam"),
      IoError);
  CHECK(b.optimizer.lr() == 1e-2);
  CHECK(b.model.weight.own().to_vector<float>() == before);

  const auto refused = [&](optim::Optimizer& optimizer, nn::Linear& model, const char* why) {
    Learner learner(model, optimizer);
    Checkpoint checkpoint;
    learner.add_to(checkpoint);
    CHECK_THROWS_WITH_AS(checkpoint.load_state(state, "file"), doctest::Contains(why), IoError);
  };
  Rng rng(0);
  nn::Linear model(2, 2, rng);
  const NamedTensors all = nn::named_parameters(model);
  AdamW two(optim::decay_groups(all, 0.1)), part(NamedTensors{all[0]});
  refused(two, model, "it has 1 groups of parameters, and this optimizer has 2");
  refused(part, model,
          "its group 0 of parameters differs from the optimizer's: only one of the two has 'bias'");
  // The same without a Learner, with the optimizer as a part.
  Checkpoint own, other;
  own.add("o", a.optimizer);
  other.add("o", b.optimizer);
  CHECK_THROWS_WITH_AS(other.load_state(own.state(), "file"),
                       doctest::Contains("written with AdamW, and this optimizer is Adam"),
                       IoError);
}

TEST_CASE("settings: each group has its own, also with Muon and AdamW") {
  const auto make = [](double muon, double beta1) {
    static Rng rng(1);
    const NamedTensors p = {{"m", randn({4, 4}, rng).set_requires_grad()},
                            {"v", randn({4}, rng).set_requires_grad()}};
    using Group = optim::MuonWithAdamW::Group;
    return std::make_unique<optim::MuonWithAdamW>(
        std::vector<Group>{{{p[0]}, optim::MuonOptions{.lr = muon, .ns_steps = 3}},
                           {{p[1]}, optim::AdamWOptions{.beta1 = beta1}}});
  };
  const auto a = make(0.5, 0.8), b = make(0.25, 0.9);
  Checkpoint from, to;
  from.add("o", *a), to.add("o", *b);
  to.load_state(from.state(), "c");
  CHECK(to.notes() ==
        Notes{"lr of the optimizer's group 0 is 0.5 as in the checkpoint, not 0.25 as in the "
              "program",
              "beta1 of the optimizer's group 1 is 0.8 as in the checkpoint, not 0.9 as in the "
              "program"});
  CHECK(b->lr(0) == 0.5);
  CHECK(std::get<AdamW::Options>(b->rule(1).rule).beta1 == 0.8);
  CHECK(b->rule_name(0) == std::string("Muon"));
  CHECK(b->rule_name(1) == std::string("AdamW"));
}

TEST_CASE("settings: changes that an optimizer refuses") {
  Rng rng(0);
  const nn::Linear model(2, 2, rng);
  optim::Sgd sgd(nn::named_parameters(model), {.lr = 0.1});
  CHECK_THROWS_WITH_AS(sgd.set_settings({{"beta1", 0.5}}), "Sgd: there is no setting 'beta1'",
                       Error);
  CHECK_THROWS_WITH_AS(sgd.set_settings({{"lr", -1}}), doctest::Contains("must not be negative"),
                       Error);
  // It has no state for a momentum.
  CHECK_THROWS_WITH_AS(sgd.set_settings({{"lr", 1}, {"momentum", 0.9}}),
                       doctest::Contains("these settings need another state"), Error);
  CHECK(sgd.settings() ==
        optim::NamedNumbers{
            {"lr", 0.1}, {"weight_decay", 0}, {"momentum", 0}, {"dampening", 0}, {"nesterov", 0}});
}

namespace {

struct Any {
  template <class T>
  operator T() const;  // NOLINT: converts to the type of any field
};

// The number of fields of a struct: the most values that can initialise it.
template <class R, class... Fields>
constexpr size_t count_fields() {
  if constexpr (requires { R{Fields{}..., Any{}}; })
    return count_fields<R, Fields..., Any>();
  else
    return sizeof...(Fields);
}

template <class R>
void check_lists_all(size_t state_bits = 0) {
  R rule;
  size_t listed = 0;
  R::settings(rule, [&](const char*, auto&) { ++listed; });
  CAPTURE(R::name);
  CHECK(listed + 2 + state_bits == count_fields<R>());  // 2: lr and weight_decay
}

}  // namespace

TEST_CASE("settings: every rule lists all of its settings") {
  check_lists_all<optim::AdamWOptions>(1);
  check_lists_all<optim::AdamOptions>(1);
  check_lists_all<optim::SgdOptions>();
  check_lists_all<optim::RmsPropOptions>();
  check_lists_all<optim::AdadeltaOptions>();
  check_lists_all<optim::LionOptions>();
  check_lists_all<optim::LambOptions>();
  check_lists_all<optim::NAdamOptions>();
  check_lists_all<optim::RAdamOptions>();
  optim::AdafactorOptions adafactor;  // one of its settings is optional
  optim::NamedNumbers found;
  optim::AdafactorOptions::settings(adafactor, [&](const char* name, const auto& value) {
    found.emplace_back(name, optim::detail::to_number(value));
  });
  CHECK(found.size() == 4);
  CHECK(std::isnan(found[1].second));
  size_t muon = 0;  // three are in an array
  optim::MuonOptions options;
  optim::MuonOptions::settings(options, [&](const char*, auto&) { ++muon; });
  CHECK(muon == 8);
}

TEST_CASE("settings: those of the program are in effect, and a note gives the earlier value") {
  LearnerOptions other = Training::busy();
  other.schedule = optim::cosine({.warmup = 2, .total = 40});
  other.clip = 0.5, other.ema = 0.5;
  Training a, b({.accumulate = 2}, other), same;
  for (int i = 0; i < 5; ++i) a.step();
  const SafeTensors state = copy_of(a.loop.state());
  same.loop.load_state(state, "c");
  CHECK(same.loop.checkpoint().notes().empty());
  b.loop.load_state(state, "c");
  const Notes& notes = b.loop.checkpoint().notes();
  REQUIRE(notes.size() == 4);
  CHECK(notes[0] == "accumulate is 2 from here on, as in the program; it was 4");
  CHECK(notes[1] == "clip is 0.5 from here on, as in the program; it was 1");
  CHECK(notes[2] == "ema is 0.5 from here on, as in the program; it was 0.9");
  CHECK(contains(notes[3], "the schedule changes from here on, as in the program: it "));
  // No note about a schedule that differs only in later steps.
  Training fresh, longer({}, other);
  longer.loop.load_state(copy_of(fresh.loop.state()), "c");
  CHECK(longer.loop.checkpoint().notes().size() == 2);  // clip and ema
}

TEST_CASE("settings: a note says that another metric selects the best epoch") {
  const auto notes_of = [](const Best& then, const Best& now) {
    Training a({.best = then}), b({.best = now});
    b.loop.load_state(a.loop.state(), "c");
    return b.loop.checkpoint().notes();
  };
  CHECK(notes_of({}, {}).empty());
  CHECK(notes_of({"rank", true}, {"rank", true}).empty());
  CHECK(notes_of({"rank", true}, {"rank"}) ==
        Notes{"the best epoch is the one with the smallest rank from here on, as in the program; "
              "it was the one with the largest rank; the file of the best weights changes with the "
              "next better epoch"});
  const Notes begun = notes_of({}, {"valid_loss"});
  REQUIRE(begun.size() == 1);
  CHECK(contains(begun[0], "the smallest valid_loss from here on"));
  CHECK(contains(begun[0], "it was the last one"));
}

TEST_CASE("settings: a resumed loop prints its notes") {
  TempDir dir;
  run_linear({.folder = dir / "run", .terminal = false}, 0.5, 2);
  const TemporaryStream output;
  run_linear({.folder = dir / "run", .output = output.get()}, 0.25);
  const std::string text = output.text();
  CHECK(contains(text, "\nnote: lr is 0.5 as in the checkpoint, not 0.25 as in the program\n"));
}

// ---- Modes ------------------------------------------------------------------------------------

TEST_CASE("modes: training a model that is wholly in evaluation mode is an error unless allowed") {
  {
    Training t;
    nn::set_training(t.model, false);
    CHECK_THROWS_WITH_AS(t.step(), doctest::Contains("the whole model is in evaluation mode"),
                         Error);
    nn::set_training(t.model, true);
    t.step();
  }
  {
    LearnerOptions meant = Training::busy();
    meant.allow_evaluation_mode = true;
    Training t({}, meant);
    nn::set_training(t.model, false);
    t.step();
  }
  {  // a part of the model may be
    Training t;
    nn::set_training(t.model.dropout, false);
    t.step();
    CHECK(t.learner.steps() == 1);
  }
  {  // set by a hook after an epoch
    Training* self = nullptr;
    Training t({.on_epoch = [&](const EpochRecord&) { nn::set_training(self->model, false); }});
    self = &t;
    t.step(), t.step();
    CHECK_THROWS_WITH_AS(t.step(), doctest::Contains("the whole model is in evaluation mode"),
                         Error);
  }
}

namespace {

struct Normed {
  nn::Linear up;
  nn::BatchNorm2d norm;
  explicit Normed(Rng& rng) : up(4, 8, rng), norm(8) {}
  Tensor operator()(const Tensor& x) const {
    return mean(square(norm(reshape(up(x), {-1, 8, 1, 1}))));
  }
  static void fields(auto& m, auto&& visit) { visit("up", m.up), visit("norm", m.norm); }
};

}  // namespace

TEST_CASE("modes: a resume restores which modules nn::freeze holds, and releases the others") {
  Training a, b, c;
  a.step();
  const SafeTensors before = copy_of(a.loop.state());
  nn::freeze(a.model.norm), nn::freeze(a.model.dropout);
  a.step();
  b.loop.load_state(copy_of(a.loop.state()), "c");
  CHECK(b.loop.checkpoint().notes() ==
        Notes{"'norm.weight' and 1 other are frozen as in the checkpoint, not trained as in the "
              "program",
              "'norm' and 1 other are in evaluation mode as in the checkpoint, not in training as "
              "in the program"});
  nn::set_training(b.model, true);
  CHECK(!b.model.norm.training);
  CHECK(!b.model.dropout.training);
  for (int i = 0; i < 3; ++i) a.step(), b.step();
  check_same(a.loop.state(), b.loop.state());

  nn::freeze(c.model.norm), nn::freeze(c.model.dropout);
  c.loop.load_state(copy_of(before), "c");
  CHECK(c.model.norm.training);
  CHECK(c.model.norm.weight.own().requires_grad());
  CHECK(c.model.dropout.training);
}

TEST_CASE("modes: a model with only frozen batch norm in evaluation can be trained") {
  Rng rng(0);
  Normed model(rng);
  nn::set_training(model.norm, false);
  const Tensor x = randn({3, 4}, rng);
  {
    optim::Sgd sgd(nn::named_parameters(model));
    Learner learner(model, sgd);
    CHECK_THROWS_WITH_AS(learner.backward(model(x)),
                         doctest::Contains("ask for LearnerOptions::allow_evaluation_mode"), Error);
  }
  nn::set_requires_grad(model.norm, false);
  optim::Sgd sgd(nn::named_parameters(model));
  Learner learner(model, sgd);
  learner.backward(model(x));
  learner.step();
  CHECK(learner.steps() == 1);
}

}  // namespace tern::test::test_train_settings
