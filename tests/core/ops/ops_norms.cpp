// Softmax and normalisation: the op table, PyTorch's numbers, masks, running statistics of
// batch_norm, and fused against composed gradients.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_norms {
namespace {

using test::op, test::Array, test::Arrays, test::for_each_index, test::kInf, test::same_bits;
using Inputs = std::vector<Tensor>;

// Calls body(line) for every line of x along `axis`, then writes the line back.
void for_each_line(Array& x, int axis, const std::function<void(std::vector<double>&)>& body) {
  Shape others = x.shape;
  others[axis] = std::min<int64_t>(x.shape[axis], 1);
  for_each_index(others, [&](Dims index) {
    std::vector<double> line;
    for (index[axis] = 0; index[axis] < x.shape[axis]; ++index[axis]) line.push_back(x.at(index));
    body(line);
    for (index[axis] = 0; index[axis] < x.shape[axis]; ++index[axis])
      x.at(index) = line[static_cast<size_t>(index[axis])];
  });
}

// `mask` is 1 for the elements of a line that count; if empty, all count.
Array softmax_of(Array x, int axis, bool logarithm, const std::vector<int>& mask = {}) {
  for_each_line(x, axis, [&](std::vector<double>& line) {
    double total = 0;
    auto counts = [&](size_t i) { return mask.empty() || mask[i]; };
    for (size_t i = 0; i < line.size(); ++i) total += counts(i) ? std::exp(line[i]) : 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (logarithm)
        line[i] = counts(i) ? line[i] - std::log(total) : -kInf;
      else
        line[i] = counts(i) ? std::exp(line[i]) / total : 0;
    }
  });
  return x;
}

TEST_CASE("op table: softmax") {
  for (int axis : {0, 1, 2}) {
    op("softmax", {{2, 3, 4}}, [axis](const Inputs& x) {
      return softmax(x[0], axis);
    }).equals([axis](const Arrays& x) { return softmax_of(x[0], axis, false); });
    op("log_softmax", {{2, 3, 4}}, [axis](const Inputs& x) {
      return log_softmax(x[0], axis);
    }).equals([axis](const Arrays& x) { return softmax_of(x[0], axis, true); });
  }
  const std::vector<int> keep{1, 0, 1, 1};
  Tensor mask = tensor({1, 0, 1, 1}, {4}, DType::u8);
  op("softmax, masked", {{3, 4}}, [mask](const Inputs& x) {
    return softmax(x[0], -1, mask);
  }).equals([keep](const Arrays& x) { return softmax_of(x[0], 1, false, keep); });
  op("softmax, masked, first axis", {{4, 3}},
     [mask](const Inputs& x) { return softmax(x[0], 0, unsqueeze(mask, 1)); })
      .empty({{4, 0}})
      .equals([keep](const Arrays& x) { return softmax_of(x[0], 0, false, keep); });
  op("log_softmax, masked", {{3, 4}},
     [mask](const Inputs& x) {  // central differences need finite values
       return masked_fill(log_softmax(x[0], -1, mask), eq(mask, 0), 0);
     })
      .equals([keep](const Arrays& x) {
        Array y = softmax_of(x[0], 1, true, keep);
        for (double& v : y.v) v = std::isinf(v) ? 0 : v;
        return y;
      });
}

TEST_CASE("softmax: large numbers, infinities, scalars") {
  CHECK(softmax(tensor({1000, 1000, -1000}, {3}), 0).to_vector<double>() ==
        std::vector<double>{0.5, 0.5, 0});
  CHECK(softmax(tensor({0, -kInf}, {2}), 0).to_vector<double>() == std::vector<double>{1, 0});
  CHECK(log_softmax(tensor({3000, 3000}, {2}), 0)[0].item() == doctest::Approx(-std::log(2)));
  CHECK(softmax(scalar(3), -1).item() == 1);
  CHECK(log_softmax(scalar(3), 0).shape() == Shape{});
  CHECK(std::isnan(softmax(tensor({1, std::nan("")}, {2}), 0)[0].item()));
  CHECK_THROWS_AS(softmax(tensor({1, 2}, {2}, DType::i64), 0), Error);
  CHECK_THROWS_WITH_AS(softmax(zeros({2, 3}), 2), "softmax: axis 2 is out of range for 2 axes",
                       Error);
  CHECK_THROWS_WITH_AS(softmax(zeros({2, 3}), 1, ones({3})), doctest::Contains("mask must be u8"),
                       Error);
}

TEST_CASE("softmax: a fully masked row gives zeros and zero gradients") {
  Rng rng(1);
  // x (B, H, T, S) with a mask (B, 1, T, S) that hides all of row 1 of batch 0.
  Tensor x = randn({2, 3, 2, 5}, rng);
  Tensor mask =
      tensor({1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0}, {2, 1, 2, 5}, DType::u8);
  x.set_requires_grad();
  Tensor y = softmax(x, -1, mask), log_y = log_softmax(x, -1, mask);
  Tensor weights = randn(x.shape(), rng);
  std::vector<double> dx = grad({sum(y * weights)}, {x})[0].to_vector<double>();
  std::vector<double> dlog = grad({log_y}, {x}, {.gradients = {weights}})[0].to_vector<double>();
  std::vector<double> p = y.to_vector<double>(), log_p = log_y.to_vector<double>();
  std::vector<int> m = expand(mask, x.shape()).to_vector<int>();
  for (size_t i = 0; i < p.size(); ++i) {
    CHECK(std::isfinite(dx[i]));
    CHECK(std::isfinite(dlog[i]));
    if (m[i]) {
      CHECK(p[i] > 0);
      CHECK(std::exp(log_p[i]) == doctest::Approx(p[i]));
    } else {
      CHECK((p[i] == 0 && log_p[i] == -kInf && dx[i] == 0 && dlog[i] == 0));
    }
  }
}

TEST_CASE("softmax along any axis has the bits of that along the last one") {
  Rng rng(3);
  for (const Shape& shape :
       std::vector<Shape>{{2, 3, 1}, {2, 9, 7}, {1, 5, 31}, {3, 17, 32}, {2, 600, 33}})
    for (DType type : {DType::f32, DType::f64}) {
      Tensor x = (randn(shape, rng) * 3).to(type);
      if (shape[1] > 4) x[0][2] = -kInf;
      const Tensor dy = randn(shape, rng).to(type);
      for (auto* f : {&softmax, &log_softmax}) {
        Tensor a = x.detach().set_requires_grad(), b = x.detach().set_requires_grad();
        const Tensor y = f(a, 1, {}), z = transpose(f(transpose(b, 1, 2), -1, {}), 1, 2);
        CHECK(y.is_contiguous());
        CHECK(same_bits(y, z));
        backward(y, {.gradient = dy});
        backward(z, {.gradient = dy});
        CHECK(same_bits(a.grad(), b.grad()));
      }
    }
}

// With weights, biases and eps.
TEST_CASE("op table: layer_norm and rms_norm") {
  auto naive = [](bool centred, bool affine) {
    return [=](const Arrays& in) {
      Array y = in[0];
      for_each_line(y, y.shape.size() - 1, [&](std::vector<double>& line) {
        double n = static_cast<double>(line.size()), mean = 0, square = 0;
        for (double v : line) mean += centred ? v / n : 0;
        for (double v : line) square += (v - mean) * (v - mean) / n;
        for (size_t i = 0; i < line.size(); ++i) {
          auto at = static_cast<int64_t>(i);
          line[i] = (line[i] - mean) / std::sqrt(square + 1e-3);
          if (affine) line[i] *= in[1][at];
          if (affine && centred) line[i] += in[2][at];
        }
      });
      return y;
    };
  };
  op("layer_norm", {{3, 5}, {5}, {5}}, [](const Inputs& x) {
    return layer_norm(x[0], 5, x[1], x[2], 1e-3);
  }).equals(naive(true, true));
  op("layer_norm without weights", {{2, 3, 4}}, [](const Inputs& x) {
    return layer_norm(x[0], 4, {}, {}, 1e-3);
  }).equals(naive(true, false));
  op("rms_norm", {{3, 5}, {5}}, [](const Inputs& x) {
    return rms_norm(x[0], 5, x[1], 1e-3);
  }).equals(naive(false, true));
}

TEST_CASE("layer_norm over two axes equals that over the flattened axis") {
  Rng rng(2);
  Tensor x = randn({4, 3, 5}, rng), w = randn({3, 5}, rng), b = randn({3, 5}, rng);
  Tensor y = layer_norm(x, {3, 5}, w, b);
  Tensor flat = layer_norm(reshape(x, {4, 15}), 15, reshape(w, 15), reshape(b, 15));
  CHECK(y.shape() == x.shape());
  CHECK(y.to_vector<float>() == flat.to_vector<float>());
}

// The naive loop takes mean and variance over channels or groups of (n, c, s).
TEST_CASE("op table: batch_norm and group_norm") {
  auto naive = [](int64_t groups) {  // 0 means batch norm: statistics per channel
    return [=](const Arrays& in) {
      Array y = in[0];
      const Shape& shape = y.shape;
      auto group = [&](const Dims& i) {
        return groups ? i[0] * groups + i[1] * groups / shape[1] : i[1];
      };
      auto size = static_cast<size_t>(groups ? shape[0] * groups : shape[1]);
      std::vector<double> n(size), mean(size), square(size);
      auto at = [&](std::vector<double>& v, const Dims& i) -> double& {
        return v[static_cast<size_t>(group(i))];
      };
      for_each_index(shape, [&](const Dims& i) { at(n, i) += 1; });
      for_each_index(shape, [&](const Dims& i) { at(mean, i) += y.at(i) / at(n, i); });
      for_each_index(shape, [&](const Dims& i) {
        at(square, i) += (y.at(i) - at(mean, i)) * (y.at(i) - at(mean, i)) / at(n, i);
      });
      for_each_index(shape, [&](const Dims& i) {
        y.at(i) =
            (y.at(i) - at(mean, i)) / std::sqrt(at(square, i) + 1e-3) * in[1][i[1]] + in[2][i[1]];
      });
      return y;
    };
  };
  auto batch = [](const Inputs& x) {
    return batch_norm(x[0], {}, {}, x[1], x[2], {.training = true, .eps = 1e-3});
  };
  op("batch_norm", {{4, 3, 2, 2}, {3}, {3}}, batch).empty({{4, 3, 0}, {3}, {3}}).equals(naive(0));
  // not expanded: the variance of equal rows is 0
  op("batch_norm (N, C)", {{5, 3}, {3}, {3}}, batch).no_empty().no_expanded().equals(naive(0));
  op("group_norm", {{2, 6, 3}, {6}, {6}},
     [](const Inputs& x) { return group_norm(x[0], 2, x[1], x[2], 1e-3); })
      .empty({{0, 6, 3}, {6}, {6}})
      .equals(naive(2));
}

Tensor sample() {
  return tensor({.5, -1.2, 2, .1, 1.5, .3, -.7, .9, -.4, 2.2, .6, -1.1}, {3, 4}, DType::f64);
}
Tensor channel_weight() { return tensor({.5, 2, 1, 1.5}, {4}, DType::f64); }
Tensor channel_bias() { return tensor({.1, .2, .3, .4}, {4}, DType::f64); }

void check_close(const Tensor& got, const std::vector<double>& want) {
  std::vector<double> v = got.to_vector<double>();
  REQUIRE(v.size() == want.size());
  for (size_t i = 0; i < v.size(); ++i) CHECK(std::abs(v[i] - want[i]) < 1e-12);
}

TEST_CASE("normalisation: PyTorch's numbers") {
  // The default eps is 2^-23, as that of F.rms_norm in f32.
  check_close(rms_norm(tensor({1e-3, 2e-3}, DType::f64), 2),
              {0.6178953099989033, 1.2357906199978066});
  check_close(layer_norm(sample(), 4, channel_weight(), channel_bias()),
              {0.16571594088275, -2.5162588898202, 1.7457506994204, 0.071420295586272,
               0.71545279239317, -0.29236223391454, -1.1770867017436, 1.1385433508718,
               -0.19240670366278, 3.2248969344426, 0.52182577519246, -1.3241912526323});
  check_close(rms_norm(sample(), 4, channel_weight(), 1e-6),
              {0.20942688066274, -2.0104980543623, 1.675415045302, 0.12565612839765,
               0.78621319555629, 0.62897055644503, -0.7337989825192, 1.4151837520013,
               -0.15605481542291, 3.433205939304, 0.46816444626873, -1.287452227239});
  check_close(group_norm(reshape(sample(), {1, 4, 3}), 2, channel_weight(), channel_bias()),
              {0.083777934728104, -0.74354739413861, 0.81377087196344, -0.64354739413861,
               2.08175957154, -0.2542178276131, -0.54998580621887, 0.88156923583397,
               -0.28156923583397, 3.0170615612528, 0.86972899817359, -1.4118118500981});
}

TEST_CASE("batch_norm: running statistics and evaluation are PyTorch's") {
  Tensor mean = zeros({4}, DType::f64), var = ones({4}, DType::f64);
  Tensor y = batch_norm(sample(), mean, var, channel_weight(), channel_bias(), {.training = true});
  check_close(y, {0.07852333933164, -2.1480150619224, 1.5395767142748, 0.64333033073819,
                  0.72282315938243, 0.0083253010675566, -0.90934313587786, 2.1033123151673,
                  -0.50134649871407, 2.7396897608549, 0.26976642160305, -1.5466426459055});
  check_close(mean, {0.053333333333333, 0.043333333333333, 0.063333333333333, -0.0033333333333333});
  check_close(var, {0.99033333333333, 1.1903333333333, 1.0823333333333, 1.0013333333333});
  check_close(batch_norm(sample(), mean, var, channel_weight(), channel_bias()),
              {0.32441953428284, -2.0791948282446, 2.161539922178, 0.55489599643853,
               0.82685132745337, 0.67050402620599, -0.43372227569492, 1.7540908075756,
               -0.12776907957064, 4.1534559085101, 0.81584841216979, -1.243896220267});
  CHECK_THROWS_WITH_AS(batch_norm(sample(), {}, {}), doctest::Contains("needs running_mean"),
                       Error);
  CHECK_THROWS_WITH_AS(batch_norm(narrow(sample(), 0, 0, 1), mean, var, {}, {}, {.training = true}),
                       doctest::Contains("more than one value"), Error);
}

TEST_CASE("batch_norm: with momentum 1, an infinite batch leaves no trace in the statistics") {
  Tensor mean = zeros({2}), var = ones({2});
  const BatchNormOptions options{.training = true, .momentum = 1};
  static_cast<void>(batch_norm(full({2, 2}, kInf), mean, var, {}, {}, options));
  CHECK_FALSE(all(isfinite(mean)).item<bool>());
  static_cast<void>(batch_norm(tensor({1, 2, 3, 6}, {2, 2}), mean, var, {}, {}, options));
  CHECK(mean.to_vector<double>() == std::vector<double>{2, 4});
  CHECK(var.to_vector<double>() == std::vector<double>{2, 8});
}

TEST_CASE("batch_norm: a channel has the same bits whatever stands beside it") {
  Rng rng(4);
  const int64_t channels = 640;  // from 513 on the batch is not divided
  const Tensor x = randn({37, channels}, rng), dy = randn({37, channels}, rng);
  auto run = [&](int64_t first, int64_t count) {
    Tensor in = narrow(x, 1, first, count).contiguous().set_requires_grad();
    Tensor w = full({count}, 1.3).set_requires_grad(), b = full({count}, -.2).set_requires_grad();
    const Tensor y = batch_norm(in, zeros({count}), ones({count}), w, b, {.training = true});
    backward(y, {.gradient = narrow(dy, 1, first, count)});
    return std::vector<Tensor>{y, in.grad(), w.grad(), b.grad()};
  };
  const std::vector<Tensor> all = run(0, channels);
  for (int64_t first : {int64_t{0}, int64_t{5}, int64_t{16}})
    for (int64_t count : {int64_t{600}, int64_t{613}}) {
      const std::vector<Tensor> some = run(first, count);
      for (size_t i = 0; i < all.size(); ++i)
        CHECK(same_bits(some[i], narrow(all[i], -1, first, count)));
    }
}

TEST_CASE("normalisation: wrong arguments name the op and the values") {
  Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(layer_norm(x, 4), "layer_norm: the last axes of shape (2, 3) must be (4,)",
                       Error);
  CHECK_THROWS_WITH_AS(softmax(x, 1, ones({3, 2}, DType::u8)),
                       "softmax: a mask (3, 2) does not broadcast to the input (2, 3)", Error);
  CHECK_THROWS_WITH_AS(layer_norm(x, 3, ones({2})), doctest::Contains("(2,)"), Error);
  CHECK_THROWS_WITH_AS(layer_norm(x, 3, ones({3}, DType::f64)), doctest::Contains(".to()"), Error);
  CHECK_THROWS_WITH_AS(group_norm(x, 2),
                       doctest::Contains("3 channels cannot be split into 2 groups"), Error);
  const Tensor whole = ones({3}, DType::i64);
  CHECK_THROWS_WITH_AS(group_norm(x, 3, whole), doctest::Contains("group_norm: x is f32"), Error);
  CHECK_THROWS_WITH_AS(group_norm(whole + x.to(DType::i64), 3),
                       doctest::Contains("group_norm: needs a floating tensor, got i64"), Error);
}

// Fused and composed gradients are computed by different code.
TEST_CASE("fused gradients equal those of the composed ops, on any number of threads") {
  Rng rng(5);
  Tensor x = randn({131, 70}, rng, DType::f64), w = randn({70}, rng, DType::f64);
  Tensor b = randn({70}, rng, DType::f64), up = randn({131, 70}, rng, DType::f64);
  Inputs in{x.set_requires_grad(), w.set_requires_grad(), b.set_requires_grad()};
  auto run = [&](const TensorFunction& fn, bool composed) {
    std::vector<std::vector<double>> out;
    for (const Tensor& g :
         grad({fn(in)}, in, {.create_graph = composed, .allow_unused = true, .gradients = {up}}))
      out.push_back(g.defined() ? g.to_vector<double>() : std::vector<double>{});
    return out;
  };
  auto batch = [](const Inputs& i) {
    Tensor y = reshape(transpose(i[0], 0, 1), {1, 70, 131});
    y = batch_norm(y, {}, {}, i[1], i[2], {.training = true});
    return transpose(reshape(y, {70, 131}), 0, 1);
  };
  for (const TensorFunction& fn :
       std::vector<TensorFunction>{[](const Inputs& i) { return layer_norm(i[0], 70, i[1], i[2]); },
                                   [](const Inputs& i) { return rms_norm(i[0], 70, i[1]); },
                                   [](const Inputs& i) { return softmax(i[0], -1); },
                                   [](const Inputs& i) { return log_softmax(i[0], -1); }, batch}) {
    const test::Threads one(1);
    auto fused = run(fn, false), composed = run(fn, true);
    for (size_t k = 0; k < fused.size(); ++k)
      for (size_t i = 0; i < fused[k].size(); ++i)
        REQUIRE(std::abs(fused[k][i] - composed[k][i]) < 1e-11);
    const test::Threads three(3);
    CHECK(run(fn, false) == fused);
  }
}

}  // namespace
}  // namespace tern::ops_norms
