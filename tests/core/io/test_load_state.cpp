// load_state with `take`: targets take over the source's elements where that is safe, and copy them
// elsewhere.
#include <doctest/doctest.h>

#include <limits>

#include "tern/core/base/allocator.h"
#include "tern/core/io/state.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_load_state {
namespace {

constexpr LoadStateOptions kTake{.take = true};

std::vector<float> numbers(const Tensor& t) { return t.to_vector<float>(); }

Tensor list(const std::vector<float>& values) { return tensor(values, {std::ssize(values)}); }

TEST_CASE("load_state: taken elements are not copied, and every handle sees them") {
  const Tensor to = zeros({100, 3}).set_requires_grad();
  const Tensor same = to;
  NamedTensors state = {{"w", reshape(arange(0, 300).to(DType::f32), {100, 3}).clone()}};
  const float* elements = state[0].second.data<float>();
  load_state("test", {{"w", to}}, state, kTake);
  CHECK(to.data<float>() == elements);
  CHECK(same.data<float>() == elements);
  CHECK(to.requires_grad());
  CHECK(numbers(same)[299] == 299);
  backward(sum(to * 2));
  CHECK(numbers(same.grad()) == std::vector<float>(300, 2));
}

TEST_CASE("load_state: shared sources, other types, views and gaps are copied") {
  auto source = [] { return reshape(arange(0, 6).to(DType::f32), {2, 3}).clone(); };
  const std::vector<float> want = {0, 1, 2, 3, 4, 5};
  struct Row {
    const char* what;
    Tensor to, from;
    Tensor holds;  // another handle of the elements
  };
  const Tensor held = source(), wide = zeros({2, 5});
  const Tensor turned = transpose(reshape(list({0, 3, 1, 4, 2, 5}), {3, 2}), 0, 1);
  std::vector<Row> rows = {
      {"a second handle of the source", zeros({2, 3}), held, {}},
      {"a view of the source", zeros({2, 3}), source(), {}},
      {"a view of the target", zeros({2, 3}), source(), {}},
      {"f64", zeros({2, 3}, DType::f64), source(), {}},
      {"a target with gaps", narrow(wide, 1, 1, 3), source(), wide},
      {"a source that is transposed", zeros({2, 3}), turned, {}},
      {"a part of a source", zeros({2, 3}), narrow(cat({source(), source()}), 0, 2, 2), {}},
  };
  rows[1].holds = reshape(rows[1].from, {6});
  rows[2].holds = reshape(rows[2].to, {6});
  for (Row& row : rows) {
    CAPTURE(row.what);
    NamedTensors state;
    state.emplace_back("w", std::move(row.from));
    load_state("test", {{"w", row.to}}, state, kTake);
    CHECK(numbers(row.to.to(DType::f32)) == want);
  }
  CHECK(numbers(held) == want);
  CHECK(numbers(rows[1].holds) == want);
  CHECK(numbers(rows[2].holds) == want);  // the view sees the target's new elements
  CHECK(numbers(wide) == std::vector<float>{0, 0, 1, 2, 0, 0, 3, 4, 5, 0});
}

TEST_CASE("load_state: tied targets, one source under two names, backward after it") {
  {
    const Tensor to = zeros({2});
    NamedTensors state = {{"a", list({1, 2})}, {"b", list({1, 2})}};
    load_state("test", {{"a", to}, {"b", to}}, state, kTake);
    CHECK(numbers(to) == std::vector<float>{1, 2});
  }
  {
    const Tensor to = zeros({2}), from = list({1, 2});
    load_state("test", {{"a", to}, {"b", to}}, {{"a", from}, {"b", from}}, kTake);
    CHECK(numbers(to) == std::vector<float>{1, 2});
  }
  for (const bool strict : {true, false}) {  // else the last one would win
    const Tensor to = zeros({2});
    CHECK_THROWS_WITH_AS(load_state("test", {{"a", to}, {"b", to}},
                                    {{"a", list({1, 2})}, {"b", list({1, 3})}}, {.strict = strict}),
                         doctest::Contains("a and b differ, but are one tensor"), Error);
    CHECK(numbers(to) == std::vector<float>{0, 0});
  }
  const Tensor to = zeros({1}), nan = list({std::numeric_limits<float>::quiet_NaN()});
  CHECK_NOTHROW(load_state("test", {{"a", to}, {"b", to}}, {{"a", nan}, {"b", nan.clone()}}));
  CHECK_THROWS_AS(load_state("test", {{"a", to}, {"b", to}}, {{"a", nan}, {"b", ones({1})}}),
                  Error);
  const Tensor w = ones({2}).set_requires_grad();
  const Tensor loss = sum(square(w));
  load_state("test", {{"w", w}}, {{"w", list({3, 4})}}, kTake);
  CHECK_THROWS_AS(backward(loss), Error);  // w was written to in between
}

TEST_CASE("load_state: a part of a larger tensor does not keep the rest in memory") {
  const int64_t before = memory_stats().live;
  const Tensor to = zeros({10});
  NamedTensors state;
  state.emplace_back("w", narrow(ones({1 << 20}), 0, 0, 10));
  load_state("test", {{"w", to}}, state, kTake);
  state.clear();
  CHECK(numbers(to) == std::vector<float>(10, 1));
  CHECK(memory_stats().live - before < 1 << 20);
}

TEST_CASE("load_state: nothing changes where one shape does not fit") {
  const Tensor a = zeros({2}), b = zeros({3});
  NamedTensors state = {{"a", ones({2})}, {"b", ones({4})}};
  CHECK_THROWS_AS(load_state("test", {{"a", a}, {"b", b}}, state, kTake), Error);
  CHECK(numbers(a) == std::vector<float>{0, 0});
  CHECK(numbers(state[0].second) == std::vector<float>{1, 1});
  CHECK_THROWS_WITH_AS(load_state("test", {{"a", a}, {"b", {}}}, state),
                       "test: the tensor 'b' is undefined", Error);
  CHECK_THROWS_WITH_AS(load_state("test", {{"a", a}}, {{"a", {}}}),
                       "test: the tensor 'a' is undefined", Error);
}

TEST_CASE("load_weights: a model takes over the elements it has read") {
  test::TempDir dir;
  Rng rng(1);
  nn::Linear saved(700, 700, rng), loaded(700, 700, rng);
  nn::save_weights(dir / "w", saved);
  const float* before = loaded.weight.tensor().data<float>();
  nn::load_weights(dir / "w", loaded);
  CHECK(loaded.weight.tensor().data<float>() != before);
  CHECK(numbers(loaded.weight) == numbers(saved.weight));
  CHECK(numbers(loaded.bias) == numbers(saved.bias));
}

}  // namespace
}  // namespace tern::test_load_state
