// Printed tensors: the texts are PyTorch 2's, with tern's names of dtypes and ops. NaN counts for
// the width of a column.
#include <doctest/doctest.h>

#include <string>

#include "tern/core/ops/ops.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_print {
namespace {

using test::kInf, test::kNan;

std::string text(const Tensor& t) { return to_string(t); }

TEST_CASE("print: all numbers of a tensor take one format") {
  CHECK(text(tensor({1.5, kNan, kInf, -2}, {4})) == "tensor([ 1.5000,     nan,     inf, -2.0000])");
  CHECK(text(tensor({1, 2, 3, kNan}, {4})) == "tensor([ 1.,  2.,  3., nan])");
  CHECK(text(tensor({1e-5, 1, 2e4}, {3})) == "tensor([1.0000e-05, 1.0000e+00, 2.0000e+04])");
  CHECK(text(tensor({-1, 2}, {2})) == "tensor([-1.,  2.])");
  CHECK(text(tensor({1001, 0.5}, {2})) == "tensor([1.0010e+03, 5.0000e-01])");
  CHECK(text(tensor({1e10, 2}, {2})) == "tensor([1.0000e+10, 2.0000e+00])");
  CHECK(text(tensor({-1e-9, 0}, {2})) == "tensor([-1.0000e-09,  0.0000e+00])");
  CHECK(text(tensor({kNan}, {1})) == "tensor([nan])");
  CHECK(text(tensor(std::vector<int64_t>{-3, 10, 9007199254740993}, {3})) ==
        "tensor([              -3,               10, 9007199254740993])");
}

TEST_CASE("print: no axes, no elements, types, history") {
  CHECK(text(scalar(3.5)) == "tensor(3.5000)");
  CHECK(text(scalar(3, DType::i64)) == "tensor(3)");
  CHECK(text(empty({0})) == "tensor([])");
  CHECK(text(empty({0, 3})) == "tensor([], size=(0, 3))");
  CHECK(text(empty({0}, DType::i64)) == "tensor([], dtype=i64)");
  CHECK(text(tensor(std::vector<uint8_t>{1, 0}, {2})) == "tensor([1, 0], dtype=u8)");
  CHECK(text(ones({2}, DType::f64)) == "tensor([1., 1.], dtype=f64)");
  CHECK(text(Tensor()) == "tensor(undefined)");
  Tensor x = ones({2}).set_requires_grad();
  CHECK(text(x) == "tensor([1., 1.], requires_grad=True)");
  CHECK(text(flip(x, 0)) == "tensor([1., 1.], grad_fn=<flip>)");
  CHECK(fmt::format("{}", scalar(2, DType::i64)) == "tensor(2)");
}

TEST_CASE("print: axes, lines, any layout") {
  CHECK(text(reshape(arange(0, 8), {2, 2, 2})) ==
        "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])");
  CHECK(text(transpose(reshape(arange(0, 6), {2, 3}), 0, 1)) ==
        "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
  CHECK(text(arange(0, 30, 1, DType::f32)) ==
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
        "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
        "        28., 29.])");
  CHECK(text(arange(0, 16, 1, DType::f64)) ==
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
        "        14., 15.], dtype=f64)");
}

TEST_CASE("print: long axes are shortened") {
  CHECK(text(reshape(arange(0, 3000), {3, 1000})) ==
        "tensor([[   0,    1,    2,  ...,  997,  998,  999],\n"
        "        [1000, 1001, 1002,  ..., 1997, 1998, 1999],\n"
        "        [2000, 2001, 2002,  ..., 2997, 2998, 2999]])");
  CHECK(text(reshape(arange(0, 1200), {2, 300, 2})) ==
        "tensor([[[   0,    1],\n         [   2,    3],\n         [   4,    5],\n         ...,\n"
        "         [ 594,  595],\n         [ 596,  597],\n         [ 598,  599]],\n\n"
        "        [[ 600,  601],\n         [ 602,  603],\n         [ 604,  605],\n         ...,\n"
        "         [1194, 1195],\n         [1196, 1197],\n         [1198, 1199]]])");
  CHECK(text(ones({1001})) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])");
  CHECK(text(expand(ones({1}), {1 << 30})) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])");
}

}  // namespace
}  // namespace tern::test_print
