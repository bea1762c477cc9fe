// Functions that the tasks of sequence_tasks.h share. Inside of data only.
#pragma once

#include "tern/data/tasks/sequence_tasks.h"

namespace tern::datasets {

/// Error unless `count` is at least 1 and the range ascends from at least 1.
void check_sizes(const char* task, int64_t count, SizeRange range);

int64_t draw_size(SizeRange range, Rng& rng);

/// Bits that are 0 or 1 with equal probability.
Tensor random_bits(const Shape& shape, Rng& rng);

/// A batch of zeros.
SequenceBatch blank(int64_t batch, int64_t steps, int64_t inputs, int64_t outputs);

/// Writes `part` (B, t, c) into `whole` (B, T, C) from this step and channel on.
void put(const Tensor& whole, int64_t step, int64_t channel, const Tensor& part);

/// Makes the targets count from this step on.
void count_from(const SequenceBatch& batch, int64_t step);

}  // namespace tern::datasets
