// einsum against one loop over all indices, its choice of an order of products, and its errors.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "tern/core/base/rng.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_einsum {
namespace {

using test::Array, test::for_each_index, test::OpRow, test::run_rows;

/// One loop over all indices. `labels` and `output` have one letter per axis: the row writes out
/// the ellipsis.
Array naive_einsum(const std::vector<std::string>& labels, const std::string& output,
                   const std::vector<Array>& in) {
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < in.size(); ++i)
    for (size_t k = 0; k < labels[i].size(); ++k) {
      int64_t n = in[i].shape[static_cast<int>(k)];
      int64_t& size = sizes.try_emplace(labels[i][k], n).first->second;
      if (size == 1) size = n;
    }
  std::string all;
  Shape loops, shape;
  for (auto [c, n] : sizes) {
    all += c;
    loops.push_back(n);
  }
  for (char c : output) shape.push_back(sizes[c]);
  Array out(shape);
  for_each_index(loops, [&](const Dims& index) {
    auto at = [&](const std::string& l, const Shape& s) {
      Dims d;
      for (size_t k = 0; k < l.size(); ++k) {
        int64_t i = index[static_cast<int>(all.find(l[k]))];
        d.push_back(s[static_cast<int>(k)] == 1 ? 0 : i);
      }
      return d;
    };
    double product = 1;
    for (size_t i = 0; i < in.size(); ++i) product *= in[i].at(at(labels[i], in[i].shape));
    out.at(at(output, shape)) += product;
  });
  return out;
}

/// `plain` is the equation for the naive loop: one letter per axis and no ellipsis.
OpRow einsum_row(const char* equation, std::vector<Shape> shapes, std::string plain = "") {
  if (plain.empty()) {
    plain = equation;
    std::erase(plain, ' ');
  }
  std::vector<std::string> labels(1);
  size_t arrow = plain.find("->");
  for (char c : plain.substr(0, arrow)) {
    if (c == ',')
      labels.emplace_back();
    else
      labels.back() += c;
  }
  std::string output = plain.substr(arrow + 2);
  OpRow row{equation, shapes, {}, {}};
  row.fn = [=](const std::vector<Tensor>& x) { return einsum(equation, x); };
  row.naive = [=](const std::vector<Array>& x) { return naive_einsum(labels, output, x); };
  row.low = -1;
  row.high = 1.2;
  // In the empty run, the first index has size 0 wherever it occurs.
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t k = 0; k < labels[i].size(); ++k)
      if (labels[i][k] == labels[0][0] && shapes[0][0] != 1) shapes[i][static_cast<int>(k)] = 0;
  row.empty_shapes = shapes;
  return row;
}

TEST_CASE("op table: einsum") {
  run_rows({
      einsum_row("ij->ji", {{2, 3}}),
      einsum_row("ij->", {{2, 3}}),
      einsum_row("i j -> j", {{2, 3}}),
      einsum_row("ii->i", {{3, 3}}),
      einsum_row("iij->j", {{2, 2, 3}}),
      einsum_row("iijj->ij", {{2, 2, 3, 3}}),
      einsum_row("ijk->kij", {{2, 3, 2}}),
      einsum_row("i,i->", {{4}, {4}}),
      einsum_row("i,j->ij", {{3}, {2}}),
      einsum_row("i,j->ji", {{3}, {2}}),
      einsum_row("ij,ij->ij", {{2, 3}, {2, 3}}),
      einsum_row("ij,ij->i", {{2, 3}, {2, 3}}),
      einsum_row("ij,jk->ik", {{2, 3}, {3, 4}}),
      einsum_row("ij,jk", {{2, 3}, {3, 4}}, "ij,jk->ik"),
      einsum_row("ba,ac", {{2, 3}, {3, 4}}, "ba,ac->bc"),
      einsum_row("cb,ba", {{2, 3}, {3, 2}}, "cb,ba->ac"),
      einsum_row("ij,jk->ki", {{2, 3}, {3, 4}}),
      einsum_row("ij,kj->ik", {{2, 3}, {4, 3}}),
      einsum_row("ij,j->i", {{2, 3}, {3}}),
      einsum_row("j,ij->i", {{3}, {2, 3}}),
      einsum_row("ij,kl->il", {{2, 3}, {2, 2}}),
      einsum_row("b n d, m n -> b m d", {{2, 3, 4}, {2, 3}}),
      einsum_row("bij,bjk->bik", {{2, 3, 2}, {2, 2, 3}}),
      einsum_row("nct,ncs->nts", {{2, 2, 3}, {2, 2, 4}}),
      einsum_row("nts,ncs->nct", {{2, 3, 2}, {2, 4, 2}}),
      einsum_row("bqhd,bkhd->bhqk", {{2, 3, 2, 2}, {2, 2, 2, 2}}),
      einsum_row("bhqk,bkhd->bqhd", {{2, 2, 3, 2}, {2, 2, 2, 2}}),
      einsum_row("bthd,hde->bte", {{2, 3, 2, 2}, {2, 2, 3}}),
      einsum_row("bnd,bmd->nmb", {{2, 2, 3}, {2, 3, 3}}),
      einsum_row("hnm,bmhd->bnhd", {{2, 3, 2}, {2, 2, 2, 3}}),
      einsum_row("abc,cab->b", {{2, 3, 2}, {2, 2, 3}}),
      einsum_row("ijk,jil->kl", {{2, 3, 2}, {3, 2, 2}}),
      einsum_row("iij,jk->ik", {{2, 2, 3}, {3, 2}}),
      einsum_row("ij,jk,kl->il", {{2, 3}, {3, 2}, {2, 4}}),
      einsum_row("i,ij,j->", {{2}, {2, 3}, {3}}),
      einsum_row("ab,bc,ca->", {{2, 3}, {3, 2}, {2, 2}}),
      einsum_row("i,i,i->i", {{3}, {3}, {3}}),
      einsum_row("a,b,c,d->dcba", {{2}, {2}, {3}, {2}}),
      einsum_row("ij,jk->ik ", {{2, 1}, {3, 2}}, "ij,jk->ik"),  // size 1 broadcasts
      einsum_row("ij,ij->ij ", {{2, 1}, {2, 3}}, "ij,ij->ij"),
      einsum_row("bi,bi->b", {{2, 3}, {1, 3}}),
      einsum_row("...ij,...jk->...ik", {{2, 2, 3}, {3, 2}}, "xij,jk->xik"),
      einsum_row("...ij,...jk", {{2, 1, 2, 2}, {3, 2, 3}}, "xyij,yjk->xyik"),
      einsum_row("i...,i...->...", {{2, 3, 2}, {2, 2}}, "ixy,iy->xy"),
      einsum_row("...i->i...", {{2, 2, 3}}, "xyi->ixy"),
      einsum_row("...i->i", {{2, 2, 3}}, "xyi->i"),
      einsum_row("... i, j -> ... j", {{2, 3}, {2}}, "xi,j->xj"),
      einsum_row("yj...a,...abi", {{4, 4, 4, 4}, {4, 4, 2}}, "yjxa,abi->xbijy"),
  });
}

TEST_CASE("einsum: sums over an axis along which both operands have stride 0") {
  for (DType type : {DType::f32, DType::f64, DType::i64}) {
    Tensor a = expand(ones({2, 1, 2}, type), {2, 3, 2}),
           b = expand(ones({1, 2, 2}, type), {3, 2, 2});
    CHECK(einsum("ijk,jkl->il", {a, b}).to_vector<double>() == std::vector<double>{6, 6, 6, 6});
    CHECK(einsum("ijk,ikl->jl", {transpose(a, 0, 1), b}).to_vector<double>() ==
          std::vector<double>{6, 6, 6, 6});
    Tensor c = repeat(ones({2, 2}, type), "i k -> i 3 k"), d = repeat_interleave(b, 1, 0);
    CHECK(einsum("ijk,jkl->il", {c, d}).to_vector<double>() == std::vector<double>{6, 6, 6, 6});
  }
}

TEST_CASE("einsum: errors give the position") {
  auto fails = [](const char* equation, std::vector<Shape> shapes, const char* message) {
    std::vector<Tensor> in;
    for (const Shape& s : shapes) in.push_back(zeros(s));
    CHECK_THROWS_WITH_AS(einsum(equation, in), doctest::Contains(message), Error);
  };
  fails("ij,jk->iz", {{2, 3}, {3, 4}}, "has 'z' at position 8 of the output");
  fails("ij,jk->ii", {{2, 3}, {3, 4}}, "'i' twice in the output");
  fails("ij,jk->ik", {{2, 3}, {4, 4}}, "'j' with sizes 3 and 4 (operand 1 of shape (4, 4))");
  fails("ij,jk->ik", {{2, 3}}, "has 2 operands, but 1 tensors");
  fails("i->i", {}, "needs at least one operand");
  fails("ij->i", {{2, 3, 4}}, "gives operand 0 2 indices, but its shape is (2, 3, 4)");
  fails("ijk->i", {{2, 3}}, "gives operand 0 3 indices");
  fails("ii->i", {{2, 3}}, "repeats 'i' in operand 0 of shape (2, 3)");
  fails("i1->i", {{2, 3}}, "has '1' at position 1");
  fails("i.j->i", {{2, 3}}, "'.' at position 1");
  fails("i-j", {{2, 3}}, "'-' at position 1");
  fails("i->i->i", {{2}}, "second '->' at position 4");
  fails("......->", {{2}}, "second '...'");
  fails("i->i,", {{2}}, "',' at position 4");
  CHECK_THROWS_WITH_AS(einsum("i,i->i", {zeros({2}), zeros({2}, DType::f64)}),
                       doctest::Contains("mixes f32 and f64"), Error);
}

TEST_CASE("einsum_path: the cheapest order") {
  // (2,30) (30,40) (40,5) takes 2*2*30*40 + 2*2*40*5 from the left, and much more from the right.
  EinsumPath path = einsum_path("ab,bc,cd->ad", {{2, 30}, {30, 40}, {40, 5}});
  REQUIRE(path.steps.size() == 2);
  CHECK(path.steps[0].operands == std::vector<int>{0, 1});
  CHECK(path.steps[0].equation == "ab,bc->ac");
  CHECK(path.steps[0].flops == 2 * 2 * 30 * 40);
  CHECK(path.steps[0].size == 80);
  CHECK(path.steps[1].operands == std::vector<int>{0, 1});
  CHECK(path.steps[1].equation == "cd,ac->ad");
  CHECK(path.flops == 2 * 2 * 30 * 40 + 2 * 2 * 40 * 5);
  CHECK(path.naive_flops == 3.0 * 2 * 30 * 40 * 5);
  CHECK(to_string(path).find("ab,bc->ac") != std::string::npos);
  path = einsum_path("ab,bc,cd->ad", {{30, 40}, {40, 5}, {5, 2}});
  CHECK(path.steps[0].operands == std::vector<int>{1, 2});
  CHECK(einsum_path("ij->ji", {{2, 3}}).flops == 0);
}

/// The cost of the cheapest order, found by trying all.
double cheapest(std::vector<std::string> left, const std::string& output,
                const std::map<char, int64_t>& sizes) {
  if (left.size() == 1) return 0;
  double best = INFINITY;
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t j = i + 1; j < left.size(); ++j) {
      std::vector<std::string> rest;
      std::string needed = output, both = left[i] + left[j], result;
      for (size_t k = 0; k < left.size(); ++k)
        if (k != i && k != j) {
          rest.push_back(left[k]);
          needed += left[k];
        }
      std::sort(both.begin(), both.end());
      both.erase(std::unique(both.begin(), both.end()), both.end());
      double flops = 1;
      for (char c : both) {
        flops *= static_cast<double>(sizes.at(c));
        if (needed.find(c) != std::string::npos) result += c;
      }
      if (result.size() < both.size()) flops *= 2;
      rest.push_back(result);
      best = std::min(best, flops + cheapest(rest, output, sizes));
    }
  return best;
}

TEST_CASE("einsum_path: as cheap as the best of all orders") {
  const std::map<char, int64_t> sizes = {{'a', 3}, {'b', 10}, {'c', 2},
                                         {'d', 7}, {'e', 20}, {'f', 4}};
  const std::vector<std::vector<std::string>> networks = {
      {"ab", "bc", "cd", "de"},
      {"ab", "bc", "ca", "ad", "de"},
      {"abc", "cde", "af", "fb", "e"},
      {"ae", "be", "ce", "de", "fe"},
  };
  for (const auto& operands : networks)
    for (const std::string output : {"", "a", "ad"}) {
      std::string equation;
      std::vector<Shape> shapes;
      for (const std::string& l : operands) {
        equation += (equation.empty() ? "" : ",") + l;
        shapes.emplace_back();
        for (char c : l) shapes.back().push_back(sizes.at(c));
      }
      INFO(equation, "->", output);
      // einsum first sums indices of a single operand; cheapest() counts that as part of a product.
      bool alone = false;
      for (char c : equation)
        alone |= c != ',' && std::count(equation.begin(), equation.end(), c) == 1 &&
                 output.find(c) == std::string::npos;
      double flops = einsum_path(equation + "->" + output, shapes).flops;
      if (alone)
        CHECK(flops <= cheapest(operands, output, sizes));
      else
        CHECK(flops == cheapest(operands, output, sizes));
    }
}

TEST_CASE("einsum: many operands use the greedy order") {
  Rng rng(1);
  std::vector<Tensor> in;
  std::string equation;
  for (int i = 0; i < 11; ++i) {
    in.push_back(randn({2, 2}, rng, DType::f64));
    equation += (i ? "," : "");
    equation += {static_cast<char>('a' + i), static_cast<char>('b' + i)};
  }
  Tensor want = in[0];
  for (size_t i = 1; i < in.size(); ++i) want = matmul(want, in[i]);
  CHECK(all_close(einsum(equation + "->al", in), want, 1e-12));
  CHECK(einsum_path(equation + "->al", std::vector<Shape>(11, Shape{2, 2})).steps.size() == 10);
}

// The gate of a gMLP: W (m, n) times every (n, d), written directly as (b, m, d).
TEST_CASE("einsum: the spatial gate and its gradients are contiguous") {
  Rng rng(2);
  Tensor v = randn({3, 5, 16}, rng).set_requires_grad();
  Tensor w = randn({4, 5}, rng).set_requires_grad();
  Tensor y = einsum("b n d, m n -> b m d", {v, w});
  CHECK(y.is_contiguous());
  sum(y * y).backward();
  CHECK(v.grad().is_contiguous());
  CHECK(w.grad().is_contiguous());
  CHECK(einsum("bhqk,bkhd->bqhd", {randn({2, 3, 4, 5}, rng), randn({2, 5, 3, 6}, rng)})
            .is_contiguous());
}

TEST_CASE("einsum: integers, scalars, same bits on any number of threads") {
  Tensor a = tensor({1, 2, 3, 4}, {2, 2}, DType::i64);
  CHECK(einsum("ij,jk->ik", {a, a}).to_vector<int>() == std::vector<int>{7, 10, 15, 22});
  CHECK(einsum(",->", {scalar(2), scalar(3)}).item() == 6);
  CHECK(einsum(",i->i", {scalar(2), tensor({1, 2}, {2})}).to_vector<int>() ==
        std::vector<int>{2, 4});
  const Tensor bytes = a.to(DType::u8);
  CHECK_THROWS_WITH_AS(static_cast<void>(einsum("ij,ij->", {bytes, bytes})),
                       doctest::Contains("convert with .to(DType::i64)"), Error);
  CHECK(einsum("ij->ji", {bytes}).dtype() == DType::u8);
  Rng rng(3);
  Tensor v = randn({40, 17, 96}, rng).set_requires_grad();
  Tensor w = randn({17, 17}, rng).set_requires_grad();
  test::check_threads({2, 4}, [&] {
    return test::value_and_gradients(einsum("bnd,mn->bmd", {v, w}), {v, w});
  });
}

}  // namespace
}  // namespace tern::ops_einsum
