// The number of threads in tests: a scope that sets it, and a check that results do not depend on
// it. The number before applies again afterwards, also when a check throws.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>

#include "tern/core/base/threads.h"

namespace tern::test {

/// While in scope, tern uses this number of threads: `const test::Threads two(2);`.
using Threads = tern::detail::ThreadCountScope;

/// run() returns numbers, such as a std::vector: they must be the same with one thread and with
/// each of these counts.
template <class Run>
void check_threads(std::initializer_list<int> counts, Run&& run) {
  const auto on = [&](int count) {
    const Threads scope(count);
    return run();
  };
  const auto one = on(1);
  for (int count : counts) {
    CAPTURE(count);
    CHECK(on(count) == one);
  }
}
template <class Run>
void check_threads(Run&& run) {
  check_threads({2, 5}, run);
}

}  // namespace tern::test
