// The tasks associative recall and priority sort of the Neural Turing Machine.
#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/data/tasks/drawing.h"

namespace tern::datasets {
namespace {

/// items (B, K, V, bits), which (B) -> (B, V, bits): item which[b] of each sequence b.
Tensor pick(const Tensor& items, const Tensor& which) {
  const int64_t batch = items.size(0);
  Tensor rows = arange(0, batch) * items.size(1) + which;
  return index_select(flatten(items, 0, 1), 0, rows);
}

}  // namespace

SequenceTask recall_task(const RecallTask& t) {
  check_sizes("recall", std::min(t.bits, t.vectors), t.items);
  check(t.items.low >= 2, "recall: needs two items, one to ask for and one to follow it");
  auto draw = [t](int64_t batch, int64_t items, Rng& rng) {
    check_sizes("recall", batch, {items, items});
    check(items >= 2, "recall: needs two items, one to ask for and one to follow it");
    const int64_t span = t.vectors + 1, question = items * span;
    const Tensor all = random_bits({batch, items, t.vectors, t.bits}, rng);
    const Tensor asked = randint(0, items - 1, {batch}, rng);
    SequenceBatch b = blank(batch, question + 2 * span, t.bits + 2, t.bits);
    for (int64_t i = 0; i < items; ++i) {
      put(b.input, i * span, t.bits, ones({batch, 1, 1}));
      put(b.input, i * span + 1, 0, select(all, 1, i));
    }
    put(b.input, question, t.bits + 1, ones({batch, 1, 1}));
    put(b.input, question + 1, 0, pick(all, asked));
    put(b.input, question + span, t.bits + 1, ones({batch, 1, 1}));
    put(b.target, question + span + 1, 0, pick(all, asked + 1));
    count_from(b, question + span + 1);
    return b;
  };
  return {"recall", t.bits + 2, t.bits, t.items, "items", draw};
}

SequenceTask sort_task(const SortTask& t) {
  check_sizes("sort", t.bits, t.lengths);
  check(t.share > 0 && t.share <= 1, "sort: the share {} is not in (0, 1]", t.share);
  auto draw = [t](int64_t batch, int64_t length, Rng& rng) {
    check_sizes("sort", batch, {length, length});
    const auto kept = std::max<int64_t>(
        1, static_cast<int64_t>(std::lround(t.share * static_cast<double>(length))));
    const Tensor vectors = random_bits({batch, length, t.bits}, rng);
    const Tensor priority = uniform({batch, length, 1}, -1, 1, rng);
    const Tensor order = narrow(argsort(squeeze(priority, 2), 1, true), 1, 0, kept);
    SequenceBatch b = blank(batch, length + 1 + kept, t.bits + 2, t.bits);
    put(b.input, 0, 0, vectors);
    put(b.input, 0, t.bits, priority);
    put(b.input, length, t.bits + 1, ones({batch, 1, 1}));
    put(b.target, length + 1, 0,
        gather(vectors, 1, expand(unsqueeze(order, 2), {batch, kept, t.bits})));
    count_from(b, length + 1);
    return b;
  };
  return {"sort", t.bits + 2, t.bits, t.lengths, "vectors", draw};
}

}  // namespace tern::datasets
