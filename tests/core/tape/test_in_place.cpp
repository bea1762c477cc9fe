// In-place writes and the tape: in grad mode they are allowed where no gradient can go wrong and
// refused elsewhere; backward finds saved tensors that were written to later.
#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/parameter.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_in_place {
namespace {

using test::leaf;

struct Write {
  const char* name;
  std::function<void(const Tensor&)> to;
};

const std::vector<Write> kWrites = {
    {"copy_", [](const Tensor& x) { copy_(x, ones(x.shape())); }},
    {"fill_", [](const Tensor& x) { fill_(x, 1); }},
    {"fill_", [](const Tensor& x) { zero_(x); }},
    {"add_", [](const Tensor& x) { add_(x, ones(x.shape())); }},
    {"mul_", [](const Tensor& x) { mul_(x, full(x.shape(), 2)); }},
    {"mul_", [](const Tensor& x) { mul_(x, 2); }},
    {"mutable_data", [](const Tensor& x) { x.mutable_data<float>()[0] = 5; }},
};

}  // namespace

TEST_CASE("in place: new tensors, copies and tensors without a gradient can be written") {
  Tensor p = leaf(ones({2, 3}));
  Tensor frozen = leaf(ones({2, 3}));
  Tensor view_of_frozen = frozen[0];
  frozen.set_requires_grad(false);
  view_of_frozen = {};
  Tensor orphan = leaf(ones({2, 3})).detach();  // the leaf itself is gone
  for (const Write& write : kWrites)
    for (const Tensor& x : {zeros({2, 3}), zeros({2, 3})[1], p.clone().detach().clone(),
                            (p * 2).detach(), frozen, orphan, nn::Buffer(zeros({2})).tensor()}) {
      INFO(write.name);
      CHECK_NOTHROW(write.to(x));
    }
  CHECK(p.to_vector<float>() == std::vector<float>(6, 1));
}

TEST_CASE("in place: a tensor that requires a gradient, or shares elements with one, is refused") {
  Tensor p = leaf(ones({2, 3})), h = p * 1;
  Tensor unrecorded = [&] {
    NoGradGuard guard;
    return p[0];
  }();
  const std::vector<Tensor> all = {p, p[0],       transpose(p, 0, 1), p.detach(),
                                   h, h.detach(), h[1].detach(),      unrecorded};
  for (const Write& write : kWrites)
    for (const Tensor& x : all) {
      CHECK_THROWS_WITH_AS(write.to(x), doctest::Contains("NoGradGuard"), Error);
      CHECK_THROWS_WITH_AS(write.to(x), doctest::Contains(write.name), Error);
    }
  for (const Tensor& x : all) CHECK(x.to_vector<float>() == std::vector<float>(x.numel(), 1));
  NoGradGuard guard;
  for (const Write& write : kWrites)
    for (const Tensor& x : all) CHECK_NOTHROW(write.to(x));
}

TEST_CASE("in place: an operand that requires a gradient is refused: its gradient would be lost") {
  Tensor p = leaf(ones({3})), x = zeros({3});
  const std::vector<std::function<void(const Tensor&)>> writes = {
      [&](const Tensor& y) { copy_(x, y); },
      [&](const Tensor& y) { add_(x, y); },
      [&](const Tensor& y) { mul_(x, y); },
  };
  for (const auto& write : writes) {
    for (const Tensor& y : {p, p * 2, p[0]})
      CHECK_THROWS_WITH_AS(write(y), doctest::Contains("detach()"), Error);
    CHECK_NOTHROW(write(p.detach()));
    NoGradGuard guard;
    CHECK_NOTHROW(write(p));
  }
}

TEST_CASE("in place: backward finds every saved tensor that was written to") {
  Rng rng(3);
  struct Row {
    const char* name;
    Tensor extra;  // a mask, an index, ... that is written to after the forward pass
    std::function<Tensor(const Tensor& p, const Tensor& extra)> fn;
  };
  Tensor mask = tensor({1, 0, 1, 1, 0, 1}, {2, 3}, DType::u8);
  Tensor index = tensor({1, 0, 1}, {3}, DType::i64);
  Tensor keys = randn({1, 1, 4, 3}, rng), lengths = tensor({2}, {1}, DType::i64);
  const std::vector<Row> rows = {
      {"mul", randn({2, 3}, rng), [](auto& p, auto& e) { return p * e; }},
      {"div", ones({2, 3}), [](auto& p, auto& e) { return p / e; }},
      {"matmul", randn({3, 2}, rng), [](auto& p, auto& e) { return matmul(p, e); }},
      {"linear", randn({2, 3}, rng), [](auto& p, auto& e) { return linear(p, e); }},
      {"where", mask.clone(), [](auto& p, auto& e) { return where(e, p, 0); }},
      {"masked_fill", mask.clone(), [](auto& p, auto& e) { return masked_fill(p, e, 0); }},
      {"log_softmax", mask.clone(), [](auto& p, auto& e) { return log_softmax(p, -1, e); }},
      {"index_select", index.clone(), [](auto& p, auto& e) { return index_select(p, 0, e); }},
      {"embedding", index.clone(), [](auto& p, auto& e) { return embedding(e, p); }},
      {"gather", zeros({2, 3}, DType::i64), [](auto& p, auto& e) { return gather(p, 1, e); }},
      {"cross_entropy weight", ones({3}),
       [](auto& p, auto& e) { return cross_entropy(p, zeros({2}, DType::i64), {.weight = e}); }},
      {"cross_entropy", zeros({2}, DType::i64),
       [](auto& p, auto& e) { return cross_entropy(p, e); }},
      {"layer_norm", ones({3}), [](auto& p, auto& e) { return layer_norm(p, 3, e); }},
      {"batch_norm", ones({3}),
       [](auto& p, auto& e) { return batch_norm(p, {}, {}, e, {}, {.training = true}); }},
      {"attention lengths", lengths.clone(),
       [&](auto& p, auto& e) {
         return attention(reshape(p, {1, 1, 2, 3}), keys, keys, {.mask = {.lengths = e}});
       }},
      {"attention allowed", ones({2, 4}, DType::u8),
       [&](auto& p, auto& e) {
         return attention(reshape(p, {1, 1, 2, 3}), keys, keys, {.mask = {.allowed = e}});
       }},
      {"rnn lengths", lengths.clone(),
       [&](auto& p, auto& e) {
         return rnn_layer(RnnKind::tanh, unsqueeze(p, 1), {ones({2, 3}), ones({2, 2}), {}, {}},
                          {.lengths = e});
       }},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Tensor p = randn({2, 3}, rng).set_requires_grad();
    Tensor y = row.fn(p, row.extra);
    CHECK_NOTHROW(backward(sum(y), {.retain_graph = true}));
    CHECK_NOTHROW(fill_(row.extra, 0));
    CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("written in place"), Error);
  }
}

}  // namespace tern::test_in_place
