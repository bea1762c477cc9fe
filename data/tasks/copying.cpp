// The tasks copy and repeat copy of the Neural Turing Machine.
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/data/tasks/drawing.h"

namespace tern::datasets {

SequenceTask copy_task(const CopyTask& t) {
  check_sizes("copy", t.bits, t.lengths);
  auto draw = [t](int64_t batch, int64_t length, Rng& rng) {
    check_sizes("copy", batch, {length, length});
    const Tensor vectors = random_bits({batch, length, t.bits}, rng);
    SequenceBatch b = blank(batch, 2 * length + 1, t.bits + 1, t.bits);
    put(b.input, 0, 0, vectors);
    put(b.input, length, t.bits, ones({batch, 1, 1}));
    put(b.target, length + 1, 0, vectors);
    count_from(b, length + 1);
    return b;
  };
  return {"copy", t.bits + 1, t.bits, t.lengths, "vectors", draw};
}

SequenceTask repeat_copy_task(const RepeatCopyTask& t) {
  check_sizes("repeat-copy", t.bits, t.lengths);
  check_sizes("repeat-copy", t.bits, t.repeats);
  check_sizes("repeat-copy", t.bits, t.scale);
  auto draw = [t](int64_t batch, int64_t length, Rng& rng) {
    check_sizes("repeat-copy", batch, {length, length});
    const int64_t repeats = draw_size(t.repeats, rng), end = length + 1 + length * repeats;
    const Tensor vectors = random_bits({batch, length, t.bits}, rng);
    // The mean of n consecutive integers, and their variance (n^2 - 1) / 12.
    const double mean = 0.5 * static_cast<double>(t.scale.low + t.scale.high);
    const auto count = static_cast<double>(t.scale.high - t.scale.low + 1);
    const double deviation = count > 1 ? std::sqrt((count * count - 1) / 12) : 1;
    SequenceBatch b = blank(batch, end + 1, t.bits + 2, t.bits + 1);
    put(b.input, 0, 0, vectors);
    put(b.input, length, t.bits, ones({batch, 1, 1}));
    put(b.input, length, t.bits + 1,
        full({batch, 1, 1}, (static_cast<double>(repeats) - mean) / deviation));
    for (int64_t i = 0; i < repeats; ++i) put(b.target, length + 1 + i * length, 0, vectors);
    put(b.target, end, t.bits, ones({batch, 1, 1}));
    count_from(b, length + 1);
    return b;
  };
  return {"repeat-copy", t.bits + 2, t.bits + 1, t.lengths, "vectors", draw};
}

}  // namespace tern::datasets
