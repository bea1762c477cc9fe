// Views: values and gradients in the op table, shared memory, Python's slices, PyTorch's corner
// cases, errors.
#include <doctest/doctest.h>

#include <numeric>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::ops_views {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::for_each_index, test::Ints,
    test::picked;

// The same numbers in row-major order, with another shape.
Array renamed(Array x, const Shape& shape) {
  x.shape = shape;
  return x;
}

Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(numel(shape)));
  std::iota(values.begin(), values.end(), 0.f);
  return tensor(values, shape);
}

Ints ints(const Tensor& t) { return t.to_vector<int64_t>(); }

bool shares(const Tensor& a, const Tensor& b) { return a.ref()->storage == b.ref()->storage; }

TEST_CASE("op table: views, shapes") {
  op("reshape", {{2, 3, 4}},
     [](const Args& x) {
       return reshape(x[0], {-1, 2 * x[0].size(0)});
     })
      .no_empty()
      .equals([](const Arrays& x) {
        return renamed(x[0], {12 / x[0].shape[0], 2 * x[0].shape[0]});
      });
  op("reshape empty", {{0, 4}}, [](const Args& x) {
    return reshape(x[0], {2, 0, 3});
  }).equals([](const Arrays&) {
    return Array({2, 0, 3});
  });
  op("transpose", {{2, 3, 4}}, [](const Args& x) {
    return transpose(x[0], 0, -1);
  }).equals([](const Arrays& x) {
    const Shape& s = x[0].shape;
    return picked(x[0], {s[2], s[1], s[0]}, [](const Dims& i) { return Dims{i[2], i[1], i[0]}; });
  });
  op("permute", {{2, 3, 4}}, [](const Args& x) {
    return permute(x[0], {2, 0, 1});
  }).equals([](const Arrays& x) {
    const Shape& s = x[0].shape;
    return picked(x[0], {s[2], s[0], s[1]}, [](const Dims& i) { return Dims{i[1], i[2], i[0]}; });
  });
  op("expand", {{3, 1, 2}}, [](const Args& x) {
    return expand(x[0], {2, -1, 4, -1});
  }).equals([](const Arrays& x) {
    return picked(x[0], {2, x[0].shape[0], 4, 2}, [](const Dims& i) {
      return Dims{i[1], 0, i[3]};
    });
  });
  op("squeeze", {{3, 1, 2, 1}}, [](const Args& x) {
    return squeeze(x[0]);
  }).equals([](const Arrays& x) {
    return renamed(x[0], {x[0].shape[0], 2});
  });
  op("squeeze one axis, and one that is longer", {{3, 1, 2, 1}}, [](const Args& x) {
    return squeeze(squeeze(x[0], 1), -2);
  }).equals([](const Arrays& x) {
    return renamed(x[0], {x[0].shape[0], 2, 1});
  });
  op("unsqueeze", {{3, 2}}, [](const Args& x) {
    return unsqueeze(unsqueeze(x[0], -1), 1);
  }).equals([](const Arrays& x) {
    return renamed(x[0], {x[0].shape[0], 1, 2, 1});
  });
  op("flatten", {{2, 3, 2, 2}}, [](const Args& x) {
    return flatten(x[0], 1, -2);
  }).equals([](const Arrays& x) {
    return renamed(x[0], {x[0].shape[0], 6, 2});
  });
  op("unflatten", {{2, 6}}, [](const Args& x) {
    return unflatten(x[0], -1, {3, -1});
  }).equals([](const Arrays& x) {
    return renamed(x[0], {x[0].shape[0], 3, 2});
  });
  op("flip", {{3, 2, 4}}, [](const Args& x) {
    return flip(x[0], {0, -1});
  }).equals([](const Arrays& x) {
    int64_t n = x[0].shape[0];
    return picked(x[0], x[0].shape, [n](const Dims& i) {
      return Dims{n - 1 - i[0], i[1], 3 - i[2]};
    });
  });
}

TEST_CASE("op table: views, parts") {
  op("slice", {{3, 7}}, [](const Args& x) {
    return slice(x[0], 1, 1, -1, 2);
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 3}, [](const Dims& i) { return Dims{i[0], 1 + 2 * i[1]}; });
  });
  op("slice backwards", {{3, 7}}, [](const Args& x) {
    return slice(x[0], -1, std::nullopt, 0, -3);
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 2}, [](const Dims& i) { return Dims{i[0], 6 - 3 * i[1]}; });
  });
  op("slice of several axes", {{3, 4, 5}}, [](const Args& x) {
    return slice(x[0], {{}, 2, {4, {}, -3}});
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 2}, [](const Dims& i) {
      return Dims{i[0], 2, 4 - 3 * i[1]};
    });
  });
  op("narrow", {{2, 5}}, [](const Args& x) {
    return narrow(x[0], 1, -4, 3);
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 3}, [](const Dims& i) { return Dims{i[0], i[1] + 1}; });
  });
  op("select", {{2, 5, 3}}, [](const Args& x) {
    return select(x[0], 1, -2);
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 3}, [](const Dims& i) { return Dims{i[0], 3, i[1]}; });
  });
  op("operator[]", {{4, 3}}, [](const Args& x) { return x[0][2] * x[0][-1]; })
      .no_empty()
      .equals([](const Arrays& x) {
        Array y(Shape{3});
        for (int64_t i = 0; i < 3; ++i) y[i] = x[0].at({2, i}) * x[0].at({3, i});
        return y;
      });
  op("diagonal", {{4, 2, 3}}, [](const Args& x) {
    return diagonal(x[0], -1, 0, 2);
  }).equals([](const Arrays& x) {
    return picked(x[0], {2, x[0].shape[0] ? 3 : 0}, [](const Dims& i) {
      return Dims{i[1] + 1, i[0], i[1]};
    });
  });
  op("unfold, windows overlap", {{2, 7, 2}}, [](const Args& x) {
    return unfold(x[0], 1, 3, 2);
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 3, 2, 3}, [](const Dims& i) {
      return Dims{i[0], 2 * i[1] + i[3], i[2]};
    });
  });
  op("unfold, windows apart", {{2, 7}}, [](const Args& x) {
    return unfold(x[0], 1, 2, 3);
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 2, 2}, [](const Dims& i) {
      return Dims{i[0], 3 * i[1] + i[2]};
    });
  });
  op("split, every piece used", {{2, 7}}, [](const Args& x) {
    std::vector<Tensor> p = split(x[0], 3, 1);
    return p[0] * p[1] * p[0] + p[2];
  }).equals([](const Arrays& x) {
    Array y({x[0].shape[0], 3});
    for_each_index(y.shape, [&](const Dims& i) {
      double a = x[0].at(i), b = x[0].at({i[0], i[1] + 3}), c = x[0].at({i[0], 6});
      y.at(i) = a * b * a + c;
    });
    return y;
  });
  op("split by sizes, chunk", {{2, 6}}, [](const Args& x) {
    return split(x[0], {1, 3, 2}, 1)[2] * chunk(x[0], 3, 1)[0];
  }).equals([](const Arrays& x) {
    Array y({x[0].shape[0], 2});
    for_each_index(y.shape, [&](const Dims& i) {
      y.at(i) = x[0].at({i[0], i[1] + 4}) * x[0].at(i);
    });
    return y;
  });
}

TEST_CASE("views share memory; reshape copies only if it must") {
  Tensor x = counted({4, 6});
  for (const Tensor& y :
       {view(x, {2, -1}), reshape(x, {24}), transpose(x, 0, 1), permute(x, {1, 0}),
        expand(x, {2, 4, 6}), squeeze(x), unsqueeze(x, 1), slice(x, 0, {}, {}, -1),
        narrow(x, 1, 2, 3), select(x, 0, 1), flatten(x), unflatten(x, 1, {2, 3}), flip(x, {}),
        diagonal(x), unfold(x, 1, 3, 1), chunk(x, 2)[1], split(x, 4, 1)[1], x[2]})
    CHECK(shares(x, y));
  Tensor t = transpose(x, 0, 1);
  CHECK_FALSE(shares(x, reshape(t, {24})));
  CHECK(ints(reshape(t, {24}))[1] == 6);
  CHECK(shares(x, reshape(t, {2, 3, 4})));
  CHECK(shares(x, reshape(transpose(unsqueeze(x, 1), 0, 1), {24})));
  Tensor e = expand(counted({1, 3}), {2, 3});
  CHECK(shares(e, reshape(e, {2, 3, 1})));
  CHECK(ints(reshape(e, {6})) == Ints{0, 1, 2, 0, 1, 2});
  CHECK_THROWS_WITH_AS(view(t, {24}), doctest::Contains("use reshape"), Error);
}

TEST_CASE("slice follows Python") {
  Tensor x = counted({5});
  auto s = [&](std::optional<int64_t> a, std::optional<int64_t> b, int64_t step) {
    return ints(slice(x, 0, a, b, step));
  };
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(s({}, {}, 1) == Ints{0, 1, 2, 3, 4});
  CHECK(s({}, {}, -1) == Ints{4, 3, 2, 1, 0});
  CHECK(s(-2, {}, 1) == Ints{3, 4});
  CHECK(s(-100, 2, 1) == Ints{0, 1});
  CHECK(s(1, 100, 3) == Ints{1, 4});
  CHECK(s(3, 1, 1) == Ints{});
  CHECK(s(9, {}, 1) == Ints{});
  CHECK(s(3, 0, -1) == Ints{3, 2, 1});
  CHECK(s(3, {}, -2) == Ints{3, 1});
  CHECK(s(100, -100, -2) == Ints{4, 2, 0});
  CHECK(s(-1, -3, -1) == Ints{4, 3});
  CHECK(s(0, 3, -1) == Ints{});
  CHECK(s(-9, {}, -1) == Ints{});
  CHECK(s(kLeast, kMost, kMost) == Ints{0});
  CHECK(s(kMost, kLeast, kLeast) == Ints{4});
  CHECK(slice(counted({0, 2}), 0, {}, {}, -1).shape() == Shape{0, 2});
  CHECK_THROWS_AS(slice(x, 0, {}, {}, 0), Error);
  CHECK_THROWS_AS(slice(x, 1, {}, {}), Error);
  CHECK_THROWS_AS(slice(scalar(1), 0, {}, {}), Error);
}

TEST_CASE("views of tensors with no axes or no elements") {
  Tensor s = scalar(7);
  CHECK(flatten(s).shape() == Shape{1});
  CHECK(reshape(s, {1, 1}).shape() == Shape{1, 1});
  CHECK(reshape(s, {-1}).shape() == Shape{1});
  CHECK(reshape(counted({1}), {}).shape() == Shape{});
  CHECK(unsqueeze(s, -1).shape() == Shape{1});
  CHECK(squeeze(s).shape() == Shape{});
  CHECK(squeeze(s, -1).shape() == Shape{});
  CHECK(transpose(s, 0, -1).shape() == Shape{});
  CHECK(permute(s, {}).shape() == Shape{});
  CHECK(expand(s, {2, 0, 3}).shape() == Shape{2, 0, 3});
  CHECK(flip(s, {}).shape() == Shape{});
  CHECK(unfold(s, 0, 1, 1).shape() == Shape{1});  // as in PyTorch
  CHECK(unfold(s, 0, 0, 2).shape() == Shape{0});

  Tensor none = counted({0, 3});
  CHECK(reshape(none, {3, 0}).shape() == Shape{3, 0});
  CHECK(reshape(none, {-1}).shape() == Shape{0});
  CHECK(reshape(none, {-1, 3}).shape() == Shape{0, 3});
  CHECK(flatten(none).shape() == Shape{0});
  CHECK(flip(none, {0}).shape() == Shape{0, 3});
  CHECK(diagonal(none).shape() == Shape{0});
  CHECK(unfold(none, 1, 2, 1).shape() == Shape{0, 2, 2});
  CHECK(select(none, 1, 2).shape() == Shape{0});
  CHECK(chunk(none, 2, 0).size() == 2);
  CHECK(split(none, 4, 0).size() == 1);
  CHECK(split(counted({2, 5}), {5}, 1).size() == 1);  // sizes, also if there is one
  CHECK_THROWS_AS((void)split(counted({2, 5}), {2}, 1), Error);
  CHECK(split(none, 0, 0).size() == 1);
  CHECK_THROWS_WITH_AS(reshape(none, {-1, 0}), doctest::Contains("could be any size"), Error);
  CHECK_THROWS_WITH_AS(reshape(counted({3}), {-1, 0}), doctest::Contains("do not fill"), Error);
}

TEST_CASE("chunk and split give PyTorch's sizes") {
  auto sizes = [](const std::vector<Tensor>& pieces) {
    Ints out;
    for (const Tensor& p : pieces) out.push_back(p.size(0));
    return out;
  };
  CHECK(sizes(chunk(counted({7}), 3)) == Ints{3, 3, 1});
  CHECK(sizes(chunk(counted({6}), 4)) == Ints{2, 2, 2});
  CHECK(sizes(chunk(counted({2}), 5)) == Ints{1, 1});
  CHECK(sizes(split(counted({7}), 3)) == Ints{3, 3, 1});
  CHECK(sizes(split(counted({7}), 9)) == Ints{7});
  CHECK(sizes(split(counted({7}), {0, 7, 0})) == Ints{0, 7, 0});
  CHECK_THROWS_AS(split(counted({7}), {3, 3}), Error);
  CHECK_THROWS_AS(split(counted({7}), {3, 5}), Error);
  CHECK_THROWS_AS(split(counted({7}), 0), Error);
  CHECK_THROWS_AS(chunk(counted({7}), 0), Error);
}

TEST_CASE("views refuse wrong arguments") {
  Tensor x = counted({2, 3});
  CHECK_THROWS_WITH_AS(reshape(x, {4, -1}), "reshape: 6 elements do not fill shape (4, -1)", Error);
  CHECK_THROWS_AS(reshape(x, {-1, -1}), Error);
  CHECK_THROWS_AS(reshape(x, {-2, -3}), Error);
  CHECK_THROWS_AS(reshape(x, {7}), Error);
  CHECK_THROWS_AS(permute(x, {0}), Error);
  CHECK_THROWS_AS(permute(x, {0, 0}), Error);
  CHECK_THROWS_AS(permute(x, {0, -2}), Error);
  CHECK_THROWS_AS(transpose(x, 0, 2), Error);
  CHECK_THROWS_AS(expand(x, {3}), Error);
  CHECK_THROWS_AS(expand(x, {4, 3}), Error);
  CHECK_THROWS_AS(expand(x, {-1, 2, 3}), Error);
  CHECK_THROWS_AS(unsqueeze(x, 3), Error);
  CHECK_THROWS_AS(squeeze(x, 2), Error);
  CHECK_THROWS_AS(narrow(x, 1, 2, 2), Error);
  CHECK_THROWS_AS(narrow(x, 1, 0, -1), Error);
  CHECK_THROWS_AS(narrow(x, 1, std::numeric_limits<int64_t>::min(), 1), Error);
  CHECK_THROWS_WITH_AS(select(x, 1, 3),
                       "select: index 3 is out of range for axis 1 of shape (2, 3)", Error);
  CHECK_THROWS_AS(x[-3], Error);
  CHECK_THROWS_AS(scalar(1)[0], Error);
  CHECK_THROWS_AS(flatten(x, 1, 0), Error);
  CHECK_THROWS_AS(unflatten(x, 1, {2, 2}), Error);
  CHECK_THROWS_AS(flip(x, {0, 0}), Error);
  CHECK_THROWS_AS(diagonal(x, 0, 1, -1), Error);
  CHECK_THROWS_AS(unfold(x, 1, 4, 1), Error);
  CHECK_THROWS_AS(unfold(x, 1, 1, 0), Error);
}

// Every step of a recurrence reads its own slice. Their gradients are summed in one tensor.
TEST_CASE("gradients of many slices add up in one tensor") {
  Tensor leaf = counted({100, 3}).set_requires_grad();
  Tensor x = leaf * 2, total = scalar(0.0);
  for (int64_t t = 0; t < 100; ++t) total = total + sum(x[t] * static_cast<double>(t));
  backward(total);
  Tensor want = expand(unsqueeze(arange(0, 200, 2), 1), {100, 3});
  CHECK(ints(leaf.grad()) == ints(want));
  backward(sum(narrow(leaf, 0, 1, 1)) + sum(leaf[2]));  // into a leaf that has a gradient
  CHECK(ints(leaf.grad()[1]) == Ints{3, 3, 3});
  CHECK(ints(leaf.grad()[2]) == Ints{5, 5, 5});
  Tensor held = leaf.grad();
  backward(sum(leaf[0]));
  CHECK(ints(held[0]) == Ints{0, 0, 0});
  CHECK(ints(leaf.grad()[0]) == Ints{1, 1, 1});
}

}  // namespace
}  // namespace tern::ops_views
