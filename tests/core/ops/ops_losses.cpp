// cross_entropy and the losses of two tensors: the op table, PyTorch's numbers, ignored targets,
// large logits, errors.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/losses/losses.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_losses {
namespace {

using test::op, test::Array, test::Arrays, test::for_each_index, test::kInf, test::kNan;
using Inputs = std::vector<Tensor>;

Tensor sample() {
  return tensor({.5, -1.2, 2, .1, 1.5, .3, -.7, .9, -.4, 2.2, .6, -1.1}, {3, 4}, DType::f64);
}
Tensor class_weight() { return tensor({.5, 2, 1, 1.5}, {4}, DType::f64); }
Tensor classes() { return tensor({2, -100, 1}, {3}, DType::i64); }
Tensor probabilities() {
  return tensor({.1, .2, .3, .4, 0, 1, 0, 0, .25, .25, .5, 0}, {3, 4}, DType::f64);
}

void check_close(const Tensor& got, const std::vector<double>& want) {
  std::vector<double> v = got.to_vector<double>();
  REQUIRE(v.size() == want.size());
  for (size_t i = 0; i < v.size(); ++i) CHECK(std::abs(v[i] - want[i]) < 1e-12);
}

// Checks the loss and its gradient by the logits, with and without create_graph.
void check_loss(const TensorFunction& fn, const std::vector<double>& loss,
                const std::vector<double>& gradient) {
  Tensor x = sample().clone().set_requires_grad();
  check_close(fn({x}), loss);
  check_close(grad({sum(fn({x}))}, {x})[0], gradient);
  check_close(grad({sum(fn({x}))}, {x}, {.create_graph = true})[0], gradient);
}

TEST_CASE("cross_entropy: PyTorch's numbers for classes") {
  auto loss = [](const CrossEntropyOptions& o) {
    return [o](const Inputs& x) { return cross_entropy(x[0], classes(), o); };
  };
  check_loss(loss({}), {0.3091982278736},
             {0.078930427785734, 0.014419288702888, -0.14625836447557, 0.052908647986946, 0, 0, 0,
              0, 0.02828277430655, -0.11920813583353, 0.076880551455903, 0.014044810071082});
  check_loss(loss({.label_smoothing = .1}), {0.4854482278736},
             {0.066430427785734, 0.0019192887028878, -0.10875836447557, 0.040408647986946, 0, 0, 0,
              0, 0.01578277430655, -0.081708135833535, 0.064380551455903, 0.001544810071082});
  check_loss(loss({.weight = class_weight()}), {0.29691720552983},
             {0.052620285190489, 0.0096128591352585, -0.097505576317045, 0.035272431991297, 0, 0, 0,
              0, 0.037710365742067, -0.15894418111138, 0.1025074019412, 0.018726413428109});
  check_loss(loss({.weight = class_weight(), .label_smoothing = .1}), {0.44174200396632},
             {0.049769125653585, -0.0068134860530267, -0.066609882391638, 0.02365424279108, 0, 0, 0,
              0, 0.032129560360072, -0.1279837743197, 0.090330041035076, 0.0055241729245552});
  const std::vector<double> dx{
      0.13220041973933,  -0.11899852928879, -0.014455483622471, 0.0012535931719338, 0, 0, 0, 0,
      0.062903848788252, -0.19818888220905, 0.19792595766846,   -0.062640924247659};
  check_loss(loss({.weight = class_weight(), .label_smoothing = .3, .reduction = Reduction::sum}),
             {2.1941748025178}, dx);
  check_loss(loss({.weight = class_weight(), .label_smoothing = .3, .reduction = Reduction::none}),
             {1.1219943920228, 0, 1.0721804104951}, dx);
}

TEST_CASE("cross_entropy: PyTorch's numbers for probabilities") {
  auto loss = [](const CrossEntropyOptions& o) {
    return [o](const Inputs& x) { return cross_entropy(x[0], probabilities(), o); };
  };
  check_loss(loss({}), {1.8305845340599},
             {0.019286951857156, -0.057053807531408, 0.13582775701629, -0.098060901342036,
              0.16999785917481, -0.28213096211242, 0.018836299711404, 0.093296803226207,
              -0.0644781504623, 0.17052790944431, -0.11541296569606, 0.0093632067140546});
  check_loss(loss({.weight = class_weight(), .label_smoothing = .1}), {2.690487279171},
             {0.051344515488589, -0.12378543542542, 0.21767586106849, -0.14523494113166,
              0.32307921224483, -0.5181021020664, 0.027926543611119, 0.16709634621045,
              -0.020218896150866, 0.1221004969929, -0.10003224847927, -0.0018493523627628});
  check_loss(loss({.weight = class_weight(), .label_smoothing = .3, .reduction = Reduction::none}),
             {2.9532745092745, 3.2877089349176, 1.6928628744792},
             {0.13587632935434, -0.39193307782438, 0.6488779177845, -0.39282116931446,
              0.86773860010584, -1.2773473732486, 0.025303295963225, 0.38430547717955,
              -0.059242549737271, 0.38534108418703, -0.24625271786503, -0.079845816584734});
}

// log softmax(x) at class c; classes are axis 1 of x (N, C, ...).
double log_prob(const Array& x, const Dims& at, int64_t c) {
  double total = 0;
  Dims index = at;
  for (index[1] = 0; index[1] < x.shape[1]; ++index[1]) total += std::exp(x.at(index));
  index[1] = c;
  return x.at(index) - std::log(total);
}

TEST_CASE("op table: cross_entropy") {
  auto target = [](const Tensor& x) {  // (N, d), some of them ignored
    Tensor t = remainder(arange(0, x.size(0) * x.size(2)), x.size(1) + 1) - 1;
    return reshape(t, {x.size(0), x.size(2)});
  };
  auto fn = [=](const Inputs& x) {
    return cross_entropy(x[0], target(x[0]), {.ignore_index = -1, .label_smoothing = .2});
  };
  auto naive = [](const Arrays& in) {
    const Array& x = in[0];
    const int64_t classes = x.shape[1];
    double total = 0, count = 0;
    for_each_index({x.shape[0], x.shape[2]}, [&](const Dims& i) {
      int64_t t = (i[0] * x.shape[2] + i[1]) % (classes + 1) - 1;
      if (t < 0) return;
      ++count;
      for (int64_t c = 0; c < classes; ++c)
        total -= (.2 / static_cast<double>(classes) + (c == t ? .8 : 0)) *
                 log_prob(x, {i[0], 0, i[1]}, c);
    });
    Array y(Shape{});
    y[0] = count > 0 ? total / count : 0;
    return y;
  };
  auto soft_naive = [](const Arrays& in) {
    Array y(Shape{in[0].shape[0]});
    for (int64_t i = 0; i < y.numel(); ++i)
      for (int64_t c = 0; c < in[0].shape[1]; ++c)
        y[i] -= in[1].at({i, c}) * log_prob(in[0], {i, 0}, c);
    return y;
  };
  op("cross_entropy", {{4, 3, 2}}, fn).equals(naive);
  op("cross_entropy, learned probabilities", {{3, 4}, {3, 4}}, [](const Inputs& x) {
    return cross_entropy(x[0], x[1], {.reduction = Reduction::none});
  }).equals(soft_naive);
  op("cross_entropy, one row", {{5}},
     [](const Inputs& x) { return cross_entropy(x[0], scalar(3, DType::i64)); })
      .no_empty()
      .no_expanded()
      .equals([](const Arrays& in) {
        Array row(Shape{1, 5}), y(Shape{});
        row.v = in[0].v;
        y[0] = -log_prob(row, {0, 0}, 3);
        return y;
      });
}

TEST_CASE("cross_entropy: only ignored targets give 0 and a zero gradient") {
  Tensor x = tensor({1, 2, kInf, 3, 4, 5}, {2, 3}).set_requires_grad();
  Tensor none = tensor({-100, -100}, {2}, DType::i64);
  for (Reduction r : {Reduction::mean, Reduction::sum}) {
    Tensor loss = cross_entropy(x, none, {.reduction = r});
    CHECK(loss.item() == 0);
    CHECK(grad({loss}, {x})[0].to_vector<double>() == std::vector<double>(6, 0));
    CHECK(nll_loss(x, none, {.reduction = r}).item() == 0);
  }
  CHECK(cross_entropy(zeros({0, 3}), zeros({0}, DType::i64)).item() == 0);
}

TEST_CASE("cross_entropy: targets without any weight give 0, also with label smoothing") {
  const CrossEntropyOptions options{.weight = tensor({0.0, 1.0, 1.0}), .label_smoothing = 0.3};
  for (const int64_t n : {1, 4}) {
    const Tensor target = zeros({n}, DType::i64);
    const Tensor logits = ones({n, 3}).set_requires_grad(), w = ones({3, 2}).set_requires_grad();
    const Tensor a = cross_entropy(logits, target, options);
    const Tensor b = linear_cross_entropy(ones({n, 2}), w, {}, target, options);
    CHECK(a.item() == 0);
    CHECK(b.item() == 0);
    (a + b).backward();
    CHECK(sum(abs(logits.grad())).item() == 0);
    CHECK(sum(abs(w.grad())).item() == 0);
  }
}

TEST_CASE("losses: an infinite difference has a slope of 1") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto slopes = [&](auto loss) {
    const Tensor x = tensor({inf, -inf, 3}).set_requires_grad();
    loss(x, zeros({3})).backward();
    return x.grad().template to_vector<float>();
  };
  const std::vector<float> want = {1, -1, 1};
  CHECK(slopes([](auto& x, auto y) { return huber_loss(x, y, {.reduction = Reduction::sum}); }) ==
        want);
  CHECK(slopes([](auto& x, auto y) { return smooth_l1_loss(x, y, 1, Reduction::sum); }) == want);
}

TEST_CASE("cross_entropy: large logits give finite, exact results") {
  Tensor x = tensor({1000, 0, -1000, 1000}, {2, 2}).set_requires_grad();
  Tensor loss = cross_entropy(x, tensor({1, 1}, {2}, DType::i64), {.reduction = Reduction::none});
  CHECK(loss.to_vector<double>() == std::vector<double>{1000, 0});
  CHECK(grad({sum(loss)}, {x})[0].to_vector<double>() == std::vector<double>{1, -1, 0, 0});
}

TEST_CASE("cross_entropy: errors name row, value and rule") {
  Tensor x = zeros({2, 3});
  auto targets = [](double a, double b) { return tensor({a, b}, {2}, DType::i64); };
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets(0, 3)),
                       "cross_entropy: target 3 at row 1 is outside [0, 3)", Error);
  CHECK_THROWS_WITH_AS(nll_loss(x, targets(-1, 0)),
                       "nll_loss: target -1 at row 0 is outside [0, 3)", Error);
  CHECK_THROWS_WITH_AS(cross_entropy(x, zeros({3}, DType::i64)), doctest::Contains("got (3,)"),
                       Error);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 5, 7}), zeros({2, 5}, DType::i64)),
                       doctest::Contains("if it is the last one: transpose(input, 1, -1)"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(x, zeros({2})), doctest::Contains("must match the logits"),
                       Error);
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets(0, 0), {.weight = ones({2})}),
                       doctest::Contains("weight has shape (2,)"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets(0, 0), {.label_smoothing = 2}),
                       doctest::Contains("label_smoothing"), Error);
}

TEST_CASE("cross_entropy: backward refuses targets that were written to") {
  Tensor x = zeros({2, 3}).set_requires_grad(), target = zeros({2}, DType::i64);
  Tensor loss = cross_entropy(x, target);
  {
    NoGradGuard guard;
    fill_(target, 1);
  }
  CHECK_THROWS_WITH_AS(loss.backward(), doctest::Contains("cross_entropy saved"), Error);
}

TEST_CASE("op table: losses of two tensors") {
  auto naive = [](const std::function<double(double, double)>& f, bool mean) {
    return [=](const Arrays& in) {
      Array y(mean ? Shape{} : in[0].shape);
      for (int64_t i = 0; i < in[0].numel(); ++i)
        y[mean ? 0 : i] += f(in[0][i], in[1][i]) / (mean ? static_cast<double>(in[0].numel()) : 1);
      return y;
    };
  };
  auto none = Reduction::none;
  auto mse = [](double x, double y) { return (x - y) * (x - y); };
  auto l1 = [](double x, double y) { return std::abs(x - y); };
  auto smooth = [](double x, double y) {
    double d = std::abs(x - y);
    return d < .7 ? d * d / 1.4 : d - .35;
  };
  auto bce = [](double x, double y) {
    double p = 1 / (1 + std::exp(-x));
    return -(3 * y * std::log(p) + (1 - y) * std::log(1 - p));
  };
  auto kl = [](double lp, double t) { return t * (std::log(t) - lp); };
  auto kl_log = [](double lp, double t) { return std::exp(t) * (t - lp); };
  const std::vector<Shape> shapes{{3, 4}, {3, 4}}, empty{{3, 0}, {3, 0}};
  op("mse_loss", shapes, [](const Inputs& x) { return mse_loss(x[0], x[1]); })
      .no_empty()
      .equals(naive(mse, true));
  op("l1_loss", shapes, [=](const Inputs& x) {
    return l1_loss(x[0], x[1], none);
  }).equals(naive(l1, false));
  op("smooth_l1_loss", shapes, [=](const Inputs& x) {
    return smooth_l1_loss(x[0], x[1], .7, none);
  }).equals(naive(smooth, false));
  op("bce_with_logits", shapes, [=](const Inputs& x) {
    return bce_with_logits(x[0], x[1], {.pos_weight = scalar(3, x[0].dtype()), .reduction = none});
  }).equals(naive(bce, false));
  op("kl_div", shapes, [=](const Inputs& x) { return kl_div(x[0], x[1], {.reduction = none}); })
      .between(.1, 2)
      .equals(naive(kl, false));
  op("kl_div, log_target", shapes, [=](const Inputs& x) {
    return kl_div(x[0], x[1], {.log_target = true, .reduction = none});
  }).equals(naive(kl_log, false));
}

TEST_CASE("losses: PyTorch's numbers") {
  Tensor a = tensor({.5, -2, 1.5, 0}, {4}, DType::f64), b = tensor({0, 1, .25, 1}, {4}, DType::f64);
  check_close(mse_loss(a, b), {2.953125});
  check_close(l1_loss(a, b), {1.4375});
  check_close(smooth_l1_loss(a, b, .7), {1.0946428571428571});
  check_close(smooth_l1_loss(a, b, 0), {1.4375});
  check_close(
      bce_with_logits(a, b, {.weight = class_weight(), .pos_weight = scalar(3, DType::f64)}),
      {4.4487221969604});
  check_close(bce_with_logits(tensor({800, -800}, {2}), tensor({0, 1}, {2})), {800});
  Tensor log_probs = log_softmax(sample(), 1);
  check_close(kl_div(log_probs, probabilities()), {0.2643482171255});
  check_close(kl_div(log_probs, probabilities(), {.batch_mean = true}), {1.057392868502});
  check_close(kl_div(log_probs, log_softmax(flip(sample(), 1), 1),
                     {.log_target = true, .reduction = Reduction::sum}),
              {3.4200899093364});
  check_close(nll_loss(sample(), classes(), {.weight = class_weight()}), {-2.1333333333333333});
  CHECK_THROWS_WITH_AS(mse_loss(zeros({3, 1}), zeros({3})), doctest::Contains("(3, 1) and (3,)"),
                       Error);
}

TEST_CASE("losses: factors broadcast to the losses, and never expand them") {
  const Tensor x = full({3, 2}, .5), y = zeros({3, 2}), rows = full({3, 1}, 2), column = ones({3});
  CHECK(bce_with_logits(x, y, {.weight = rows}).item() ==
        2 * bce_with_logits(x, y, {.pos_weight = rows}).item());
  CHECK(binary_cross_entropy(x, y, {.weight = rows}).item() ==
        2 * binary_cross_entropy(x, y).item());
  CHECK(bce_with_logits(full({}, .5), ones({}), {.pos_weight = full({1}, 2)}).item() ==
        2 * bce_with_logits(full({}, .5), ones({})).item());
  const std::string why = "of shape (3, 1) would expand the losses (3,)";
  CHECK_THROWS_WITH_AS(bce_with_logits(column, column, {.weight = rows}),
                       doctest::Contains(("weight " + why).c_str()), Error);
  CHECK_THROWS_WITH_AS(bce_with_logits(column, column, {.pos_weight = rows}),
                       doctest::Contains(("pos_weight " + why).c_str()), Error);
  CHECK_THROWS_WITH_AS(binary_cross_entropy(column, column, {.weight = rows}),
                       doctest::Contains(("weight " + why).c_str()), Error);
}

TEST_CASE("kl_div: a target of 0 gives 0 and no gradient, even where log_probs is -inf") {
  Tensor log_probs = tensor({-kInf, 0}, {2}).set_requires_grad();
  Tensor target = tensor({0, 1}, {2}).set_requires_grad();
  Tensor loss = kl_div(log_probs, target, {.reduction = Reduction::sum});
  CHECK(loss.item() == 0);
  CHECK(grad({loss}, {log_probs}, {.retain_graph = true})[0].to_vector<double>() ==
        std::vector<double>{0, -1});
  CHECK(grad({loss}, {target})[0].to_vector<double>() == std::vector<double>{0, 1});
}

TEST_CASE("kl_div: batch_mean beside another reduction is refused") {
  const Tensor log_probs = log_softmax(sample(), 1);
  for (const Reduction other : {Reduction::none, Reduction::sum})
    CHECK_THROWS_WITH_AS(
        kl_div(log_probs, probabilities(), {.reduction = other, .batch_mean = true}),
        "kl_div: batch_mean is a reduction of its own; leave .reduction out", Error);
}

TEST_CASE("kl_div: logarithms without log_target are refused") {
  const Tensor log_probs = log_softmax(tensor({1, 2, 3}, {1, 3}).to(DType::f32), 1);
  CHECK_THROWS_WITH_AS(static_cast<void>(kl_div(log_probs, log_probs)),
                       doctest::Contains("set log_target if it holds their logarithms"), Error);
  CHECK(std::isnan(kl_div(log_probs, full({1, 3}, kNan)).item()));
}

TEST_CASE("cross_entropy, nll_loss: a class with weight 0 does not count where it is impossible") {
  const Tensor x = tensor({1, 2, -kInf}, {1, 3}), weight = tensor({1., 1., 0.}, {3});
  for (const double smoothing : {0., .1})
    for (const int64_t target : {0, 2}) {
      CAPTURE(smoothing);
      CAPTURE(target);
      const Tensor index = full({1}, static_cast<double>(target), DType::i64);
      const Tensor one_hot = tern::one_hot(index, 3).to(DType::f32);
      const CrossEntropyOptions options{
          .weight = weight, .label_smoothing = smoothing, .reduction = Reduction::sum};
      const double loss = cross_entropy(x, index, options).item();
      CHECK(std::isfinite(loss));
      CHECK(loss == doctest::Approx(cross_entropy(x, one_hot, options).item()));
    }
  const Tensor log_p = log_softmax(x, 1).set_requires_grad();
  const Tensor none =
      nll_loss(log_p, full({1}, 2, DType::i64), {.weight = weight, .reduction = Reduction::sum});
  CHECK(none.item() == 0);
  CHECK(grad({none}, {log_p})[0].to_vector<double>() == std::vector<double>{0, 0, 0});
}

TEST_CASE("nll_loss(log_softmax) equals cross_entropy") {
  Rng rng(7);
  Tensor x = randn({4, 5, 3}, rng, DType::f64).set_requires_grad();
  Tensor target = randint(0, 5, {4, 3}, rng), w = uniform({5}, .5, 2, rng, DType::f64);
  Tensor a = cross_entropy(x, target, {.weight = w, .ignore_index = 2});
  Tensor b = nll_loss(log_softmax(x, 1), target, {.weight = w, .ignore_index = 2});
  check_close(a, b.to_vector<double>());
  check_close(grad({a}, {x})[0], grad({b}, {x})[0].to_vector<double>());
}

TEST_CASE("cross_entropy: same bits on any number of threads") {
  Rng rng(8);
  Tensor x = randn({700, 130}, rng).set_requires_grad(), target = randint(0, 130, {700}, rng);
  test::check_threads({3}, [&] {
    Tensor loss = cross_entropy(x, target, {.label_smoothing = .1});
    std::vector<double> out = grad({loss}, {x})[0].to_vector<double>();
    out.push_back(loss.item());
    return out;
  });
}

}  // namespace
}  // namespace tern::ops_losses
