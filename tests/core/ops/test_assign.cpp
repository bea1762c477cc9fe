// Assignment of tensors: to a variable it copies the handle, to a temporary view it writes the
// elements.
#include <doctest/doctest.h>

#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace {
using namespace tern;
using Numbers = std::vector<double>;
}  // namespace

TEST_CASE("assignment: to a temporary view writes its elements, as in PyTorch") {
  const Tensor x = zeros({2, 3});
  x[0] = ones({3});
  CHECK(x.to_vector<double>() == Numbers{1, 1, 1, 0, 0, 0});
  narrow(x, 1, 1, 2) = tensor({5, 6}, {2}, DType::i64);  // converted and broadcast
  CHECK(x.to_vector<double>() == Numbers{1, 5, 6, 0, 5, 6});
  x[1][0] = 7;
  transpose(x, 0, 1)[2] = -1.5;
  CHECK(x.to_vector<double>() == Numbers{1, 5, -1.5, 7, 5, -1.5});
  x[0] = x[1];
  CHECK(x.to_vector<double>() == Numbers{7, 5, -1.5, 7, 5, -1.5});
  x[1] = x[0] = 2;
  CHECK(x.to_vector<double>() == Numbers(6, 2));
  CHECK_THROWS_WITH_AS(x[0] = ones({2}), doctest::Contains("cannot expand (2,) to (3,)"), Error);
}

TEST_CASE("assignment: to a variable copies the handle") {
  const Tensor x = zeros({2});
  Tensor y = x[0], z = ones({1});
  y = z;
  y += 1;
  CHECK(x.to_vector<double>() == Numbers{0, 0});
  CHECK(z.to_vector<double>() == Numbers{2});
  Tensor moved;
  moved = std::move(z);
  CHECK(moved.to_vector<double>() == Numbers{2});
}

TEST_CASE("assignment: to a result that no tensor shares is an error") {
  const Tensor x = ones({2, 2}), y = zeros({2, 2});
  CHECK_THROWS_WITH_AS((x * 2) = y, doctest::Contains("is lost: no other tensor shares"), Error);
  CHECK_THROWS_WITH_AS(x.clone() = 3, doctest::Contains("is lost: no other tensor shares"), Error);
  CHECK_THROWS_AS(Tensor() = y, Error);
  const char* lost = "is lost: no other tensor shares";
  CHECK_THROWS_WITH_AS((x * 2) += y, doctest::Contains(lost), Error);
  CHECK_THROWS_WITH_AS(x.clone() -= 3, doctest::Contains(lost), Error);
  CHECK_THROWS_WITH_AS(index(x, {tensor({0, 1})}) *= 2, doctest::Contains(lost), Error);
  CHECK_THROWS_WITH_AS(reshape(transpose(x, 0, 1), {4}) /= 2, doctest::Contains(lost), Error);
  CHECK_THROWS_AS(Tensor() += y, Error);
  CHECK(x.to_vector<double>() == Numbers(4, 1));
}

TEST_CASE("assignment: += and its kin write into the elements of a temporary view") {
  const Tensor x = ones({2, 2}), y = x;
  x[0] += x[1];
  reshape(x, {4}) *= 3;
  transpose(x, 0, 1)[1] -= scalar(1);
  diagonal(x) /= 2;
  CHECK(y.to_vector<double>() == Numbers{3, 5, 3, 1});
  Tensor z = x[1];
  z += 1;
  CHECK(y.to_vector<double>() == Numbers{3, 5, 4, 2});
  // Another handle of the same tensor.
  x.contiguous() -= 3;
  CHECK(y.to_vector<double>() == Numbers{0, 2, 1, -1});
  x.contiguous() = 4;
  CHECK(y.to_vector<double>() == Numbers(4, 4));
  const Tensor w = ones({2}).set_requires_grad();
  sum(w).backward();
  w.grad() *= 5;
  CHECK(w.grad().to_vector<double>() == Numbers{5, 5});
}

TEST_CASE("assignment: with tensors that require a gradient is refused") {
  const Tensor w = ones({2, 2}).set_requires_grad();
  CHECK_THROWS_AS(w[0] = 0, Error);
  const Tensor x = zeros({2, 2});
  CHECK_THROWS_AS(x[0] = w[0], Error);
  {
    NoGradGuard guard;
    w[0] = 0;
    x[0] = w[1];
  }
  CHECK(w.to_vector<double>() == Numbers{0, 0, 1, 1});
  CHECK(x.to_vector<double>() == Numbers{1, 1, 0, 0});
}
