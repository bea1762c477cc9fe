// The allocator of tensors: cache, cap and statistics, and the memory that training steps, layer
// norm and attention take.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/heap_calls.h"
#include "tern/tests/support/threads.h"

namespace tern::test_memory {
namespace {

/// A small gMLP and its optimizer.
struct Training {
  Rng rng{1};
  models::Gmlp model;
  optim::AdamW optimizer;

  Training()
      : model({.image = 16, .patch = 8, .dim = 16, .layers = 2, .fc_dim = 16}, rng),
        optimizer(nn::named_parameters(model), {.lr = 1e-3}) {}

  void step(int64_t batch) {
    optimizer.zero_grad();
    Tensor x = randn({batch, 3, 16, 16}, rng), y = randint(0, 10, {batch}, rng);
    backward(cross_entropy(model(x), y));
    optimizer.step();
  }
};

TEST_CASE("memory: steps of a fixed shape need no system call after the second step") {
  Training t;
  t.step(8);
  t.step(8);
  MemoryStats before = memory_stats();
  for (int i = 0; i < 5; ++i) t.step(8);
  CHECK(memory_stats().system_calls == before.system_calls);
  CHECK(memory_stats().live == before.live);
}

TEST_CASE("memory: does not grow over 1,000 steps with varying batch sizes") {
  Training t;
  auto size = [](int i) { return 1 + int64_t{i} * 7919 % 13; };
  int64_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    t.step(size(i));
    MemoryStats s = memory_stats();
    if (i < 50)
      most = std::max(most, s.live + s.cached);
    else
      REQUIRE(s.live + s.cached <= most);
  }
}

TEST_CASE("memory: changing shapes reuse each other's blocks in a full cache") {
  // 16 to 60 MiB in scrambled order: together more than the cache may hold beside one of them.
  trim_memory();
  auto touch = [](int i) { return empty({(4 + int64_t{i} * 7919 % 12) << 20}); };
  for (int i = 0; i < 24; ++i) static_cast<void>(touch(i));
  const int64_t before = memory_stats().system_calls;
  for (int i = 24; i < 224; ++i) static_cast<void>(touch(i));
  CHECK(memory_stats().system_calls - before < 100);  // for 200 allocations
}

TEST_CASE("memory: trim_memory empties the cache, and the cap is enforced") {
  trim_memory();
  CHECK(memory_stats().cached == 0);
  int64_t live = memory_stats().live;
  {
    Tensor t = zeros({1 << 20});
    CHECK(memory_stats().live >= live + (4 << 20));
    reset_peak_memory();
  }
  CHECK(memory_stats().live == live);
  CHECK(memory_stats().peak >= live + (4 << 20));
  CHECK(memory_stats().cached >= 4 << 20);
  set_memory_cap(live + (6 << 20));
  CHECK_NOTHROW(zeros({1 << 20}));
  CHECK_THROWS_WITH_AS(zeros({2 << 20}), doctest::Contains("set_memory_cap"), Error);
  set_memory_cap(0);
  CHECK_NOTHROW(zeros({2 << 20}));
}

/// The resident memory of this process in bytes.
int64_t resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

TEST_CASE("memory: trim_memory returns memory to the system") {
  trim_memory();
  const int64_t before = resident();
  // Every freed block lies between two live ones, so malloc could return nothing to the system.
  constexpr int64_t kMega = 1 << 20;
  std::vector<Tensor> kept, freed;
  int64_t bytes = 0;
  for (int i = 0; i < 200; ++i) {
    const int64_t n = 64 * 1024 + 8191 * int64_t{i % 50};  // elements: 256 KiB to 1.8 MiB
    freed.push_back(ones({n}));
    kept.push_back(ones({64 * 1024}));
    bytes += 4 * n;
  }
  REQUIRE(bytes > 150 * kMega);
  const int64_t full = resident();
  CHECK(full - before > bytes);
  freed.clear();
  CHECK(full - resident() < 20 * kMega);  // the blocks are in the cache
  trim_memory();
  CHECK(full - resident() > bytes - 20 * kMega);
  CHECK(sum(kept.back()).item() == 64 * 1024);
}

TEST_CASE("memory: layer norm of half of the channels makes no copy") {
  Rng rng(1);
  const Tensor x = randn({64, 33, 128}, rng).set_requires_grad(), w = randn({64}, rng);
  for (const int64_t first : {0, 64}) {
    auto run = [&](bool copied) {
      const Tensor half = narrow(x, -1, first, 64);
      const Tensor y = layer_norm(copied ? half.clone() : half, {64}, w);
      x.set_grad({});
      backward(sum(square(y)));
      return y.to_vector<float>();
    };
    const std::vector<float> want = run(true);
    const Tensor gradient = x.grad();
    CHECK(run(false) == want);
    CHECK(x.grad().to_vector<float>() == gradient.to_vector<float>());
  }
  trim_memory();
  const int64_t before = memory_stats().live;
  const Tensor y = layer_norm(narrow(x, -1, 64, 64), {64});
  CHECK(memory_stats().live - before < 4 * y.numel() * 5 / 4);  // the result, and no copy
}

TEST_CASE("memory: attention takes memory in proportion to the tokens") {
  auto peak = [](int64_t tokens) {
    Rng rng(1);
    const Tensor qkv = randn({1, tokens, 3 * 64}, rng).set_requires_grad();
    trim_memory();
    const int64_t before = memory_stats().live;
    reset_peak_memory();
    backward(sum(self_attention(qkv, {.heads = 2}, {.mask = nn::Mask::causal().parts()})));
    return static_cast<double>(memory_stats().peak - before);
  };
  // One thread, because each has its own scratch memory and short inputs use fewer threads.
  const test::Threads one(1);
  // 16 times the tokens. The rest of the factor 24 is for rounded block sizes and for partial sums,
  // which only long inputs have. A matrix of all scores would need 256 times the memory.
  CHECK(peak(8192) < 24 * peak(512));
}

TEST_CASE("memory: freeing a tensor allocates nothing") {
  trim_memory();
  Tensor t = empty({123457});  // a size that no other test uses
  const MemoryStats before = memory_stats();
  test::heap_is_empty = true;
  t = {};
  test::heap_is_empty = false;
  CHECK(memory_stats().live < before.live);
  CHECK(memory_stats().cached - before.cached == before.live - memory_stats().live);
}

}  // namespace
}  // namespace tern::test_memory
