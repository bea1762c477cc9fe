// The memory of training steps of every model of the zoo: what recomputation saves, and what
// summary() predicts.
#include <doctest/doctest.h>

#include "tern/core/base/allocator.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/optim.h"
#include "tern/tests/models/zoo.h"
#include "tern/tests/support/memory_checks.h"
#include "tern/tests/support/threads.h"
#include "tern/train/summary.h"

namespace tern::test::test_zoo_memory {
namespace {

using nn::Recompute;

struct Trained {
  std::vector<float> numbers;
  int64_t peak = 0;  ///< bytes, without the model and its gradients

  void add(const Tensor& t) {
    for (const float v : t.to_vector<float>()) numbers.push_back(v);
  }
};

/// Losses, gradients summed over two batches (a recomputed block must add to an existing gradient),
/// buffers, and weights after two steps inside the backward pass.
Trained train(const Model& row, Recompute recompute) {
  Rng rng(5);
  const AnyModel model = row.make(rng, recompute);
  const Tensors x = inputs_of(row, 8, rng);
  trim_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  Trained out;
  for (int i = 0; i < 2; ++i) {
    const Tensor y = loss_of(model(x));
    out.add(y);
    backward(y);
  }
  out.peak = memory_stats().peak - before;
  for (const Tensor& p : nn::parameters(model)) out.add(p.grad());
  optim::AdamW optimizer(nn::named_parameters(model));
  for (int i = 0; i < 2; ++i) {
    optimizer.zero_grad();
    backward(loss_of(model(x)), {.on_ready = optimizer.step_in_backward()});
    optimizer.step();
  }
  for (const auto& [name, t] : nn::state_dict(model)) out.add(t);
  return out;
}

}  // namespace

// On one thread: how many threads hold memory inside a kernel at once is a matter of timing.

TEST_CASE("zoo: recomputation saves memory and changes no bit") {
  const Threads one(1);
  for_rows(zoo_large(), [](const Model& row, Rng&) {
    if (!row.recomputes) return;
    const Trained none = train(row, Recompute::none), selective = train(row, Recompute::selective),
                  full = train(row, Recompute::full);
    CHECK(none.numbers == selective.numbers);
    CHECK(none.numbers == full.numbers);
    CAPTURE(none.peak);
    CAPTURE(selective.peak);
    CAPTURE(full.peak);
    CHECK(static_cast<double>(selective.peak) <=
          static_cast<double>(none.peak) * (1 - row.selective_saves));
    CHECK(full.peak < selective.peak);
    CHECK(full.peak < none.peak - none.peak / 4);
  });
}

TEST_CASE("zoo: summary predicts the memory of a step, as the allocator sees it") {
  const Threads one(1);
  for_rows(zoo_large(), [](const Model& row, Rng& rng) {
    const Tensors x = inputs_of(row, 16, rng);
    const auto make = [&] {
      Rng own(1);
      return row.make(own, Recompute::none);
    };
    const auto predicted = [&] {
      const AnyModel model = make();
      return summary(model, [&] { return loss_of(model(x)); }).cost.peak();
    };
    int64_t said = 0;
    {
      const ShapeOnlyScope nothing;
      said = predicted();
    }
    trim_memory();
    CHECK(predicted() == said);
    check_peak(said, [&] {
      const AnyModel model = make();
      optim::AdamW optimizer(nn::named_parameters(model));
      for (int i = 0; i < 2; ++i) {
        backward(loss_of(model(x)));
        optimizer.step();
        optimizer.zero_grad();
      }
    });
  });
}

}  // namespace tern::test::test_zoo_memory
