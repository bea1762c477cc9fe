// The first lines of a newcomer, after `using namespace tern;`: every op is callable by its plain
// name, braces and single numbers mean what they say, and an error names the mistake.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "tern/tern.h"

namespace tern::test_first_contact {

// A function of a program's own, with the name of a function in tern.
static int cpu() { return 7; }

namespace {

template <class T>
concept FromThree = requires {
  T{1, 2, 3};
};

template <class I>
concept IsSize = requires(I i) {
  Shape{2, i};
};

template <class I>
concept IsAxisOfSum = requires(const Tensor& x, I axis) {
  sum(x, axis);
};

template <class I>
concept IsAxisOfArgmax = requires(const Tensor& x, I axis) {
  argmax(x, axis);
};

template <class I>
concept IsAxisOfArgmin = requires(const Tensor& x, I axis) {
  argmin(x, axis);
};

template <class I>
concept IsCorrection = requires(const Tensor& x, I correction) {
  var(x, 1, correction);
  tern::std(x, 1, correction);
  stddev(x, 1, correction);
  var_mean(x, 1, correction);
};

template <class I>
concept IsAnyCorrection = requires(const Tensor& x, I correction) {
  var(x, 1, correction);
}
|| requires(const Tensor& x, I correction) { tern::std(x, 1, correction); }
|| requires(const Tensor& x, I correction) { stddev(x, 1, correction); }
|| requires(const Tensor& x, I correction) { var_mean(x, 1, correction); };

}  // namespace

TEST_CASE("first contact: tensors from vectors have one axis, unless a shape is given") {
  CHECK(tensor(std::vector{1.5F, 2.0F}).shape() == Shape{2});
  CHECK(tensor(std::vector{1, 2, 3}).dtype() == DType::i64);
  CHECK(tensor(std::vector{1, 2, 3, 4}, {2, 2}).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 2, 3, 4});
  CHECK(tensor(std::vector<uint8_t>()).shape() == Shape{0});
}

TEST_CASE("first contact: one number stands for both of a pair; more than two do not compile") {
  CHECK(Size2(3) == Size2(3, 3));
  CHECK(Size2{3} == Size2{3, 3});
  static_assert(!FromThree<Size2>);
  static_assert(!std::is_convertible_v<double, Size2>);
  Rng rng(1);
  Tensor x = randn({1, 2, 7, 7}, rng), w = randn({3, 2, 3, 3}, rng);
  auto same = [](const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && all_close(a, b);
  };
  const Tensor want = conv2d(x, w, {}, {.stride = {2, 2}, .padding = {1, 1}, .dilation = {2, 2}});
  CHECK(same(conv2d(x, w, {}, {.stride = 2, .padding = 1, .dilation = 2}), want));
  CHECK(same(conv2d(x, w, {}, {.stride = {2}, .padding = {1}, .dilation = {2}}), want));
  CHECK(conv2d(x, w, {}, {.padding = {1, 0}}).shape() == Shape{1, 3, 7, 5});
  const Tensor pooled = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  CHECK(same(max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}), pooled));
  CHECK(same(max_pool2d(x, {.kernel = {3}, .stride = {2}, .padding = {1}}), pooled));
  CHECK(same(avg_pool2d(x, {.kernel = {3}}), avg_pool2d(x, {.kernel = {3, 3}, .stride = {3, 3}})));
  CHECK(nn::Conv2d(2, 4, 3, rng).weight.shape() == Shape{4, 2, 3, 3});
  CHECK(nn::Conv2d(2, 4, {3}, rng, {.padding = 1}).weight.shape() == Shape{4, 2, 3, 3});
  CHECK(nn::Conv2d(2, 4, {3, 5}, rng).weight.shape() == Shape{4, 2, 3, 5});
  CHECK(nn::Conv2d(2, 4, std::array<int64_t, 2>{3, 5}, rng).options.padding == 0);
}

TEST_CASE("first contact: layers take their shape in braces, as a number or as a Shape") {
  const Shape shape{4, 8};
  CHECK(nn::LayerNorm({64}).shape == Shape{64});
  CHECK(nn::LayerNorm(64).shape == Shape{64});
  CHECK(nn::LayerNorm({4, 8}).shape == shape);
  CHECK(nn::LayerNorm(shape).shape == shape);
  CHECK(nn::LayerNorm{64}.shape == Shape{64});
  CHECK(nn::LayerNorm({64}, {.eps = 1e-6}).eps == 1e-6);
  CHECK(nn::LayerNorm(shape, {.affine = false}).weight.defined() == false);
  CHECK(nn::RmsNorm({64}).shape == Shape{64});
  CHECK(nn::RmsNorm({64}).eps == nn::RmsNorm(64).eps);
  CHECK(nn::RmsNorm({4, 8}, {.eps = 1e-6}).shape == shape);
  const nn::LayerNorm norm({8});
  CHECK(nn::LayerNorm(norm).shape == Shape{8});
}

TEST_CASE("first contact: sizes in braces may have any integer type, and no other type") {
  static_assert(IsSize<size_t> && IsSize<int> && IsSize<unsigned> && IsSize<int64_t>);
  static_assert(!IsSize<double> && !IsSize<float>);
  Rng rng(1);
  const size_t n = 3;
  const int k = 2;
  const unsigned m = 4;
  CHECK(randn({n, k}, rng).shape() == Shape{3, 2});
  CHECK(zeros({n, m, k, -1 + n}).shape() == Shape{3, 4, 2, 2});
  CHECK(reshape(ones({n, m}), {-1, k}).shape() == Shape{6, 2});
  CHECK(nn::LayerNorm({n}).shape == Shape{3});
  CHECK(Shape{n} == Shape(3));
}

TEST_CASE("first contact: a bool is no axis and no size, so that sum(x, true) does not compile") {
  static_assert(!std::is_convertible_v<bool, Dims> && !IsSize<bool>);
  static_assert(!IsAxisOfSum<bool> && !IsAxisOfArgmax<bool> && !IsAxisOfArgmin<bool>);
  static_assert(IsAxisOfSum<size_t> && IsAxisOfArgmax<int> && IsAxisOfArgmin<int64_t>);
  CHECK(sum(ones({2, 3}), {}, true).shape() == Shape{1, 1});
  CHECK(argmax(ones({2, 3}), {}, true).numel() == 1);
}

TEST_CASE("first contact: a program's own cpu() beside `using namespace tern`") {
  CHECK(cpu() == 7);
}

TEST_CASE(
    "first contact: tile and repeat are as in PyTorch; repeat with a pattern is as in einops") {
  Tensor x = tensor({1, 2, 3, 4}, {2, 2});
  auto rows = [](const Tensor& t) { return t.to_vector<int>(); };
  CHECK(repeat(x, {2, 1}).shape() == Shape{4, 2});
  CHECK(rows(repeat(x, {2, 1})) == std::vector<int>{1, 2, 3, 4, 1, 2, 3, 4});
  CHECK(rows(repeat(x, {1, 2})) == std::vector<int>{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(rows(tile(x, {2, 1})) == rows(repeat(x, {2, 1})));
  CHECK(rows(tile(x, 2)) == rows(repeat(x, {1, 2})));
  CHECK(tile(x, {2, 1, 1}).shape() == Shape{2, 2, 2});
  CHECK(repeat(x, {3, 1, 2}).shape() == Shape{3, 2, 4});
  CHECK(repeat(x, {0, 1}).shape() == Shape{0, 2});
  CHECK(rows(repeat(tensor({7}, {1}), 3)) == std::vector<int>{7, 7, 7});
  CHECK(repeat(tensor({7}, {1}), 0).shape() == Shape{0});
  CHECK(repeat(scalar(7), {}).shape() == Shape{});
  CHECK(rows(repeat(x, "h w -> (n h) w", {{"n", 2}})) == rows(repeat(x, {2, 1})));
  CHECK_THROWS_WITH_AS(repeat(x, 2), doctest::Contains("tile"), Error);
  CHECK_THROWS_WITH_AS(repeat(x, {-1, 1}), doctest::Contains("repeat: axis 0"), Error);
  CHECK_THROWS_WITH_AS(tile(x, -1), doctest::Contains("tile: axis 1"), Error);
  // The elements are new and may be written to, also if one element is repeated.
  for (const Dims& counts : {Dims{1, 1}, Dims{2, 1}}) {
    Tensor y = repeat(x, counts);
    fill_(y, 0);
    CHECK(rows(x) == std::vector<int>{1, 2, 3, 4});
  }
  // More axes than one stretch allows.
  Tensor deep = reshape(arange(0, 128), {2, 2, 2, 2, 2, 2, 2});
  Tensor twice = repeat(deep, {1, 2, 1, 1, 3, 1, 2});
  CHECK(twice.shape() == Shape{2, 4, 2, 2, 6, 2, 4});
  CHECK(all_close(narrow(narrow(narrow(twice, 1, 2, 2), 4, 2, 2), 6, 2, 2), deep));
}

TEST_CASE("first contact: standard deviation under `using namespace tern`") {
  Tensor x = tensor({1, 2, 4}, {3});
  CHECK(stddev(x).item() == doctest::Approx(std::sqrt(7.0 / 3)));
  CHECK(tern::std(x).item() == stddev(x).item());
  CHECK(stddev(x, 0, 0, true).item() == tern::std(x, 0, 0, true).item());
  // stddev(x, 1, true) would look like mean(x, 1, true), but would not keep the axis.
  static_assert(IsCorrection<int> && IsCorrection<int64_t> && !IsAnyCorrection<bool>);
}

// Not run. The plain name of every op must be found, whatever the C library declares in the global
// namespace. The next case checks that no op is missing.
[[maybe_unused]] static void every_name(const Tensor& x, const Tensor& m, Rng& r) {
  const std::vector<Tensor> xs{x, x};
  // Creation.
  tensor(std::vector<float>{1}, {1}), tensor({1}, {1}), scalar(1), empty(3), full(3, 1), zeros(3),
      ones(3), zeros_like(x), ones_like(x), full_like(x, 1), new_full(x, 3, 1), arange(0, 3),
      linspace(0, 1, 3), eye(3), randn(3, r), uniform(3, 0, 1, r), bernoulli(3, .5, r),
      randint(0, 3, 3, r), randperm(3, r), one_hot(m, 3), randn_like(x, r), rand_like(x, r);
  cast(x, DType::f64), clone(x), copy_(x, x), fill_(x, 1), zero_(x), add_(x, x), mul_(x, 2);
  view(x, 3), reshape(x, 3), transpose(x, 0, 1), permute(x, {1, 0}), expand(x, {3, 3}), squeeze(x),
      unsqueeze(x, 0), slice(x, 0, 1, 2), narrow(x, 0, 1, 1), select(x, 0, 1), flatten(x),
      unflatten(x, 0, {1, 1}), flip(x, 0), diagonal(x), unfold(x, 0, 1, 1);
  chunk(x, 2), split(x, 2), cat(xs), stack(xs), pad(x, {1, 1}), roll(x, 1, 0),
      repeat_interleave(x, 2, 0), repeat(x, 2), tile(x, 2), tril(x), triu(x), where(m, x, x),
      masked_fill(x, m, 0), gather(x, 0, m), scatter_add(x, 0, m, x), index_select(x, 0, m),
      take_along_axis(x, m, 0), argsort(x), argmax(x, 0), argmin(x, 0);
  topk(x, 1), sort(x);
  eq(x, x), ne(x, 1), lt(x, 1), le(x, 1), gt(x, 1), ge(x, 1), logical_and(m, m), logical_or(m, m),
      logical_xor(m, m), logical_not(m), isnan(x), isfinite(x), all_close(x, x);
  add(x, 1), sub(x, 1), mul(x, 1), div(x, 1), floor_divide(x, 2), remainder(x, 2), pow(x, 2),
      minimum(x, 1), maximum(x, 1), neg(x);
  exp(x), log(x), log1p(x), expm1(x), sqrt(x), rsqrt(x), square(x), reciprocal(x), abs(x), sign(x),
      sin(x), cos(x), tanh(x), sigmoid(x), erf(x), relu(x), gelu(x), silu(x), softplus(x),
      leaky_relu(x), elu(x), mish(x), hardswish(x), log_sigmoid(x), prelu(x, x), glu(x),
      hardtanh(x), relu6(x), hardsigmoid(x), selu(x), celu(x), softsign(x), tanhshrink(x),
      softshrink(x), hardshrink(x), clamp(x, 0, 1), floor(x), ceil(x), round(x);
  sum(x), sum_to(x, 3), mean(x), var(x), tern::std(x), stddev(x), max(x), min(x), amax(x, 0),
      amin(x, 0), prod(x), norm(x), logsumexp(x, 0), cumsum(x, 0), any(m), all(m), matmul(x, x),
      linear(x, x);
  softmax(x, 0), log_softmax(x, 0), layer_norm(x, 3), rms_norm(x, 3), group_norm(x, 1),
      batch_norm(x, x, x), instance_norm(x), dropout(x, .5, r), dropout1d(x, .5, r),
      dropout2d(x, .5, r), dropout3d(x, .5, r), embedding(m, x);
  cross_entropy(x, m), linear_cross_entropy(x, x, {}, m), nll_loss(x, m), mse_loss(x, x),
      l1_loss(x, x), smooth_l1_loss(x, x), bce_with_logits(x, x), kl_div(x, x);
  einsum("ij->j", xs), rearrange(x, "a b -> b a"), reduce(x, "a b -> a", ReduceOp::sum);
}

TEST_CASE("first contact: the function above calls every op of ops.h") {
  auto read = [](const char* path) {
    std::ifstream in(std::string(TERN_SOURCE_DIR) + path);
    REQUIRE(in);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string page = read("/core/ops/ops.h"),
                    calls = read("/tests/project/test_first_contact.cpp");
  std::set<std::string> names;
  for (const char* result :
       {"\nTensor ", "\nvoid ", "\nbool ", "\nValuesIndices ", "\nstd::vector<Tensor> "})
    for (size_t at = page.find(result); at != std::string::npos; at = page.find(result, at + 1)) {
      const size_t start = at + std::string(result).size();
      names.insert(page.substr(start, page.find('(', start) - start));
    }
  CHECK(names.size() > 120);
  for (const std::string& name : names) {
    auto is_called = [&](const char* before) {
      return calls.find(before + name + "(") != std::string::npos;
    };
    const bool called = is_called(" ") || is_called("(") || is_called("::");
    CHECK_MESSAGE(called, name);
  }
}

TEST_CASE("first contact: an error about an undefined operand names the op and the operand") {
  const Tensor u, x = ones({2, 2}), m = ones({2, 2}, DType::u8), i = zeros({2}, DType::i64);
  Rng r(0);
  struct Row {
    const char* says;
    std::function<void()> run;
  };
  const std::vector<Row> rows = {
      {"add: operand 1 is undefined", [&] { u + x; }},
      {"add: operand 2 is undefined", [&] { x + u; }},
      {"sub: operand 1", [&] { u - 1; }},
      {"sub: operand 2", [&] { 1 - u; }},
      {"mul: operand 1", [&] { mul(u, x); }},
      {"div: operand 2", [&] { x / u; }},
      {"pow: operand 1", [&] { pow(u, 2); }},
      {"floor_divide: operand 2", [&] { floor_divide(x, u); }},
      {"maximum: operand 1", [&] { maximum(u, 0); }},
      {"neg: operand 1", [&] { -u; }},
      {"exp: operand 1", [&] { exp(u); }},
      {"gelu: operand 1", [&] { gelu(u); }},
      {"clamp: operand 1", [&] { clamp(u, 0, 1); }},
      {"gt: operand 1", [&] { gt(u, 0); }},
      {"eq: operand 2", [&] { eq(x, u); }},
      {"logical_and: operand 1", [&] { logical_and(u, m); }},
      {"isnan: operand 1", [&] { isnan(u); }},
      {"where: operand 1", [&] { where(u, x, x); }},
      {"where: operand 2", [&] { where(m, u, 0); }},
      {"masked_fill: operand 2", [&] { masked_fill(x, u, 0); }},
      {"cast: operand 1", [&] { cast(u, DType::f64); }},
      {"clone: operand 1", [&] { clone(u); }},
      {"copy_: operand 2",
       [&] {
         Tensor to = ones({2, 2});
         copy_(to, u);
       }},
      {"fill_: operand 1", [&] { fill_(u, 0); }},
      {"add_: operand 2",
       [&] {
         Tensor to = ones({2, 2});
         add_(to, u);
       }},
      {"view: operand 1", [&] { view(u, 4); }},
      {"reshape: operand 1", [&] { reshape(u, 4); }},
      {"transpose: operand 1", [&] { transpose(u, 0, 1); }},
      {"permute: operand 1",
       [&] {
         permute(u, {1, 0});
       }},
      {"slice: operand 1", [&] { slice(u, 0, 0, 1); }},
      {"select: operand 1", [&] { u[0]; }},
      {"split: operand 1", [&] { split(u, 1); }},
      {"cat: operand 2",
       [&] {
         cat({x, u});
       }},
      {"stack: operand 1",
       [&] {
         stack({u, x});
       }},
      {"pad: operand 1",
       [&] {
         pad(u, {1, 1});
       }},
      {"repeat: operand 1",
       [&] {
         repeat(u, {1, 1});
       }},
      {"gather: operand 2", [&] { gather(x, 0, u); }},
      {"index_select: operand 1", [&] { index_select(u, 0, i); }},
      {"embedding: operand 2", [&] { embedding(i, u); }},
      {"topk: operand 1", [&] { topk(u, 1); }},
      {"sum: operand 1", [&] { sum(u); }},
      {"mean: operand 1", [&] { mean(u, 0); }},
      {"std: operand 1", [&] { tern::std(u); }},
      {"max: operand 1", [&] { max(u); }},
      {"matmul: operand 2", [&] { matmul(x, u); }},
      {"linear: operand 2", [&] { linear(x, u); }},
      {"einsum: operand 2",
       [&] {
         einsum("ij,jk->ik", {x, u});
       }},
      {"rearrange: operand 1", [&] { rearrange(u, "a b -> b a"); }},
      {"softmax: operand 1", [&] { softmax(u, 0); }},
      {"layer_norm: operand 1", [&] { layer_norm(u, 2); }},
      {"batch_norm: operand 1", [&] { batch_norm(u, {}, {}); }},
      {"dropout: operand 1", [&] { dropout(u, .5, r); }},
      {"conv2d: operand 2", [&] { conv2d(x, u); }},
      {"max_pool2d: operand 1", [&] { max_pool2d(u); }},
      {"attention: operand 2", [&] { attention(x, u, x); }},
      {"cross_entropy: operand 1", [&] { cross_entropy(u, i); }},
      {"cross_entropy: operand 2", [&] { cross_entropy(x, u); }},
      {"mse_loss: operand 2", [&] { mse_loss(x, u); }},
      {"kl_div: operand 1", [&] { kl_div(u, x); }},
  };
  for (const Row& row : rows) CHECK_THROWS_WITH_AS(row.run(), doctest::Contains(row.says), Error);
}

TEST_CASE("first contact: the error about class targets that are floats says what to do") {
  Tensor logits = zeros({4, 3}), labels = tensor({0, 1, 2, 0}, {4});
  const auto to_classes = doctest::Contains("convert with .to(DType::i64)");
  CHECK_THROWS_WITH_AS(cross_entropy(logits, labels), to_classes, Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, labels.to(DType::u8)), to_classes, Error);
  CHECK(cross_entropy(logits, labels.to(DType::i64)).item() == doctest::Approx(std::log(3.0)));
  CHECK_THROWS_WITH_AS(cross_entropy(logits, reshape(labels, {4, 1}).to(DType::i64)),
                       doctest::Contains("squeeze"), Error);
  Tensor one_hots = one_hot(labels.to(DType::i64), 3);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, one_hots), doctest::Contains(".to(DType::f32)"),
                       Error);
  CHECK(cross_entropy(logits, one_hots.to(DType::f32)).item() == doctest::Approx(std::log(3.0)));
  CHECK_THROWS_WITH_AS(cross_entropy(logits, one_hots.to(DType::f64)), doctest::Contains(".to()"),
                       Error);
}

}  // namespace tern::test_first_contact
