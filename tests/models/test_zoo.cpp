// Properties of every model of the zoo (zoo.h), one loop each.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/precision.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/check_module.h"
#include "tern/optim/optim.h"
#include "tern/tests/models/zoo.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test::test_zoo {
namespace {

using nn::Recompute;

template <class Check>
void with_pairs(Check&& check) {
  for_rows(zoo(), check);
  for_rows(zoo_pairs(), check);
}

/// check(row, rng, dtype) for rows with this property: in f32 and f64, for pairs only in f64.
template <class Check>
void for_types(bool (*has)(const Model&), Check&& check) {
  with_pairs([&](const Model& row, Rng& rng) {
    if (!has(row)) return;
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(dtype);
      if (dtype == DType::f64 || !row.pair) check(row, rng, dtype);
    }
  });
}

bool close(const Tensor& got, const Tensor& want) {
  if (want.numel() == 0) return got.shape() == want.shape();
  const double scale = std::max(1.0, max(abs(want)).item<double>());
  return want.dtype() == DType::f64 ? test::close(got, want, 1e-10, 1e-12 * scale)
                                    : test::close(got, want, 1e-5, 1e-6 * scale);
}

void check_all(bool (*equal)(const Tensor&, const Tensor&), const Tensors& got,
               const Tensors& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK_MESSAGE(equal(got[i], want[i]), "output ", i);
}

/// change(output, its number) for every output.
template <class Change>
Tensors mapped(const Tensors& outputs, Change change) {
  Tensors out;
  for (size_t i = 0; i < outputs.size(); ++i)
    out.push_back(change(outputs[i], static_cast<int>(i)));
  return out;
}

bool has(const std::vector<int>& list, int i) { return std::ranges::count(list, i) > 0; }

/// A step of training. Returns outputs, gradients, buffers and the state of generators.
std::vector<double> step(const AnyModel& model, const Tensors& x) {
  Tensors all = model(x);
  backward(loss_of(all));
  for (const Tensor& p : nn::parameters(model))
    if (p.requires_grad()) all.push_back(p.grad());
  for (const NamedTensors& more : {nn::named_buffers(model), nn::generator_state(model)})
    for (const auto& named : more) all.push_back(named.second);
  return numbers_of(all);
}

/// x with other elements of the causal input from `from` on.
Tensors changed(const Model& row, Tensors x, int64_t from, Rng& rng) {
  const size_t i = static_cast<size_t>(row.causal);
  if (row.inputs[i].words > 0)
    x[i] = repad(x[i], full({x[i].size(0)}, from, DType::i64), row.inputs[i].words);
  else
    x[i] = cat({narrow(x[i], 1, 0, from),
                narrow(randn(x[i].shape(), rng).to(x[i].dtype()), 1, from, x[i].size(1) - from)},
               1);
  return x;
}

}  // namespace

// check_module compares some elements of each gradient with differences. A derivative along all
// weights is below.
TEST_CASE("zoo: check_module passes") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    AnyModel model = evaluated(row, rng);  // at its first weights a model may have kinks
    nn::set_training(model);
    const Tensors x = inputs_of(row, 2, rng);
    CHECK_NOTHROW(nn::check_module(
        model, [](const AnyModel& m, const Tensors& in) { return m(in); },
        row.causal < 0 ? x : begun(row, x, 5),
        {.batch = row.batch_norm ? nn::BatchRule::mixed_in_training : nn::BatchRule::independent,
         .gradient = {.most = 4}}));
  });
}

TEST_CASE("zoo: outputs have their shapes and reach all weights, which are as many as counted") {
  with_pairs([](const Model& row, Rng& rng) {
    const AnyModel model = row.make(rng, Recompute::none);
    const Tensors y = model(inputs_of(row, 3, rng));
    REQUIRE(y.size() == row.outputs.size());
    for (size_t i = 0; i < y.size(); ++i) {
      Shape shape = row.outputs[i];
      shape[0] = 3;
      CHECK(y[i].shape() == shape);
    }
    if (row.weights >= 0) CHECK(nn::num_parameters(model) == row.weights);
    const NamedTensors parameters = nn::named_parameters(model);
    for (const auto& p : parameters)
      CHECK_MESSAGE(p.second.requires_grad() == (std::ranges::count(row.frozen, p.first) == 0),
                    p.first);
    optim::AdamW optimizer(parameters);
    const Tensor loss = loss_of(y);
    CHECK_NOTHROW(optim::check_training_graph(loss, parameters, optimizer));
    backward(loss);
    optimizer.step();
    for (const auto& p : parameters)
      if (p.second.requires_grad())
        CHECK_MESSAGE(all(logical_and(isfinite(p.second.grad()), isfinite(p.second))).item() == 1,
                      p.first);
  });
}

TEST_CASE("zoo: an example alone equals it in a batch, whose others change no bit; no examples") {
  for_types([](const Model&) { return true; },
            [](const Model& row, Rng& rng, DType dtype) {
              const AnyModel model = evaluated(row, rng, dtype);
              NoGradGuard guard;
              const Tensors x = inputs_of(row, 3, rng, dtype), y = model(x);
              check_all(same, model(x), y);
              for (int64_t i = 0; i < 3; ++i)
                check_all(
                    close,
                    model(mapped(x, [=](const Tensor& t, int) { return narrow(t, 0, i, 1); })),
                    mapped(y, [=](const Tensor& t, int) { return narrow(t, 0, i, 1); }));
              const Tensors swapped = mapped(x, [](const Tensor& t, int) {
                return cat({narrow(t, 0, 1, 1), narrow(t, 0, 1, 2)});
              });
              const auto rest = [](const Tensor& t, int) { return narrow(t, 0, 1, 2); };
              check_all(same, mapped(model(swapped), rest), mapped(y, rest));
              const Tensors none = model(inputs_of(row, 0, rng, dtype));
              REQUIRE(none.size() == y.size());
              for (size_t i = 0; i < y.size(); ++i)
                CHECK(none[i].shape() == narrow(y[i], 0, 0, 0).shape());
            });
}

TEST_CASE("zoo: outputs do not depend on later elements, bit for bit, but on their own") {
  for_types([](const Model& row) { return row.causal >= 0; },
            [](const Model& row, Rng& rng, DType dtype) {
              const AnyModel model = evaluated(row, rng, dtype);
              NoGradGuard guard;
              const Tensors x = inputs_of(row, 3, rng, dtype), y = model(x);
              for (int64_t t = 1; t < y[0].size(1); ++t) {
                const auto before = [=](const Tensor& out, int) { return narrow(out, 1, 0, t); };
                const Tensors other = model(changed(row, x, t, rng));
                check_all(same, mapped(other, before), mapped(y, before));
                CHECK_FALSE(same(select(other[0], 1, t), select(y[0], 1, t)));
                check_all(close, model(begun(row, x, t)), mapped(y, before));
              }
            });
}

TEST_CASE("zoo: padding changes no bit; an example without it equals that of a batch") {
  for_types([](const Model& row) { return row.lengths >= 0; },
            [](const Model& row, Rng& rng, DType dtype) {
              const AnyModel model = evaluated(row, rng, dtype);
              NoGradGuard guard;
              const Tensors x = inputs_of(row, 3, rng, dtype);
              const Tensor lengths = x[static_cast<size_t>(row.lengths)];
              const int64_t longest = lengths[0].item<int64_t>();
              // What stands before the padding; the rest as 0.
              const auto real = [&](const Tensor& y, int i) {
                if (!has(row.along, i)) return y;
                const Tensor inside = lt(arange(0, longest), unsqueeze(lengths, 1));
                return where(unsqueeze(inside, 2), narrow(y, 1, 0, longest), 0);
              };
              const Tensors y = mapped(model(x), real);
              const Tensors other = mapped(x, [&](const Tensor& t, int i) {
                return has(row.padded, i)
                           ? repad(t, lengths, row.inputs[static_cast<size_t>(i)].words)
                           : t;
              });
              check_all(same, mapped(model(other), real), y);
              const Tensors longer = mapped(x, [&](const Tensor& t, int i) {
                return has(row.padded, i) ? cat({t, narrow(t, 1, 0, 1)}, 1) : t;
              });
              check_all(close, mapped(model(longer), real), y);
              for (int64_t i = 0; i < 3; ++i) {
                const int64_t length = lengths[i].item<int64_t>();
                check_all(close, model(example(row, x, i)), mapped(y, [&](const Tensor& t, int k) {
                            const Tensor one = narrow(t, 0, i, 1);
                            return has(row.along, k) ? narrow(one, 1, 0, length) : one;
                          }));
              }
              Tensors unknown = x;
              unknown[static_cast<size_t>(row.lengths)] = {};
              const Tensors seen = mapped(model(unknown), real);
              for (size_t i = 0; i < y.size(); ++i) CHECK(same(seen[i], y[i]) == !row.sees_padding);
            });
}

TEST_CASE(
    "zoo: steps from a state equal the whole, with and without gradients; a state is a value") {
  for_types([](const Model& row) { return row.steps; },
            [](const Model& row, Rng& rng, DType dtype) {
              const AnyModel model = evaluated(row, rng, dtype);
              const Tensors x = inputs_of(row, 3, rng, dtype);
              const Tensor along = x[static_cast<size_t>(row.causal)], y = model(x)[0].detach();
              const int64_t size = along.size(1);
              for (const bool recorded : {false, true}) {
                std::optional<NoGradGuard> guard;
                if (!recorded) guard.emplace();
                for (const int64_t known : {int64_t{0}, int64_t{1}, size / 2 + 1}) {
                  if (known > 0 && (recorded || dtype == DType::f32)) continue;
                  std::vector<AnyState> states = {model.start(begun(row, x, known))};
                  for (int64_t t = known; t < size; ++t) {
                    CHECK(states.back().batch() == 3);
                    AnyStep next = states.back().step(select(along, 1, t));
                    CHECK(close(next.logits, select(y, 1, t)));
                    states.push_back(std::move(next.state));
                  }
                  // Each earlier state continues with another element, then again with its own.
                  for (int64_t t = known; t < size && !recorded; ++t) {
                    const AnyState& state = states[static_cast<size_t>(t - known)];
                    const Tensors other = begun(row, changed(row, x, t, rng), t + 1);
                    const Tensor last = select(other[static_cast<size_t>(row.causal)], 1, t);
                    CHECK(close(state.step(last).logits, select(model(other)[0], 1, t)));
                    CHECK(close(state.step(select(along, 1, t)).logits, select(y, 1, t)));
                  }
                  const AnyState& middle = states[states.size() / 2];
                  const int64_t t = known + static_cast<int64_t>(states.size() / 2);
                  if (!middle.select || t >= size) continue;
                  const Tensor rows = tensor<int64_t>({2, 2, 0, 1}, {4});
                  const AnyState chosen = middle.select_rows(rows);
                  CHECK(chosen.batch() == 4);
                  CHECK(close(chosen.step(index_select(select(along, 1, t), 0, rows)).logits,
                              index_select(select(y, 1, t), 0, rows)));
                }
              }
            });
}

TEST_CASE("zoo: training has the same bits on any number of threads") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    const AnyModel model = row.make(rng, Recompute::none);
    const Tensors x = inputs_of(row, 17, rng);
    check_threads([&] { return step(AnyModel(model), x); });
  });
}

TEST_CASE("zoo: training draws random numbers only where the row says so, evaluation none") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    AnyModel model = row.make(rng, Recompute::none);
    const Tensors x = inputs_of(row, 17, rng);
    const auto values = [&] { return numbers_of(model(x)); };
    const NamedTensors before = nn::generator_state(model);
    const std::vector<double> first = values();
    CHECK((values() == first) == !row.random);
    nn::load_generator_state(model, before);
    CHECK(values() == first);
    nn::set_training(model, false);
    const std::vector<double> evaluation = values();
    CHECK(values() == evaluation);
    if (row.random) CHECK(evaluation != first);
  });
}

TEST_CASE("zoo: recomputation changes no bit of gradients, buffers and random numbers") {
  for_rows(zoo(), [](const Model& row, Rng&) {
    if (!row.recomputes) return;
    const auto run = [&](Recompute recompute) {
      Rng rng(7);
      const AnyModel model = row.make(rng, recompute);
      const Tensors x = inputs_of(row, 3, rng);
      std::vector<double> out = step(model, x);
      for (const double v : step(model, x)) out.push_back(v);  // adds to the gradients
      const nn::EvalScope evaluating(model);
      for (const double v : numbers_of(model(x))) out.push_back(v);
      return out;
    };
    const std::vector<double> want = run(Recompute::none);
    CHECK(run(Recompute::selective) == want);
    check_threads([&] { return run(Recompute::full); });
    CHECK(run(Recompute::full) == want);
  });
}

TEST_CASE("zoo: f64 has the outputs of f32, and bf16 products those of f32 within rounding") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    AnyModel model = row.make(rng, Recompute::none);
    nn::set_training(model, false);
    const Tensors x = inputs_of(row, 3, rng), single = model(x);
    AnyModel exact = model;
    nn::to(exact, DType::f64);
    const Tensors y = exact(mapped(
        x, [&](const Tensor& t, int) { return is_float(t.dtype()) ? t.to(DType::f64) : t; }));
    check_all(close, single, mapped(y, [](const Tensor& t, int) { return t.to(DType::f32); }));
    const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
    const Tensors rounded = model(x);
    backward(loss_of(rounded));
    for (size_t i = 0; i < y.size(); ++i) {
      const double scale = max(abs(single[i])).item<double>();
      CHECK(max(abs(rounded[i] - single[i])).item<double>() < 0.05 * scale);
    }
    for (const auto& p : nn::named_parameters(model))
      if (p.second.requires_grad())
        CHECK_MESSAGE(all(isfinite(p.second.grad())).item() == 1, p.first);
  });
}

TEST_CASE("zoo: training continues exactly from weights, optimizer and generators") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    AnyModel a = row.make(rng, Recompute::none), b = row.make(rng, Recompute::none);
    const Tensors x = inputs_of(row, 4, rng);
    const optim::AdamWOptions options{.lr = 0.01};
    optim::AdamW to_a(nn::named_parameters(a), options), to_b(nn::named_parameters(b), options);
    const auto train = [&](const AnyModel& model, optim::AdamW& optimizer) {
      optimizer.zero_grad();
      const std::vector<double> numbers = step(model, x);
      optimizer.step();
      return numbers;
    };
    for (int i = 0; i < 2; ++i) train(a, to_a);
    nn::load_state_dict(b, nn::state_dict(a));
    nn::load_generator_state(b, nn::generator_state(a));
    to_b.load_state_dict(to_a.state_dict());
    for (int i = 0; i < 2; ++i) CHECK(train(a, to_a) == train(b, to_b));
  });
}

TEST_CASE("zoo: weights load by their names into another model") {
  with_pairs([](const Model& row, Rng& rng) {
    const AnyModel a = evaluated(row, rng);
    AnyModel b = evaluated(row, rng);
    NoGradGuard guard;
    const Tensors x = inputs_of(row, 2, rng), y = a(x);
    CHECK_FALSE(same(b(x)[0], y[0]));
    nn::load_state_dict(b, nn::state_dict(a));
    check_all(same, b(x), y);
  });
}

TEST_CASE("zoo: a frozen model has no gradients; frozen weights do not change those of others") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    const AnyModel whole = row.make(rng, Recompute::none);
    const Tensors x = inputs_of(row, 3, rng);
    AnyModel frozen = whole, half = whole;
    nn::freeze(frozen);
    nn::set_training(frozen);
    const Tensors y = frozen(x);
    for (const Tensor& t : y) CHECK_FALSE(t.requires_grad());
    check_all(same, frozen(x), y);
    const std::vector<Tensor> all = nn::parameters(whole), some = nn::parameters(half);
    for (size_t i = 0; i < some.size(); i += 2) some[i].set_requires_grad(false);
    backward(loss_of(whole(x)));
    backward(loss_of(half(x)));
    for (size_t i = 0; i < some.size(); ++i) {
      CHECK(some[i].grad().defined() == some[i].requires_grad());
      if (some[i].requires_grad()) CHECK(same(some[i].grad(), all[i].grad()));
    }
  });
}

TEST_CASE("zoo: first and second derivatives along all weights equal differences") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    const AnyModel model = evaluated(row, rng, DType::f64);
    const Tensors x = inputs_of(row, 2, rng, DType::f64);
    std::vector<Tensor> weights = nn::parameters(model), along;
    std::erase_if(weights, [](const Tensor& p) { return !p.requires_grad(); });
    for (const Tensor& p : weights) along.push_back(randn(p.shape(), rng, DType::f64));
    // The derivative of y along `along`.
    const auto slope = [&](const Tensor& y, bool again) {
      const auto slopes = grad({y}, weights, {.create_graph = again, .allow_unused = true});
      Tensor out = zeros({}, DType::f64);
      for (size_t i = 0; i < slopes.size(); ++i)
        if (slopes[i].defined()) out = out + sum(slopes[i] * along[i]);
      return out;
    };
    const Tensor loss = loss_of(model(x)), first = slope(loss, true), second = slope(first, false);
    // Loss and slope after a move.
    const auto moved = [&](double by) {
      {
        NoGradGuard guard;
        for (size_t i = 0; i < weights.size(); ++i) add_(weights[i], along[i], by);
      }
      const Tensor l = loss_of(model(x));
      return std::pair(l.item(), slope(l, false).item());
    };
    const double h = 1e-6;
    const auto after = moved(h), before = moved(-2 * h);
    CHECK((after.first - before.first) / (2 * h) == doctest::Approx(first.item()).epsilon(1e-5));
    CHECK((after.second - before.second) / (2 * h) == doctest::Approx(second.item()).epsilon(1e-4));
  });
}

TEST_CASE("zoo: print counts all weights") {
  for_rows(zoo(), [](const Model& row, Rng& rng) {
    const AnyModel model = row.make(rng, Recompute::none);
    std::string total = nn::to_string(model);
    total = total.substr(total.rfind(')') + 2);
    total = total.substr(0, total.find(' '));
    std::erase(total, ',');
    CHECK(total == std::to_string(nn::num_parameters(model)));
  });
}

}  // namespace tern::test::test_zoo
