// Einops patterns: rearrange, reduce and repeat in the op table, and the errors for bad patterns.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/einsum/einsum.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::ops_einops {
namespace {

using test::Array;
using test::for_each_index;
using test::op;
using test::OpRow;
using test::picked;

/// `batch` is the axis of the result that holds the first axis of x.
OpRow rearrange_row(const char* pattern, Shape x, AxisSizes sizes, Shape result,
                    std::function<Dims(const Dims&)> from, int batch = 0) {
  OpRow row{pattern, {x}, {}, {}};
  row.fn = [=](const std::vector<Tensor>& in) { return rearrange(in[0], pattern, sizes); };
  row.naive = [=](const std::vector<Array>& in) {
    Shape shape = result;
    shape[batch] = in[0].shape[0];
    return picked(in[0], shape, from);
  };
  return row;
}

TEST_CASE("op table: rearrange, reduce, repeat") {
  auto reduced = [](std::vector<Array> in) {  // "b c (h 2) w -> b h c", sum
    Array y({in[0].shape[0], in[0].shape[2] / 2, in[0].shape[1]});
    for_each_index(in[0].shape, [&](const Dims& i) {
      y.at({i[0], i[2] / 2, i[1]}) += in[0].at(i);
    });
    return y;
  };
  auto largest = [](std::vector<Array> in) {  // "b h ... -> h"
    Array y(Dims(in[0].shape[1]));
    std::fill(y.v.begin(), y.v.end(), -INFINITY);
    for_each_index(in[0].shape, [&](const Dims& i) { y[i[1]] = std::max(y[i[1]], in[0].at(i)); });
    return y;
  };
  auto repeated = [](std::vector<Array> in) {  // "b c -> (b r) c s 1 3"
    return picked(in[0], {in[0].shape[0] * 2, in[0].shape[1], 4, 1, 3}, [](const Dims& i) {
      return Dims{i[0] / 2, i[1]};
    });
  };
  using In = const std::vector<Tensor>&;
  op("reduce sum", {{2, 3, 4, 2}}, [](In x) {
    return reduce(x[0], "b c (h 2) w -> b h c", ReduceOp::sum);
  }).equals(reduced);
  op("reduce max", {{2, 3, 2, 2}}, [](In x) { return reduce(x[0], "b h ... -> h", ReduceOp::max); })
      .no_empty()
      .no_expanded()
      .equals(largest);
  op("repeat", {{2, 3}}, [](In x) {
    return repeat(x[0], "b c -> (b r) c s 1 3", {{"r", 2}, {"s", 4}});
  }).equals(repeated);
  test::run_rows({
      rearrange_row("b c h w -> b h w c", {2, 3, 2, 4}, {}, {2, 2, 4, 3},
                    [](const Dims& i) {
                      return Dims{i[0], i[3], i[1], i[2]};
                    }),
      rearrange_row("b (h w) c -> b c h w", {2, 6, 3}, {{"h", 2}}, {2, 3, 2, 3},
                    [](const Dims& i) {
                      return Dims{i[0], i[2] * 3 + i[3], i[1]};
                    }),
      rearrange_row("b c (h p) (w q) -> b (h w) (p q c)", {2, 2, 4, 6}, {{"p", 2}, {"q", 3}},
                    {2, 4, 12},
                    [](const Dims& i) {
                      int64_t h = i[1] / 2, w = i[1] % 2, p = i[2] / 6, q = i[2] / 2 % 3;
                      return Dims{i[0], i[2] % 2, h * 2 + p, w * 3 + q};
                    }),
      rearrange_row(
          "b 1 x -> 1 b () x", {2, 1, 3}, {}, {1, 2, 1, 3},
          [](const Dims& i) {
            return Dims{i[1], 0, i[3]};
          },
          1),
      rearrange_row("b ... c -> b c ...", {2, 3, 2, 4}, {}, {2, 4, 3, 2},
                    [](const Dims& i) {
                      return Dims{i[0], i[2], i[3], i[1]};
                    }),
      rearrange_row("b ... -> b (...)", {2, 3, 2}, {}, {2, 6},
                    [](const Dims& i) {
                      return Dims{i[0], i[1] / 2, i[1] % 2};
                    }),
  });
}

TEST_CASE("reduce: all operations") {
  Tensor x = tensor({1, 2, 3, 4, 5, 7}, {2, 3}, DType::f64);
  auto run = [&](ReduceOp op) { return reduce(x, "a b -> a", op).to_vector<double>(); };
  CHECK(run(ReduceOp::sum) == std::vector<double>{6, 16});
  CHECK(run(ReduceOp::max) == std::vector<double>{3, 7});
  CHECK(run(ReduceOp::min) == std::vector<double>{1, 4});
  CHECK(run(ReduceOp::prod) == std::vector<double>{6, 140});
  CHECK(run(ReduceOp::mean)[0] == 2);
  CHECK(reduce(x, "a b -> ", ReduceOp::sum).item() == 22);
  CHECK(reduce(x, "a b -> b a", ReduceOp::sum).shape() == Shape{3, 2});
}

TEST_CASE("rearrange: errors name the axis") {
  Tensor x = zeros({2, 6, 3});
  auto fails = [&](const char* pattern, const char* message, AxisSizes sizes = {}) {
    CHECK_THROWS_WITH_AS(rearrange(x, pattern, sizes), doctest::Contains(message), Error);
  };
  fails("a b c", "no '->'");
  fails("a b -> a b", "describes 2 axes, but the tensor has 3");
  fails("a b c d ... -> a b c d ...", "at least 4 axes");
  fails("a b c -> a b", "'c' on the left only");
  fails("a b c -> a b c d", "'d' on the right only");
  fails("a a c -> a c", "'a' twice on one side (position 2)");
  fails("a (b d) c -> a b d c", "leaves the sizes of both 'b' and 'd' open");
  fails("a (b d) c -> a b d c", "cannot split axis 1 of (2, 6, 3): 'd' would have 6 / 4 elements",
        {{"b", 4}});
  fails("a b c -> a b c", "has no axis 'x'", {{"x", 4}});
  fails("a b c -> a b c", "needs 5 elements on axis 1", {{"b", 5}});
  fails("a (b c -> a b c", "'(' without its ')'");
  fails("a ((b) c) -> a b c", "unexpected '('");
  fails("a b) c -> a b c", "unexpected ')'");
  fails("a b+c -> a b c", "unexpected '+' at position 3");
  fails("a 1 c -> a c", "needs 1 elements on axis 1");
  fails("a 2x c -> a c", "'2x' at position 2");
  fails("a b c -> a b c ...", "'...' on the right only");
  fails("(a ...) -> a", "brackets on the left");
  // '...' stands for no axis here, but like einops we refuse it on only one side.
  fails("a b c ... -> a b c", "'...' on the left only");
  CHECK_THROWS_WITH_AS(repeat(x, "a b c ... -> a b c"), doctest::Contains("'...' on the left only"),
                       Error);
  CHECK(reduce(x, "a b c ... -> a b c", ReduceOp::sum).shape() == x.shape());
  CHECK_THROWS_WITH_AS(repeat(x, "a b c -> a b c n"), doctest::Contains("how large 'n' is"), Error);
  CHECK_THROWS_WITH_AS(repeat(x, "a b c -> a b n"), doctest::Contains("'c' on the left only"),
                       Error);
}

// einops 0.8 refuses the same patterns.
TEST_CASE("rearrange: axis names are Python identifiers; '...' is a word of its own") {
  Tensor x = zeros({2, 6, 3});
  auto fails = [&](const char* pattern, const char* message) {
    CHECK_THROWS_WITH_AS(rearrange(x, pattern), doctest::Contains(message), Error);
  };
  fails("_e b c -> b c _e", "has '_e' at position 0: a name must not begin or end with '_'");
  fails("e_ b c -> b c e_", "'e_' at position 0: a name must not");
  fails("_ b c -> b c _", "'_' at position 0: a name must not");
  fails("a b ...2 -> a b ...2", "'...2' at position 4");
  fails("1... -> 1...", "'1...' at position 0");
  fails("a... -> a...", "'a...' at position 0");
  fails("...a -> ...a", "'...a' at position 0");
  fails("a .... -> a ....", "'....' at position 2");
  fails("a .. -> a ..", "'..' at position 2");
  fails("a . -> a .", "'.' at position 2");
  fails("... ... -> ...", "'...' twice");
  fails("1a b c -> b c 1a", "'1a' at position 0");
  fails("1_0 b c -> b c", "'1_0' at position 0");
  fails("a\u00b2 b c -> b c", "neither a valid name");   // a superscript two is no letter
  fails("\u0662 b c -> b c", "neither a valid name");    // starts with a digit
  fails("\u0301a b c -> b c", "neither a valid name");   // starts with a mark
  fails("a\u00a0b c d -> c d", "neither a valid name");  // a no-break space
  fails("a\u2026 b c -> b c", "neither a valid name");   // the single character of three dots
  fails("a\xff b c -> b c", "neither a valid name");     // invalid UTF-8
  fails("\u037a b c -> b c", "neither a valid name");    // two characters when normalised
  CHECK(rearrange(x, "\u00e9 \u9ad8 \u0627 -> \u0627 (\u00e9 \u9ad8)").shape() == Shape{3, 12});
  CHECK(rearrange(x, "a\u0301 b\u0662 \u2118x -> b\u0662 a\u0301 \u2118x").shape() ==
        Shape{6, 2, 3});
  CHECK(rearrange(x, "h_1 a (\U0001d4b3 c) -> a h_1 c \U0001d4b3", {{"c", 3}}).shape() ==
        Shape{6, 2, 3, 1});
  CHECK(reduce(x, "\u03b1 ...->\u03b1", ReduceOp::sum).shape() == Shape{2});
  CHECK(rearrange(x, "...->(...)").shape() == Shape{36});
}

}  // namespace
}  // namespace tern::ops_einops
