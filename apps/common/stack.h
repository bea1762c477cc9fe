// Stacks as large as the programs need, whatever the shell allows.
#pragma once

#include <functional>

namespace tern::apps {

/// Runs `body`, and all threads begun in it, on stacks of 8 MiB at least, where the limit
/// (`ulimit -s`) is below: OpenBLAS alone wants more than 64 KiB. What is thrown arrives here.
int on_large_stack(const std::function<int()>& body);

}  // namespace tern::apps
