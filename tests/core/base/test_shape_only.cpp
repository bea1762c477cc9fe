// ShapeOnlyScope, in which ops compute nothing: the same shapes, graphs and counted memory as a
// real run, but no memory is allocated.
#include <doctest/doctest.h>

#include <fstream>

#include "tern/core/base/flops.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/tools/memory_timeline.h"
#include "tern/models/gmlp.h"
#include "tern/models/vit.h"
#include "tern/nn/init.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test::test_shape_only {
namespace {

constexpr int64_t kMega = int64_t{1} << 20;

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t whole = 0, pages = 0;
  file >> whole >> pages;
  return pages * 4096;
}

models::GmlpOptions small_gmlp() {
  return {.stem = {{.channels = 16}}, .patch = 4, .dim = 128, .layers = 2, .fc_dim = 16};
}

Tensor gmlp_loss(const models::Gmlp& model, int64_t batch) {
  return cross_entropy(model(zeros({batch, 3, 32, 32})), zeros({batch}, DType::i64));
}

}  // namespace

TEST_CASE("shape only: forward and backward allocate nothing") {
  trim_memory();
  const MemoryStats before = memory_stats();
  const int64_t resident = resident_bytes();
  {
    ShapeOnlyScope scope;
    Rng rng(0);
    models::Gmlp model(models::gmlp_options("gmlp-51m"), rng);
    CHECK(nn::num_parameters(model) == 50907290);
    Tensor loss = gmlp_loss(model, 512);
    check_leaves(loss, model);
    backward(loss);
    CHECK(model.head.weight.grad().shape() == model.head.weight.shape());
    CHECK(scope.peak_bytes() > 2000 * kMega);
    CHECK(scope.live_bytes() > 8 * 50907290);  // weights and gradients
    CHECK(resident_bytes() - resident < 20 * kMega);
  }
  CHECK(memory_stats().live == before.live);
  CHECK(memory_stats().system_calls == before.system_calls);
}

TEST_CASE("shape only: initial weights of any kind take no memory") {
  const int64_t resident = resident_bytes();
  ShapeOnlyScope scope;
  Rng rng(0);
  const models::Vit model(models::vit_options("vit_huge_patch14_224"), rng);
  CHECK(nn::num_parameters(model) > 630'000'000);
  const Tensor w = empty({1 << 14, 1 << 13});
  nn::init::uniform(w, -1, 1, rng);
  nn::init::normal(w, 0, 1, rng);
  nn::init::trunc_normal(w, rng);
  nn::init::orthogonal(empty({30, 20}), rng);  // must end although it draws only zeros
  CHECK(resident_bytes() - resident < 20 * kMega);
}

TEST_CASE("shape only: memory and operations are counted as in a real run") {
  auto run = [] {
    Rng rng(0);
    models::Gmlp model(small_gmlp(), rng);
    backward(gmlp_loss(model, 8));
  };
  run();  // creates what a process creates only once
  reset_peak_memory();
  const int64_t live = memory_stats().live, flops = detail::counted_flops;
  run();
  const int64_t peak = memory_stats().peak - live;
  const int64_t counted = detail::counted_flops - flops;
  ShapeOnlyScope scope;
  run();
  CHECK(scope.live_bytes() == 0);
  CHECK(detail::counted_flops - flops == 2 * counted);
  CHECK(std::abs(scope.peak_bytes() - peak) < peak / 20);  // kernels' scratch memory differs
}

TEST_CASE("shape only: tensors from before keep their elements, new ones read as 0") {
  Rng rng(1);
  Tensor x = randn({5, 7}, rng), before = x.clone();
  {
    ShapeOnlyScope scope;
    fill_(x, 3);
    add_(x, x);
    copy_(x, zeros({5, 7}));
    CHECK((x + 1).to_vector<float>() == std::vector<float>(35, 0));
    const std::vector<int64_t> given = {1, 2, 3};
    CHECK(tensor(given, {3}).to_vector<int64_t>() == given);
    CHECK(sum(x).item() == 0);
  }
  CHECK(same(x, before));
  CHECK(sum(ones({3})).item() == 3);  // ops compute again
}

TEST_CASE("shape only: wrong shapes are refused") {
  ShapeOnlyScope scope;
  CHECK_THROWS_AS(matmul(zeros({2, 3}), zeros({2, 3})), Error);
  CHECK_THROWS_AS(zeros({int64_t{1} << 58}), Error);
}

TEST_CASE("shape only: scopes nest, and tensors may outlive them") {
  Tensor kept;
  const int64_t before = memory_stats().live;
  const Tensor real = zeros({1 << 20});
  const int64_t megas = memory_stats().live - before;
  CHECK(megas >= 4 * kMega);
  {
    ShapeOnlyScope outer;
    Tensor a = zeros({1000});
    const int64_t live = outer.live_bytes();
    {
      ShapeOnlyScope inner;
      kept = zeros({1 << 20});
      CHECK(inner.live_bytes() == megas);
      CHECK(outer.live_bytes() == live);
    }
    Tensor b = zeros({1000});
    CHECK(outer.live_bytes() == 2 * live);
  }
  CHECK(kept.to_vector<float>() == std::vector<float>(1 << 20, 0));
  fill_(kept, 1);
  CHECK(sum(kept).item() == 1 << 20);
}

TEST_CASE("shape only: freed blocks are reused, so address space does not run out") {
  ShapeOnlyScope scope;
  for (int i = 0; i < 100000; ++i)
    static_cast<void>(zeros({int64_t{1} << 30}));  // 400 TB over all iterations
  CHECK(scope.live_bytes() == 0);
}

TEST_CASE("shape only: a memory timeline sees nothing of it") {
  MemoryTimeline timeline;
  ShapeOnlyScope scope;
  Tensor a = zeros({1 << 20});
  CHECK(timeline.live_bytes() == 0);
}

}  // namespace tern::test::test_shape_only
