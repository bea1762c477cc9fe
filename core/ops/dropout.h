// Dropout as fused ops see it. Inside of core only.
#pragma once

#include <optional>

#include "tern/core/base/rng.h"
#include "tern/core/kernels/dropout.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

/// An Error that names the op unless p is a probability, and there is a generator if it is not 0.
void check_dropout(const char* op, double p, const Rng* rng);

/// The mask that dropout() with this generator would use; none for p = 0. REQUIRES: p < 1.
std::optional<kernels::DropMask> draw_mask(double p, Rng* rng);

/// What the mask leaves of x, recorded as the op `name`. Its gradient is the same of dy.
Tensor masked(const char* name, Consumed x, const kernels::DropMask& mask);

}  // namespace tern::detail
