// The Neural Turing Machine and its LSTM baseline: states, traces, initial memory, names.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/models/ntm.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_ntm {
using models::LstmBaseline, models::Ntm, models::NtmController, models::NtmOptions;
using models::NtmRun, models::NtmStart;
using test::check_leaves, test::close, test::same;

namespace {

NtmOptions tiny() { return {.inputs = 3, .outputs = 2, .locations = 7, .width = 4, .hidden = 5}; }

/// Forms that differ in every option.
std::vector<NtmOptions> forms() {
  std::vector<NtmOptions> out(9, tiny());
  out[1].controller = NtmController::feed_forward;
  out[2].layers = 3;
  out[3].controller = NtmController::feed_forward;
  out[3].layers = 2;
  out[3].start = NtmStart::random;
  out[4].read_heads = 2;
  out[4].write_heads = 3;
  out[4].shift = 2;
  out[5].start = NtmStart::learned;
  out[5].layers = 2;
  out[6].addressing = {.content = false};
  out[7].addressing = {.interpolation = false, .sharpening = false};
  out[8].addressing = {.shift = false};
  out[8].start = NtmStart::random;
  return out;
}

std::vector<std::string> names_of(const NtmOptions& o) {
  Rng rng(0);
  std::vector<std::string> names;
  for (const auto& entry : nn::state_dict(Ntm(o, rng))) names.push_back(entry.first);
  return names;
}

}  // namespace

TEST_CASE("ntm: gradients reach every parameter, in every form") {
  for (const NtmOptions& o : forms()) {
    Rng rng(1);
    Ntm model(o, rng);
    Tensor y = model(randn({2, 6, 3}, rng));
    CHECK(y.shape() == Shape{2, 6, 2});
    check_leaves(sum(y * y), model);
  }
  Rng rng(1);
  LstmBaseline baseline(3, 2, rng, 5, 2);
  Tensor y = baseline(randn({2, 6, 3}, rng));
  CHECK(y.shape() == Shape{2, 6, 2});
  check_leaves(sum(y), baseline);
}

TEST_CASE("ntm: names of all forms") {
  auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::count(names.begin(), names.end(), name) == 1;
  };
  const auto f = forms();
  CHECK(has(names_of(f[0]), "controller.weight_ih"));
  CHECK_FALSE(has(names_of(f[0]), "initial_memory"));
  CHECK(has(names_of(f[1]), "controller.weight"));
  CHECK_FALSE(has(names_of(f[1]), "initial_h"));
  CHECK(has(names_of(f[2]), "controller.2.bias_hh"));
  CHECK(has(names_of(f[3]), "controller.1.bias"));
  CHECK(has(names_of(f[3]), "initial_memory"));
  CHECK(has(names_of(f[4]), "write_heads.2.weight"));
  CHECK(has(names_of(f[5]), "initial_memory"));
  Rng rng(0);
  CHECK(nn::named_parameters(Ntm(f[5], rng)).size() ==
        nn::named_parameters(Ntm(f[2], rng)).size() - 4 + 1);  // one layer less, but the memory
}

TEST_CASE("ntm: runs continued from a state equal one run, also twice") {
  for (const NtmOptions& o : forms()) {
    Rng rng(2);
    Ntm model(o, rng);
    Tensor x = randn({2, 7, 3}, rng);
    NtmRun whole = model.run(x, {.trace = true});
    NtmRun first = model.run(narrow(x, 1, 0, 3), {.trace = true});
    for (int again = 0; again < 2; ++again) {
      const models::NtmState copy = first.state;
      NtmRun rest = model.run(narrow(x, 1, 3, 4), {.state = copy, .trace = true});
      CHECK(close(cat({first.output, rest.output}, 1), whole.output, 1e-6, 1e-7));
      CHECK(close(rest.state.memory, whole.state.memory, 1e-6, 1e-7));
      Tensor memory = cat({first.trace.memory, rest.trace.memory}, 1);
      CHECK(close(memory, whole.trace.memory, 1e-6, 1e-7));
    }
  }
}

TEST_CASE("ntm: a sequence alone equals that of a batch; later inputs change nothing") {
  for (const NtmOptions& o : forms()) {
    Rng rng(3);
    Ntm model(o, rng);
    Tensor x = randn({3, 6, 3}, rng), y = model(x);
    CHECK(close(model(narrow(x, 0, 1, 1)), narrow(y, 0, 1, 1), 1e-6, 1e-7));
    Tensor other = cat({narrow(x, 1, 0, 4), randn({3, 2, 3}, rng)}, 1);
    CHECK(same(narrow(model(other), 1, 0, 4), narrow(y, 1, 0, 4)));
  }
}

TEST_CASE("ntm: the trace has weightings that sum to 1, and the memory") {
  Rng rng(4);
  NtmOptions o = forms()[4];
  Ntm model(o, rng);
  Tensor x = randn({2, 6, 3}, rng);
  NtmRun run = model.run(x, {.trace = true});
  CHECK(run.trace.read_weights.shape() == Shape{2, 6, 2, 7});
  CHECK(run.trace.write_weights.shape() == Shape{2, 6, 3, 7});
  CHECK(run.trace.memory.shape() == Shape{2, 6, 7, 4});
  CHECK(close(sum(run.trace.read_weights, 3), ones({2, 6, 2}), 1e-6, 1e-6));
  CHECK(close(sum(run.trace.write_weights, 3), ones({2, 6, 3}), 1e-6, 1e-6));
  const NtmParts last = ntm_parts(run.state.memory, o.memory());
  CHECK(same(select(run.trace.memory, 1, 5), last.memory));
  Tensor read = matmul(select(run.trace.read_weights, 1, 5), last.memory);
  CHECK(close(read, last.reads));
  CHECK_FALSE(model.run(x).trace.memory.defined());
}

TEST_CASE("ntm: initial memory and heads") {
  for (NtmStart start : {NtmStart::constant, NtmStart::learned, NtmStart::random}) {
    Rng rng(5);
    NtmOptions o = tiny();
    o.start = start;
    Ntm model(o, rng);
    const NtmParts parts = ntm_parts(model.start(2).memory, o.memory());
    CHECK(same(select(parts.weights, 2, 0), ones({2, 2})));
    CHECK(close(sum(parts.weights, 2), ones({2, 2})));
    CHECK(same(select(parts.reads, 0, 1), model.initial_read));
    Tensor memory = select(parts.memory, 0, 1);
    if (start == NtmStart::constant) CHECK(same(memory, full({7, 4}, 1e-6)));
    if (start == NtmStart::learned) CHECK(same(memory, model.learned_memory));
    if (start == NtmStart::random) CHECK(same(memory, model.random_memory));
    if (start != NtmStart::constant) CHECK(max(abs(memory)).item() <= 1);
  }
}

TEST_CASE("ntm: the same bits on any number of threads") {
  test::check_threads([] {
    Rng rng(6);
    NtmOptions o = tiny();
    o.locations = 64;
    o.width = 12;
    o.hidden = 40;
    Ntm model(o, rng);
    Tensor y = model(randn({20, 9, 3}, rng));
    sum(y * y).backward();
    return test::with_gradients(y, model);
  });
}

TEST_CASE("ntm: works in f64") {
  Rng rng(7);
  Ntm single(tiny(), rng);
  Ntm model = single;
  nn::to(model, DType::f64);
  Tensor x = randn({2, 5, 3}, rng);
  CHECK(close(model(x.to(DType::f64)).to(DType::f32), single(x)));
}

TEST_CASE("ntm: errors") {
  Rng rng(8);
  NtmOptions o = tiny();
  o.read_heads = 0;
  CHECK_THROWS_WITH_AS(Ntm(o, rng), doctest::Contains("a head of each kind"), Error);
  o = tiny();
  o.locations = 0;
  CHECK_THROWS_WITH_AS(Ntm(o, rng), doctest::Contains("0 locations"), Error);
  Ntm model(tiny(), rng);
  CHECK_THROWS_WITH_AS(model(zeros({2, 0, 3})), doctest::Contains("(B, T >= 1, 3)"), Error);
  CHECK_THROWS_WITH_AS(model.run(zeros({2, 1, 3}), {.state = model.start(3)}),
                       doctest::Contains("has 3 sequences, but the input has 2"), Error);
}

}  // namespace tern::test_ntm
