// checkpoint() recomputes a segment in backward. Whatever the segment draws, captures or throws,
// its gradients equal those without checkpoint(), or there is an Error.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"

namespace tern::test_checkpoint {

namespace {

using Args = std::span<const Tensor>;
using Segment = std::function<Tensor(Args)>;
using Values = std::vector<double>;

Tensor noise(Args in, Rng& rng) { return dropout(tanh(in[0]), 0.5, rng); }

Tensor scaled_by_draws(Args in, Rng& rng) {
  Tensor y = in[0];
  for (int i = 0; i < 5; ++i) y = y * rng.uniform(0.5, 2) + rng.normal();
  return y * static_cast<double>(1 + rng.below(7));
}

/// A segment that draws random numbers: by every method of a generator, single and mixed, from the
/// generator itself and from others made from it.
struct Drawing {
  const char* name;
  std::function<Tensor(Args, Rng&)> run;
};

const std::vector<Drawing> kDrawings = {
    {"dropout", noise},
    {"dropout twice", [](Args in, Rng& rng) { return dropout(noise(in, rng), 0.3, rng); }},
    {"fills",
     [](Args in, Rng& rng) {
       const Shape& s = in[0].shape();
       Tensor y = in[0] * randn(s, rng, DType::f64) + uniform(s, 0, 1, rng, DType::f64);
       return y * bernoulli(s, 0.5, rng, DType::f64) * randn(s, rng).to(DType::f64);
     }},
    {"an empty fill",
     [](Args in, Rng& rng) {
       rng.next_u32();
       static_cast<void>(randn({0}, rng));
       return noise(in, rng);
     }},
    {"numbers", scaled_by_draws},
    {"a choice of rows",
     [](Args in, Rng& rng) {
       return index_select(in[0], 0, randperm(in[0].size(0), rng)) *
              randint(1, 5, in[0].shape(), rng).to(DType::f64);
     }},
    {"a generator split off",
     [](Args in, Rng& rng) {
       Rng own = rng.split();
       return noise(in, own) + scaled_by_draws(in, own) * rng.uniform();
     }},
    {"streams and copies",
     [](Args in, Rng& rng) {
       Rng one = rng.stream(3), two = rng;
       return noise(in, one) * two.uniform() + noise(in, two) + noise(in, rng);
     }},
    {"a checkpoint within",
     [](Args in, Rng& rng) {
       Tensor y = noise(in, rng);
       auto inner = [&rng](Args a) { return noise(a, rng) * rng.uniform(); };
       return checkpoint(inner, {y}) + noise(in, rng);
     }},
};

Tensor start(const Shape& shape) {
  Rng rng(5);
  return randn(shape, rng, DType::f64).set_requires_grad();
}

/// The segment's output and gradient, and one draw from its generator afterwards.
Values run(const Drawing& drawing, bool recompute, bool draw_between) {
  Rng rng(11);
  Tensor x = start({6, 4});
  Segment segment = [&](Args in) { return drawing.run(in, rng); };
  Tensor y = recompute ? checkpoint(segment, {x}) : segment(std::vector<Tensor>{x});
  if (draw_between) rng.uniform();
  sum(square(y)).backward();
  Values out = y.to_vector<double>(), dx = x.grad().to_vector<double>();
  out.insert(out.end(), dx.begin(), dx.end());
  out.push_back(rng.uniform());
  return out;
}

Values second_derivatives(const Drawing& drawing, bool recompute) {
  Rng rng(11);
  Tensor x = start({6, 4});
  Segment segment = [&](Args in) { return drawing.run(in, rng); };
  Tensor y = recompute ? checkpoint(segment, {x}) : segment(std::vector<Tensor>{x});
  Tensor dx = grad({sum(square(y))}, {x}, {.create_graph = true})[0];
  rng.normal();
  Values out = grad({sum(square(dx))}, {x})[0].to_vector<double>();
  out.push_back(rng.uniform());
  return out;
}

}  // namespace

TEST_CASE("checkpoint: a segment's random numbers are the same when it runs again") {
  for (const Drawing& d : kDrawings)
    for (bool draw_between : {false, true})
      CHECK_MESSAGE(run(d, true, draw_between) == run(d, false, draw_between), d.name);
}

TEST_CASE("checkpoint: second derivatives see the same draws") {
  for (const Drawing& d : kDrawings) {
    Values with = second_derivatives(d, true), without = second_derivatives(d, false);
    REQUIRE(with.size() == without.size());
    for (size_t i = 0; i < with.size(); ++i)  // the order of sums differs
      CHECK_MESSAGE(with[i] == doctest::Approx(without[i]).epsilon(1e-12), d.name);
  }
}

TEST_CASE("checkpoint: a generator may advance, move or be destroyed before backward") {
  auto gradient = [](bool recompute, auto between) {
    Tensor x = start({32});
    auto rng = std::make_shared<std::unique_ptr<Rng>>(std::make_unique<Rng>(3));
    Rng spare(99);
    Segment segment = [rng, &spare](Args in) { return noise(in, *rng ? **rng : spare); };
    Tensor y = recompute ? checkpoint(segment, {x}) : segment(std::vector<Tensor>{x});
    between(*rng);
    sum(y).backward();
    CHECK(spare == Rng(99));
    return x.grad().to_vector<double>();
  };
  Values expected = gradient(false, [](auto&) {});
  CHECK(expected == gradient(true, [](auto& rng) { *rng = Rng(4); }));
  CHECK(expected == gradient(true, [](auto& rng) { rng.reset(); }));
  CHECK(expected == gradient(true, [](auto& rng) { rng = std::make_unique<Rng>(*rng); }));
}

TEST_CASE("checkpoint: dropout of a module, without naming its generators") {
  Rng rng(1);
  nn::Sequential a(nn::Linear(8, 8, rng), nn::Dropout(0.5, rng)), b(a);
  Tensor x = randn({16, 8}, rng);
  sum(square(a(x))).backward();
  sum(square(checkpoint([&](Args in) { return b(in[0]); }, {x}))).backward();
  CHECK(b.get<0>().weight.grad().to_vector<float>() == a.get<0>().weight.grad().to_vector<float>());
  CHECK(b(x).to_vector<float>() == a(x).to_vector<float>());
}

TEST_CASE("checkpoint: generators keep their state if fn throws when it runs again") {
  Tensor x = start({8});
  for (bool named : {false, true}) {
    Rng rng(3);
    bool fails = false;
    Segment segment = [&](Args in) {
      Tensor y = noise(in, rng);
      if (fails) throw std::runtime_error("again");
      return y;
    };
    CheckpointOptions options;
    if (named) options.rngs = {&rng};
    Tensor loss = sum(checkpoint(segment, {x}, options));
    Rng::State before = rng.state();
    fails = true;
    CHECK_THROWS_WITH_AS(backward(loss, {.retain_graph = true}), "again", std::runtime_error);
    CHECK(rng.state() == before);
    fails = false;
    CHECK_NOTHROW(backward(loss));  // the failed run leaves no trace
    rng.uniform();
    CHECK(rng.state() != before);
  }
}

// Captured results of ops belong to the surrounding graph, whose backward runs them once.
TEST_CASE("checkpoint: fn may capture results of ops") {
  struct Row {
    const char* name;
    std::function<Tensor(const Tensor& z, const Tensor& w, bool recompute)> run;
  };
  auto maybe = [](bool recompute, const Tensor& x, const Segment& fn) {
    return recompute ? checkpoint(fn, {x}) : fn(std::vector<Tensor>{x});
  };
  const std::vector<Row> rows = {
      {"one, used outside too",
       [&](auto& z, auto& w, bool r) {
         Tensor memory = tanh(w);
         return maybe(r, z, [memory](Args in) { return sin(in[0]) * memory; }) + memory;
       }},
      {"several segments share it, and its leaf",
       [&](auto& z, auto& w, bool r) {
         Tensor memory = exp(tanh(w) * w), x = z;
         for (int i = 0; i < 3; ++i)
           x = maybe(r, x, [memory, w, i](Args in) { return tanh(in[0] * memory + w) * (i + 1); });
         return x * memory;
       }},
      {"it is what fn returns",
       [&](auto& z, auto& w, bool r) {
         Tensor memory = square(w);
         return maybe(r, z, [memory](Args) { return memory; }) * z;
       }},
      {"input and capture are the same",
       [&](auto& z, auto& w, bool r) {
         Tensor x = sin(z * w);
         return maybe(r, x, [x](Args in) { return in[0] * exp(x) * in[0]; });
       }},
      {"nested, with a capture of the outer segment",
       [&](auto& z, auto& w, bool r) {
         Tensor memory = tanh(w);
         return maybe(r, z, [maybe, r, memory](Args in) {
           Tensor own = sin(in[0] * memory);
           return maybe(r, own, [own, memory](Args in) { return in[0] * own + memory; }) * own;
         });
       }},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    std::vector<Values> found;
    for (bool recompute : {false, true}) {
      Tensor z = start({6}), w = start({6});
      std::map<const void*, int> ready;
      BackwardOptions options{.on_ready = [&](const Tensor& t) { ++ready[t.ref().get()]; }};
      backward(sum(square(row.run(z, w, recompute))), options);
      CHECK(ready[w.ref().get()] == 1);
      Values g = z.grad().defined() ? z.grad().to_vector<double>() : Values();
      for (double v : w.grad().template to_vector<double>()) g.push_back(v);
      found.push_back(g);
    }
    REQUIRE(found[0].size() == found[1].size());
    for (size_t i = 0; i < found[0].size(); ++i)
      CHECK(found[1][i] == doctest::Approx(found[0][i]).epsilon(1e-12));
    auto fn = [&](const std::vector<Tensor>& in) { return row.run(in[0], in[1], true); };
    CHECK_NOTHROW(gradcheck(fn, {start({3}), start({3})}));
    CHECK_NOTHROW(gradgradcheck(fn, {start({3}), start({3})}));
  }
}

TEST_CASE("checkpoint: an fn that behaves differently when it runs again is refused") {
  Rng rng(7);
  Tensor x = start({8});
  auto complaint = [&](auto fn, auto between) -> std::string {
    Tensor y = sum(checkpoint(fn, {x}));
    between();
    try {
      y.backward();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  int draws = 2;
  auto drawing = [&](Args in) {
    Tensor y = in[0];
    for (int i = 0; i < draws; ++i) y = y * rng.uniform();
    return y;
  };
  CHECK(has(complaint(drawing, [&] { draws = 1; }), "fewer random numbers"));
  CHECK(has(complaint(drawing, [&] { draws = 2; }), "more random numbers"));
  auto filling = [&](Args in) { return in[0] * sum(randn({draws * 100}, rng, DType::f64)); };
  CHECK(has(complaint(filling, [&] { draws = 20; }), "other random numbers"));

  std::vector<nn::Linear> layers = {nn::Linear(4, 4, rng), nn::Linear(4, 4, rng)};
  for (nn::Linear& l : layers) nn::to(l, DType::f64);
  size_t i = 0;
  auto layer = [&](Args in) { return layers[i](in[0]); };
  x = start({2, 4});
  CHECK(has(complaint(layer, [&] { i = 1; }), "other parameters"));
  nn::num_parameters(layers);  // gives the parameters names
  const std::string copied = complaint([=](Args in) { return layers[1](in[0]); }, [] {});
  CAPTURE(copied);
  CHECK(has(copied, "checkpoint: fn uses a parameter of shape (4"));
  CHECK(has(copied, ", a copy of '1."));  // the weight or the bias
  CHECK(has(copied, "capture modules by reference"));
  CHECK(complaint([&](Args in) { return layers[1](in[0]); }, [] {}).empty());
  int64_t rows = 1;
  auto rowed = [&](Args in) { return slice(in[0], 0, 0, rows); };
  CHECK(has(complaint(rowed, [&] { rows = 2; }), "gave (1, 4) in the forward pass"));
  nn::set_requires_grad(layers[1], false);
  i = 0;
  CHECK(has(complaint(layer, [&] { i = 1; }), "other parameters"));  // now a frozen one
}

TEST_CASE("checkpoint: the only input that fn uses is frozen before backward") {
  const Tensor x = ones({2}).set_requires_grad(), other = ones({2}).set_requires_grad();
  const Segment doubled = [](Args in) { return in[0] * 2; };
  const Tensor y = checkpoint(doubled, {x, other}), z = checkpoint(doubled, {x, other * 1});
  x.set_requires_grad(false);
  backward(sum(y) + sum(z), {.retain_graph = true});
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(other.grad().defined());
  CHECK_FALSE(grad({sum(y)}, {other}, {.allow_unused = true})[0].defined());
}

}  // namespace tern::test_checkpoint
