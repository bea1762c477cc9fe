// The Neural Turing Machine: states, traces, initial memory, names.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/models/ntm.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_ntm {
using models::Ntm, models::NtmOptions, models::NtmRun, models::NtmStart;
using test::close, test::ntm_forms, test::same, test::tiny_ntm;

namespace {

std::vector<std::string> names_of(const NtmOptions& o) {
  Rng rng(0);
  std::vector<std::string> names;
  for (const auto& entry : nn::state_dict(Ntm(o, rng))) names.push_back(entry.first);
  return names;
}

}  // namespace

TEST_CASE("ntm: names of all forms") {
  auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::count(names.begin(), names.end(), name) == 1;
  };
  const auto f = ntm_forms();
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

TEST_CASE("ntm: states and traces of a run in two parts equal those of one run") {
  for (const NtmOptions& o : ntm_forms()) {
    Rng rng(2);
    const Ntm model(o, rng);
    const Tensor x = randn({2, 7, 3}, rng);
    const NtmRun whole = model.run(x, {.trace = true});
    const NtmRun first = model.run(narrow(x, 1, 0, 3), {.trace = true});
    const NtmRun rest = model.run(narrow(x, 1, 3, 4), {.state = first.state, .trace = true});
    CHECK(close(rest.state.memory, whole.state.memory, 1e-6, 1e-7));
    const Tensor memory = cat({first.trace.memory, rest.trace.memory}, 1);
    CHECK(close(memory, whole.trace.memory, 1e-6, 1e-7));
  }
}

TEST_CASE("ntm: the trace has weightings that sum to 1, and the memory") {
  Rng rng(4);
  NtmOptions o = ntm_forms()[4];
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
    NtmOptions o = tiny_ntm();
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

TEST_CASE("ntm: errors") {
  Rng rng(8);
  NtmOptions o = tiny_ntm();
  o.read_heads = 0;
  CHECK_THROWS_WITH_AS(Ntm(o, rng), doctest::Contains("a head of each kind"), Error);
  o = tiny_ntm();
  o.locations = 0;
  CHECK_THROWS_WITH_AS(Ntm(o, rng), doctest::Contains("0 locations"), Error);
  Ntm model(tiny_ntm(), rng);
  CHECK_THROWS_WITH_AS(model(zeros({2, 0, 3})), doctest::Contains("(B, T >= 1, 3)"), Error);
  CHECK_THROWS_WITH_AS(model.run(zeros({2, 1, 3}), {.state = model.start(3)}),
                       doctest::Contains("has 3 sequences, but the input has 2"), Error);
}

}  // namespace tern::test_ntm
