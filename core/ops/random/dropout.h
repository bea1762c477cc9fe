// Shared by fused ops with dropout. Inside of core only.
#pragma once

#include <optional>

#include "tern/core/base/rng.h"
#include "tern/core/kernels/random/dropout.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

/// Error that names the op unless p is a probability and, if p is not 0, there is a generator.
void check_dropout(const char* op, double p, const Rng* rng);

/// The mask with this key for probability p. REQUIRES: p < 1.
kernels::DropMask mask_of(double p, uint64_t key);

/// The mask that dropout() would draw from this generator; none for p = 0. REQUIRES: p < 1.
std::optional<kernels::DropMask> draw_mask(double p, Rng* rng);

/// Applies the mask to x, recorded as the op `name`. The gradient is the same op on dy.
Tensor masked(const char* name, Consumed x, const kernels::DropMask& mask);

}  // namespace tern::detail
