// Buffers of a model whose step is cut into blocks. Weights and gradients: tests/dist.
#include <doctest/doctest.h>

#include <limits>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/gradient_sum.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_gradient_sum {
namespace {

constexpr int64_t kFilled = 5;  // of eight blocks: a share that no float is

struct Net {
  nn::Linear linear;
  nn::Buffer table, limits{zeros({2})}, seen{zeros({1})}, hits{zeros({3}, DType::i64)};
  explicit Net(Rng& rng) : linear(4, 3, rng), table(randn({1000}, rng)) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    copy_(limits, tensor({std::numeric_limits<float>::lowest(), -kInf}));
  }
  static void fields(auto& m, auto&& visit) {
    visit("linear", m.linear), visit("table", m.table), visit("limits", m.limits);
    visit("seen", m.seen), visit("hits", m.hits);
  }
};

/// A step whose blocks call `change(block)`.
void step(Net& net, const std::function<void(int64_t)>& change) {
  dist::World alone;
  dist::GradientSum gradients(alone, net, {.blocks = 8});
  gradients.backward([&](int64_t block) {
    if (block >= kFilled) return dist::BlockLoss{};
    NoGradGuard no_grad;
    change(block);
    EnableGradGuard grad;
    return dist::BlockLoss{sum(net.linear(ones({2, 4}))), 2};
  });
}

}  // namespace

TEST_CASE("gradient sum: buffers that no block changes keep their bits") {
  Rng rng(3);
  Net net(rng);
  const Tensor table = net.table.own().clone(), limits = net.limits.own().clone();
  step(net, [](int64_t) {});
  CHECK(test::same_bits(net.table.own(), table));
  CHECK(test::same_bits(net.limits.own(), limits));
}

TEST_CASE("gradient sum: a buffer takes the mean of the blocks' changes") {
  Rng rng(3);
  Net net(rng);
  copy_(net.seen, full({1}, 10));
  step(net, [&](int64_t block) {
    CHECK(net.seen.own().item() == 10);
    add_(net.seen, scalar(static_cast<double>(block)));
    add_(net.hits, ones({3}, DType::i64));
    copy_(net.limits, full({2}, static_cast<double>(block)));
  });
  CHECK(net.seen.own().item() == 12);
  CHECK(net.limits.own().to_vector<float>()[1] == 2);  // it was -inf
  CHECK(net.hits.own().to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1});
}

TEST_CASE("gradient sum: integers that depend on a block's data are an error") {
  Rng rng(3);
  Net net(rng);
  const auto count_data = [&](int64_t block) {
    add_(net.hits, eq(arange(0, 3, 1, DType::i64), scalar(block % 3, DType::i64)).to(DType::i64));
  };
  CHECK(test::contains(test::error_of([&] { step(net, count_data); }),
                       "different integers in the buffer hits"));
  CHECK(net.hits.own().to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0});
}

}  // namespace tern::test_gradient_sum
