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
