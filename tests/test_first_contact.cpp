// What a newcomer writes first, as the README does: after `using namespace tern;`. Every op must be
// callable by its plain name, braces and single numbers must mean what they say, and a mistake must
// be named.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "tern/tern.h"

using namespace tern;

namespace {

template <class T>
concept FromThree = requires {
  T{1, 2, 3};
};

}  // namespace

TEST_CASE("first contact: one number of a pair means both; more than two do not compile") {
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

TEST_CASE("first contact: an undefined operand is named, with the op and its number") {
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
         copy_(ones({2, 2}), u);
       }},
      {"fill_: operand 1", [&] { fill_(u, 0); }},
      {"add_: operand 2",
       [&] {
         add_(ones({2, 2}), u);
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
