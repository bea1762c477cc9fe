// Joining, padding, gathering and indexing: the op table, PyTorch's corner cases, and the errors
// for bad indices.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_indexing {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::for_each_index, test::Ints, test::ints,
    test::list, test::picked;

Tensor counted(const Shape& shape, DType dtype = DType::f32) {
  return reshape(arange(0, numel(shape), 1, dtype), shape);
}

// The first rows of `index`, as many as x has, so that both are empty in the same run.
Tensor rows_of(const Tensor& index, const Tensor& x) { return narrow(index, 0, 0, x.size(0)); }

TEST_CASE("op table: joining") {
  op("cat", {{3, 2}, {3, 4}, {3, 1}}, [](const Args& x) {
    return cat({x[0], x[1], x[2], x[0]}, -1);
  }).equals([](const Arrays& x) {
    Array y({x[0].shape[0], 9});
    for_each_index(y.shape, [&](const Dims& i) {
      int64_t r = i[0], c = i[1];
      y.at(i) = c < 2   ? x[0].at({r, c})
                : c < 6 ? x[1].at({r, c - 2})
                : c < 7 ? x[2].at({r, 0})
                        : x[0].at({r, c - 7});
    });
    return y;
  });
  op("cat, first axis", {{2, 3}, {1, 3}}, [](const Args& x) {
    return cat({x[0], x[1]});
  }).equals([](const Arrays& x) {
    int64_t n = x[0].shape[0];
    Array y({n + 1, 3});
    for_each_index(y.shape, [&](const Dims& i) {
      y.at(i) = i[0] < n ? x[0].at(i) : x[1].at({0, i[1]});
    });
    return y;
  });
  op("stack", {{3, 2}, {3, 2}}, [](const Args& x) {
    return stack({x[0], x[1], x[0]}, 1);
  }).equals([](const Arrays& x) {
    Array y({x[0].shape[0], 3, 2});
    for_each_index(y.shape, [&](const Dims& i) {
      y.at(i) = x[static_cast<size_t>(i[1] % 2)].at({i[0], i[2]});
    });
    return y;
  });
  op("pad", {{2, 3, 4}}, [](const Args& x) {
    return pad(x[0], {1, 2, -1, 3}, 0.5);
  }).equals([](const Arrays& x) {
    Array y({x[0].shape[0], 5, 7});
    for_each_index(y.shape, [&](const Dims& i) {
      int64_t r = i[1] + 1, c = i[2] - 1;
      y.at(i) = r < 3 && c >= 0 && c < 4 ? x[0].at({i[0], r, c}) : 0.5;
    });
    return y;
  });
  op("roll", {{3, 2, 4}}, [](const Args& x) {
    return roll(x[0], {-1, 6, 2}, {0, -1, 0});
  }).equals([](const Arrays& x) {
    int64_t n = x[0].shape[0];
    return picked(x[0], x[0].shape, [n](const Dims& i) {
      return Dims{(i[0] + n - 1) % n, i[1], (i[2] + 2) % 4};
    });
  });
  op("roll as one line", {{3, 2}}, [](const Args& x) {
    return roll(x[0], 1, {});
  }).equals([](const Arrays& x) {
    Array y = x[0];
    for (int64_t i = 0; i < y.numel(); ++i) y[(i + 1) % y.numel()] = x[0][i];
    return y;
  });
  op("repeat_interleave", {{2, 3}}, [](const Args& x) {
    return repeat_interleave(x[0], 2, -1);
  }).equals([](const Arrays& x) {
    return picked(x[0], {x[0].shape[0], 6}, [](const Dims& i) { return Dims{i[0], i[1] / 2}; });
  });
}

TEST_CASE("op table: indexing") {
  const Tensor columns = ints({0, 2, 2, 1, 1, 1, 2, 0, 0, 2, 2, 2}, {3, 4});
  const Tensor picks = ints({2, 0, 2, 1}, {4});
  const Tensor words = ints({4, 0, 2, 0, 0, 3}, {2, 3});
  op("gather, last axis", {{3, 3}}, [=](const Args& x) {
    return gather(x[0], -1, rows_of(columns, x[0]));
  }).equals([=](const Arrays& x) {
    Ints at = list(columns);
    return picked(x[0], {x[0].shape[0], 4}, [&](const Dims& i) {
      return Dims{i[0], at[static_cast<size_t>(i[0] * 4 + i[1])]};
    });
  });
  op("gather, first axis, an index shorter than x", {{3, 5, 2}},
     [=](const Args& x) {
       return gather(x[0], 0, expand(unsqueeze(columns, -1), {3, 4, 2}));
     })
      .no_empty()
      .equals([=](const Arrays& x) {
        Ints at = list(columns);
        return picked(x[0], {3, 4, 2}, [&](const Dims& i) {
          return Dims{at[static_cast<size_t>(i[0] * 4 + i[1])], i[1], i[2]};
        });
      });
  op("take_along_axis", {{2, 3, 1}}, [=](const Args& x) {
    return take_along_axis(x[0], reshape(remainder(words, 3), {1, 2, 3}), 1);
  }).equals([=](const Arrays& x) {
    Ints at = list(words);
    return picked(x[0], {x[0].shape[0], 2, 3}, [&](const Dims& i) {
      return Dims{i[0], at[static_cast<size_t>(i[1] * 3 + i[2])] % 3, 0};
    });
  });
  op("index_select, last axis", {{2, 3}}, [=](const Args& x) {
    return index_select(x[0], 1, picks);
  }).equals([=](const Arrays& x) {
    Ints at = list(picks);
    return picked(x[0], {x[0].shape[0], 4}, [&](const Dims& i) {
      return Dims{i[0], at[static_cast<size_t>(i[1])]};
    });
  });
  op("index_select, middle axis", {{2, 3, 5}}, [=](const Args& x) {
    return index_select(x[0], -2, picks);
  }).equals([=](const Arrays& x) {
    Ints at = list(picks);
    return picked(x[0], {x[0].shape[0], 4, 5}, [&](const Dims& i) {
      return Dims{i[0], at[static_cast<size_t>(i[1])], i[2]};
    });
  });
  op("scatter_add", {{3, 3}, {3, 5}}, [=](const Args& x) {
    return scatter_add(x[0], 1, rows_of(columns, x[0]), x[1]);
  }).equals([=](const Arrays& x) {
    Array y = x[0];
    Ints at = list(columns);
    for_each_index({y.shape[0], 4}, [&](const Dims& i) {
      y.at({i[0], at[static_cast<size_t>(i[0] * 4 + i[1])]}) += x[1].at(i);
    });
    return y;
  });
  op("scatter_add, first axis", {{3, 4}, {3, 4}},
     [=](const Args& x) { return scatter_add(x[0], 0, columns, x[1]); })
      .no_empty()
      .equals([=](const Arrays& x) {
        Array y = x[0];
        Ints at = list(columns);
        for_each_index({3, 4}, [&](const Dims& i) {
          y.at({at[static_cast<size_t>(i[0] * 4 + i[1])], i[1]}) += x[1].at(i);
        });
        return y;
      });
  op("embedding", {{5, 3}}, [=](const Args& x) { return embedding(words, x[0]); })
      .no_empty()
      .equals([=](const Arrays& x) {
        Ints at = list(words);
        return picked(x[0], {2, 3, 3}, [&](const Dims& i) {
          return Dims{at[static_cast<size_t>(i[0] * 3 + i[1])], i[2]};
        });
      });
}

TEST_CASE("cat and stack: types, empty lists and tensors, errors") {
  Tensor a = counted({2, 3}), i = counted({2, 3}, DType::i64);
  CHECK(cat({i, a}).dtype() == DType::f32);
  CHECK(cat({i.to(DType::u8), i}).dtype() == DType::i64);
  CHECK(list(cat({i.to(DType::u8), i}, 1)) == Ints{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK_THROWS_WITH_AS(cat({a, a.to(DType::f64)}), doctest::Contains("f32 and f64"), Error);
  CHECK(cat({empty({0}), a}, 1).shape() == Shape{2, 3});
  CHECK(cat({empty({0}), empty({0})}).shape() == Shape{0});
  CHECK(cat({empty({2, 0}), a}, 1).shape() == Shape{2, 3});
  CHECK(stack({scalar(1), scalar(2)}).shape() == Shape{2});
  CHECK(stack({a, a}, -1).shape() == Shape{2, 3, 2});
  CHECK_THROWS_AS(cat({}), Error);
  CHECK_THROWS_AS(stack({}), Error);
  CHECK_THROWS_AS(cat({scalar(1), scalar(2)}), Error);
  CHECK_THROWS_AS(cat({a, counted({2, 4})}), Error);
  CHECK_THROWS_AS(cat({a, counted({2, 3, 1})}), Error);
  CHECK_THROWS_AS(stack({a, counted({3, 2})}), Error);
}

TEST_CASE("pad, roll and repeat_interleave at the edges") {
  Tensor x = counted({3}, DType::i64);
  CHECK(list(pad(x, {-5, 4}, 9)) == Ints{9, 9});
  CHECK(list(pad(x, {-1, -1})) == Ints{1});
  CHECK(pad(x, {-3, 0}).shape() == Shape{0});
  CHECK(pad(x, {}).shape() == Shape{3});
  CHECK_THROWS_AS(pad(x, {1}), Error);
  CHECK_THROWS_AS(pad(x, {1, 1, 1, 1}), Error);
  CHECK_THROWS_AS(pad(x, {-2, -2}), Error);
  CHECK(list(roll(x, -1, 0)) == Ints{1, 2, 0});
  CHECK(list(roll(x, 4, {})) == Ints{2, 0, 1});
  CHECK(roll(scalar(5), 3, {}).item<int>() == 5);
  CHECK(roll(empty({0, 2}), {1, 1}, {0, 1}).shape() == Shape{0, 2});
  CHECK_THROWS_AS(roll(x, {1, 2}, {0}), Error);
  CHECK(repeat_interleave(x, 0, 0).shape() == Shape{0});
  CHECK(list(repeat_interleave(scalar(5), 2, 0)) == Ints{5, 5});
  CHECK_THROWS_AS(repeat_interleave(x, -1, 0), Error);
}

TEST_CASE("indices are checked: type, shape, and range with position and value") {
  Tensor x = counted({2, 3});
  CHECK_THROWS_WITH_AS(gather(x, 1, ints({0, 1, 2, 3}, {2, 2})),
                       "gather: index 3 at position (1, 1) is out of range for size 3", Error);
  CHECK_THROWS_WITH_AS(index_select(x, 0, ints({0, -1}, {2})),
                       "index_select: index -1 at position (1,) is out of range for size 2", Error);
  CHECK_THROWS_WITH_AS(embedding(transpose(ints({0, 1, 5, 7}, {2, 2}), 0, 1), x),
                       "embedding: index 5 at position (0, 1) is out of range for size 2", Error);
  CHECK_THROWS_WITH_AS(gather(x, 1, tensor({0.0}, {1, 1})), doctest::Contains("must be i64"),
                       Error);
  CHECK_THROWS_AS(gather(x, 1, ints({0}, {1})), Error);
  CHECK_THROWS_AS(gather(x, 1, ints({0, 0, 0}, {3, 1})), Error);
  CHECK_THROWS_AS(scatter_add(x, 1, ints({0, 3}, {1, 2}), x), Error);
  CHECK_THROWS_AS(scatter_add(x, 1, ints({0, 0}, {1, 2}), counted({1, 1})), Error);
  CHECK_THROWS_AS(scatter_add(x, 1, ints({0}, {1, 1}), x.to(DType::f64)), Error);
  CHECK_THROWS_AS(index_select(x, 0, ints({0}, {1, 1})), Error);
  const Tensor bytes = ints({1, 2}, {2}).to(DType::u8);
  CHECK_THROWS_WITH_AS(index(x, {bytes}), doctest::Contains("one element is 2"), Error);
  CHECK(index(counted({0, 3}), {zeros({0}, DType::u8)}).shape() == Shape{0, 3});
  CHECK_THROWS_AS(embedding(ints({0}, {1}), counted({3})), Error);
  CHECK_THROWS_AS(embedding(ints({0}, {1}), x, {.padding_idx = 2}), Error);
  CHECK_THROWS_WITH_AS(embedding(ints({0}, {1}), x, {.padding_idx = -3}),
                       doctest::Contains("-3 is not one of the 2 rows"), Error);
  CHECK_THROWS_AS(embedding(ints({0}, {1}), empty({0, 3})), Error);
}

TEST_CASE("indexing with other types, no axes, no elements") {
  Tensor bytes = tensor(std::vector<uint8_t>{1, 2, 3, 4}, {2, 2});
  CHECK(list(index_select(bytes, 0, ints({1, 1}, {2}))) == Ints{3, 4, 3, 4});
  CHECK(list(scatter_add(bytes, 1, ints({1, 1}, {2, 1}), bytes)) == Ints{1, 3, 3, 7});
  Tensor wide = counted({3}, DType::i64);
  CHECK(list(gather(wide, 0, ints({2, 0}, {2}))) == Ints{2, 0});
  CHECK(gather(scalar(4), 0, ints({0}, {})).item<int>() == 4);
  CHECK(index_select(scalar(4), 0, ints({0}, {1})).shape() == Shape{});
  CHECK(index_select(wide, 0, ints({1}, {})).shape() == Shape{1});
  CHECK(scatter_add(scalar(4), 0, ints({0}, {}), scalar(3)).item<int>() == 7);
  CHECK(gather(wide, 0, ints({}, {0})).shape() == Shape{0});
  CHECK(embedding(ints({}, {2, 0}), counted({3, 4})).shape() == Shape{2, 0, 4});
  CHECK(embedding(ints({1}, {}), counted({3, 4})).shape() == Shape{4});
  CHECK(list(scatter_add(wide, 0, ints({}, {0}), wide)) == Ints{0, 1, 2});
}

TEST_CASE("embedding: the padding row is read, but gets no gradient of any order") {
  Tensor words = ints({1, 0, 2, 0}, {4}), w = counted({3, 2}, DType::f64).set_requires_grad();
  Tensor y = embedding(words, w, {.padding_idx = 0});
  CHECK(list(y) == Ints{2, 3, 0, 1, 4, 5, 0, 1});
  Tensor dw = grad({sum(y * y)}, {w}, {.create_graph = true})[0];
  CHECK(list(dw) == Ints{0, 0, 4, 6, 8, 10});
  CHECK(list(grad({sum(dw * dw)}, {w})[0]) == Ints{0, 0, 16, 24, 32, 40});
  for (int64_t size : {1, 2}) {  // d sum(dw) / dy is 1, and 0 at the padding
    Tensor v = ones({4, size}, DType::f64).set_requires_grad();
    Tensor table = counted({3, size}, DType::f64).set_requires_grad();
    Tensor loss = sum(embedding(words, table, {.padding_idx = 0}) * v);
    Tensor dtable = grad({loss}, {table}, {.create_graph = true})[0];
    CHECK(list(sum(dtable, 1)) == Ints{0, size, size});
    CHECK(list(sum(grad({sum(dtable)}, {v})[0], 1)) == Ints{size, 0, size, 0});
  }
  backward(sum(embedding(words, w, {.padding_idx = 0})) + sum(embedding(words, w)));
  CHECK(list(w.grad()) == Ints{2, 2, 2, 2, 2, 2});  // the second op adds to the gradient
}

TEST_CASE("embedding and gather: same gradient on any number of threads") {
  Rng rng(1);
  Tensor words = randint(0, 7, {40, 50}, rng), w = randn({7, 96}, rng).set_requires_grad();
  Tensor dy = randn({40, 50, 96}, rng), source = randn({300, 400}, rng);
  Tensor columns = randint(0, 400, {300, 400}, rng), x = randn({300, 400}, rng).set_requires_grad();
  test::check_threads([&] {
    return test::numbers_of(
        {grad({embedding(words, w)}, {w}, {.gradients = {dy}})[0],
         grad({gather(x, 1, columns)}, {x}, {.gradients = {source}})[0],
         grad({gather(x, 0, remainder(columns, 300))}, {x}, {.gradients = {source}})[0]});
  });
}

}  // namespace
}  // namespace tern::ops_indexing
