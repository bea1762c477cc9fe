// The inside of the backward pass, shared by record.cpp and engine.cpp. Inside of core only.
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// The node whose VJP this thread is running; null outside a backward pass.
Node* running_node();

/// Whether a gradient may be added to where it lies: it is contiguous, nobody else holds it or
/// its storage, and it has no history.
bool may_add_in_place(const Tensor& sum);

}  // namespace tern::detail
